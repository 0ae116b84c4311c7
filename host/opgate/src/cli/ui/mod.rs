//! `opgate ui`: a page on the loopback interface for Operator and policy authors.
//!
//! ```text
//! browser ─▶ request_guard ─▶ server ─┬▶ rule browser (opgate-ui)
//!                                     └▶ upload ─▶ evaluation, one at a time ─▶ result_page
//! ```
//!
//! It evaluates input as `opgate check` does, in this process, and keeps nothing.

mod connections;
mod evaluation;
mod form;
mod input_directory;
mod marked_text;
mod multipart;
mod request_guard;
mod server;
mod upload;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;

use self::evaluation::TryEvaluator;
use self::input_directory::InputDirectory;
use self::server::LocalPage;
use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use opgate_platform::signals::{self, Hangup};

/// Examples after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate ui                                    Serve the page at http://127.0.0.1:8090/
  opgate ui --config opgate.yaml               Use the policies of a configuration
  opgate ui --cluster-state cluster.yaml       Evaluate rules that need a cluster as well

Exit status: 0 ended by Ctrl-C, 2 wrong usage or an address in use, 3 a policy or the engine failed.
docs/ui.md has the details.";

/// Arguments of `opgate ui`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Ui {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address of the page, on the loopback interface; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Files with objects of the cluster to install into, as `kubectl get -A -o yaml` prints them; may be
    /// repeated
    #[arg(long, value_name = "PATH")]
    cluster_state: Vec<PathBuf>,
}

impl Ui {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { config, listen, cluster_state } = self;
        if !listen.ip().is_loopback() {
            let text = format!(
                "--listen {listen} is not a loopback address: the page has no authentication, so use 127.0.0.1 or [::1]"
            );
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        let inputs = Arc::new(InputDirectory::default());
        let (evaluator, set) = TryEvaluator::start(config, cluster_state, inputs.clone())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(async {
            let listener = TcpListener::bind(listen).await;
            let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
            let address = listener.local_addr()?;
            let page = LocalPage::new(set, evaluator).map_err(CommandError::engine)?;
            let (termination, mut hangup) = (signals::termination()?, Hangup::new()?);
            let mut out = anstream::stdout();
            writeln!(out, "http://{address}/")?;
            out.flush()?;
            let router = page.router();
            tokio::select! {
                () = connections::serve(&listener, &router) => {}
                () = termination => {}
                () = hangup.recv() => {}
            }
            Ok::<_, CommandError>(ExitStatus::Ok)
        });
        // An evaluation can take long: the command does not wait.
        runtime.shutdown_background();
        inputs.close().context("cannot remove the temporary directory of an input")?;
        served
    }
}
