//! Writes a large catalog that is made up: `cargo run -p opgate-tests --example catalog -- FOLDER json`

use std::path::Path;
use std::process::ExitCode;

use testkit::catalog::{CatalogFormat, Shape, write};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let shape = |name: &str| Shape::NAMED_SHAPES.into_iter().find(|(known, _)| *known == name);
    let form = |name: &str| match name {
        "json" => Some(CatalogFormat::Json),
        "yaml" => Some(CatalogFormat::Yaml),
        _ => None,
    };
    let asked = match arguments.as_slice() {
        [directory, written] => form(written).map(|form| (*directory, form, Shape::LARGE)),
        [directory, written, name] => {
            form(written).zip(shape(name)).map(|(form, (_, shape))| (*directory, form, shape))
        }
        _ => None,
    };
    let Some((directory, form, shape)) = asked else {
        let names: Vec<_> = Shape::NAMED_SHAPES.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: catalog FOLDER json|yaml [{}]", names.join("|"));
        return ExitCode::from(2);
    };
    let files = write(Path::new(directory), &shape, form);
    println!("{} files in {directory}", files.len());
    ExitCode::SUCCESS
}
