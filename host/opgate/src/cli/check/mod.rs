//! `opgate check`: policies over bundles, catalogs, projects and manifests in files.
//!
//! ```text
//! PATHs ─▶ LoadedInput ─┬▶ units ──▶ loaded and evaluated on all processors, in order ─┬▶ CheckRun ─▶ report
//!                               ├▶ dumps ──▶ audit ──────────────────────────────────────────────┤
//!                               └▶ waivers ──────────────────────────────────────────────────────┘
//! ```

pub(super) mod audit;
pub(super) mod collected;
pub(super) mod decision_cache;
pub(super) mod evaluate;
pub(super) mod fix;
mod inputs;
mod lines;
mod read_resources;
pub(super) mod report;
pub(super) mod shared_objects;
mod template_violations;
pub(super) mod units;
mod unused_configuration;
mod waivers;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use self::evaluate::{CheckRun, Progress};
use self::fix::{FixArgs, UnitSources};
use self::inputs::{LoadedInput, LoadedUnit};
use self::lines::StatusLines;
use self::report::Report;
use self::units::{UnitEvaluator, UnitResult};
use self::unused_configuration::UnusedConfigurations;
use self::waivers::KnownRules;
use super::fail_on::FailOn;
use super::help::is_plugin;
use super::input;
use super::report::level::MinEffect;
use super::report::{Format, describe_cluster, describe_paths};
use super::stdin;
use super::verbosity::is_verbose;
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use opgate_admission::cluster::Source;
use opgate_admission::policy::Configuration;
use opgate_files::{CheckInputType, DetectedInput, parallel};

/// Examples and exit statuses after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate check bundle                                  Find the errors of a bundle
  opgate check --input-type catalog --baseline published catalog  Compare a catalog with the published one
  opgate check --min-effect deny bundle                     Show only what blocks
  opgate check --cluster-state cluster.yaml bundle           Evaluate rules that need a cluster as well
  opgate check --explain pod.yaml                      Explain which policies matched, and why
  kustomize build config/default | opgate check -      Check manifests from standard input
  opgate check --cluster                               Check the objects of a running cluster
  opgate check cluster.yaml                            Check the output of `kubectl get -A -o yaml`

Exit status: 0 everything passes, 1 a violation denies (with --fail-on warn: or warns; with
--require-evaluated: or an object was not evaluated), 2 wrong usage or unreadable input, 3 a policy
or the engine failed. `opgate rules` lists the rules; `rules` in opgate.yaml sets
their levels. docs/check.md has the details.";

/// The running cluster to evaluate.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// Evaluate all objects of a running cluster instead of files
    #[arg(long, conflicts_with_all = ["paths", "input_type", "baseline", "cluster_state", "explain"])]
    cluster: bool,
    /// With --cluster: kubeconfig of the cluster [default: KUBECONFIG, or the file that kubectl uses]
    #[arg(long, value_name = "FILE[:FILE]", conflicts_with = "paths")]
    kubeconfig: Option<OsString>,
    /// With --cluster: context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    kube_context: Option<String>,
}

/// The objects to evaluate.
#[derive(Debug, Args)]
struct ScopeArgs {
    /// Fail if an object was not evaluated: no policy matched it, every rule was skipped, or there is an
    /// opgate.yaml whose policies are not used
    #[arg(long)]
    require_evaluated: bool,
    /// Do not evaluate the pod templates of Deployments and other workloads as Pods
    #[arg(long)]
    no_expand: bool,
}

/// Arguments of `opgate check`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigArgs,
    /// Treat every PATH as this type [default: detect the type from the content]
    #[arg(long, value_name = "TYPE")]
    input_type: Option<CheckInputType>,
    /// Published version of PATH to compare with; also evaluates rules for changes
    #[arg(long, value_name = "PATH")]
    baseline: Option<PathBuf>,
    /// Files with objects of the cluster to install into, as `kubectl get -A -o yaml` prints them, its
    /// version, as `kubectl get --raw /version` does, or a catalog that it has; may be repeated
    #[arg(long, value_name = "PATH")]
    cluster_state: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of manifests that name none; with --cluster, the only namespace to evaluate
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Lowest effect of the violations to show; does not change the exit status
    #[arg(long, value_name = "EFFECT", default_value = "audit")]
    min_effect: MinEffect,
    /// Lowest effect of a violation for exit status 1 [default: deny, or warn with
    /// check.warningsAsErrors in the configuration]
    #[arg(long, value_name = "EFFECT")]
    fail_on: Option<FailOn>,
    /// Ignore waivers in .opgate.yaml
    #[arg(long)]
    no_waivers: bool,
    /// Explain each result: matched policies, evaluated and skipped rules, duration, and cluster
    /// objects read
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    fixes: FixArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Bundles, catalogs, projects, directories with them, files or directories of manifests or of objects
    /// of a cluster, or - for one file from standard input [default: with `kubectl opgate`, the cluster]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Time of one call, unless the configuration says otherwise: catalogs are large.
pub(super) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Check {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let is_cluster = self.cluster.cluster || (self.paths.is_empty() && is_plugin());
        let has_stdin = self.paths.iter().any(|path| path == Path::new(stdin::NAME));
        self.fixes.check(is_cluster, has_stdin)?;
        if is_cluster {
            return self.check_cluster();
        }
        if self.cluster.kubeconfig.is_some() || self.cluster.kube_context.is_some() {
            let text = "--kubeconfig and --kube-context need --cluster, which evaluates the objects of a running cluster";
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        if self.paths.is_empty() {
            let text = "no PATH: name bundles, catalogs or manifests, - for standard input, or use --cluster for a running cluster";
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        let Self { config, input_type, baseline, cluster_state, output, min_effect, .. } = &self;
        if baseline.is_some() && self.paths.len() != 1 {
            let text = "--baseline compares one path with its published version: name one path";
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        let mut configuration = config.configuration()?;
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
        let set = config.load_all_or_fail(&configuration, Source::PartialSnapshot)?;
        let (rules, reader) = (KnownRules::of(&configuration, &set), self.read.unit_reader());
        input::load_cluster_state(set.cluster(), cluster_state, &self.read.reader())?;
        let waivers = |directory: &Path| rules.waivers(directory, &reader.with_full_budget());
        let mut loaded =
            LoadedInput::of(&self.paths, *input_type, baseline.as_deref(), &reader, &waivers);
        let today = waivers::today();
        let waivers = std::mem::take(&mut loaded.waivers).into_iter();
        let waivers =
            waivers.map(|waivers| waivers::WaiverFile::new(waivers, self.no_waivers, today));
        let waivers: Vec<_> = waivers.collect();
        let waived: Vec<_> = waivers.iter().map(waivers::WaiverFile::waived_rules).collect();
        let fixer = self.fixes.fixer(&set, &rules)?;
        let mut report = Report::start(*output, is_verbose(), *min_effect, &configuration, &set);
        report.set_subject(describe_paths(&self.paths));
        let mut lines = StatusLines::new(*output == Format::Table, is_verbose() || self.explain);
        lines.print_detection(&mut loaded);
        let mut check_run = CheckRun::new(report, waivers, self.effective_fail_on(&configuration));
        if self.fixes.diff {
            check_run.silence();
        } else if self.fixes.is_requested() {
            check_run.omit_fix_hint();
        }
        check_run.requires_evaluated = self.scope.require_evaluated;
        check_run.has_cluster_state = !cluster_state.is_empty();
        check_run.stdin = loaded.stdin.take();
        let mut units = UnitEvaluator::new(&set, &reader);
        units.baseline = baseline.as_deref();
        units.namespace = self.namespace.as_deref();
        units.explains = self.explain;
        units.expands = !self.scope.no_expand;
        let is_configured = config.config.is_some();
        let mut unused = UnusedConfigurations::new(is_configured, &self.paths);
        audit::load_cluster_state(&mut loaded.dumps, &set, &self.read.reader());
        units.share_objects(&loaded.units);
        let parts = loaded.dumps.iter().map(|(dump, _)| dump.slots().len()).sum::<usize>();
        let progress = Progress::of(loaded.units.len() + parts);
        let evaluate = |input: &_, reader: &_| units.evaluate_with(reader, input);
        let sources = UnitSources { reader: &reader, evaluate: &evaluate, waived: &waived };
        let mut add = |(found, waivers): &LoadedUnit, unit: UnitResult, run: &mut CheckRun<'_>| {
            lines.print_unit(&unit, run);
            if unit.results.is_empty() && unit.error.is_none() {
                unused.add(&found.path);
            }
            add_unit(run, found, unit, *waivers)
        };
        let plan = if let Some(fixer) = &fixer {
            let writes = self.fixes.writes();
            let mut plan = fixer.plan_all(&loaded.units, &sources, writes, &|| progress.step());
            for (path, error) in plan.write() {
                check_run.add_error(&path, &error);
            }
            for (number, unit) in loaded.units.iter().enumerate() {
                add(unit, plan.take_result(number, &sources.of(unit)), &mut check_run)?;
            }
            Some(plan)
        } else {
            let evaluate = |(found, _): &LoadedUnit| {
                let unit = units.evaluate(found);
                progress.step();
                unit
            };
            parallel::for_each_in_order(&loaded.units, evaluate, |unit, result| {
                add(unit, result, &mut check_run)
            })?;
            None
        };
        let asked = audit::AuditOptions { set: &set, explains: self.explain };
        audit::evaluate_dumps(
            &loaded.dumps,
            asked,
            &self.read.reader(),
            &progress,
            &mut check_run,
        )?;
        progress.end();
        check_run.unreadable.append(&mut loaded.unreadable);
        if unused.warn() {
            check_run.add_unused_configuration();
        }
        lines.finish();
        if let Some(plan) = &plan {
            plan.print_diff(|path| check_run.with_stdin_name(path))?;
        }
        let outcome = check_run.finish();
        if let Some(plan) = &plan {
            plan.print_summary();
        }
        outcome
    }

    /// Evaluates the objects of a running cluster.
    fn check_cluster(&self) -> Result<ExitStatus, CommandError> {
        let kubeconfig = self.cluster.kubeconfig.as_deref().unwrap_or(OsStr::new(""));
        let mut configuration = self.config.configuration()?;
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
        let set = self.config.load_all_or_fail(&configuration, Source::Listed)?;
        let Self { output, min_effect, .. } = self;
        let mut report = Report::start(*output, is_verbose(), *min_effect, &configuration, &set);
        let context = self.cluster.kube_context.as_deref();
        report.set_subject(describe_cluster(context, self.namespace.as_deref()));
        let mut check_run = CheckRun::of_cluster(report, self.effective_fail_on(&configuration));
        check_run.requires_evaluated = self.scope.require_evaluated;
        let live = audit::LiveCluster { kubeconfig, context, namespace: self.namespace.as_deref() };
        audit::evaluate_cluster(&live, &set, check_run)
    }

    /// Returns the lowest effect that fails the check.
    fn effective_fail_on(&self, configuration: &Configuration) -> FailOn {
        let warnings = configuration.warnings_as_errors;
        self.fail_on.unwrap_or(if warnings { FailOn::Warn } else { FailOn::Deny })
    }
}

/// Takes over the results of a unit, with the number of the waivers for it.
fn add_unit(
    run: &mut CheckRun<'_>,
    input: &DetectedInput,
    unit: UnitResult,
    waivers: Option<usize>,
) -> Result<(), CommandError> {
    if let Some(error) = &unit.error {
        run.add_error(&input.path, error);
    }
    for evaluated in unit.results {
        run.add_result(evaluated.map_err(CommandError::engine)?, waivers);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::evaluate::{SubjectEvaluator, SubjectResult};
    use super::*;
    use opgate_admission::cluster;
    use opgate_admission::policy::PolicySet;
    use opgate_builtin_policies::BUILTINS;
    use opgate_files::{self as files, Subject};
    use opgate_input::read::Reader;

    const NO_POLICIES: &str =
        "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: []\n";

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        directory
    }

    fn set(configuration: &str) -> (PolicySet, bool) {
        let path = Path::new("opgate.yaml");
        let mut configuration = Configuration::parse(path, configuration, BUILTINS).unwrap();
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, 4);
        let options = cluster::ClusterOptions::of(Source::Absent);
        let set = PolicySet::load(&configuration, None, usize::MAX, options).unwrap();
        (set, configuration.warnings_as_errors)
    }

    fn evaluate_path(configuration: &str, path: &Path) -> Vec<(Value, SubjectResult)> {
        let (set, warnings_as_errors) = set(configuration);
        let load = |path: &&Path| {
            let found = files::detect(path, &Reader::default()).unwrap().inputs.remove(0);
            files::load(&found, None, &Reader::default())
        };
        let subjects = parallel::map(&[path], load).remove(0).unwrap();
        let evaluate_request = |subject: &Subject| {
            let mut evaluated = SubjectEvaluator::new(&set).evaluate(subject).unwrap();
            evaluated.record.conclude(warnings_as_errors, evaluated.unreported.is_empty());
            evaluated
        };
        let all = parallel::map(&subjects, evaluate_request);
        all.into_iter().map(|j| (serde_json::to_value(&j.record).unwrap(), j)).collect()
    }

    const BUNDLE: &str = "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata:\n  name: x\nspec:\n  provisionerClassName: core-rukpak-io-plain\n  source:\n    type: image\n";

    fn immutability(extra: &str) -> String {
        format!(
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: bundle-immutability\n  rules: {{RPK-09: off}}\n{extra}"
        )
    }

    #[test]
    fn violations_of_manifests_have_locations() {
        let directory = directory(&[("b.yaml", BUNDLE)]);
        let path = directory.path().join("b.yaml");
        let (record, evaluated) = evaluate_path(&immutability(""), &path).remove(0);
        let shown = path.display().to_string();
        let violation = json!({
            "policy": "bundle-immutability",
            "rule": "RPK-02",
            "effect": "deny",
            "field": "spec.source.image",
            "message": "bundle.spec.source.image must be set for source type \"image\"",
            "location": {"file": shown, "line": 7, "column": 3},
        });
        assert_eq!(
            record,
            json!({"source": shown, "kind": "Bundle", "name": "x", "ok": false, "violations": [violation], "inputType": "manifest"})
        );
        assert_eq!(evaluated.record.outcome(), ExitStatus::Denied);
        assert!(evaluated.is_matched);
    }

    #[test]
    fn manifests_of_bundles_are_checked_with_them() {
        let directory = directory(&[("manifests/b.yaml", BUNDLE), ("manifests/c.yaml", "a: [\n")]);
        let (record, evaluated) = evaluate_path(&immutability(""), directory.path()).remove(0);
        assert_eq!(record["kind"], "PlainBundle");
        assert_eq!(
            record["violations"][0]["field"],
            "spec.files[0].documents[0].spec.source.image"
        );
        assert_eq!(record["violations"][0]["location"]["line"], 7);
        assert!(!evaluated.is_matched);
        assert_eq!(evaluated.unreported.len(), 1);
    }

    #[test]
    fn warnings_are_errors_if_configured() {
        let directory = directory(&[("b.yaml", BUNDLE)]);
        for (check, ok) in [("", true), ("check: {warningsAsErrors: true}\n", false)] {
            let (record, _) =
                evaluate_path(&immutability(&format!("  mode: warn\n{check}")), directory.path())
                    .remove(0);
            assert_eq!(record["violations"][0]["effect"], "warn");
            assert_eq!(record["ok"], ok);
        }
    }

    #[test]
    fn unreadable_file_without_violation_is_not_ok() {
        let all = evaluate_path(
            NO_POLICIES,
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
        assert!(all.iter().all(|(_, evaluated)| !evaluated.is_matched));
    }

    #[test]
    fn time_limit_is_long_unless_configured() {
        let (plain, _) = set(&immutability(""));
        assert_eq!(plain.policies()[0].limits.cpu_time, DEFAULT_CALL_TIMEOUT);
        let (bounded, _) = set(&immutability("  limits: {time: 100ms, concurrency: 2}\n"));
        assert_eq!(bounded.policies()[0].limits.cpu_time, Duration::from_millis(100));
        assert_eq!(bounded.policies()[0].limits.concurrency, 2);
    }
}
