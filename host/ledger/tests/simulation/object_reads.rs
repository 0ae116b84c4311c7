//! Watches and direct reads of objects, whose results settle the reservations of replicas.

use opgate_ledger::{EntryId, Input, Outcome};

use crate::cluster::{Event, Simulation};
use crate::common::request_id;
use crate::request::{Key, Object, Phase, Request, key_of};

impl Simulation {
    /// Adds the event of an object to all watches.
    pub(crate) fn changed(&mut self, key: Key) {
        self.version += 1;
        let (version, object) = (self.version, self.objects.get(&key).cloned());
        for number in 0..self.replicas.len() {
            let at = self.now + self.random.between(1, self.setup.max_watch_lag);
            let last = &mut self.replicas[number].watch_times[key.0];
            *last = at.max(*last);
            let at = *last;
            self.schedule(at, Some(number), Event::ShowObject(key.0, version, key, object.clone()));
        }
    }

    pub(crate) fn show_object(
        &mut self,
        number: usize,
        resource: usize,
        version: u64,
        key: Key,
        object: Option<Object>,
    ) {
        let replica = &mut self.replicas[number];
        let view = &mut replica.views[resource];
        if view.0 >= version {
            return;
        }
        view.0 = version;
        if view.1.get(&key).is_some_and(|known| known.version > version) {
            // A direct read has found a later one.
            return;
        }
        match &object {
            Some(object) => view.1.insert(key, object.clone()),
            None => view.1.remove(&key),
        };
        let Some(object) = object else { return };
        let shows = |request: &Request| {
            request.is_reserved
                && request.key == key
                && match request.base {
                    None => request.uid == object.uid,
                    Some(base) => object.version > base,
                }
        };
        let own: Vec<_> =
            replica.made.iter().filter(|made| shows(&self.requests[**made])).collect();
        let own: Vec<_> = own.into_iter().copied().collect();
        let mut imported = Vec::new();
        for (id, known) in &mut replica.imported {
            if key_of(&known.entry) != key {
                continue;
            }
            let is_settled = if known.entry.is_creation() {
                known.uids.remove(&object.uid) && known.uids.is_empty()
            } else {
                object.version > known.entry.base_version.parse().unwrap()
            };
            if is_settled {
                imported.push((id.clone(), known.entry.renewal));
            }
        }
        for request in own {
            if matches!(self.requests[request].phase, Phase::Appended) {
                continue;
            }
            self.settle_own(request, Outcome::Stored(object.version));
        }
        for (id, renewal) in imported {
            self.replicas[number].imported.remove(&id);
            let outcome = Outcome::Stored(object.version);
            self.input(number, Input::SettleImported { id, renewal, outcome });
        }
    }

    fn settle_own(&mut self, number: usize, outcome: Outcome) {
        self.requests[number].is_reserved = false;
        self.input(self.requests[number].replica, Input::Settle(request_id(number), outcome));
    }

    pub(crate) fn read_own(&mut self, number: usize) {
        let request = &self.requests[number];
        if !request.is_reserved {
            return;
        }
        let replica = &self.replicas[request.replica];
        let began = replica.clock(self.now);
        let outcome = match self.objects.get(&request.key) {
            Some(object) => self.found(request.replica, request.key, object.clone()),
            None => Outcome::Absent { began },
        };
        self.settle_own(number, outcome);
    }

    /// Takes an object that a direct read has found into the view: it counts as stored.
    fn found(&mut self, number: usize, key: Key, object: Object) -> Outcome {
        let version = object.version;
        self.replicas[number].views[key.0].1.insert(key, object);
        Outcome::Stored(version)
    }

    pub(crate) fn read_imported(&mut self, number: usize, id: &EntryId, renewal: u32) {
        let replica = &self.replicas[number];
        let Some(known) = replica.imported.get(id) else { return };
        let began = replica.clock(self.now);
        if known.entry.renewal != renewal || began < known.ends {
            return;
        }
        let key = key_of(&known.entry);
        let outcome = match self.objects.get(&key) {
            Some(object) => self.found(number, key, object.clone()),
            None => Outcome::Absent { began },
        };
        self.replicas[number].imported.remove(id);
        self.input(number, Input::SettleImported { id: id.clone(), renewal, outcome });
    }
}
