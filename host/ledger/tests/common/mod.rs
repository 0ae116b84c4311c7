//! The ledger of an API server, and requests for tests.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use opgate_ledger::{
    Append, Change, Config, Document, ImportMark, LedgerKey, LedgerUid, LedgerVersion, Limits,
    Observation, ReplicaId, RequestId, Resource, Tenant, Write, WriteResult,
};

/// One object that is replaced by compare-and-swap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) object: Option<(LedgerKey, Arc<Document>)>,
    pub(crate) uids: u64,
    pub(crate) versions: u64,
}

impl Store {
    /// With a ledger that replicas use at once, and these watermarks.
    pub(crate) fn established(versions: BTreeMap<Resource, u64>) -> Self {
        let mut store = Self::default();
        // The uid of the first object.
        let established = Some("uid-1".into());
        let entries = BTreeMap::new();
        store.create(Arc::new(Document { revision: 1, established, versions, entries }));
        store
    }

    pub(crate) fn read(&self) -> Observation {
        match &self.object {
            Some((key, document)) => Observation::Present(key.clone(), Ok(document.clone())),
            None => Observation::Missing,
        }
    }

    pub(crate) fn put(&mut self, uid: LedgerUid, document: Arc<Document>) -> WriteResult {
        self.versions += 1;
        // Not a number, so that nothing compares it as one.
        let version = LedgerVersion(format!("v{}", self.versions).into());
        let key = LedgerKey { uid, version };
        self.object = Some((key.clone(), document));
        WriteResult::Done(Some(key))
    }

    pub(crate) fn create(&mut self, document: Arc<Document>) -> WriteResult {
        self.uids += 1;
        self.put(LedgerUid(format!("uid-{}", self.uids).into()), document)
    }

    pub(crate) fn write(&mut self, write: &Write) -> WriteResult {
        let current = self.object.as_ref().map(|(key, _)| key);
        match write {
            Write::Create(document) if current.is_none() => self.create(document.clone()),
            Write::Update(key, document) if current == Some(key) => {
                self.put(key.uid.clone(), document.clone())
            }
            Write::Delete(key) if current == Some(key) => {
                self.object = None;
                WriteResult::Done(None)
            }
            _ => WriteResult::Conflict,
        }
    }
}

pub(crate) const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

pub(crate) fn config(replica: &str) -> Config {
    Config {
        replica: ReplicaId::new(replica),
        reservation_ttl: ms(2_000),
        max_hold: ms(12_000),
        removal_delay: ms(1_000),
        retry_delay: ms(50),
        limits: Limits::default(),
    }
}

pub(crate) fn groups() -> Resource {
    Resource::new("operators.coreos.com/operatorgroups")
}

pub(crate) fn request_id(number: usize) -> RequestId {
    RequestId(u64::try_from(number).unwrap())
}

pub(crate) fn request_number(id: RequestId) -> usize {
    usize::try_from(id.0).unwrap()
}

/// A creation that depends on all objects of its resource, of which it has seen those up to `view`.
pub(crate) fn creation(name: &str, mark: ImportMark, view: u64, deadline: Duration) -> Append {
    let tenant = Tenant { namespace: "team".into(), user: "eve".into() };
    let change = Change {
        tenant,
        resource: groups(),
        namespace: "team".into(),
        name: name.into(),
        is_creation: true,
        projection: format!(r#"{{"name":"{name}"}}"#).into(),
    };
    Append {
        change: Arc::new(change),
        uid: Some(format!("uid of {name}").into()),
        base_version: "".into(),
        deadline,
        mark,
        views: BTreeMap::from([(groups(), view)]),
    }
}
