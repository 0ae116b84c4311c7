//! `opgate check`: policies over bundles, catalogs, projects and manifests in files.
//!
//! ```text
//! PATHs ─▶ paths::Loaded ─┬▶ subjects ─▶ judged on all processors ─▶ findings, each with its place ─┬▶ report
//!                         └▶ waivers ─────────────────────────────────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::checked::{Checked, Report};
use super::paths::Loaded;
use super::report::level::Level;
use super::report::{Format, Unread};
use super::waived::{self, Rules};
use super::{ConfigArgs, Failure, Outcome, ReadArgs, input};
use opgate_admission::cluster::Source;
use opgate_admission::policy::Set;
use opgate_admission::review::{Review, ReviewError};
use opgate_document::TooDeep;
use opgate_files::{self as files, As, Subject, parallel};
use opgate_text::one_line;

/// What to try, and what the status says.
const NEXT: &str = "\
Examples:
  opgate check bundle                                  Find the errors of a bundle
  opgate check --as catalog --since published catalog  Compare a catalog with the published one
  opgate check --level deny bundle                     Show only what blocks
  opgate check --context cluster.yaml bundle           Evaluate rules that need a cluster as well
  kustomize build config/default | opgate check -      Check manifests from standard input

Exit status: 0 everything passes, 1 something is denied (with --fail-on warn, or if there is a
warning), 2 wrong usage or unreadable input, 3 a policy or the engine failed. `opgate rules` lists the rules; `rules` in opgate.yaml sets their
levels. docs/check.md has the details.";

/// Arguments of `opgate check`.
#[derive(Debug, Args)]
#[command(after_help = NEXT)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigArgs,
    /// Classify all paths as this [default: each path by its content]
    #[arg(long = "as", value_name = "WHAT")]
    kind: Option<As>,
    /// Published version of PATH to compare with: also evaluates rules about changes
    #[arg(long, value_name = "OLD")]
    since: Option<PathBuf>,
    /// Files with objects of the cluster to install into, as `kubectl get -A -o yaml` prints them, its
    /// version, as `kubectl get --raw /version` does, or a catalog that it has; may be repeated
    #[arg(long, value_name = "PATH")]
    context: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Format,
    /// Lowest level of the findings to show; has no effect on the exit status
    #[arg(long, value_name = "LEVEL", default_value = "audit")]
    level: Level,
    /// Lowest level of a finding for exit status 1 [default: deny, or warn with
    /// check.warningsAsErrors in the configuration]
    #[arg(long, value_name = "LEVEL")]
    fail_on: Option<FailOn>,
    /// Do not waive what .opgate.yaml waives
    #[arg(long)]
    no_waivers: bool,
    /// Show the same warning at every place, where the table shows the first one and counts the rest,
    /// and every finding that is waived
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// Bundles, catalogs, projects, folders with them, files or folders of manifests, or - for one file
    /// from standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// What keeps a check from passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// What denies
    Deny,
    /// Warnings as well
    Warn,
}

/// Time of one call, unless the configuration says otherwise: catalogs are large.
const TIME: Duration = Duration::from_secs(10);

/// A check waits for nobody; the policies' own limits hold.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl Check {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self { config, kind, since, context, output, level, fail_on, .. } = self;
        let Self { no_waivers, verbose, read, paths, .. } = self;
        if since.is_some() && paths.len() != 1 {
            let text = "--since compares one path with its published version: name one path";
            return Err(Failure::usage(anyhow::anyhow!(text)));
        }
        let mut configuration = config.configuration()?;
        configuration.for_files(TIME, parallel::workers().max(4));
        let source = if context.is_empty() { Source::Absent } else { Source::Excerpt };
        let set = config.complete_set_of(&configuration, source)?;
        let warnings_as_errors =
            fail_on.map_or(configuration.warnings_as_errors, |least| least == FailOn::Warn);
        let (rules, reader) = (Rules::of(&configuration, &set), read.reader());
        input::fill(set.cluster(), &context, &reader)?;
        let waivers = |folder: &Path| rules.waivers(folder, &reader);
        let mut loaded = Loaded::of(&paths, kind, since.as_deref(), &reader, &waivers);
        let today = waived::today();
        let mut waivers: Vec<_> = std::mem::take(&mut loaded.waivers)
            .into_iter()
            .map(|waivers| waived::File::new(waivers, no_waivers, today))
            .collect();
        let mut report = Report::start(output, verbose, level, &configuration, &set);
        if output == Format::Table {
            for line in &loaded.found {
                anstream::eprintln!("{}", one_line(line, 1_024));
            }
        }
        let progress = Progress::of(loaded.subjects.len());
        let judge = |(subject, _): &(Subject, Option<usize>)| {
            let judged = judge(&set, subject);
            progress.step();
            judged
        };
        let all = parallel::map(&loaded.subjects, judge);
        progress.end();
        let mut outcome = Outcome::Ok;
        let mut left_out: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let (mut unread, mut unseen) = (Vec::new(), BTreeSet::new());
        for (judged, (_, number)) in all.into_iter().zip(&loaded.subjects) {
            let Judged { mut checked, is_seen, unreported, not_evaluated } =
                judged.map_err(Failure::engine)?;
            if let Some(waivers) = number.and_then(|number| waivers.get_mut(number)) {
                waivers.waive(&mut checked);
            }
            checked.conclude(warnings_as_errors, unreported.is_empty());
            outcome = outcome.max(checked.outcome());
            if !is_seen {
                unseen.insert(checked.kind().to_owned());
            }
            for (why, rule) in not_evaluated {
                left_out.entry(why).or_default().insert(rule);
            }
            if let Some(stdin) = &loaded.stdin {
                checked.rename(|text| stdin.named(text));
            }
            unread.extend(unreported.into_iter().map(|(file, line)| Unread {
                source: loaded.named(&file),
                line: loaded.named(&line),
            }));
            report.add(checked);
        }
        for unread in loaded.unread.into_iter().chain(unread) {
            outcome = outcome.max(Outcome::Usage);
            tracing::error!("{}", unread.line);
            report.miss(unread);
        }
        for kind in unseen {
            tracing::warn!("no configured policy looks at a {kind}");
        }
        for note in waivers.iter().flat_map(waived::File::notes) {
            tracing::warn!("{note}");
        }
        for (why, rules) in left_out {
            let rules = rules.into_iter().collect::<Vec<_>>().join(" ");
            tracing::info!(rules, "not evaluated: {why}");
        }
        match report.end() {
            // Whoever reads the output has seen enough; what was found counts.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(outcome),
            other => other.map(|()| outcome).map_err(Failure::from),
        }
    }
}

/// What was found out about a subject.
struct Judged {
    checked: Checked,
    /// Whether there is a policy for such a bundle or catalog.
    is_seen: bool,
    /// Files that cannot be read and that no policy has told about, each with a line that says why.
    unreported: Vec<(String, String)>,
    /// Rules that were not evaluated, each after the reason.
    not_evaluated: Vec<(&'static str, String)>,
}

/// Why rules about objects of a cluster are left out.
const NO_CLUSTER: &str = "they need other objects of a cluster";
/// Why rules about bundles and catalogs are: what they look at is there, but cannot be read.
const UNREAD: &str = "they need content that cannot be read or is too large";

fn judge(set: &Set, subject: &Subject) -> anyhow::Result<Judged> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut checked = Checked::new(subject);
    let mut not_evaluated = Vec::new();
    let mut is_seen = true;
    for request in &subject.requests {
        let text = request.text();
        let text = text.map_err(|TooDeep(offset)| ReviewError::Depth(offset));
        let text = text.map_err(|e| anyhow::anyhow!("{}: {e}", subject.source))?;
        let review = Review::read(&text).map_err(|e| anyhow::anyhow!("{}: {e}", subject.source))?;
        if request.stands_for_files() {
            is_seen = set.policies().iter().any(|policy| policy.matches(&review));
        }
        let decided = set.decide(&review, None, Instant::now() + PATIENCE, &());
        let decision = runtime.block_on(decided)?;
        let why = if request.stands_for_files() { UNREAD } else { NO_CLUSTER };
        let rules = decision.skipped.iter().map(|skipped| skipped.rule.clone());
        not_evaluated.extend(rules.map(|rule| (why, rule)));
        checked.take(request, decision);
    }
    let broken = subject.broken.iter().filter(|file| !checked.mentions(&file.shown));
    let unreported = broken.filter_map(|file| Some((file.shown.clone(), files::complaint(file)?)));
    let unreported: Vec<_> = unreported.collect();
    Ok(Judged { checked, is_seen, unreported, not_evaluated })
}

/// How far the work is, for people who wait.
struct Progress {
    all: usize,
    done: AtomicUsize,
    shows: bool,
}

impl Progress {
    fn of(all: usize) -> Self {
        Self { all, done: AtomicUsize::new(0), shows: all > 1 && io::stderr().is_terminal() }
    }

    fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.all;
        if self.shows && (done.is_multiple_of((all / 100).max(1)) || done == all) {
            // Nobody has to see it.
            let _ = write!(io::stderr(), "\rchecked {done} of {all}");
        }
    }

    fn end(&self) {
        if self.shows {
            let _ = write!(io::stderr(), "\r{:40}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin::BUILTINS;
    use opgate_admission::cluster;
    use opgate_admission::policy::Configuration;
    use opgate_input::read::Reader;

    const NOTHING: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: []\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        folder
    }

    fn set(configuration: &str) -> (Set, bool) {
        let path = Path::new("opgate.yaml");
        let mut configuration = Configuration::parse(path, configuration, BUILTINS).unwrap();
        configuration.for_files(TIME, 4);
        let options = cluster::Options::of(Source::Absent);
        let set = Set::load(&configuration, None, usize::MAX, options).unwrap();
        (set, configuration.warnings_as_errors)
    }

    fn judged(configuration: &str, path: &Path) -> Vec<(Value, Judged)> {
        let (set, warnings_as_errors) = set(configuration);
        let load = |path: &&Path| {
            let kind = files::detect(path, &Reader::default()).unwrap()[0].kind;
            files::load(path, kind, None, &Reader::default())
        };
        let subjects = parallel::map(&[path], load).remove(0).unwrap();
        let judge = |subject: &Subject| {
            let mut judged = judge(&set, subject).unwrap();
            judged.checked.conclude(warnings_as_errors, judged.unreported.is_empty());
            judged
        };
        let all = parallel::map(&subjects, judge);
        all.into_iter().map(|j| (serde_json::to_value(&j.checked).unwrap(), j)).collect()
    }

    const BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata:\n  name: x\nspec:\n  provisionerClassName: core-rukpak-io-plain\n  source:\n    type: image\n";

    fn immutability(extra: &str) -> String {
        format!(
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: bundle-immutability\n  rules: {{RPK-09: off}}\n{extra}"
        )
    }

    #[test]
    fn violations_of_manifests_have_places() {
        let folder = folder(&[("b.yaml", BUNDLE)]);
        let path = folder.path().join("b.yaml");
        let (record, judged) = judged(&immutability(""), &path).remove(0);
        let shown = path.display().to_string();
        let violation = json!({
            "policy": "bundle-immutability",
            "rule": "RPK-02",
            "level": "deny",
            "field": "spec.source.image",
            "message": "bundle.spec.source.image must be set for source type \"image\"",
            "place": {"file": shown, "line": 7, "column": 3},
        });
        assert_eq!(
            record,
            json!({"source": shown, "kind": "Bundle", "name": "x", "ok": false, "violations": [violation]})
        );
        assert_eq!(judged.checked.outcome(), Outcome::Denied);
        assert!(judged.is_seen);
    }

    #[test]
    fn manifests_of_bundles_are_checked_with_them() {
        let folder = folder(&[("manifests/b.yaml", BUNDLE), ("manifests/c.yaml", "a: [\n")]);
        let (record, judged) = judged(&immutability(""), folder.path()).remove(0);
        assert_eq!(record["kind"], "PlainBundle");
        assert_eq!(
            record["violations"][0]["field"],
            "spec.files[0].documents[0].spec.source.image"
        );
        assert_eq!(record["violations"][0]["place"]["line"], 7);
        assert!(!judged.is_seen);
        assert_eq!(judged.unreported.len(), 1);
    }

    #[test]
    fn warnings_are_errors_where_the_configuration_says_so() {
        let folder = folder(&[("b.yaml", BUNDLE)]);
        for (check, ok) in [("", true), ("check: {warningsAsErrors: true}\n", false)] {
            let (record, _) =
                judged(&immutability(&format!("  mode: warn\n{check}")), folder.path()).remove(0);
            assert_eq!(record["violations"][0]["level"], "warn");
            assert_eq!(record["ok"], ok);
        }
    }

    #[test]
    fn what_nobody_reports_is_not_passed_over() {
        let all = judged(
            NOTHING,
            &PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../tests/fixtures/catalog-broken"
            )),
        );
        let records: Vec<_> =
            all.iter().map(|(r, _)| (r["name"].as_str().unwrap(), &r["ok"])).collect();
        assert_eq!(records, [("etcd", &json!(true)), ("", &json!(false))]);
        assert!(
            all[1].1.unreported[0].1.contains("prometheus/catalog.json:5:"),
            "{:?}",
            all[1].1.unreported
        );
        assert!(all.iter().all(|(_, judged)| !judged.is_seen));
    }

    #[test]
    fn time_is_generous_unless_it_is_configured() {
        let (plain, _) = set(&immutability(""));
        assert_eq!(plain.policies()[0].limits.time, TIME);
        let (bounded, _) = set(&immutability("  limits: {time: 100ms, concurrency: 2}\n"));
        assert_eq!(bounded.policies()[0].limits.time, Duration::from_millis(100));
        assert_eq!(bounded.policies()[0].limits.concurrency, 2);
    }
}
