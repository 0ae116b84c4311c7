//! Embeds the templates of `opgate policy new`: every file below `templates/SIZE/LANGUAGE`, as text. The sizes are `start`,
//! one rule, and `example`, three rules with settings and a read of the cluster.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Build artifacts in a template's directory are not part of it.
const BUILT: [&str; 5] = ["target", "node_modules", "dist", ".venv", "__pycache__"];

/// Writes the list of templates: for each language its files, by their paths inside of it.
pub(crate) fn embed(out: &Path) -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("templates");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    let mut directories = Vec::new();
    for size in directories_in(&root)? {
        directories.extend(directories_in(&size)?.into_iter().map(|path| (name(&size), path)));
    }
    for (size, directory) in directories {
        let language = name(&directory);
        writeln!(list, "    Template {{ size: \"{size}\", language: \"{language}\", files: &[")?;
        for file in files(&directory)? {
            let inside = file.strip_prefix(&directory)?.display();
            writeln!(list, "        (r\"{inside}\", include_str!(r\"{}\")),", file.display())?;
        }
        list.push_str("    ] },\n");
    }
    list.push_str("]\n");
    Ok(fs::write(out.join("templates.rs"), list)?)
}

fn directories_in(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    Ok(entries(directory)?.into_iter().filter(|path| path.is_dir()).collect())
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Lists all files below a directory, in the order of their paths.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for path in entries(directory)? {
        if path.is_dir() {
            if !BUILT.contains(&name(&path).as_str()) {
                found.extend(files(&path)?);
            }
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut paths = Vec::new();
    if directory.is_dir() {
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
    }
    paths.sort();
    Ok(paths)
}
