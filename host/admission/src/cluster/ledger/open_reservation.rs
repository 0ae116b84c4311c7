//! One reservation of this replica on its way into the ledger.

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::Key;
use opgate_ledger::{Change, RequestId, Resource, Tenant as LedgerTenant};
use tokio::time::Instant;

use super::share_error::ShareError;
use super::shared_content::{SharedContent, resource_name};
use super::shared_reservations::{Evaluated, LedgerMark, SharedQuery, SharedReservations};
use crate::cluster::reservations::{ReservationId, Tenant};
use crate::cluster::store::cache::ReservationCounters;
use crate::cluster::{ObjectWrite, ResourceCache};

/// A reservation that the ledger does not have yet. Unless it is shared, it is
/// withdrawn.
#[derive(Debug)]
pub struct OpenReservation {
    shared: Arc<SharedReservations>,
    id: ReservationId,
    request: RequestId,
    key: Key,
    caches: Vec<Arc<ResourceCache>>,
    change: Option<Change>,
    uid: String,
    base_version: String,
    /// The end of its time, which is extended while it waits.
    held_until: Instant,
    /// The reservations that existed before the first query of the evaluation.
    seen: Vec<(Arc<ResourceCache>, ReservationCounters)>,
    is_committed: bool,
}

impl OpenReservation {
    /// A reservation that was just made in these caches.
    pub(in crate::cluster) fn new(
        shared: Arc<SharedReservations>,
        id: ReservationId,
        write: &ObjectWrite,
        base_version: &str,
        tenant: &Tenant,
        caches: Vec<Arc<ResourceCache>>,
        seen: Vec<(Arc<ResourceCache>, ReservationCounters)>,
    ) -> Self {
        let held_until = Instant::now() + reservation_ttl(&caches);
        let request = RequestId(match &id {
            ReservationId::Own(number) => *number,
            ReservationId::Foreign(_) => 0,
        });
        let object = write.object.as_ref().map(|object| object.root());
        let encode = || SharedContent::of(&caches)?.encode(object?);
        let uid = object.and_then(|object| object.get("/metadata/uid")?.text().map(str::to_owned));
        let change = encode().zip(write.resource.as_ref()).map(|(projection, resource)| Change {
            tenant: LedgerTenant {
                namespace: tenant.namespace.clone(),
                user: (*tenant.user).into(),
            },
            resource: Resource::new(&resource_name(&resource.0, &resource.1)),
            namespace: write.key.namespace.clone(),
            name: write.key.name.clone(),
            is_creation: base_version.is_empty(),
            projection: projection.into(),
        });
        Self {
            shared,
            id,
            request,
            key: write.key.clone(),
            caches,
            change,
            uid: uid.unwrap_or_default(),
            base_version: base_version.to_owned(),
            held_until,
            seen,
            is_committed: false,
        }
    }

    /// Waits until the ledger has the reservation. `queries` are those of the evaluation, and
    /// `mark` is from before the first of them.
    ///
    /// # Errors
    /// If it does not have it. The reservation is withdrawn then.
    pub(crate) async fn share(
        mut self,
        queries: Vec<SharedQuery>,
        mark: LedgerMark,
        deadline: Instant,
    ) -> Result<(), ShareError> {
        let Some(change) = self.change.take() else {
            return Err(ShareError::Unavailable("the object cannot be read".to_owned()));
        };
        let evaluated = Evaluated { queries, seen: self.seen.clone() };
        let (shared, uid, base) =
            (self.shared.clone(), self.uid.clone(), self.base_version.clone());
        let append = shared.append(self.request, change, &uid, &base, mark, evaluated, deadline);
        let mut append = std::pin::pin!(append);
        loop {
            // An append can take longer than the time of a reservation. If the reservation ended
            // meanwhile, its entry would be removed as one that is never stored.
            let half = self.held_until - reservation_ttl(&self.caches) / 2;
            tokio::select! {
                biased;
                result = &mut append => {
                    result?;
                    break;
                }
                () = tokio::time::sleep_until(half) => self.extend()?,
            }
        }
        // The API server may store the object until this long after the response.
        self.extend()?;
        self.is_committed = true;
        Ok(())
    }

    /// Restarts the time of the reservation.
    ///
    /// # Errors
    /// If it is over: the process was suspended, and the reservation may have been settled.
    fn extend(&mut self) -> Result<(), ShareError> {
        let now = Instant::now();
        if now >= self.held_until {
            return Err(ShareError::Late);
        }
        for cache in &self.caches {
            cache.restart_reservation(&self.key, &self.id);
        }
        self.held_until = now + reservation_ttl(&self.caches);
        Ok(())
    }
}

/// The time for which caches keep a reservation: the shortest one.
fn reservation_ttl(caches: &[Arc<ResourceCache>]) -> Duration {
    caches.iter().map(|cache| cache.reservation_ttl()).min().unwrap_or_default()
}

impl Drop for OpenReservation {
    /// Also if the client has closed its connection during the wait.
    fn drop(&mut self) {
        if !self.is_committed {
            for cache in &self.caches {
                cache.withdraw(&self.key, &self.id);
            }
            self.shared.withdraw(self.request);
        }
    }
}
