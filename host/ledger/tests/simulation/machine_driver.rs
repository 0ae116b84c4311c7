//! Inputs of the machines, and the effects of their outputs on requests and replicas.

use std::sync::Arc;
use std::time::Duration;

use opgate_ledger::{AppendError, Entry, Input, Output, RequestId};

use crate::cluster::{Access, Event, Simulation};
use crate::common::request_number;
use crate::replica::Imported;
use crate::request::{Phase, affects, resource};
use crate::setup::TTL;

impl Simulation {
    pub(crate) fn input(&mut self, number: usize, input: Input) {
        let (requests, replica) = (&self.requests, &mut self.replicas[number]);
        let clock = replica.clock(self.now);
        let mut is_affected =
            |request: RequestId, entry: &Entry| affects(entry, &requests[request_number(request)]);
        let outputs = replica.machine.handle(clock, input, &mut is_affected);
        for output in outputs {
            self.output(number, output);
        }
        if let Some(wake) = self.replicas[number].machine.next_wake() {
            let at = self.replicas[number].time_of(wake).max(self.now);
            self.schedule(at, Some(number), Event::Wake);
        }
    }

    fn output(&mut self, replica: usize, output: Output) {
        match output {
            Output::Write(write) => {
                self.writes += 1;
                let at = self.latency();
                self.schedule(at, Some(replica), Event::Access(Access::Write(write)));
            }
            Output::Read => {
                let at = self.latency();
                self.schedule(at, Some(replica), Event::Access(Access::Read));
            }
            Output::ReadVersion { number, resource } => {
                let at = self.latency();
                let access = Access::Version(number, resource);
                self.schedule(at, Some(replica), Event::Access(access));
            }
            Output::Import { entry, ends } => self.import(replica, &entry, ends),
            Output::Release(id) => {
                self.replicas[replica].imported.remove(&id);
            }
            Output::Committed { request, respond_before } => {
                let number = request_number(request);
                assert_eq!(self.requests[number].phase, Phase::Appended);
                let time = self.now - self.requests[number].appended_at;
                self.requests[number].commit_time = Some(time);
                let clock = self.replicas[replica].clock(self.now);
                if self.random.percent(5) || clock >= respond_before {
                    // Another policy denies it.
                    self.requests[number].is_reserved = false;
                    self.requests[number].over_at = Some(self.now);
                    self.requests[number].phase = Phase::Lost;
                    self.input(replica, Input::Withdraw(request));
                    return;
                }
                self.requests[number].phase = Phase::Allowed(self.now);
                let at = self.now + self.random.between(1, 5);
                self.schedule(at, None, Event::Respond(number));
                let end = self.replicas[replica].clock(self.now) + Duration::from_millis(TTL);
                // By the clock of the replica, which can be fast: the TTL has a margin.
                let at = self.replicas[replica].time_of(end) + self.random.between(20, 100);
                self.schedule(at, Some(replica), Event::ReadOwn(number));
            }
            Output::Outdated { request, must_reach } => {
                let number = request_number(request);
                self.requests[number].is_reserved = false;
                let resource = resource(self.requests[number].key.0);
                let must_reach = must_reach.get(&resource).copied().unwrap_or_default();
                assert!(must_reach <= self.version);
                self.requests[number].must_reach = must_reach;
                let delay = if must_reach > 0 { 20 } else { 0 };
                self.evaluate_at(self.now + delay, number);
            }
            Output::Failed { request, error } => {
                let number = request_number(request);
                self.assert_reason(number, &error);
                self.requests[number].is_reserved = false;
                self.requests[number].over_at = Some(self.now);
                self.requests[number].phase = Phase::Failed(error);
            }
        }
    }

    fn assert_reason(&self, number: usize, error: &AppendError) {
        let limits = self.setup.limits;
        let request = &self.requests[number];
        let is_lost = !self.setup.is_established || self.ledger_losses > 0;
        let has_reason = match error {
            // A share is half of what others leave.
            AppendError::Full { used, .. } => used.entries * 2 + 2 >= limits.entries,
            AppendError::Deadline { .. } => {
                let replica = &self.replicas[request.replica];
                replica.clock(self.now) >= replica.deadline(request)
            }
            AppendError::New { .. } | AppendError::Broken(_) => is_lost,
            AppendError::Rejected(_) | AppendError::TooManyResources(_) => false,
        };
        assert!(has_reason, "{error} {request:?}");
    }

    fn import(&mut self, number: usize, entry: &Arc<Entry>, ends: Duration) {
        let id = entry.id.clone();
        let uids = entry.uids.iter().map(|uid| uid.parse().unwrap()).collect();
        let known = Imported { entry: entry.clone(), ends, uids };
        let at = self.replicas[number].time_of(ends) + self.random.between(0, 200);
        let renewal = entry.renewal;
        self.replicas[number].imported.insert(id.clone(), known);
        self.schedule(at, Some(number), Event::ReadImported(id, renewal));
    }
}
