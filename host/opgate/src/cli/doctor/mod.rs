//! `opgate doctor`: diagnoses problems in a cluster or in manifests, most severe first, with remediation.
//!
//! ```text
//! arguments ─▶ opgate_doctor: facts ─▶ findings ─▶ report
//!              opgate_doctor::finding_docs ─▶ explain, pages
//! ```

mod report;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use http::Uri;

use super::stdin::{self, Stdin};
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::kubeconfig::kubeconfig_paths;
use crate::cli::output::{stream, text_or_json};
use opgate_admission::cluster::{Connection, Source};
use opgate_admission::policy::Configuration;
use opgate_builtin_policies::BUILTINS;
use opgate_certs::error_text::with_causes;
use opgate_doctor::finding_docs::{self, Level};
use opgate_doctor::{
    ClusterReader, DumpedCluster, ExpectedObjects, ExpiryDays, Facts, Installation,
    find_configuration, probe_server, run_all, set_platform,
};
use opgate_manifests::registration::names::is_label;
use opgate_text::one_line;
use opgate_text::units::parse_duration;

/// Default namespace and Service of an installation.
const DEFAULT_NAMESPACE: &str = "opgate-system";
const DEFAULT_SERVICE: &str = "opgate";

/// Hints after the help text.
const AFTER_HELP: &str = "\
With PATH it examines files instead of a cluster: what `opgate manifests all` prints, or a dump
(`kubectl get -A -o yaml namespaces,nodes,services,endpointslices,pods,deployments,…`); `-` is standard
input. It reads only, and prints nothing secret. docs/doctor.md describes it.

Examples:
  opgate doctor
  opgate doctor --connect 127.0.0.1:9443     together with kubectl port-forward
  opgate manifests all | opgate doctor -
  opgate doctor explain DOC-12

Exit status: 0 nothing found at or above --fail-on, 1 something found, 2 wrong usage or unreadable
input, 3 the engine failed.";

/// Arguments of `opgate doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(super) struct Doctor {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    examine: Examine,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explain findings: meaning, effect and remediation
    Explain {
        /// Ids such as DOC-12
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Generate the documentation of all findings
    Docs {
        /// The directory; files of the same names are replaced
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Examine {
    /// Manifests or dumps of a cluster; `-` is standard input [default: a running cluster]
    #[arg(value_name = "PATH", conflicts_with_all = ["kubeconfig", "kube_context"])]
    paths: Vec<PathBuf>,
    /// Kubeconfig of the cluster; several are merged as by `kubectl` [default: KUBECONFIG, the service
    /// account in a pod, ~/.kube/config]
    #[arg(long, value_name = "FILE[:FILE]")]
    kubeconfig: Option<OsString>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    kube_context: Option<String>,
    /// Namespace and Service of the installation [default: the one that webhooks call]
    #[arg(long, value_name = "NAMESPACE/SERVICE", value_parser = installation, env = "OPGATE_INSTALLATION")]
    installation: Option<Installation>,
    /// Instead of a Service: beginning of the URL that the webhooks call
    #[arg(long, value_name = "URL", value_parser = url, conflicts_with = "installation")]
    url: Option<String>,
    /// Address at which a server is reached, for its certificate [default: the Service, in a pod]
    #[arg(long, value_name = "HOST:PORT")]
    connect: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Report a serving certificate that expires within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    days_left: u32,
    /// Report a CA that expires within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    ca_days_left: u32,
    /// Lowest level of a finding for exit status 1
    #[arg(long, value_name = "LEVEL", default_value = "warning")]
    fail_on: FailOn,
    /// Omit findings with this id; may be repeated
    #[arg(long, value_name = "ID", value_parser = known_id)]
    skip: Vec<String>,
    /// Maximum time for reading the cluster
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    timeout: Duration,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

/// The lowest level of a finding that fails the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Critical,
    Warning,
    Note,
    /// No finding: exit status 1 does not occur
    Never,
}

impl FailOn {
    fn level(self) -> Option<Level> {
        match self {
            Self::Critical => Some(Level::Critical),
            Self::Warning => Some(Level::Warning),
            Self::Note => Some(Level::Note),
            Self::Never => None,
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// One JSON object
    Json,
}

fn installation(text: &str) -> Result<Installation, String> {
    let parts = text.split_once('/').filter(|(of, name)| is_label(of) && is_label(name));
    let (namespace, service) =
        parts.ok_or_else(|| format!("{text:?} is not in the format NAMESPACE/SERVICE"))?;
    Ok(Installation { namespace: namespace.to_owned(), service: service.to_owned(), url: None })
}

fn url(text: &str) -> Result<String, String> {
    let parsed = text.parse::<Uri>().ok();
    let is_https =
        parsed.is_some_and(|url| url.scheme_str() == Some("https") && url.host().is_some());
    let url = is_https.then(|| text.trim_end_matches('/').to_owned());
    url.ok_or_else(|| format!("{text:?} is not in the format https://HOST[:PORT][/PREFIX]"))
}

fn known_id(text: &str) -> Result<String, String> {
    let known = finding_docs::find_doc(text).map(|doc| doc.id.to_owned());
    known.ok_or_else(|| unknown_id_error(text))
}

/// Iterates over the ids of all findings.
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    finding_docs::docs().map(|(_, doc)| doc.id)
}

fn unknown_id_error(id: &str) -> String {
    let hint = opgate_text::hint(id, finding_docs::docs().map(|(_, doc)| doc.id));
    format!("there is no finding {:?}: docs/doctor lists them{hint}", one_line(id, 64))
}

impl Doctor {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Some(Command::Explain { ids }) => explain(&ids),
            Some(Command::Docs { directory }) => write_pages(&directory),
            None => self.examine.run(),
        }
    }
}

fn explain(ids: &[String]) -> Result<ExitStatus, CommandError> {
    let mut out = anstream::stdout();
    for (index, id) in ids.iter().enumerate() {
        let doc = finding_docs::find_doc(id)
            .ok_or_else(|| CommandError::usage(anyhow::anyhow!(unknown_id_error(id))))?;
        if index > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", finding_docs::render_section(doc))?;
    }
    Ok(ExitStatus::Ok)
}

fn write_pages(directory: &Path) -> Result<ExitStatus, CommandError> {
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        finding_docs::render_pages()
            .iter()
            .try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
    };
    written().with_context(|| directory.display().to_string())?;
    Ok(ExitStatus::Ok)
}

impl Examine {
    fn run(self) -> Result<ExitStatus, CommandError> {
        let mut facts = if self.paths.is_empty() {
            self.facts_from_cluster()?
        } else {
            self.facts_from_files()?
        };
        facts.expected = self.expected_objects(&facts)?;
        let days = ExpiryDays { certificate: self.days_left, ca: self.ca_days_left };
        let mut found = run_all(&facts, days);
        found.skip(&self.skip);
        let mut out = stream(Some(text_or_json(matches!(self.output, Format::Json))));
        match self.output {
            Format::Text => report::write_text(&mut out, &facts, &found)?,
            Format::Json => report::write_json(&mut out, &facts, &found)?,
        }
        let fails = found.worst().is_some_and(|worst| Some(worst) <= self.fail_on.level());
        Ok(if fails { ExitStatus::Denied } else { ExitStatus::Ok })
    }

    /// Returns the objects that follow from the configuration on the command line, or from that of the servers.
    ///
    /// # Errors
    /// If the file that is named cannot be used, or the engine fails.
    fn expected_objects(&self, facts: &Facts) -> Result<ExpectedObjects, CommandError> {
        let load = |configuration: &Configuration| {
            self.config.load_all_or_fail(configuration, Source::Absent)
        };
        if let Some(path) = &self.config.config {
            let mut configuration = self.config.configuration()?;
            set_platform(facts, &mut configuration);
            let set = load(&configuration)?;
            return Ok(ExpectedObjects::of(facts, &set, &path.display().to_string()));
        }
        Ok(match find_configuration(facts, BUILTINS) {
            Ok((source, configuration)) => match load(&configuration) {
                Ok(set) => ExpectedObjects::of(facts, &set, &source),
                Err(failure) => {
                    ExpectedObjects::unusable(&source, &with_causes(failure.error.as_ref()))
                }
            },
            Err(expected) => *expected,
        })
    }

    /// Returns the installation that is named, or the only one that is found.
    fn select_installation(&self, found: &[Installation]) -> anyhow::Result<Installation> {
        let usual = || Installation {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            service: DEFAULT_SERVICE.to_owned(),
            url: None,
        };
        if let Some(url) = &self.url {
            return Ok(Installation { url: Some(url.clone()), ..usual() });
        }
        if let Some(named) = &self.installation {
            return Ok(named.clone());
        }
        match found {
            [] => Ok(usual()),
            [only] => Ok(only.clone()),
            many => {
                let names = many.iter().map(Installation::owner);
                let names: Vec<_> = names.map(|name| one_line(&name, 128)).take(10).collect();
                anyhow::bail!(
                    "there are several installations: name one of them with --installation: {}",
                    names.join(", ")
                )
            }
        }
    }

    fn facts_from_files(&self) -> Result<Facts, CommandError> {
        let reader = self.read.reader();
        let mut paths = self.paths.clone();
        let mut copy = None;
        for path in paths.iter_mut().filter(|path| path.as_os_str() == stdin::NAME) {
            let input = match copy.take() {
                None => Stdin::read(&reader)?,
                Some(_) => return Err(anyhow::anyhow!("standard input can be read once").into()),
            };
            input.path().clone_into(path);
            copy = Some(input);
        }
        let read = || {
            let dumped_cluster = DumpedCluster::open(&paths, &reader)?;
            let installation = self.select_installation(&dumped_cluster.installations())?;
            dumped_cluster.facts(installation, &reader)
        };
        let named = |error: anyhow::Error| match &copy {
            Some(copy) => anyhow::anyhow!(copy.with_stdin_name(&format!("{error:#}"))),
            None => error,
        };
        let mut facts = read().map_err(named)?;
        if self.connect.is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            facts.tls_probe =
                runtime.block_on(probe_server(&facts, self.connect.as_deref(), is_in_pod()));
        }
        Ok(facts)
    }

    fn facts_from_cluster(&self) -> Result<Facts, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let connection = self.connection().await?;
            let live = ClusterReader::open(connection, self.timeout).await?;
            let installation = self.select_installation(&live.installations())?;
            let mut facts = live.facts(installation).await;
            facts.tls_probe = probe_server(&facts, self.connect.as_deref(), is_in_pod()).await;
            Ok(facts)
        })
    }

    async fn connection(&self) -> Result<Connection, CommandError> {
        let named = self.kubeconfig.clone().unwrap_or_default();
        let is_named = !named.is_empty() || std::env::var_os("KUBECONFIG").is_some();
        if !is_named && self.kube_context.is_none() && is_in_pod() {
            return Connection::in_cluster().map_err(CommandError::usage);
        }
        let paths = kubeconfig_paths(&named)?;
        let connection = Connection::kubeconfig(&paths, self.kube_context.as_deref());
        connection.await.map_err(CommandError::usage)
    }
}

fn is_in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use opgate_doctor::{DRAIN_DELAY, GRACE_PERIOD};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn assumed_times_are_the_defaults_of_serve() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for (name, time) in [("drain_delay", DRAIN_DELAY), ("grace_period", GRACE_PERIOD)] {
            let argument = serve.get_arguments().find(|one| one.get_id() == name).unwrap();
            let default = argument.get_default_values()[0].to_str().unwrap();
            assert_eq!(parse_duration(default).unwrap(), time, "{name}");
        }
    }
}
