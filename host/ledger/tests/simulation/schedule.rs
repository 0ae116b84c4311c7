//! The schedule: events by their time in milliseconds. Those of a replica wait while it is paused,
//! and are dropped after its crash.

use opgate_ledger::Input;

use crate::cluster::{Access, Event, Simulation};

impl Simulation {
    pub(crate) fn schedule(&mut self, at: u64, replica: Option<usize>, event: Event) {
        let target = replica.map(|replica| (replica, self.replicas[replica].run));
        self.events.insert((at, self.next_event), (target, event));
        self.next_event += 1;
    }

    pub(crate) fn latency(&mut self) -> u64 {
        self.now + self.random.between(1, self.setup.max_latency)
    }

    pub(crate) fn run(&mut self) {
        while let Some(((at, order), (target, event))) = self.events.pop_first() {
            self.now = at;
            if let Some((number, run)) = target {
                let replica = &self.replicas[number];
                if replica.run != run {
                    // The API server executes what a crashed replica has sent.
                    if let Event::Access(Access::Write(write)) = event {
                        self.execute(&write);
                    }
                    continue;
                }
                let is_remote = matches!(event, Event::Access(_));
                if replica.paused_until > at && !is_remote {
                    self.events.insert((replica.paused_until, order), (target, event));
                    continue;
                }
            }
            self.event(target.map(|(number, _)| number), event);
        }
    }

    fn event(&mut self, replica: Option<usize>, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Evaluate(request, attempt) => self.evaluate(request, attempt),
            Event::Evaluated(request, attempt, seen) => self.evaluated(request, attempt, &seen),
            Event::Respond(request) => self.respond(request),
            Event::Store(request) => self.store_object(request),
            Event::Access(access) => self.access(replica.unwrap(), access),
            Event::AccessEnds(input) => self.input(replica.unwrap(), input),
            Event::ShowObject(resource, version, key, object) => {
                self.show_object(replica.unwrap(), resource, version, key, object);
            }
            Event::ShowLedger(observation) => {
                let observation = observation.unwrap_or_else(|| self.read());
                self.input(replica.unwrap(), Input::Watched(observation));
            }
            Event::Wake => {
                let number = replica.unwrap();
                let clock = self.replicas[number].clock(self.now);
                if self.replicas[number].machine.next_wake().is_some_and(|at| at <= clock) {
                    self.input(number, Input::Tick);
                }
            }
            Event::ReadOwn(request) => self.read_own(request),
            Event::ReadImported(id, renewal) => self.read_imported(replica.unwrap(), &id, renewal),
            Event::LateWrite(write) => {
                self.execute(&write);
            }
            Event::Crash(number) => self.crash(number),
            Event::Pause(number) => {
                let until = self.now + self.random.between(100, 15_000);
                let replica = &mut self.replicas[number];
                replica.paused_until = replica.paused_until.max(until);
            }
            Event::DeleteLedger => {
                self.store.object = None;
                self.ledger_losses += 1;
                self.watch_ledger();
            }
            Event::BreakLedger => {
                if let Some((key, document)) = self.store.object.clone() {
                    self.store.put(key.uid, document);
                    self.broken = self.store.object.as_ref().map(|(key, _)| key.clone());
                    self.ledger_losses += 1;
                    self.watch_ledger();
                }
            }
            Event::DeleteObject => {
                let index = self.random.below(self.objects.len().max(1));
                if let Some(key) = self.objects.keys().nth(index).copied() {
                    self.objects.remove(&key);
                    self.changed(key);
                }
            }
        }
    }
}
