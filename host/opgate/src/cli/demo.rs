//! `opgate demo`: the main job in a few seconds, without a cluster.
//!
//! A server with throw-away certificates and a small cluster from a file, the sample reviews over TLS to
//! it, as an API server sends them, and what `kubectl` would print of the answers.

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
use opgate_certs::{Authority, Reloader, Source, write_private};
use opgate_document::Document;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsConnector;

use super::report::ERROR;
use super::{Failure, Outcome};
use crate::builtin::BUILTINS;
use opgate_admission::cluster;
use opgate_admission::policy::{Configuration, Profile, Set};
use opgate_server::{Options, Server};

/// Arguments of `opgate demo`.
#[derive(Debug, Args)]
pub(super) struct Demo {}

/// The cluster as the policies see it: an Operator group that serves the namespace `monitoring`, and
/// one in `operators` that serves all namespaces.
const CLUSTER: &str = include_str!("../../../../tests/context/demo.json");

/// Recorded by an API server while the examples of the documentation were applied to it.
const REVIEWS: [(&str, &str); 10] = [
    (
        "create Bundle combo-tag-ref from a Git tag",
        include_str!("../../../../tests/reviews/006-create-bundles-combo-tag-ref.json"),
    ),
    (
        "change its tag from v0.0.2 to v0.0.3",
        include_str!("../../../../tests/reviews/007-update-bundles-combo-tag-ref.json"),
    ),
    (
        "add a label to it",
        include_str!("../../../../tests/reviews/008-update-bundles-combo-tag-ref.json"),
    ),
    (
        "create Bundle my-bundle from an image digest",
        include_str!("../../../../tests/reviews/009-create-bundles-my-bundle.json"),
    ),
    (
        "create BundleDeployment my-bundle-deployment",
        include_str!(
            "../../../../tests/reviews/010-create-bundledeployments-my-bundle-deployment.json"
        ),
    ),
    (
        "pivot it to another digest",
        include_str!(
            "../../../../tests/reviews/011-update-bundledeployments-my-bundle-deployment.json"
        ),
    ),
    (
        "update the status of my-bundle",
        include_str!("../../../../tests/reviews/012-update-bundles-status-my-bundle.json"),
    ),
    (
        "delete my-bundle",
        include_str!("../../../../tests/reviews/013-delete-bundles-my-bundle.json"),
    ),
    (
        "create OperatorGroup my-group for its own namespace",
        include_str!("../../../../tests/reviews/014-create-operatorgroups-my-group.json"),
    ),
    (
        "create OperatorGroup cluster-monitoring, where another group provides the same APIs",
        include_str!("../../../../tests/reviews/016-create-operatorgroups-cluster-monitoring.json"),
    ),
];

/// A ClusterServiceVersion with a conversion webhook, and the install mode that it must not support.
const CSV: &str = include_str!(
    "../../../../tests/reviews/021-create-clusterserviceversions-webhook-operator.v0.0.1.json"
);
const UNSUPPORTED: &str = r#"{"supported":false,"type":"SingleNamespace"}"#;
const SUPPORTED: &str = r#"{"supported":true,"type":"SingleNamespace"}"#;

const HOST: &str = "opgate-demo.local";

impl Demo {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self {} = self;
        let started = Instant::now();
        let options = cluster::Options::of(cluster::Source::Snapshot);
        let set =
            Set::load(&Configuration::builtin(Profile::default(), BUILTINS), None, 64, options)
                .map_err(Failure::engine)?;
        let mut snapshot = cluster::Snapshot::default();
        let objects = Document::parse(CLUSTER).map_err(anyhow::Error::from)?;
        snapshot.add(objects).map_err(anyhow::Error::msg)?;
        snapshot.fill(set.cluster());
        let authority = Authority::create(1).map_err(Failure::engine)?;
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
            let server = Server::bind(options, set, certificate).await.map_err(Failure::engine)?;
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
            for (what, review) in REVIEWS {
                send(&mut client, what, review).await?;
            }
            let refused = CSV.replace(UNSUPPORTED, SUPPORTED);
            let what = "create ClusterServiceVersion webhook-operator.v0.0.1, which converts a CRD and supports SingleNamespace";
            send(&mut client, what, &refused).await?;
            let repair = "set supported: false for SingleNamespace (opgate rules explain CSV-92)";
            writeln!(out, "         Repair: {repair}")?;
            send(&mut client, "create it with AllNamespaces as the only install mode", CSV).await?;
            let _ = stop.send(());
            drop(client);
            serving.await.context("the server ended")?.map_err(Failure::engine)?;
            Ok(Outcome::Ok)
        })
    }
}

/// The server reads its certificate from files; these last as long as it takes to read them.
fn certificate(authority: &Authority) -> anyhow::Result<Arc<Reloader>> {
    let folder = std::env::temp_dir().join(format!("opgate-demo-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let write = || {
        let issued = authority.issue(&[HOST.to_owned()], 1)?;
        write_private(&folder.join("tls.key"), &issued.key)?;
        write_private(&folder.join("tls.crt"), &issued.certificate)?;
        Reloader::new(Source::Directory(folder.clone()))
    };
    let reloader = write();
    let _ = std::fs::remove_dir_all(&folder);
    Ok(Arc::new(reloader?))
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
    let name = ServerName::try_from(HOST)?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    let (client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn send(
    client: &mut SendRequest<Full<Bytes>>,
    what: &str,
    review: &str,
) -> anyhow::Result<()> {
    let request = hyper::Request::post("/validate?timeout=10s")
        .header("host", HOST)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(review.as_bytes())))?;
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
    let allowed = response.get("allowed").and_then(Value::as_bool) == Some(true);
    let (word, style) =
        if allowed { ("allowed", anstyle::Style::new()) } else { ("denied", ERROR) };
    writeln!(out, "{style}{word:8}{style:#} {what} ({took:.1} ms)")?;
    for warning in response.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        writeln!(out, "         Warning: {}", warning.as_str().unwrap_or_default())?;
    }
    if let Some(status) = response.get("status").filter(|_| !allowed) {
        let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
        // The names that `opgate manifests webhook` gives.
        let webhook = if review.contains("\"operators.coreos.com\"") {
            "voperatorgroups.operators.coreos.com"
        } else {
            "vbundles.core.rukpak.io"
        };
        writeln!(
            out,
            "         Error from server ({}): admission webhook \"{webhook}\" denied the request: {}",
            text("reason"),
            text("message")
        )?;
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
