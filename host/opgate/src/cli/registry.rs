//! Registries on the command line: access to them, and cached results.
//!
//! ```text
//! opgate.yaml ─▶ Configuration ─▶ resolve ─ known ───────────────▶ Configuration with components and digests ─▶ Set::load
//!                                    └── not known ─▶ Registry ─▶┘
//! ```
//!
//! A server checks its configuration periodically. Results are cached, so that a check contacts no registry:
//! a digest while it is configured, a tag until the text of the configuration changes, an error for a limited
//! time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli::exit::CommandError;
use opgate_admission::policy::{Configuration, Mode, PullError, ResolvedComponent, SignatureKey};
use opgate_engine::MAX_COMPONENT;
use opgate_registry::{
    Cache, Credentials, Digest, Limits, Options, Proxies, PublicKeys, PulledComponent, Reference,
    Registry, Repository, SCHEME,
};

/// The reason why public keys cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct KeyError(String);

/// Components that are pulled at a time.
const MAX_PARALLEL_PULLS: usize = 4;

/// Bytes of a file with public keys.
const MAX_KEY_FILE_BYTES: u64 = 64 << 10;

/// Flags for access to registries.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct RegistryArgs {
    /// Docker configuration with credentials of registries [default: config.json in `DOCKER_CONFIG`, or in ~/.docker]
    #[arg(long, value_name = "FILE", env = "OPGATE_REGISTRY_CONFIG")]
    registry_config: Option<PathBuf>,
    /// Additional CAs of registries, PEM
    #[arg(long, value_name = "FILE", env = "OPGATE_REGISTRY_CA")]
    registry_ca: Option<PathBuf>,
    /// Registry to contact without TLS (HOST or HOST:PORT); may be repeated
    #[arg(long, value_name = "HOST", env = "OPGATE_REGISTRY_INSECURE", value_delimiter = ',')]
    registry_insecure: Vec<String>,
    /// Cached results. Clones share them.
    #[arg(skip)]
    resolution_cache: Arc<Mutex<ResolutionCache>>,
}

/// Key of a cached result: the reference, and the keys as PEM.
type ResolutionKey = (Reference, String);

/// Cached results.
#[derive(Debug, Default)]
struct ResolutionCache {
    /// The digest of the configuration that tags were resolved for.
    configuration_digest: Option<String>,
    resolutions: BTreeMap<ResolutionKey, Resolution>,
    /// The digests that tags had in this process.
    tags: BTreeMap<Reference, Digest>,
}

#[derive(Debug, Clone)]
enum Resolution {
    Found(ResolvedComponent),
    /// Asked again after this time, and if it fails again, after twice as long.
    Failed {
        why: PullError,
        retry_at: Instant,
        retry_delay: Duration,
    },
}

/// The first and the last wait after a failure.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(10);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(300);

impl ResolutionCache {
    /// Keeps what counts for a configuration.
    fn retain_for(&mut self, text: Option<&str>, wanted: &[ComponentRequest]) {
        let is_same = self.configuration_digest.as_deref() == text;
        self.configuration_digest = text.map(str::to_owned);
        self.resolutions.retain(|question, answer| {
            let is_pinned = question.0.digest().is_some();
            let is_found = matches!(answer, Resolution::Found(_));
            wanted.iter().any(|one| one.key == *question) && (is_same || is_pinned && is_found)
        });
        self.tags.retain(|reference, _| wanted.iter().any(|one| one.key.0 == *reference));
    }

    /// Returns the cached result, if it is still valid.
    fn get(
        &self,
        question: &ResolutionKey,
        now: Instant,
    ) -> Option<Result<ResolvedComponent, PullError>> {
        match self.resolutions.get(question)? {
            Resolution::Found(found) => Some(Ok(found.clone())),
            Resolution::Failed { why, retry_at: again, .. } if now < *again => {
                Some(Err(why.clone()))
            }
            Resolution::Failed { .. } => None,
        }
    }

    fn record(
        &mut self,
        question: &ResolutionKey,
        found: &Result<ResolvedComponent, PullError>,
        now: Instant,
    ) {
        let answer = match found {
            Ok(found) => Resolution::Found(found.clone()),
            Err(why) => {
                let wait = match self.resolutions.get(question) {
                    Some(Resolution::Failed { retry_delay: wait, .. }) => {
                        wait.saturating_mul(2).min(MAX_RETRY_DELAY)
                    }
                    _ => MIN_RETRY_DELAY,
                };
                Resolution::Failed { why: why.clone(), retry_at: now + wait, retry_delay: wait }
            }
        };
        self.resolutions.insert(question.clone(), answer);
    }
}

/// A component to resolve for a policy.
struct ComponentRequest {
    policy: String,
    key: ResolutionKey,
    keys: Option<PublicKeys>,
}

/// Reports whether an argument is a reference, and no file or name.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with(SCHEME)
}

impl RegistryArgs {
    /// Creates the registry client for these arguments.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(super) fn registry(&self) -> anyhow::Result<Registry> {
        let credentials = match &self.registry_config {
            Some(path) => Credentials::read(path),
            None => Credentials::from_user(),
        };
        let options = Options {
            credentials: credentials?,
            ca: self.registry_ca.clone(),
            insecure: self.registry_insecure.iter().map(|host| host.trim().to_owned()).collect(),
            proxies: Proxies::from_environment()?,
            limits: Limits::of(MAX_COMPONENT),
        };
        Ok(Registry::new(options)?)
    }

    /// Pulls one component, and nothing of it from a cache.
    pub(super) fn pull(
        &self,
        reference: &str,
        keys: Option<&PublicKeys>,
    ) -> Result<(Reference, PulledComponent), CommandError> {
        let reference = parse_reference(reference)?;
        let registry = self.registry()?;
        let pulled = run_on_runtime(async || registry.pull(&reference, keys, None).await)?;
        Ok((reference, pulled.map_err(CommandError::engine)?))
    }

    /// Finds the components that a configuration names. Policies that are off need none.
    ///
    /// # Errors
    /// Fails if a reference or a key is invalid, or if a file that these arguments name is unusable. An
    /// unavailable component makes its policy broken, as a missing file does.
    pub(super) fn resolve(
        &self,
        configuration: &mut Configuration,
        cache: Option<&Path>,
    ) -> anyhow::Result<()> {
        let wanted = component_requests(configuration)?;
        // Lookups are serialized, so that none is repeated.
        let mut known = self.resolution_cache.lock();
        known.retain_for(configuration.text_digest(), &wanted);
        let now = Instant::now();
        let mut unknown = Vec::new();
        for one in wanted {
            match known.get(&one.key, now) {
                Some(found) => configuration.resolve(&one.policy, found),
                None => unknown.push(one),
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let registry = Arc::new(self.registry()?);
        let cache = cache.and_then(|directory| {
            let opened = Cache::open(&directory.join("oci"));
            opened.inspect_err(|error| tracing::warn!(%error, "registry cache not available")).ok()
        });
        let cache = cache.map(Arc::new);
        let pulled = run_on_runtime(async || pull_all(unknown, &registry, cache.as_ref()).await)?;
        for (one, pulled) in pulled {
            let found = pulled.map(|pulled| {
                known.log_component(&one, &pulled.digest, cache.as_deref());
                let digest = pulled.digest.as_str().to_owned();
                ResolvedComponent { digest, component: pulled.component.into() }
            });
            known.record(&one.key, &found, Instant::now());
            configuration.resolve(&one.policy, found);
        }
        Ok(())
    }

    /// Asks for all tags again at the next look, and for what failed.
    pub(super) fn expire_tags(&self) {
        self.resolution_cache.lock().configuration_digest = None;
    }
}

impl ResolutionCache {
    /// Writes to the log which component it is, and whether a tag was moved.
    fn log_component(&mut self, wanted: &ComponentRequest, digest: &Digest, cache: Option<&Cache>) {
        let ComponentRequest { policy, key: (reference, _), keys } = wanted;
        let (policy, is_signed) = (policy.as_str(), keys.is_some());
        tracing::info!(policy, %reference, %digest, signed = is_signed, "component from a registry");
        if reference.digest().is_some() {
            return;
        }
        let noted = cache.and_then(|cache| cache.record_tag(reference, digest));
        let before = self.tags.insert(reference.clone(), digest.clone()).or(noted);
        if let Some(before) = before.filter(|before| before != digest) {
            tracing::warn!(
                policy, %reference, %digest, %before,
                "the tag has another digest than before: write the digest to decide when a policy changes"
            );
        }
    }
}

/// Lists the registry references of a configuration.
///
/// # Errors
/// Each reference and each key that is wrong, with its place.
fn component_requests(configuration: &Configuration) -> anyhow::Result<Vec<ComponentRequest>> {
    let mut wanted = Vec::new();
    let mut errors = Vec::new();
    for (policy, remote) in configuration.registry_references() {
        let wrong = |pointer: &str, why: &str| {
            opgate_text::one_line(&configuration.locate(policy, pointer, why), 4 << 10)
        };
        let reference =
            Reference::parse(&remote.reference).map_err(|e| wrong("/module", &e.to_string()));
        let keys = policy.signature.as_ref().map(configured_keys).transpose();
        let name = policy.signed_repository.as_deref();
        let repository = name.map(Repository::parse).transpose();
        let keys = keys.map_err(|e| wrong("/signature/key", &e.to_string())).and_then(|keys| {
            let repository =
                repository.map_err(|e| wrong("/signature/repository", &e.to_string()))?;
            // A lookup of the keys for another repository is a different one.
            let text = |text: String| format!("{text}\n{}", name.unwrap_or_default());
            Ok(keys.map(|(keys, pem)| (keys.for_repository(repository), text(pem))))
        });
        match (reference, keys) {
            (Ok(_), Ok(_)) if policy.mode == Mode::Off => {}
            (Ok(reference), Ok(keys)) => {
                let (keys, text) = keys.map_or((None, String::new()), |(k, text)| (Some(k), text));
                let policy = policy.name.clone();
                wanted.push(ComponentRequest { policy, key: (reference, text), keys });
            }
            (reference, keys) => errors.extend(reference.err().into_iter().chain(keys.err())),
        }
    }
    if !errors.is_empty() {
        anyhow::bail!(errors.join("\n"));
    }
    Ok(wanted)
}

type PullResult = (ComponentRequest, Result<PulledComponent, PullError>);

async fn pull_all(
    wanted: Vec<ComponentRequest>,
    registry: &Arc<Registry>,
    cache: Option<&Arc<Cache>>,
) -> Vec<PullResult> {
    let permits = Arc::new(Semaphore::new(MAX_PARALLEL_PULLS));
    let mut tasks = JoinSet::new();
    for one in wanted {
        let (permits, registry, cache) = (permits.clone(), registry.clone(), cache.cloned());
        tasks.spawn(async move {
            let _place = permits.acquire_owned().await;
            let pulled = registry.pull(&one.key.0, one.keys.as_ref(), cache.as_deref()).await;
            (one, pulled.map_err(|error| PullError(error.to_string())))
        });
    }
    tasks.join_all().await
}

/// Reads a reference of the command line.
pub(super) fn parse_reference(reference: &str) -> anyhow::Result<Reference> {
    Ok(Reference::parse(reference)?)
}

/// Returns the keys of a configuration, and their text.
fn configured_keys(key: &SignatureKey) -> Result<(PublicKeys, String), KeyError> {
    match key {
        SignatureKey::Pem(text) => {
            let keys = PublicKeys::parse(text).map_err(|why| KeyError(why.to_string()))?;
            Ok((keys, text.clone()))
        }
        SignatureKey::File(path) => read_keys(path),
    }
}

/// Returns the keys in a file, and their text.
///
/// # Errors
/// Returns the error of an invalid key file.
pub(super) fn read_keys(path: &Path) -> Result<(PublicKeys, String), KeyError> {
    let named = |why: String| KeyError(format!("{}: {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| named(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MAX_KEY_FILE_BYTES {
        return Err(named("not a file with public keys".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    Ok((PublicKeys::parse(&text).map_err(|why| named(why.to_string()))?, text))
}

/// Runs a registry operation on a separate thread: the caller may be on a runtime.
pub(super) fn run_on_runtime<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> anyhow::Result<T> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let done = runtime.block_on(work());
            // A name lookup can outlast the timeout.
            runtime.shutdown_background();
            Ok(done)
        });
        match thread.join() {
            Ok(done) => done.context("registries"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_registry_answers_are_resolved_again() {
        let now = Instant::now();
        let question = |text: &str| (Reference::parse(text).unwrap(), String::new());
        let tag = question("oci://localhost/a:v1");
        let pinned = question(&format!("oci://localhost/a@sha256:{}", "0".repeat(64)));
        let gone = question("oci://localhost/gone:v1");
        let found =
            || Ok(ResolvedComponent { digest: "sha256:1".to_owned(), component: Arc::from([]) });
        let wanted = || {
            let one = |question: &ResolutionKey| ComponentRequest {
                policy: "a".to_owned(),
                key: question.clone(),
                keys: None,
            };
            [&tag, &pinned, &gone].map(one)
        };
        let mut known = ResolutionCache::default();
        known.retain_for(Some("1"), &wanted());
        known.record(&tag, &found(), now);
        known.record(&pinned, &found(), now);
        known.record(&gone, &Err(PullError("404".to_owned())), now);
        // While the configuration is unchanged.
        known.retain_for(Some("1"), &wanted());
        assert!(known.get(&tag, now).is_some() && known.get(&pinned, now).is_some());
        // A failed lookup is repeated with increasing delays.
        for wait in [10, 20, 40, 80, 160, 300, 300] {
            let wait = Duration::from_secs(wait);
            assert!(known.get(&gone, now + wait / 2).is_some_and(|answer| answer.is_err()));
            assert!(known.get(&gone, now + wait).is_none());
            known.record(&gone, &Err(PullError("404".to_owned())), now);
        }
        // With another text, tags and failures are looked up again.
        known.retain_for(Some("2"), &wanted());
        assert!(known.get(&tag, now).is_none() && known.get(&gone, now).is_none());
        assert!(known.get(&pinned, now).is_some());
        // Unused results are dropped, and a reference with other keys is a different lookup.
        let signed = (pinned.0.clone(), "PEM".to_owned());
        assert!(known.get(&signed, now).is_none());
        known.retain_for(Some("2"), &[]);
        assert!(known.get(&pinned, now).is_none());
    }
}
