//! `opgate replay --against URL`: compares the responses of a running server with the local decisions.
//!
//! ```text
//! ReviewInput ─▶ as_dry_run ─┬▶ Replayer ─▶ response::body ─────┬▶ differences ─▶ stdout
//!                            └▶ WebhookClient ─▶ server ─▶ body ┘
//! ```
//!
//! Both sides get the same dry run, for which a server reserves nothing: other requests to a server in use are
//! decided as without the replay.

mod client;
mod dry_run;
mod response;
mod send_error;
mod tls;
mod url;

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use opgate_admission::policy::PolicySet;
use opgate_certs::Source;
use opgate_text::one_line;
use opgate_text::printed::Form;

use self::client::WebhookClient;
pub(super) use self::dry_run::as_dry_run;
pub(super) use self::response::AdmissionResponse;
use self::url::{ServerAddress, WebhookUrl};
use super::LocalDecision;
use crate::cli::exit::ExitStatus;
use crate::cli::output::{self, Out};
use crate::cli::report::review_record::ReviewRecord;
use crate::cli::review_input::ReviewInput;
use crate::cli::verbosity::note;

/// Maximum bytes of a line of a difference.
const MAX_LINE_BYTES: usize = 1_024;

/// Maximum lines of a response in a difference.
const MAX_LINES: usize = 64;

/// Flags for the comparison with a server.
#[derive(Debug, Args)]
pub(super) struct AgainstArgs {
    /// Compare the decisions with the responses of a server: send it each review as a dry run, print the
    /// differences instead of a report, and fail if there are any
    #[arg(long, value_name = "URL", value_parser = WebhookUrl::parse, conflicts_with_all = [
        "output", "min_effect", "fail_on", "explain", "require_evaluated", "bless", "verify", "apply_allowed",
    ])]
    against: Option<WebhookUrl>,
    /// Additional CAs of that server, PEM
    #[arg(long, value_name = "FILE", requires = "against")]
    ca: Option<PathBuf>,
    /// Address to connect to, such as that of `kubectl port-forward` [default: that of the URL]
    #[arg(long, value_name = "HOST:PORT", value_parser = ServerAddress::parse, requires = "against")]
    connect: Option<ServerAddress>,
    /// Client certificate for that server, PEM
    #[arg(long, value_name = "FILE", requires_all = ["against", "client_key"])]
    client_cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["against", "client_cert"])]
    client_key: Option<PathBuf>,
}

impl AgainstArgs {
    /// Creates the client for the server; none without `--against`.
    ///
    /// # Errors
    /// If a file cannot be used, or the server has no address.
    pub(super) fn client(self) -> anyhow::Result<Option<WebhookClient>> {
        let Self { against, ca, connect, client_cert, client_key } = self;
        let Some(url) = against else { return Ok(None) };
        let pair = client_cert.zip(client_key);
        let pair = pair.map(|(certificate, key)| Source::Files { certificate, key });
        let tls = tls::connector(ca.as_deref(), pair.as_ref())?;
        WebhookClient::new(url, connect, tls, pair.is_some()).map(Some)
    }
}

/// A comparison in progress.
pub(super) struct Comparison {
    client: WebhookClient,
    out: Out,
    compared: usize,
    different: usize,
    unanswered: usize,
    /// Reviews that were not sent, because a local policy failed.
    undecided: usize,
}

impl Comparison {
    /// Begins a comparison with the decisions of a policy set.
    ///
    /// # Errors
    /// If the URL names a policy that the set does not have.
    pub(super) fn new(client: WebhookClient, set: &PolicySet) -> anyhow::Result<Self> {
        let mut names = client.url().policies().into_iter().flat_map(|names| names.split('/'));
        if let Some(name) = names.find(|name| !set.knows(name)) {
            anyhow::bail!("{}: the configuration has no policy {name:?}", client.url());
        }
        let out = output::stdout(Some(Form::Text));
        Ok(Self { client, out, compared: 0, different: 0, unanswered: 0, undecided: 0 })
    }

    /// Returns the policies that decide, with `/` between them; none if all do.
    pub(super) fn policies(&self) -> Option<&str> {
        self.client.url().policies()
    }

    /// Sends a review, prints how the response differs from the local one, and returns the exit status so far.
    /// Breaks if the reader has closed the output.
    ///
    /// # Errors
    /// If the server gives no response for a reason that would also apply to the next review.
    pub(super) fn compare(
        &mut self,
        review: &ReviewInput,
        local: &LocalDecision,
    ) -> anyhow::Result<ControlFlow<(), ExitStatus>> {
        let record = &local.record;
        if let Some(error) = &record.error {
            tracing::error!("{}: policy {}: {}", record.source, error.policy, error.cause);
        }
        let outcome = record.engine_outcome();
        // Without a local response there is nothing to compare.
        let Some(expected) = &local.response else {
            self.undecided = self.undecided.saturating_add(1);
            return Ok(ControlFlow::Continue(outcome));
        };
        let url = self.client.url().to_string();
        let body = match self.client.send(&review.text) {
            Ok(body) => body,
            Err(error) if error.concerns_one_review() => {
                self.unanswered = self.unanswered.saturating_add(1);
                tracing::error!("{}: {url}: {error}", record.source);
                return Ok(ControlFlow::Continue(outcome.max(ExitStatus::Usage)));
            }
            Err(error) => anyhow::bail!("{}: {url}: {error}", record.source),
        };
        let of_server = |why| anyhow::anyhow!("{}: {url}: {why}", record.source);
        let expected = AdmissionResponse::parse(expected)?;
        let response = AdmissionResponse::parse(&body).map_err(of_server)?;
        response.check_envelope(&expected).map_err(of_server)?;
        self.compared = self.compared.saturating_add(1);
        if expected.is_equal(&response) {
            return Ok(ControlFlow::Continue(outcome));
        }
        self.different = self.different.saturating_add(1);
        match self.print_difference(record, &expected, &response) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            printed => {
                printed?;
                Ok(ControlFlow::Continue(outcome.max(ExitStatus::Denied)))
            }
        }
    }

    /// Prints both decisions, and the lines that only one response has: `-` the local one, `+` that of the server.
    fn print_difference(
        &mut self,
        record: &ReviewRecord,
        expected: &AdmissionResponse,
        response: &AdmissionResponse,
    ) -> io::Result<()> {
        let mut head = format!("{}: {}: {}", record.source, record.object(), expected.decision());
        if expected.decision() != response.decision() {
            head = format!("{head} → {}", response.decision());
        }
        writeln!(self.out, "~ {}", one_line(&head, MAX_LINE_BYTES))?;
        for (sign, one, other) in [('-', expected, response), ('+', response, expected)] {
            let lines = one.lines_missing_in(other);
            for line in lines.iter().take(MAX_LINES) {
                writeln!(self.out, "    {sign} {}", one_line(line, MAX_LINE_BYTES))?;
            }
            if let Some(more) = lines.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
                writeln!(self.out, "    {sign} and {more} more")?;
            }
        }
        self.out.flush()
    }

    /// Prints the numbers of reviews and of differences.
    pub(super) fn finish(&self) {
        let Self { compared, different, unanswered, undecided, .. } = self;
        let reviews = if *compared == 1 { "review" } else { "reviews" };
        let mut line = format!("{compared} {reviews}, {different} with another response");
        for (count, what) in [
            (*unanswered, "more without a response"),
            (*undecided, "not sent, because a local policy failed"),
        ] {
            if count > 0 {
                line = format!("{line}, {count} {what}");
            }
        }
        note(line);
    }
}
