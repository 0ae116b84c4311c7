//! `opgate demo`: the main job in a few seconds, without a cluster.
//!
//! A server with throw-away certificates and a small cluster from a file, sample reviews over TLS to it, as
//! an API server sends them, and the answers. The output fits a terminal of 24 lines of 80 columns.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use opgate_certs::{CertificateAuthority, Reloader, ServingCertificate};
use opgate_document::Document;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsConnector;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::ERROR;
use opgate_admission::cluster;
use opgate_admission::policy::{Configuration, PolicySet, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_server::{Options, Server};

/// Arguments of `opgate demo`.
#[derive(Debug, Args)]
pub(super) struct Demo {}

/// The cluster as the policies see it: an Operator group that serves the namespace `monitoring`, and
/// one in `operators` that serves all namespaces.
const CLUSTER_STATE_JSON: &str = include_str!("../../../../../tests/context/demo.json");

/// Reviews that an API server recorded while the examples of the documentation were applied to it. Some
/// are changed here, so that a rule denies them.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/reviews/", $name, ".json"))
    };
}

/// One request, and the rule that denies it, empty if it is allowed.
struct Step {
    description: &'static str,
    rule: &'static str,
    review: String,
}

/// Returns the requests of the demo, in order.
fn steps() -> [Step; 9] {
    let step =
        |what, rule, review: &str| Step { description: what, rule, review: review.to_owned() };
    let csv = recorded!("021-create-clusterserviceversions-webhook-operator.v0.0.1");
    let single = csv.replace(
        r#"{"supported":false,"type":"SingleNamespace"}"#,
        r#"{"supported":true,"type":"SingleNamespace"}"#,
    );
    let crd = recorded!("038-update-customresourcedefinitions-clusters.example.com").replace(
        r#"{"name":"v1alpha1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}},"#,
        "",
    );
    let older = recorded!("034-update-operators-pipelines-operator")
        .replace(r#""version":"\u003c1.13""#, r#""version":"1.13.0""#);
    [
        step(
            "create Bundle combo-tag-ref from a Git tag",
            "",
            recorded!("006-create-bundles-combo-tag-ref"),
        ),
        step("change its tag to v0.0.3", "RPK-01", recorded!("007-update-bundles-combo-tag-ref")),
        step("add a label to it", "", recorded!("008-update-bundles-combo-tag-ref")),
        step(
            "pivot BundleDeployment my-bundle-deployment to another digest",
            "",
            recorded!("011-update-bundledeployments-my-bundle-deployment"),
        ),
        step(
            "create OperatorGroup cluster-monitoring",
            "OPG-18",
            recorded!("016-create-operatorgroups-cluster-monitoring"),
        ),
        step("create ClusterServiceVersion webhook-operator.v0.0.1", "CSV-92", &single),
        step("create it with AllNamespaces as the only install mode", "", csv),
        step("remove a stored version of CRD clusters.example.com", "CRD-13", &crd),
        step("roll back Operator pipelines-operator of OLM 1.0", "OL1-05", &older),
    ]
}

const SERVER_NAME: &str = "opgate-demo.local";

impl Demo {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self {} = self;
        let started = Instant::now();
        let options = cluster::ClusterOptions::of(cluster::Source::Snapshot);
        let set = PolicySet::load(
            &Configuration::builtin(Profile::default(), BUILTINS),
            None,
            64,
            options,
        )
        .map_err(CommandError::engine)?;
        let mut snapshot = cluster::Snapshot::default();
        let objects = Document::parse(CLUSTER_STATE_JSON).map_err(anyhow::Error::from)?;
        snapshot.add(objects).map_err(anyhow::Error::msg)?;
        snapshot.replace_state(set.cluster());
        let authority = CertificateAuthority::create(1).map_err(CommandError::engine)?;
        let certificate = certificate(&authority)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            let options = Options {
                listen: loopback,
                ops_listen: loopback,
                drain_delay: Duration::ZERO,
                ..Options::default()
            };
            let server =
                Server::bind(options, set, certificate).await.map_err(CommandError::engine)?;
            let address = server.local_addr();
            let mut out = anstream::stdout();
            writeln!(
                out,
                "serving on https://{address} after {:.1} ms\n",
                millis(started.elapsed())
            )?;
            let (stop, stopped) = oneshot::channel::<()>();
            let (_, reload) = watch::channel(());
            let stopped = async move {
                let _ = stopped.await;
            };
            let serving = tokio::spawn(server.run(stopped, reload));
            let mut client = connect(address, authority.certificate()).await?;
            for step in steps() {
                send(&mut client, &step).await?;
            }
            writeln!(out, "\ndetails: opgate rules explain RPK-01")?;
            let _ = stop.send(());
            drop(client);
            serving.await.context("the server ended")?.map_err(CommandError::engine)?;
            Ok(ExitStatus::Ok)
        })
    }
}

/// The certificate stays in memory: there may be no writable directory.
fn certificate(authority: &CertificateAuthority) -> anyhow::Result<Arc<Reloader>> {
    let issued = authority.issue(&[SERVER_NAME.to_owned()], 1)?;
    Ok(Arc::new(Reloader::of(ServingCertificate::from_pem(&issued.certificate, &issued.key)?)))
}

async fn connect(address: SocketAddr, ca: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await?;
    let name = ServerName::try_from(SERVER_NAME)?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    let (client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Sends one review and prints the decision.
async fn send(client: &mut SendRequest<Full<Bytes>>, step: &Step) -> anyhow::Result<()> {
    let request = hyper::Request::post("/validate?timeout=10s")
        .header("host", SERVER_NAME)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(step.review.as_bytes())))?;
    client.ready().await?;
    let started = Instant::now();
    let response = client.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    let took = millis(started.elapsed());
    anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    let answer: Value = serde_json::from_slice(&body)?;
    let response = answer.get("response").unwrap_or(&Value::Null);
    let mut out = anstream::stdout();
    let Step { description: what, rule, .. } = step;
    if response.get("allowed").and_then(Value::as_bool) == Some(true) {
        writeln!(out, "allowed  {what} ({took:.1} ms)")?;
        return Ok(());
    }
    writeln!(out, "{ERROR}denied{ERROR:#}   {what} ({rule}, {took:.1} ms)")?;
    let message = response.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
    for line in wrap_message(message) {
        writeln!(out, "         {line}")?;
    }
    Ok(())
}

/// Returns the beginning of a message: two lines of 71 columns, which are indented by 9.
fn wrap_message(message: &str) -> Vec<String> {
    const COLUMNS: usize = 71;
    let mut lines = vec![String::new()];
    for word in message.split_whitespace() {
        let count = lines.len();
        let Some(line) = lines.last_mut() else { break };
        let width = line.chars().count() + 1 + word.chars().count();
        // The second line leaves room for the ellipsis.
        if width <= COLUMNS - (count - 1) * 2 || line.is_empty() {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(space);
            line.push_str(word);
        } else if count == 1 {
            lines.push(word.to_owned());
        } else {
            line.push_str(" …");
            break;
        }
    }
    lines
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
