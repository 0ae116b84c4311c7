//! `opgate certs`: a CA and serving certificates, for those who have no other issuer.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use opgate_certs::{
    CertificateAuthority, IssuedCertificate, Source, service_names, verify, write_private,
    write_public,
};

use super::verbosity::note;
use crate::cli::exit::{CommandError, ExitStatus};

/// Hints after the help text.
const AFTER_HELP: &str = "\
Example:
  opgate certs issue --out tls --service NAMESPACE/NAME

Next (docs/certificates.md):
  opgate certs check --tls-dir tls --name NAME.NAMESPACE.svc
  kubectl -n NAMESPACE create secret tls opgate-tls --cert=tls/tls.crt --key=tls/tls.key
  opgate manifests webhook --service NAMESPACE/NAME --ca tls/ca.crt | kubectl apply -f -";

/// Arguments of `opgate certs`.
#[derive(Debug, Args)]
pub(super) struct Certs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Issue a certificate: write ca.crt, ca.key, tls.crt and tls.key to one directory
    ///
    /// If the directory already holds a CA, that CA issues the new certificate, so that the `caBundle` of the
    /// webhook configuration stays valid. Keys get mode 0600. Keep ca.key out of the cluster.
    #[command(after_help = AFTER_HELP)]
    Issue {
        /// Directory for the files
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Service to issue for, with all of its names; may be repeated
        #[arg(long, value_name = "NAMESPACE/NAME")]
        service: Vec<String>,
        /// DNS name or IP address to issue for; may be repeated
        #[arg(long, value_name = "NAME")]
        name: Vec<String>,
        /// Issue a client certificate for this name, client.crt and client.key, instead of a serving
        /// certificate
        #[arg(long, value_name = "NAME", conflicts_with_all = ["service", "name"])]
        client: Option<String>,
        /// Validity of the certificate in days
        #[arg(long, default_value = "90", value_parser = clap::value_parser!(u32).range(1..=825))]
        days: u32,
        /// Validity of a new CA in days
        #[arg(long, default_value = "3650", value_parser = clap::value_parser!(u32).range(1..=7300))]
        ca_days: u32,
        /// Create a new CA and replace the one in the directory
        #[arg(long)]
        new_ca: bool,
    },
    /// Check a serving certificate as an API server would
    Check {
        #[command(flatten)]
        source: SourceArgs,
        /// CA bundle [default: ca.crt in the directory of the certificate, if it exists]
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
        /// Name that API servers use to call the server; may be repeated
        #[arg(long, value_name = "NAME")]
        name: Vec<String>,
        /// Report a problem if the certificate expires in fewer days than this
        #[arg(long, default_value = "7")]
        days_left: u32,
    },
}

/// Source of the serving certificate.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// Directory with tls.crt and tls.key
    #[arg(long, value_name = "DIR", env = "OPGATE_TLS_DIR", conflicts_with_all = ["tls_cert", "tls_key"])]
    tls_dir: Option<PathBuf>,
    /// Serving certificate and its chain, PEM
    #[arg(long, value_name = "FILE", env = "OPGATE_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key, PEM
    #[arg(long, value_name = "FILE", env = "OPGATE_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl SourceArgs {
    pub(super) fn source(self) -> anyhow::Result<Source> {
        match (self.tls_dir, self.tls_cert, self.tls_key) {
            (Some(directory), _, _) => Ok(Source::Directory(directory)),
            (None, Some(certificate), Some(key)) => Ok(Source::Files { certificate, key }),
            _ => anyhow::bail!(
                "no serving certificate: give --tls-dir, or --tls-cert and --tls-key (`opgate certs issue` makes one)"
            ),
        }
    }
}

impl Certs {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::Issue { out, service, name, client, days, ca_days, new_ca } => {
                let ca = Ca { directory: out, days: ca_days, new: new_ca };
                if let Some(client) = client {
                    return ca.issue("client", &client, |ca| ca.issue_client(&client, days));
                }
                let mut names = Vec::new();
                for service in &service {
                    let (namespace, service) = service.split_once('/').with_context(|| {
                        format!("{service:?} is not in the format NAMESPACE/NAME")
                    })?;
                    names.extend(service_names(namespace, service));
                }
                names.extend(name);
                if names.is_empty() {
                    return Err(CommandError::usage(anyhow::anyhow!(
                        "no name: give --service, --name or --client"
                    )));
                }
                ca.issue("tls", &names.join(", "), |ca| ca.issue(&names, days))
            }
            Command::Check { source, ca, name, days_left } => check(source, ca, &name, days_left),
        }
    }
}

/// The issuing CA: the one in the directory, or a new one.
struct Ca {
    directory: PathBuf,
    days: u32,
    new: bool,
}

impl Ca {
    /// Writes what `issue` gives as `<file>.crt` and `<file>.key`.
    fn issue(
        &self,
        file: &str,
        names: &str,
        issue: impl FnOnce(&CertificateAuthority) -> Result<IssuedCertificate, opgate_certs::Error>,
    ) -> Result<ExitStatus, CommandError> {
        let Self { directory, days, new } = self;
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let [ca, ca_key] = ["ca.crt", "ca.key"].map(|file| directory.join(file));
        let [certificate, key] =
            ["crt", "key"].map(|form| directory.join(format!("{file}.{form}")));
        let known = ca.exists() && !new;
        let authority = if known {
            CertificateAuthority::load(&ca, &ca_key)
        } else {
            CertificateAuthority::create(*days)
        };
        let authority = authority.map_err(CommandError::usage)?;
        let issued = issue(&authority).map_err(CommandError::usage)?;
        let write = || {
            if !known {
                write_private(&ca_key, &authority.key())?;
                write_public(&ca, authority.certificate())?;
            }
            write_private(&key, &issued.key)?;
            write_public(&certificate, &issued.certificate)
        };
        write().map_err(CommandError::usage)?;
        let of = if known { "the CA that was there" } else { "a new CA" };
        note(format!("issued for {names} by {of}"));
        writeln!(anstream::stdout(), "{}", directory.display())?;
        Ok(ExitStatus::Ok)
    }
}

fn check(
    source: SourceArgs,
    ca: Option<PathBuf>,
    names: &[String],
    days_left: u32,
) -> Result<ExitStatus, CommandError> {
    let source = source.source()?;
    let sibling = match &source {
        Source::Directory(directory) => directory.join("ca.crt"),
        Source::Files { certificate, .. } => certificate.with_file_name("ca.crt"),
    };
    let pair = source.load().map_err(CommandError::usage)?;
    let mut out = anstream::stdout();
    let now = SystemTime::now();
    let left = pair.not_after().duration_since(now).unwrap_or_default();
    writeln!(out, "names     {}", pair.names().join(", "))?;
    writeln!(out, "chain     {} certificates", pair.chain_length())?;
    writeln!(out, "days left {}", left.as_secs() / 86_400)?;
    let mut problems = Vec::new();
    if pair.names().is_empty() {
        problems.push(
            "the certificate has no subject alternative name: API servers refuse it".to_owned(),
        );
    }
    if left < Duration::from_secs(u64::from(days_left) * 86_400) {
        problems.push(format!("the certificate ends in less than {days_left} days"));
    }
    let ca = ca.or_else(|| sibling.exists().then_some(sibling));
    if let Some(path) = &ca {
        let bundle = std::fs::read(path).with_context(|| path.display().to_string())?;
        let every = if names.is_empty() {
            vec![None]
        } else {
            names.iter().map(|n| Some(n.as_str())).collect()
        };
        problems.extend(
            every
                .into_iter()
                .filter_map(|n| verify(&pair, &bundle, n, now).err())
                .map(|e| e.to_string()),
        );
    } else {
        let wrong = |name: &&String| !pair.names().contains(name);
        let missing = names.iter().filter(wrong);
        problems.extend(missing.map(|name| format!("the certificate is not for {name}")));
        note("no CA bundle: the issuer of the certificate is not checked; give --ca FILE");
    }
    for problem in &problems {
        writeln!(out, "problem   {problem}")?;
    }
    Ok(if problems.is_empty() { ExitStatus::Ok } else { ExitStatus::Denied })
}
