//! Facts about a cluster, which are collected before the checks run.
//!
//! ```text
//! API server ─▶ live ──┐
//!                      ├─▶ Facts: objects by kind, or why they are not known ─▶ checks
//! files ─────▶ dumped ─┤
//! port ──────▶ served ─┤   the chain that is shown
//! pods ──────▶ live ───┤   what servers know of the cluster, where no Lease says it
//! configuration ▶ expected   the registration and the permissions that belong to it
//! ```

pub(crate) mod audit;
pub(crate) mod expected;
pub(crate) mod from_files;
pub(crate) mod hooks;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod object;
pub(crate) mod related_objects;
pub(crate) mod tls_probe;
pub(crate) mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use opgate_admission::cluster::ApiGroup;
use opgate_admission::policy::Platform;
use opgate_controller::{NAME_LABEL, OWNER_ANNOTATION};
use opgate_server::ClusterStatus;

use self::expected::ExpectedObjects;
use self::hooks::{Hook, hooks};
use self::object::{Kind, Object};
use self::tls_probe::TlsProbe;

/// The reason why something about the cluster is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FactError(pub(crate) String);

/// The Secret with the certificate, where no volume names another one.
pub(crate) const DEFAULT_SECRET: &str = "opgate-tls";

/// The installation that is examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Its namespace.
    pub namespace: String,
    /// Name of its Service.
    pub service: String,
    /// Instead of the Service: the beginning of the URL of the webhooks.
    pub url: Option<String>,
}

impl Installation {
    /// Returns `NAMESPACE/SERVICE`.
    pub fn owner(&self) -> String {
        format!("{}/{}", self.namespace, self.service)
    }
}

/// The clock of the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Difference from the local time.
    pub(crate) skew: Duration,
    pub(crate) is_ahead: bool,
    /// Uncertainty of the time.
    pub(crate) uncertainty: Duration,
}

/// Collected facts.
#[derive(Debug)]
pub struct Facts {
    /// The installation that is examined.
    pub installation: Installation,
    /// Whether a cluster was read, or what one has printed; otherwise manifests.
    pub(crate) is_cluster: bool,
    pub(crate) now: SystemTime,
    /// `v1.33.1`
    pub(crate) version: Option<String>,
    pub(crate) clock: Option<Clock>,
    /// Earliest time at which the files were written: their contents are not older.
    pub(crate) dump_time: Option<SystemTime>,
    /// The certificates that a server shows.
    pub tls_probe: TlsProbe,
    /// State of the cluster caches as servers reported it, by pod, or the error.
    pub(crate) cache_states: BTreeMap<String, Result<ClusterStatus, FactError>>,
    /// The objects that follow from the configuration.
    pub expected: ExpectedObjects,
    objects: BTreeMap<Kind, BTreeMap<(String, String), Object>>,
    /// Why a kind, or a part of it, is not known.
    unread_kinds: BTreeMap<Kind, String>,
    /// Reads that failed.
    pub(crate) failed_reads: Vec<(String, String)>,
    /// Services of others that could not be read, namespace and name.
    pub(crate) unreachable: BTreeSet<(String, String)>,
    /// The platform of the cluster, or the error of its detection; none if it was not requested.
    pub(crate) platform: Option<Result<Platform, FactError>>,
    /// The API groups that the cluster serves, or the error; none if they were not requested.
    pub(crate) api_groups: Option<Result<Vec<ApiGroup>, FactError>>,
    /// Service accounts with the role of OLM, as users.
    pub(crate) olm_accounts: BTreeSet<String>,
}

impl Facts {
    pub(crate) fn new(installation: Installation, is_cluster: bool) -> Self {
        Self {
            installation,
            is_cluster,
            now: SystemTime::now(),
            version: None,
            clock: None,
            dump_time: None,
            cache_states: BTreeMap::new(),
            tls_probe: TlsProbe::NotAttempted(String::new()),
            expected: ExpectedObjects::default(),
            objects: BTreeMap::new(),
            unread_kinds: BTreeMap::new(),
            failed_reads: Vec::new(),
            unreachable: BTreeSet::new(),
            platform: None,
            api_groups: None,
            olm_accounts: BTreeSet::new(),
        }
    }

    /// Returns the time in the cluster when it was read.
    pub(crate) fn cluster_time(&self) -> SystemTime {
        match (self.clock, self.dump_time) {
            (Some(Clock { skew: apart, is_ahead: true, .. }), _) => self.now + apart,
            (Some(Clock { skew: apart, is_ahead: false, .. }), _) => self.now - apart,
            (None, Some(dumped)) => dumped,
            (None, None) => self.now,
        }
    }

    pub(crate) fn insert(&mut self, object: Object) {
        let key = (object.namespace.clone(), object.name.clone());
        self.objects.entry(object.kind).or_default().insert(key, object);
    }

    #[cfg(test)]
    pub(crate) fn remove(&mut self, kind: Kind, namespace: &str, name: &str) -> Option<Object> {
        let key = (namespace.to_owned(), name.to_owned());
        self.objects.get_mut(&kind)?.remove(&key)
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.objects.get(&kind).map_or(0, BTreeMap::len)
    }

    /// Says why a kind is not known. The first reason counts.
    pub(crate) fn set_unread(&mut self, kind: Kind, why: String) {
        self.unread_kinds.entry(kind).or_insert(why);
    }

    /// Returns an error if the relevant objects of a kind are unknown.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn ensure_known(&self, kind: Kind) -> Result<(), &str> {
        self.unread_kinds.get(&kind).map_or(Ok(()), |why| Err(why))
    }

    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// Iterates over the objects in the namespace of the installation.
    pub(crate) fn own_objects(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.all(kind).filter(|object| object.namespace == self.installation.namespace)
    }

    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.get(&kind)?.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns the Service of the installation.
    pub(crate) fn service(&self) -> Option<&Object> {
        let Installation { namespace, service, .. } = &self.installation;
        self.get(Kind::Service, namespace, service)
    }

    /// Returns the webhooks that call this installation.
    pub(crate) fn own_hooks(&self) -> Vec<Hook<'_>> {
        let all = self.all(Kind::ValidatingWebhookConfiguration).flat_map(hooks);
        all.filter(|hook| self.is_own_hook(hook)).collect()
    }

    fn is_own_hook(&self, hook: &Hook<'_>) -> bool {
        let Installation { namespace, service, url } = &self.installation;
        match (url, hook.service()) {
            (Some(url), _) => hook.url().is_some_and(|called| called.starts_with(url.as_str())),
            (None, Some(called)) => called.namespace == namespace && called.name == service,
            (None, None) => false,
        }
    }

    /// Returns the configurations with such webhooks, or with our annotation.
    pub(crate) fn registrations(&self) -> Vec<&Object> {
        let owner = self.installation.owner();
        let all = self.all(Kind::ValidatingWebhookConfiguration);
        all.filter(|object| {
            object.annotation(OWNER_ANNOTATION) == Some(&owner)
                || hooks(object).any(|hook| self.is_own_hook(&hook))
        })
        .collect()
    }

    /// Returns the labels of a namespace; those that every namespace has, if it is unknown.
    pub(crate) fn namespace_labels<'f>(&'f self, name: &'f str) -> BTreeMap<&'f str, &'f str> {
        let known = self.get(Kind::Namespace, "", name);
        let mut labels = known.map(Object::labels).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name", name);
        labels
    }
}

/// Returns the installations that objects identify: by the annotation of a webhook configuration, or by the
/// called Service.
pub(crate) fn installations<'o>(
    configurations: impl Iterator<Item = &'o Object>,
) -> Vec<Installation> {
    let mut found = BTreeSet::new();
    for object in configurations {
        let is_named = object.label(NAME_LABEL.0) == Some(NAME_LABEL.1) || object.name == "opgate";
        if let Some((namespace, service)) =
            object.annotation(OWNER_ANNOTATION).and_then(|o| o.split_once('/'))
        {
            found.insert((namespace.to_owned(), service.to_owned()));
            continue;
        }
        for hook in hooks(object) {
            let is_path = hook.path() == "/validate" || hook.path().starts_with("/validate/");
            if let Some(called) = hook.service()
                && (is_named || called.name == "opgate" && is_path)
            {
                found.insert((called.namespace.to_owned(), called.name.to_owned()));
            }
        }
    }
    let installation = |(namespace, service)| Installation { namespace, service, url: None };
    found.into_iter().map(installation).collect()
}
