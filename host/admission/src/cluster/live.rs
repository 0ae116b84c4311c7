//! A cluster behind an API server: one list and watch per kind, and direct reads.
//!
//! ```text
//! list (pages) ─▶ watch ─▶ ADDED MODIFIED DELETED BOOKMARK ─▶ Kind
//!   ▲              │ ended or cut: watch on from the last version
//!   └── 410 Gone ──┘ 403, 404, 5xx: wait, list again
//! ```
//!
//! The client (credentials, TLS, token renewal) is that of `kube`. There are two reasons for a
//! separate loop: objects are projected from the text of the answer without a tree in between, and
//! bookmarks are visible, which show the age of a quiet resource (docs/adr/0011).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::core::params::WatchParams;
use opgate_cluster::Resource;
use tokio::time::Instant;
use tower::util::MapRequestLayer;

use super::direct::Api;
use super::kind::watch_time;
use super::lens::{Listing, Scope};
use super::pages::{LARGEST_OBJECT, Pages};
use super::token::Token;
use super::wire::{Trouble, event};
use super::{Cluster, Kind, Standing};
use opgate_certs::words::causes;
use opgate_supervise::{Supervised, Supervisor};
use opgate_text::one_line;

/// The interval at which reservations that have ended are searched for.
const EXPIRES: Duration = Duration::from_secs(5);

/// Time limit of an answer, except for a watch.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// Waits after errors, doubled from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Number of lists in a row without such a resource after which its objects count as gone.
const ABSENCES: u32 = 3;

/// The interval at which a resource is checked that the API server does not know.
const ABSENT_WAIT: Duration = Duration::from_secs(5);

/// A watch that does not end by itself is stopped after this additional time.
const GRACE: Duration = Duration::from_secs(15);

/// A watch that ends sooner has failed. Otherwise a server that answers and closes would get
/// hundreds of requests a second.
const SHORT: Duration = Duration::from_secs(5);

/// A watch that was open for this time has not failed.
const STEADY: Duration = Duration::from_secs(2);

/// After this many errors at the same version, the list is read again.
const MOST_AT_ONE_VERSION: u32 = 3;

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The error in it.
        why: String,
    },
    /// The service account cannot be used.
    #[error("in-cluster credentials: {0}")]
    InCluster(String),
    /// There is no client for them.
    #[error("cannot make a client for the API server: {0}")]
    Client(String),
}

/// An API server. Nothing is sent before the first query.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    pages: Arc<Pages>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// With the credentials of kubeconfigs, merged as in `kubectl`: the first value counts, and one
    /// of several files can be missing. `context` is one of their contexts; the default is the
    /// current one.
    ///
    /// # Errors
    /// If they cannot be used.
    pub async fn kubeconfig(
        paths: &[PathBuf],
        context: Option<&str>,
    ) -> Result<Self, ConnectionError> {
        let failed = |why: String| {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            ConnectionError::Kubeconfig { path: paths.join(", "), why: one_line(&why, 512) }
        };
        let mut kubeconfig = Kubeconfig::default();
        for path in paths.iter().filter(|path| paths.len() == 1 || path.exists()) {
            let more = Kubeconfig::read_from(path).map_err(|e| failed(causes(&e)))?;
            kubeconfig = kubeconfig.merge(more).map_err(|e| failed(causes(&e)))?;
        }
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Self::with(config.map_err(|e| failed(causes(&e)))?)
    }

    /// With the service account of this pod.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn in_cluster() -> Result<Self, ConnectionError> {
        let config = Config::incluster();
        Self::with(config.map_err(|e| ConnectionError::InCluster(one_line(&causes(&e), 512)))?)
    }

    fn with(mut config: Config) -> Result<Self, ConnectionError> {
        // This loop has its own waits, and must know about errors.
        config.default_retry = false;
        let failed = |e: &kube::Error| ConnectionError::Client(one_line(&causes(e), 512));
        let token = Token::of(&mut config.auth_info).map_err(ConnectionError::Client)?;
        let client = ClientBuilder::try_from(config).map_err(|e| failed(&e))?;
        let client = client.with_layer(&MapRequestLayer::new(move |request| match &token {
            Some(token) => token.authorize(request),
            None => request,
        }));
        Ok(Self { client: client.build(), pages: Arc::default() })
    }

    /// Keeps a view current in tasks of the current runtime, one for each resource, until the
    /// result is dropped.
    #[must_use]
    pub fn watch(&self, cluster: &Cluster, supervisor: &Supervisor) -> Watches {
        let watch = watch_time(cluster.options().max_age);
        let task = |kind: &Arc<Kind>| {
            let (client, kind) = (self.client.clone(), kind.clone());
            let pages = self.pages.clone();
            supervisor.spawn(format!("watch {}", kind.resource()), move || {
                let (client, kind, pages) = (client.clone(), kind.clone(), pages.clone());
                async move {
                    let mut waits = Waits::default();
                    loop {
                        let wait = follow(&client, &pages, &kind, watch, &mut waits).await;
                        tokio::time::sleep(wait).await;
                    }
                }
            })
        };
        let mut tasks: Vec<_> = cluster.kinds().iter().map(task).collect();
        let kinds = cluster.kinds().to_vec();
        tasks.push(supervisor.spawn("reservations".to_owned(), move || {
            let kinds = kinds.clone();
            async move {
                loop {
                    tokio::time::sleep(EXPIRES).await;
                    for kind in &kinds {
                        kind.expire();
                    }
                }
            }
        }));
        Watches { _tasks: tasks }
    }

    /// The current objects of the API server. It is a list, so that the answer has the version up
    /// to which it holds.
    async fn list_now(&self, kind: &Kind, scope: &Scope) -> Result<Listing, String> {
        let (namespace, name) = match scope {
            Scope::All => (kind.namespace(), None),
            Scope::Namespace(namespace) => (Some(namespace.as_str()), None),
            Scope::Object(key) => {
                (Some(&*key.namespace).filter(|namespace| !namespace.is_empty()), Some(&*key.name))
            }
        };
        match self.pages.list(&self.client, kind, namespace, name).await {
            Ok(listing) => Ok(listing),
            // The watch has found out the same.
            Err(Trouble::Absent) if kind.status().standing == Standing::NotInstalled => {
                Ok(kind.empty())
            }
            Err(trouble) => Err(format!("{}: {trouble}", kind.resource())),
        }
    }
}

impl Api for Connection {
    fn list<'a>(
        &'a self,
        kind: &'a Kind,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<Listing, String>> {
        Box::pin(self.list_now(kind, scope))
    }
}

/// The watches of a view. They end with it.
#[derive(Debug)]
pub struct Watches {
    _tasks: Vec<Supervised>,
}

/// Growing waits with a random part, so that replicas do not return all at once.
#[derive(Debug, Default)]
struct Waits {
    failures: u32,
    /// Lists in a row that found no such resource.
    absences: u32,
    /// The last logged text: the same problem is logged once.
    told: Option<String>,
}

impl Waits {
    fn next(&mut self) -> Duration {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(8)).min(LAST_WAIT);
        self.failures = self.failures.saturating_add(1);
        let mut random = [0; 1];
        // Without randomness, all wait for the maximum.
        let _ = aws_lc_rs::rand::fill(&mut random);
        wait.mul_f64(1.0 - f64::from(random[0]) / 1024.0)
    }

    /// There is a current view, which says nothing about the next watch.
    fn current(&mut self, kind: &Kind) {
        if self.told.take().is_some() {
            tracing::info!(resource = %kind.resource(), "the cluster context is current again");
        }
    }

    /// The watch works.
    fn well(&mut self, kind: &Kind) {
        self.current(kind);
        self.failures = 0;
    }

    fn tell(&mut self, kind: &Kind, why: &str) {
        if self.told.as_deref() != Some(why) {
            tracing::warn!(resource = %kind.resource(), why, "the cluster context cannot be read");
            self.told = Some(why.to_owned());
        }
    }
}

/// Lists, then watches until a new list is needed. Returns the wait before it.
async fn follow(
    client: &Client,
    pages: &Pages,
    kind: &Kind,
    watch: Duration,
    waits: &mut Waits,
) -> Duration {
    let began = Instant::now();
    let trouble = match pages.list(client, kind, kind.namespace(), None).await {
        Ok(listing) => {
            waits.absences = 0;
            let (objects, mut version) = (listing.objects.len(), listing.version.clone());
            kind.replace(listing, began);
            waits.current(kind);
            tracing::info!(resource = %kind.resource(), objects, "listed");
            match watch_on((client, pages), kind, watch, waits, &mut version).await {
                // A list decides whether it is gone.
                Trouble::Absent => Trouble::Gone,
                trouble => trouble,
            }
        }
        Err(trouble) => trouble,
    };
    match &trouble {
        Trouble::Absent if kind.status().objects > 0 && waits.absences < ABSENCES => {
            // A proxy or a starting server says 404 as well, which does not mean that objects are
            // gone.
            waits.absences += 1;
            let why = trouble.to_string();
            kind.failed(why.clone());
            waits.tell(kind, &why);
            waits.next()
        }
        Trouble::Absent => {
            if kind.status().standing != Standing::NotInstalled {
                tracing::info!(resource = %kind.resource(), "not installed; looking for it again");
            }
            kind.absent();
            ABSENT_WAIT
        }
        Trouble::Gone | Trouble::Silence => {
            tracing::debug!(resource = %kind.resource(), why = %trouble, "listing again");
            waits.next()
        }
        Trouble::Forbidden(_) | Trouble::Other(_) => {
            let why = trouble.to_string();
            kind.failed(why.clone());
            waits.tell(kind, &why);
            waits.next()
        }
    }
}

/// One watch after another from a version on. Returns the reason why the list must be read again.
async fn watch_on(
    from: (&Client, &Pages),
    kind: &Kind,
    watch: Duration,
    waits: &mut Waits,
    version: &mut String,
) -> Trouble {
    let short = SHORT.min(watch / 2);
    let mut failed_here = 0;
    loop {
        let (started, before) = (Instant::now(), version.clone());
        let ended = watch_once(from, kind, watch, version).await;
        if *version != before {
            failed_here = 0;
            waits.well(kind);
        }
        let (why, is_error) = match ended {
            Ok(()) if started.elapsed() >= short => {
                waits.well(kind);
                if kind.silence() > watch.saturating_add(watch / 2) {
                    // It sends no bookmarks; a list has the same effect.
                    return Trouble::Silence;
                }
                continue;
            }
            Ok(()) => (format!("the API server ends watches within {short:?}"), false),
            Err(Trouble::Other(why)) => (why, true),
            Err(trouble) => return trouble,
        };
        failed_here += 1;
        if is_error || failed_here > 1 {
            kind.failed(why.clone());
            waits.tell(kind, &why);
        }
        if failed_here >= MOST_AT_ONE_VERSION {
            return Trouble::Other(why);
        }
        tokio::time::sleep(waits.next()).await;
    }
}

/// One watch, until it ends. `version` moves on with it. Opening it is no contact: only its
/// messages are.
async fn watch_once(
    (client, pages): (&Client, &Pages),
    kind: &Kind,
    watch: Duration,
    version: &mut String,
) -> Result<(), Trouble> {
    let params = WatchParams {
        label_selector: label_selector(kind),
        field_selector: None,
        timeout: u32::try_from(watch.as_secs().max(1)).ok(),
        bookmarks: true,
        send_initial_events: false,
    };
    let request = Request::new(path(kind.resource(), kind.namespace()));
    let request = request.watch(&params, version).map_err(|e| Trouble::Other(e.to_string()))?;
    let opening = tokio::time::timeout(ANSWER, client.request_stream(request));
    let stream = opening.await.map_err(|_| Trouble::Other(no_answer(ANSWER)))??;
    let mut stream = std::pin::pin!(stream);
    let silence = watch.saturating_add(GRACE);
    let (mut line, mut steady) = (Vec::new(), std::pin::pin!(tokio::time::sleep(STEADY)));
    loop {
        line.clear();
        let mut rest = stream.as_mut().take(LARGEST_OBJECT);
        let reading = tokio::time::timeout(silence, rest.read_until(b'\n', &mut line));
        let mut reading = std::pin::pin!(reading);
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = &mut steady, if !steady.is_elapsed() => kind.steady(),
            }
        };
        let read = read.map_err(|_| Trouble::Other(no_answer(silence)))?;
        let read = read.map_err(|e| Trouble::Other(one_line(&causes(&e), 512)))?;
        if read == 0 {
            return Ok(());
        }
        if u64::try_from(read) == Ok(LARGEST_OBJECT) {
            return Err(Trouble::Other(format!("an event of more than {LARGEST_OBJECT} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        // One at a time, for all resources.
        let _one = pages.one().await;
        event(kind, std::mem::take(&mut line), version)?;
    }
}

pub(super) fn no_answer(waited: Duration) -> String {
    format!("no answer from the API server within {} s", waited.as_secs())
}

/// `/apis/<group>/<version>[/namespaces/<namespace>]/<resource>`
pub(super) fn path(resource: &Resource, namespace: Option<&str>) -> String {
    let Resource { group, version, resource } = resource;
    let api = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    match namespace {
        Some(namespace) => format!("{api}/namespaces/{namespace}/{resource}"),
        None => format!("{api}/{resource}"),
    }
}

pub(super) fn label_selector(kind: &Kind) -> Option<String> {
    Some(kind.labels()).filter(|labels| !labels.is_empty()).map(ToString::to_string)
}
