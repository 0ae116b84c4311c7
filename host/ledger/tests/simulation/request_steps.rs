//! The steps of a request: arrival, evaluation, append, response, and storage by the API server,
//! which checks the rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use opgate_ledger::{Append, Change, Input, Tenant};

use crate::cluster::{Event, Simulation};
use crate::common::request_id;
use crate::request::{Evaluation, Key, Object, Phase, Request, affects, resource};
use crate::setup::{TIMEOUT, TTL};

impl Simulation {
    pub(crate) fn arrive(&mut self, number: usize) {
        let object = self.objects.get(&self.requests[number].key);
        self.next_uid += 1;
        let request = &mut self.requests[number];
        (request.uid, request.base) = match object {
            Some(object) => (object.uid, Some(object.version)),
            None => (self.next_uid, None),
        };
        self.evaluate_at(self.now, number);
    }

    /// Plans an evaluation; earlier ones are void.
    pub(crate) fn evaluate_at(&mut self, at: u64, number: usize) {
        let request = &mut self.requests[number];
        request.phase = Phase::Waiting;
        request.attempt += 1;
        let (replica, attempt) = (request.replica, request.attempt);
        self.schedule(at, Some(replica), Event::Evaluate(number, attempt));
    }

    pub(crate) fn evaluate(&mut self, number: usize, attempt: u64) {
        let request = &self.requests[number];
        if request.attempt != attempt {
            return;
        }
        let replica = &self.replicas[request.replica];
        let (version, view) = &replica.views[request.key.0];
        // A direct read, if the view has not reached the version after a while.
        let is_direct = *version < request.must_reach;
        let (version, objects) =
            if is_direct { (self.version, &self.objects) } else { (*version, view) };
        let is_denied = objects.iter().any(|(key, object)| {
            key.0 == request.key.0 && *key != request.key && object.color == request.color
        });
        let is_reserved = |made: &usize| {
            let made = &self.requests[*made];
            made.is_reserved
                && made.key.0 == request.key.0
                && made.key != request.key
                && made.color == request.color
        };
        let is_pending = replica.made.iter().any(is_reserved)
            || replica.imported.values().any(|imported| affects(&imported.entry, request));
        let made = replica.made.len();
        let mark = replica.machine.import_mark();
        let evaluation = Evaluation { mark, view: version, made, is_denied, is_pending };
        let at = self.now + self.random.between(1, 40);
        let replica = self.requests[number].replica;
        self.requests[number].phase = Phase::Evaluating;
        self.schedule(at, Some(replica), Event::Evaluated(number, attempt, evaluation));
    }

    pub(crate) fn evaluated(&mut self, number: usize, attempt: u64, seen: &Evaluation) {
        let request = &self.requests[number];
        if request.attempt != attempt {
            return;
        }
        let is_late = self.now >= request.deadline();
        if seen.is_denied {
            // The direct read that confirms a denial.
            let is_confirmed = self.objects.iter().any(|(key, object)| {
                key.0 == request.key.0 && *key != request.key && object.color == request.color
            });
            if is_confirmed || is_late {
                self.requests[number].phase = Phase::Denied;
            } else {
                self.evaluate_at(self.now + 10, number);
            }
            return;
        }
        if seen.is_pending {
            if is_late {
                self.assert_open_conflict(number);
                self.requests[number].phase = Phase::Denied;
            } else {
                self.evaluate_at(self.now + 20, number);
            }
            return;
        }
        let made = &self.replicas[request.replica].made[seen.made..];
        let is_outdated = made.iter().any(|made| {
            let made = &self.requests[*made];
            made.key.0 == request.key.0 && made.key != request.key && made.color == request.color
        });
        if is_outdated {
            self.evaluate_at(self.now, number);
            return;
        }
        let change = Change {
            tenant: Tenant {
                namespace: format!("namespace-{}", request.tenant).into(),
                user: format!("user-{}", request.tenant).into(),
            },
            resource: resource(request.key.0),
            namespace: "".into(),
            name: request.key.1.to_string().into(),
            is_creation: request.base.is_none(),
            projection: format!(
                r#"{{"color":"{}","pad":"{}"}}"#,
                request.color,
                "x".repeat(number % 3 * 20)
            )
            .into(),
        };
        let replica = request.replica;
        let append = Append {
            change: Arc::new(change),
            uid: Some(request.uid.to_string().into()),
            base_version: request.base.map(|base| base.to_string()).unwrap_or_default().into(),
            deadline: self.replicas[replica].deadline(request),
            mark: seen.mark,
            views: BTreeMap::from([(resource(request.key.0), seen.view)]),
        };
        self.requests[number].phase = Phase::Appended;
        self.requests[number].appended_at = self.now;
        self.requests[number].is_reserved = true;
        self.replicas[replica].made.push(number);
        self.input(replica, Input::Append(request_id(number), append));
    }

    /// A request waited for another one until its deadline. That one was open not long ago.
    fn assert_open_conflict(&self, number: usize) {
        let request = &self.requests[number];
        let slack = TIMEOUT + TTL + 12_000 + 20 * self.setup.max_latency;
        let is_open = |other: &Request| {
            other.key.0 == request.key.0
                && other.key != request.key
                && other.over_at.is_none_or(|over| over + slack > self.now)
        };
        assert!(self.requests.iter().any(is_open), "denied without a reason: {request:?}");
    }

    pub(crate) fn respond(&mut self, number: usize) {
        let request = &self.requests[number];
        let deadline = request.deadline();
        // The API server has given up, or another webhook denies it, or the connection broke.
        if self.now > deadline || self.random.percent(self.setup.lost_percent) {
            self.requests[number].over_at = Some(self.now);
            let is_known = self.requests[number].phase == Phase::Crashed;
            if !is_known {
                self.requests[number].phase = Phase::Lost;
            }
        } else {
            let latest = if self.random.percent(20) { TTL - 100 } else { 20 };
            let at = self.now + self.random.between(1, latest);
            self.schedule(at, None, Event::Store(number));
        }
    }

    pub(crate) fn store_object(&mut self, number: usize) {
        let request = &mut self.requests[number];
        request.over_at = Some(self.now);
        let (key, base) = (request.key, request.base);
        let current = self.objects.get(&key).map(|object| object.version);
        if current != base {
            // 409.
            request.phase = Phase::Lost;
            return;
        }
        request.phase = Phase::Stored;
        let object = Object { color: request.color, uid: request.uid, version: self.version + 1 };
        let is_conflict = |(other, stored): (&Key, &Object)| {
            other.0 == key.0 && *other != key && stored.color == object.color
        };
        let conflict = self.objects.iter().find(|object| is_conflict(*object));
        assert!(conflict.is_none(), "{key:?} {object:?} and {conflict:?}");
        self.objects.insert(key, object);
        self.changed(key);
    }
}
