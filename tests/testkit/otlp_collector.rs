//! An OpenTelemetry collector on loopback: it receives OTLP over HTTP, and keeps the messages.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Certificates;

/// One message.
#[derive(Clone)]
struct Received {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A collector; it ends with the runtime of its test.
pub struct OtlpCollector {
    /// Where it listens.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    requests: Arc<AtomicUsize>,
    status: Arc<AtomicU16>,
}

impl OtlpCollector {
    /// The status of a collector that never answers.
    pub const SILENT: u16 = 0;

    /// Starts one without TLS.
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// Starts one with the serving certificate in this directory.
    pub async fn start_tls(certificates: &Certificates) -> Self {
        let file = |name: &str| certificates.directory.path().join(name);
        let chain = CertificateDer::pem_file_iter(file("tls.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("tls.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        Self::listen(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let status = Arc::new(AtomicU16::new(200));
        let requests = Arc::new(AtomicUsize::new(0));
        let (kept, counted, answered) = (received.clone(), requests.clone(), status.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, kept) = (tls.clone(), kept.clone());
                let (counted, answered) = (counted.clone(), answered.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            serve(stream, kept, counted, answered).await;
                        }
                        None => serve(stream, kept, counted, answered).await,
                    }
                });
            }
        });
        Self { address, received, requests, status }
    }

    /// The endpoint, as `--otlp-endpoint` wants it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers with another status from now on, or with [`Self::SILENT`] not at all.
    pub fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The number of requests that have arrived, also of those without an answer.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn messages(&self, path: &str) -> Vec<Received> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|message| message.path == path).cloned().collect()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let messages = self.messages("/v1/traces").into_iter();
        let traces = messages.map(|m| ExportTraceServiceRequest::decode(m.body).unwrap());
        let resources = traces.flat_map(|request| request.resource_spans);
        resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
    }

    /// The metrics of the last message, if there is one.
    pub fn metrics(&self) -> Vec<Metric> {
        let last = self.messages("/v1/metrics").pop();
        let request = last.map(|m| ExportMetricsServiceRequest::decode(m.body).unwrap());
        let resources = request.into_iter().flat_map(|request| request.resource_metrics);
        resources.flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics).collect()
    }

    /// The attributes of the server that sent the last traces, and the headers of that message.
    pub fn sender(&self) -> Option<(Vec<KeyValue>, HeaderMap)> {
        let last = self.messages("/v1/traces").pop()?;
        let request = ExportTraceServiceRequest::decode(last.body).unwrap();
        let resource = request.resource_spans.into_iter().next().unwrap().resource.unwrap();
        Some((resource.attributes, last.headers))
    }

    /// Whether any message has these bytes.
    pub fn has_bytes(&self, bytes: &[u8]) -> bool {
        let received = self.received.lock().unwrap();
        received.iter().any(|m| m.body.windows(bytes.len()).any(|window| window == bytes))
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    kept: Arc<Mutex<Vec<Received>>>,
    counted: Arc<AtomicUsize>,
    answered: Arc<AtomicU16>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (kept, status) = (kept.clone(), answered.load(Ordering::Relaxed));
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            if status == OtlpCollector::SILENT {
                std::future::pending::<()>().await;
            }
            let path = head.uri.path().to_owned();
            if status == 200 {
                kept.lock().unwrap().push(Received { path, headers: head.headers, body });
            }
            let response = Response::builder().status(status);
            Ok::<_, hyper::Error>(response.body(Full::<Bytes>::default()).unwrap())
        }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// The text of an attribute: a number or a condition as text, too.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(holds) => Some(holds.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}
