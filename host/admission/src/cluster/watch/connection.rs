//! The connection to an API server: credentials, a task for each resource, and direct reads.
//!
//! ```text
//! kubeconfig, pod ─▶ Connection ─┬▶ watch: a task for each resource (live) ─▶ ResourceCache
//!                                └▶ Api: direct reads
//! ```
//!
//! The client (credentials, TLS, token renewal) is that of `kube`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::cluster::store::listing::{Listing, QueryScope};
use crate::cluster::watch::decode::ApiError;
use crate::cluster::watch::direct_read_source::{DirectReadError, DirectReadSource};
use crate::cluster::watch::direct_read_source::{SampleError, SampleRequest};
use crate::cluster::watch::list_watch::{Backoff, list_and_watch};
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::watch::requests::{ApiServer, resource_path};
use crate::cluster::watch::settle_reservations::settle_forever;
use crate::cluster::watch::token::Token;
use crate::cluster::{CacheStatus, ClusterState, ResourceCache};
use opgate_certs::error_text::with_causes;
use opgate_engine::reader::Sample;
use opgate_supervise::{SupervisedTask, Supervisor};
use opgate_text::one_line;

/// The interval at which to search for reservations that have ended although no read of them
/// succeeds.
const EXPIRES: Duration = Duration::from_secs(5);

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig is invalid.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The error in it.
        why: String,
    },
    /// The service account is invalid.
    #[error("in-cluster credentials: {0}")]
    InCluster(String),
    /// No client can be created with these credentials.
    #[error("cannot make a client for the API server: {0}")]
    Client(String),
}

/// An API server. Nothing is sent before the first query.
#[derive(Clone)]
pub struct Connection(pub(in crate::cluster) Arc<ApiServer>);

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
            let more = Kubeconfig::read_from(path).map_err(|e| failed(with_causes(&e)))?;
            kubeconfig = kubeconfig.merge(more).map_err(|e| failed(with_causes(&e)))?;
        }
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Self::with(config.map_err(|e| failed(with_causes(&e)))?)
    }

    /// With the service account of this pod.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn in_cluster() -> Result<Self, ConnectionError> {
        let config = Config::incluster();
        Self::with(config.map_err(|e| ConnectionError::InCluster(one_line(&with_causes(&e), 512)))?)
    }

    fn with(mut config: Config) -> Result<Self, ConnectionError> {
        // The caller has its own backoff, and must see errors.
        config.default_retry = false;
        let failed = |e: &kube::Error| ConnectionError::Client(one_line(&with_causes(e), 512));
        let token = Token::of(&mut config.auth_info)
            .map_err(|why| ConnectionError::Client(why.to_string()))?;
        let client = ClientBuilder::try_from(config).map_err(|e| failed(&e))?;
        let (asks, answers) = (token.clone(), token.clone());
        let client = client.with_layer(&MapRequestLayer::new(move |request| match &asks {
            Some(token) => token.authorize(request),
            None => request,
        }));
        // For all users of the client, including those that write.
        let client = client.with_layer(&MapResponseLayer::new(move |answer: http::Response<_>| {
            if let Some(token) = &answers {
                token.record_status(answer.status());
            }
            answer
        }));
        Ok(Self(Arc::new(ApiServer::new(client.build(), token))))
    }

    /// The client, for writes. It neither retries nor has a time limit.
    #[must_use]
    pub fn client(&self) -> Client {
        self.0.client()
    }

    /// The current version of a resource, by a consistent read that begins now; 0 if the API server does not
    /// know it, `None` if it does not answer.
    pub async fn version_of(&self, cache: &ResourceCache) -> Option<u64> {
        let path = format!("{}?limit=1", resource_path(cache.resource(), cache.namespace()));
        match self.0.document(&path).await {
            Ok(document) => document.get("/metadata/resourceVersion")?.text()?.parse().ok(),
            Err(ApiError::Absent) => Some(0),
            Err(_) => None,
        }
    }

    /// Keeps cluster state current in tasks of the current runtime, one for each resource, until
    /// the result is dropped.
    #[must_use]
    pub fn watch(&self, cluster: &ClusterState, supervisor: &Supervisor) -> Watches {
        self.watch_beside(cluster, supervisor, &Watches::default())
    }

    /// [`Connection::watch`] for cluster state that replaces another one. The watches of kinds
    /// that both have continue, and end with the last one that has them.
    #[must_use]
    pub fn watch_beside(
        &self,
        cluster: &ClusterState,
        supervisor: &Supervisor,
        other: &Watches,
    ) -> Watches {
        let options = cluster.options();
        let task = |cache: &Arc<ResourceCache>| {
            if let Some((_, known)) = other.tasks.iter().find(|(of, _)| Arc::ptr_eq(of, cache)) {
                return (cache.clone(), known.clone());
            }
            let (server, of) = (self.0.clone(), cache.clone());
            let task = supervisor.spawn(format!("watch {}", cache.name()), move || {
                let (server, cache) = (server.clone(), of.clone());
                async move {
                    let mut backoff = Backoff::new(&options);
                    loop {
                        let wait = list_and_watch(&server, &cache, &mut backoff).await;
                        server.pause(&cache, wait).await;
                    }
                }
            });
            let (connection, of) = (self.clone(), cache.clone());
            let settles = supervisor.spawn(format!("settle {}", cache.name()), move || {
                let (connection, cache) = (connection.clone(), of.clone());
                async move { settle_forever(&cache, &connection).await }
            });
            (cache.clone(), Arc::new([task, settles]))
        };
        let tasks: Vec<_> = cluster.caches().iter().map(task).collect();
        let caches = cluster.caches().to_vec();
        let expires = supervisor.spawn("reservations".to_owned(), move || {
            let caches = caches.clone();
            async move {
                loop {
                    tokio::time::sleep(EXPIRES).await;
                    for cache in &caches {
                        cache.expire();
                    }
                }
            }
        });
        Watches { tasks, _expires: Some(expires) }
    }

    /// The current objects of the API server. It is a list, so that the answer has the version up
    /// to which it holds.
    async fn list_now(
        &self,
        cache: &ResourceCache,
        scope: &QueryScope,
    ) -> Result<Listing, DirectReadError> {
        let (namespace, name) = match scope {
            QueryScope::All => (cache.namespace(), None),
            QueryScope::Namespace(namespace) => (Some(namespace.as_str()), None),
            QueryScope::Object(key) => {
                (Some(&*key.namespace).filter(|namespace| !namespace.is_empty()), Some(&*key.name))
            }
        };
        match self.0.list(cache, namespace, name, ReadPriority::Request).await {
            Ok(listing) => Ok(listing),
            // The watch has found that, too.
            Err(ApiError::Absent) if cache.status().cache_status == CacheStatus::NotInstalled => {
                let version = cache.missing_version().map(|version| version.to_string());
                Ok(Listing { version: version.unwrap_or_default(), ..cache.empty() })
            }
            Err(trouble) => Err(DirectReadError(format!(
                "{}: {}",
                cache.resource(),
                trouble.message_for(cache)
            ))),
        }
    }
}

impl DirectReadSource for Connection {
    fn list<'a>(
        &'a self,
        cache: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        Box::pin(self.list_now(cache, scope))
    }

    fn sample<'a>(
        &'a self,
        sample_request: &'a SampleRequest,
    ) -> BoxFuture<'a, Result<Sample, SampleError>> {
        Box::pin(self.0.sample(sample_request))
    }
}

/// The watches of cluster state. They end with it, except for those that other cluster state
/// shares.
#[derive(Debug, Default)]
pub struct Watches {
    /// For each kind, the watch and the reads that settle its reservations.
    tasks: Vec<(Arc<ResourceCache>, Arc<[SupervisedTask; 2]>)>,
    _expires: Option<SupervisedTask>,
}
