//! Tasks of the project, run as `cargo xtask`.

mod archive;
mod browser;
mod c_bindings;
mod corpus;
mod coverage;
mod dist;
mod image;
mod kinds;
mod mutate;
mod new_rule;
#[path = "../../host/builtin-components/policies.rs"]
mod policies;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use new_rule::NewRuleOptions;

const USAGE: &str = "\
Usage: cargo xtask new-rule POLICY ID [--in MODULE]
       cargo xtask coverage
       cargo xtask c-bindings
       cargo xtask kinds
       cargo xtask mutate POLICY… [--sample N] [--seed N]
       cargo xtask corpus FOLDER… [--binary FILE] [-- ARGUMENT…]
       cargo xtask browser OUT [--jco DIR]
       cargo xtask image [--arch ARCH]… [--output FOLDER] [--tag TAG] [--check]
       cargo xtask dist [--target TRIPLE]… [--binary TRIPLE=FILE]… [--output FOLDER] [--packages] [--url URL] [--any-glibc]

new-rule starts a rule: its section in a module of the policy, and its case file.

  POLICY       a directory in guest/policies, for example registry-bundle
  ID           the id of the rule, for example RBF-33
  --in MODULE  where the rule goes, for example manifests or rbac::subjects;
               by default the module that has the highest rule of the same prefix

coverage writes docs/coverage.md: which rules cite which chapters of the documents. It reads docs/rules.

c-bindings writes guest/c/src/wit.h and wit.c: the contract, wit/policy.wit, for the SDK for C.

kinds writes common/schema/src/table.rs: the fields and types of the kinds of Kubernetes and OLM. It reads the crate k8s-openapi.

mutate deletes the lines of policies one by one, in a copy of the workspace, and says which of them no test misses.
With --sample it tries so many lines of each policy, chosen by --seed.

corpus checks published content in directories, prints what each rule denies and warns about, and fails if something
is denied that was not in the last run. ARGUMENTs go to `opgate check`. docs/reliability.md names repositories.

  --binary FILE  the opgate to run; by default the release build

browser writes the page that evaluates the built-in policies in a browser (docs/try-it.md). It needs node and npm.

  OUT        the directory for its files
  --jco DIR  a directory in which the packages of host/browser/page/package.json are installed;
             by default npm installs them below target

image builds the image of opgate as an OCI layout, and prints its digest (docs/image.md).

  --arch ARCH      amd64 or arm64, may be repeated; by default both, or the one of this machine if there is
                   no compiler for the other
  --output FOLDER  where the layout goes; by default target/image
  --tag TAG        name of the image in the layout; by default the version
  --check          builds a clone of the last commit in another directory, too, and fails if it has another digest

dist builds the files of a release, an archive for each platform (docs/releasing.md). It needs cargo-zigbuild and zig.

  --target TRIPLE       a platform, may be repeated; by default all
  --binary TRIPLE=FILE  a program that is built already, for its platform
  --output FOLDER       where the files go; by default target/release-files
  --packages            also makes packages for npm, PyPI, Debian, Homebrew, krew and Nix
  --url URL             where the archives will be, for the packages that name them; by default the release at
                        `repository` of Cargo.toml, without which --packages needs it
  --any-glibc           packs a program for Linux that needs a newer glibc than those of releases; its packages
                        name what it needs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<String> {
    if arguments.iter().any(|argument| ["-h", "--help"].contains(argument)) {
        return Ok(USAGE.to_owned());
    }
    // The crate is in a directory of the workspace.
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_directory.parent().unwrap_or(crate_directory);
    match arguments {
        ["new-rule", arguments @ ..] => new_rule(root, arguments),
        ["coverage"] => {
            std::fs::write(root.join(coverage::PAGE_PATH), coverage::render_page(root)?)?;
            Ok(format!("wrote {}", coverage::PAGE_PATH))
        }
        ["c-bindings"] => c_bindings::write(root),
        ["corpus", arguments @ ..] => corpus::run(root, &parse_corpus_options(arguments)?),
        ["kinds"] => kinds::write(root),
        ["mutate", arguments @ ..] => mutate::run(root, &parse_mutate_options(arguments)?),
        ["browser", arguments @ ..] => browser::run(root, &parse_browser_options(arguments)?),
        ["image", arguments @ ..] => image::run(root, &parse_image_options(arguments)?),
        ["dist", arguments @ ..] => dist::run(root, &parse_dist_options(arguments)?),
        _ => bail!(
            "the tasks are new-rule, coverage, c-bindings, kinds, mutate, corpus, browser, image and dist\n\n{USAGE}"
        ),
    }
}

fn new_rule(root: &Path, arguments: &[&str]) -> Result<String> {
    let wanted = parse_new_rule_options(arguments)?;
    let written = new_rule::create_rule(root, &wanted)?;
    let shown = |path: &PathBuf| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let written: Vec<_> = written.iter().map(shown).collect();
    let NewRuleOptions { policy, id, .. } = wanted;
    Ok(format!(
        "wrote {}\n\nFill in every TODO, and write the function that evaluates {id} below its section.\n`cargo test -p opgate-{policy}` says what is missing.",
        written.join("\nwrote ")
    ))
}

fn parse_corpus_options<'a>(arguments: &[&'a str]) -> Result<corpus::CorpusOptions<'a>> {
    let mut wanted = corpus::CorpusOptions::default();
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--" => wanted.arguments.extend(rest.by_ref()),
            "--binary" => {
                wanted.binary = Some(rest.next().copied().context("--binary needs a file")?);
            }
            option if option.starts_with('-') => {
                bail!("{option} is no option of corpus\n\n{USAGE}");
            }
            directory => wanted.directories.push(directory),
        }
    }
    if wanted.directories.is_empty() {
        bail!("corpus needs a directory\n\n{USAGE}");
    }
    Ok(wanted)
}

fn parse_browser_options<'a>(arguments: &[&'a str]) -> Result<browser::BrowserOptions<'a>> {
    match arguments {
        [out] if !out.starts_with('-') => Ok(browser::BrowserOptions { out, jco: None }),
        [out, "--jco", jco] | ["--jco", jco, out] if !out.starts_with('-') => {
            Ok(browser::BrowserOptions { out, jco: Some(jco) })
        }
        _ => bail!("browser needs a directory\n\n{USAGE}"),
    }
}

fn parse_mutate_options<'a>(arguments: &[&'a str]) -> Result<mutate::MutationOptions<'a>> {
    let mut wanted = mutate::MutationOptions { policies: Vec::new(), sample: None, seed: 1 };
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        let mut number = || {
            let number = rest.next().and_then(|text| text.parse::<u64>().ok());
            number.with_context(|| format!("{argument} needs a number"))
        };
        match argument {
            "--sample" => wanted.sample = Some(usize::try_from(number()?)?),
            "--seed" => wanted.seed = number()?,
            option if option.starts_with('-') => {
                bail!("{option} is no option of mutate\n\n{USAGE}");
            }
            policy => wanted.policies.push(policy),
        }
    }
    if wanted.policies.is_empty() {
        bail!("mutate needs the name of a policy\n\n{USAGE}");
    }
    Ok(wanted)
}

fn parse_image_options<'a>(arguments: &[&'a str]) -> Result<image::ImageOptions<'a>> {
    let mut wanted = image::ImageOptions::default();
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        let (option, mut value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument, None),
        };
        let mut value = || {
            let value = value.take().or_else(|| rest.next().copied());
            value.with_context(|| format!("{option} needs a value\n\n{USAGE}"))
        };
        match option {
            "--arch" => wanted.arches.push(value()?),
            "--output" => wanted.output = Some(value()?),
            "--tag" => wanted.tag = Some(value()?),
            "--check" => wanted.verify_reproducible = true,
            _ => bail!("{argument} is no option of image\n\n{USAGE}"),
        }
    }
    Ok(wanted)
}

fn parse_dist_options<'a>(arguments: &[&'a str]) -> Result<dist::DistOptions<'a>> {
    let mut wanted = dist::DistOptions::default();
    let mut rest = arguments.iter();
    while let Some(&option) = rest.next() {
        let switch = match option {
            "--packages" => Some(&mut wanted.packages),
            "--any-glibc" => Some(&mut wanted.any_glibc),
            _ => None,
        };
        if let Some(switch) = switch {
            *switch = true;
            continue;
        }
        let mut value = || {
            let value = rest.next().copied();
            value.with_context(|| format!("{option} needs a value\n\n{USAGE}"))
        };
        match option {
            "--target" => wanted.targets.push(value()?),
            "--binary" => {
                let text = value()?;
                let program = text.split_once('=');
                wanted.programs.push(program.context("--binary needs TRIPLE=FILE")?);
            }
            "--output" => wanted.output = Some(value()?),
            "--url" => wanted.url = Some(value()?.trim_end_matches('/')),
            _ => bail!("{option} is no option of dist\n\n{USAGE}"),
        }
    }
    Ok(wanted)
}

fn parse_new_rule_options<'a>(arguments: &[&'a str]) -> Result<NewRuleOptions<'a>> {
    let (mut names, mut module) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        if argument == "--in" {
            let Some(name) = rest.next() else { bail!("--in needs the name of a module") };
            module = Some(*name);
        } else if let Some(name) = argument.strip_prefix("--in=") {
            module = Some(name);
        } else if argument.starts_with('-') {
            bail!("{argument} is no option of new-rule\n\n{USAGE}");
        } else {
            names.push(argument);
        }
    }
    let [policy, id] = names[..] else {
        bail!("new-rule needs the name of a policy and the id of a rule\n\n{USAGE}");
    };
    Ok(NewRuleOptions { policy, id, module })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_be_in_any_order() {
        let expected = NewRuleOptions { policy: "a", id: "A-1", module: Some("b") };
        for arguments in
            [&["a", "A-1", "--in", "b"][..], &["--in", "b", "a", "A-1"], &["a", "--in=b", "A-1"]]
        {
            assert_eq!(parse_new_rule_options(arguments).unwrap(), expected);
        }
        assert_eq!(parse_new_rule_options(&["a", "A-1"]).unwrap().module, None);
    }

    #[test]
    fn a_sample_of_several_policies_may_be_mutated() {
        let found = parse_mutate_options(&["a", "--sample", "5", "b", "--seed", "7"]).unwrap();
        let policies = vec!["a", "b"];
        assert_eq!(found, mutate::MutationOptions { policies, sample: Some(5), seed: 7 });
        for (arguments, error) in [
            (&[][..], "needs the name of a policy"),
            (&["a", "--sample"], "--sample needs a number"),
            (&["a", "--seed", "x"], "--seed needs a number"),
            (&["a", "--all"], "--all is no option"),
        ] {
            let found = parse_mutate_options(arguments).unwrap_err().to_string();
            assert!(found.contains(error), "{arguments:?}: {found}");
        }
    }

    #[test]
    fn release_is_made_of_targets_and_given_programs() {
        let arguments = [
            "--target",
            "a,b",
            "--binary",
            "c=d=e",
            "--url",
            "https://x/",
            "--packages",
            "--any-glibc",
        ];
        let expected = dist::DistOptions {
            targets: vec!["a,b"],
            programs: vec![("c", "d=e")],
            output: None,
            url: Some("https://x"),
            packages: true,
            any_glibc: true,
        };
        assert_eq!(parse_dist_options(&arguments).unwrap(), expected);
        for arguments in [&["--target"][..], &["--binary", "a"], &["--all"]] {
            assert!(parse_dist_options(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused_with_a_reason() {
        for (arguments, error) in [
            (&[][..], "the tasks are new-rule"),
            (&["old-rule"], "the tasks are new-rule"),
            (&["new-rule"], "needs the name of a policy"),
            (&["new-rule", "a", "b", "c"], "needs the name of a policy"),
            (&["new-rule", "a", "A-1", "--in"], "--in needs"),
            (&["new-rule", "--out", "a"], "--out is no option"),
        ] {
            let found = run(arguments).unwrap_err().to_string();
            assert!(found.contains(error), "{arguments:?}: {found}");
        }
        assert_eq!(run(&["new-rule", "--help"]).unwrap(), USAGE);
    }
}
