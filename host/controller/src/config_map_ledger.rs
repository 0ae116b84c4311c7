//! The ledger of all replicas: a ConfigMap in the namespace of the installation.
//!
//! ```text
//! SharedReservations ─▶ ConfigMapLedger ─┬▶ Api: get, create, replace, delete of one ConfigMap
//!                                        ├▶ watch_object: its later versions
//!                                        └▶ Connection: the version of a resource
//! ```
//!
//! The namespace is excluded from opgate's own webhooks, so that a write of the ledger never waits
//! for a review. Only administrators can write there.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use opgate_admission::cluster::{Connection, LedgerStore, ResourceCache, StoreError, StoredLedger};
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Kind, text, version};
use crate::clock::parse_time;
use crate::object_watch::watch_object;
use crate::{Installation, NAME_LABEL};

/// Name of the ConfigMap.
pub const LEDGER_NAME: &str = "opgate-reservations";

/// Its key with the ledger.
const LEDGER_KEY: &str = "ledger.json";

/// The ledger at an API server.
pub struct ConfigMapLedger {
    api: Arc<dyn Api>,
    connection: Connection,
    namespace: String,
}

impl std::fmt::Debug for ConfigMapLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMapLedger")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ConfigMapLedger {
    /// The ledger of an installation.
    #[must_use]
    pub fn new(api: Arc<dyn Api>, connection: Connection, installation: &Installation) -> Self {
        Self { api, connection, namespace: installation.namespace.clone() }
    }

    fn object(&self, ledger: &str, of: Option<(&str, &str)>) -> Value {
        let mut metadata = json!({
            "name": LEDGER_NAME,
            "namespace": self.namespace,
            "labels": { NAME_LABEL.0: NAME_LABEL.1 },
            "annotations": { "opgate.dev/description": "Open reservations of all opgate servers. Do not edit." },
        });
        if let (Some((uid, version)), Some(metadata)) = (of, metadata.as_object_mut()) {
            metadata.insert("uid".to_owned(), uid.into());
            metadata.insert("resourceVersion".to_owned(), version.into());
            // The API server tracks no field owners of the object any more, which costs a seventh of each write.
            metadata.insert("managedFields".to_owned(), json!([{}]));
        }
        json!({
            "apiVersion": Kind::ConfigMap.api_version(),
            "kind": Kind::ConfigMap.name(),
            "metadata": metadata,
            "data": { LEDGER_KEY: ledger },
        })
    }

    fn stored(&self, object: &Value) -> StoredLedger {
        let created = parse_time(text(object, "/metadata/creationTimestamp"));
        StoredLedger {
            uid: text(object, "/metadata/uid").to_owned(),
            version: version(object).to_owned(),
            text: object
                .pointer("/data")
                .and_then(|data| data.get(LEDGER_KEY)?.as_str())
                .unwrap_or_default()
                .to_owned(),
            age: self.api.date().zip(created).and_then(|(now, created)| age(now, created)),
        }
    }
}

/// The time between both by the clock of the API server, which has full seconds: at least this long.
fn age(now: SystemTime, created: SystemTime) -> Option<Duration> {
    now.duration_since(created).ok().map(|age| age.saturating_sub(Duration::from_secs(1)))
}

impl LedgerStore for ConfigMapLedger {
    fn read(&self) -> BoxFuture<'_, Result<Option<StoredLedger>, StoreError>> {
        Box::pin(async {
            match self.api.get(Kind::ConfigMap, &self.namespace, LEDGER_NAME).await {
                Ok(object) => Ok(Some(self.stored(&object))),
                Err(ApiError::NotFound(_)) => Ok(None),
                Err(error) => Err(store_error(error)),
            }
        })
    }

    fn watch(&self) -> BoxStream<'_, Result<Option<StoredLedger>, StoreError>> {
        let client = self.connection.client();
        let versions = watch_object(client, Kind::ConfigMap, &self.namespace, LEDGER_NAME);
        Box::pin(versions.map(|version| match version {
            Ok(object) => Ok(object.map(|object| self.stored(&object))),
            Err(error) => Err(store_error(error)),
        }))
    }

    fn create(&self, text: String) -> BoxFuture<'_, Result<StoredLedger, StoreError>> {
        Box::pin(async move {
            let object = self.object(&text, None);
            let created = self.api.create(Kind::ConfigMap, &self.namespace, object).await;
            created.map(|object| self.stored(&object)).map_err(store_error)
        })
    }

    fn replace<'a>(
        &'a self,
        uid: &'a str,
        version: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<StoredLedger, StoreError>> {
        Box::pin(async move {
            let object = self.object(&text, Some((uid, version)));
            let replaced = self.api.replace(Kind::ConfigMap, &self.namespace, object).await;
            replaced.map(|object| self.stored(&object)).map_err(store_error)
        })
    }

    fn delete<'a>(&'a self, _: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let deleted = self.api.delete(Kind::ConfigMap, &self.namespace, LEDGER_NAME, version);
            deleted.await.map_err(store_error)
        })
    }

    fn version_of<'a>(&'a self, cache: &'a ResourceCache) -> BoxFuture<'a, Option<u64>> {
        Box::pin(self.connection.version_of(cache))
    }
}

fn store_error(error: ApiError) -> StoreError {
    match error {
        ApiError::NotFound(why) | ApiError::AlreadyExists(why) | ApiError::Conflict(why) => {
            StoreError::Conflict(why)
        }
        ApiError::Unauthorized(_) | ApiError::Forbidden(_) | ApiError::Invalid(_) => {
            StoreError::Rejected(error.to_string())
        }
        ApiError::Unavailable(why) => StoreError::Unknown(why),
    }
}
