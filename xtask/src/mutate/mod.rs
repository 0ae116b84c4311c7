//! Whether the cases of a policy notice a line that is missing.
//!
//! ```text
//! workspace ─▶ copy in target/mutants ─▶ each line of a function of the policy, deleted ─▶ does it build?
//!                                             └─▶ the cases, then all tests of the policy ─▶ killed or survived
//! ```
//!
//! Most lines that belong to a longer expression, and every `let`, cannot be deleted alone: a mutant that
//! does not build is counted, and has no result. One that runs for minutes counts as killed: users would
//! notice it.

mod lines;

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use anyhow::{Context as _, Result, bail, ensure};

/// Subjects of the mutation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MutationOptions<'a> {
    pub(crate) policies: Vec<&'a str>,
    /// So many mutants of each policy, or all.
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
}

/// Results of a policy's mutants.
#[derive(Default)]
struct Outcome {
    candidates: usize,
    broken: usize,
    killed: usize,
    survivors: Vec<String>,
}

/// Seconds after which the tests of a mutant are given up.
const TEST_TIMEOUT_SECONDS: &str = "180";

struct Mutant {
    path: PathBuf,
    lines: RangeInclusive<usize>,
}

/// Mutates policies one after the other; gives a table and the survivors.
pub(crate) fn run(root: &Path, options: &MutationOptions<'_>) -> Result<String> {
    let copy = root.join("target/mutants/workspace");
    copy_tree(root, &copy)?;
    let mut table = String::from(
        "| policy | lines | tried | did not build | killed | survived | killed of those that build |\n|---|---|---|---|---|---|---|\n",
    );
    let mut survivors = String::new();
    for policy in &options.policies {
        let outcome = mutate(&copy, policy, options)?;
        let survived = outcome.survivors.len();
        let built = outcome.killed + survived;
        let percent = (outcome.killed * 100).checked_div(built).unwrap_or(100);
        // Writing to a text does not fail.
        let _ = writeln!(
            table,
            "| {policy} | {} | {} | {} | {} | {survived} | {percent} % |",
            outcome.candidates,
            built + outcome.broken,
            outcome.broken,
            outcome.killed
        );
        let _ = writeln!(survivors, "\n{policy}:\n");
        for survivor in outcome.survivors {
            let _ = writeln!(survivors, "* {survivor}");
        }
    }
    Ok(format!("{table}{survivors}"))
}

fn mutate(copy: &Path, policy: &str, options: &MutationOptions<'_>) -> Result<Outcome> {
    let directory = copy.join("guest/policies").join(policy);
    ensure!(directory.is_dir(), "there is no policy {policy}");
    let mut mutants = Vec::new();
    for path in list_sources(&directory.join("src"))? {
        let source = fs::read_to_string(&path)?;
        let candidates = lines::candidates(&source);
        mutants.extend(candidates.into_iter().map(|lines| Mutant { path: path.clone(), lines }));
    }
    let mut outcome = Outcome { candidates: mutants.len(), ..Outcome::default() };
    if let Some(sample) = options.sample {
        shuffle(&mut mutants, options.seed);
        mutants.truncate(sample);
    }
    ensure!(test(copy, policy, &["--no-run"])?, "{policy} does not build");
    ensure!(test(copy, policy, &[])?, "the tests of {policy} fail without a mutation");
    let all = mutants.len();
    for (number, mutant) in mutants.iter().enumerate() {
        let source = fs::read_to_string(&mutant.path)?;
        let line = source.lines().nth(*mutant.lines.start()).unwrap_or_default().trim();
        // Its name is used below.
        let became = if line.starts_with("let ") && !line.starts_with("let _") {
            Ok(MutantResult::Broken)
        } else {
            fs::write(&mutant.path, remove_lines(&source, &mutant.lines))?;
            let became = test_mutant(copy, policy);
            fs::write(&mutant.path, &source)?;
            became
        };
        let path = mutant.path.strip_prefix(&directory).unwrap_or(&mutant.path).display();
        let shown = format!("`{path}:{}` `{line}`", mutant.lines.start() + 1);
        let became = became?;
        eprintln!("{policy} {}/{all} {became:?} {shown}", number + 1);
        match became {
            MutantResult::Broken => outcome.broken += 1,
            MutantResult::Killed => outcome.killed += 1,
            MutantResult::Survivor => outcome.survivors.push(shown),
        }
    }
    Ok(outcome)
}

#[derive(Debug)]
enum MutantResult {
    Broken,
    Killed,
    Survivor,
}

/// The cases first: they are quick, and notice most.
fn test_mutant(copy: &Path, policy: &str) -> Result<MutantResult> {
    if !test(copy, policy, &["--no-run"])? {
        return Ok(MutantResult::Broken);
    }
    let cases = ["--test", "rules", "every_case_has_its_expected_result"];
    let survives = test(copy, policy, &cases)? && test(copy, policy, &[])?;
    Ok(if survives { MutantResult::Survivor } else { MutantResult::Killed })
}

/// Reports whether `cargo test` of the policy succeeds.
fn test(copy: &Path, policy: &str, arguments: &[&str]) -> Result<bool> {
    let status = Command::new("timeout")
        .args(["--signal=KILL", TEST_TIMEOUT_SECONDS, "cargo", "test", "--quiet", "--offline"])
        .args(["--package", &format!("opgate-{policy}")])
        .args(arguments)
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.with_file_name("target"))
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("RUSTFLAGS", "-Awarnings")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("timeout")?;
    Ok(status.success())
}

fn remove_lines(source: &str, lines: &RangeInclusive<usize>) -> String {
    let kept = source.split_inclusive('\n').enumerate();
    kept.filter(|(number, _)| !lines.contains(number)).map(|(_, line)| line).collect()
}

/// Returns the sources below a directory, in order. Separate test files are not among them.
fn list_sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies the files that git tracks, in their current state. Equal files are not rewritten, so that little is
/// built again.
fn copy_tree(root: &Path, copy: &Path) -> Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), copy.join(name));
        let content = match fs::read(&from) {
            Ok(content) => content,
            // Deleted, and not committed yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).context(from.display().to_string()),
        };
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&to, content).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// Shuffles in the same order for the same seed (xorshift).
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let count = u64::try_from(last + 1).unwrap_or(u64::MAX);
        items.swap(last, usize::try_from(state % count).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let shuffled = |seed| {
            let mut items: Vec<_> = (0..100).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn lines_are_cut_out() {
        assert_eq!(remove_lines("a\nb\nc\nd\n", &(1..=2)), "a\nd\n");
        assert_eq!(remove_lines("a\nb", &(0..=0)), "b");
    }
}
