//! Reads and writes of the ledger at the API server, with timeouts, and the watches of the ledger.

use opgate_ledger::{Document, DocumentError, Input, Observation, Write, WriteResult};

use crate::cluster::{Access, Event, Simulation};

impl Simulation {
    pub(crate) fn access(&mut self, replica: usize, access: Access) {
        let is_timeout = self.random.percent(self.setup.timeout_percent);
        let problem = || String::from("timeout");
        let input = match access {
            Access::Read if is_timeout => Input::ReadFinished(Err(problem())),
            Access::Read => Input::ReadFinished(Ok(self.read())),
            Access::Write(write) if is_timeout => {
                match self.random.between(0, 2) {
                    0 => {
                        self.execute(&write);
                    }
                    1 => {
                        let at = self.now + self.random.between(1, 8_000);
                        self.schedule(at, None, Event::LateWrite(write));
                    }
                    _ => {}
                }
                Input::WriteFinished(WriteResult::Unknown(problem()))
            }
            Access::Write(write) => Input::WriteFinished(self.execute(&write)),
            Access::Version(number, resource) => {
                let version = Some(self.version).filter(|_| !is_timeout);
                Input::VersionRead { number, resource, version }
            }
        };
        let at = if is_timeout { self.now + 500 } else { self.latency() };
        self.schedule(at, Some(replica), Event::AccessEnds(input));
    }

    pub(crate) fn read(&self) -> Observation {
        match self.store.read() {
            Observation::Present(key, _) if self.broken.as_ref() == Some(&key) => {
                Observation::Present(key, Err(DocumentError::Syntax("edited".into())))
            }
            observation => observation,
        }
    }

    pub(crate) fn execute(&mut self, write: &Write) -> WriteResult {
        let result = self.store.write(write);
        if matches!(result, WriteResult::Done(_)) {
            if let Some((_, document)) = &self.store.object {
                let used = document.usage();
                let limits = self.setup.limits;
                assert!(used.entries <= limits.entries && used.bytes <= limits.bytes);
                if document.revision % 16 == 0 {
                    let text = document.encode().unwrap();
                    assert_eq!(Document::decode(&text).as_ref(), Ok(&**document));
                }
            }
            self.watch_ledger();
        }
        result
    }

    pub(crate) fn watch_ledger(&mut self) {
        let observation = self.read();
        for number in 0..self.replicas.len() {
            let at = self.now + self.random.between(1, self.setup.max_watch_lag);
            let last = &mut self.replicas[number].watch_times[2];
            *last = at.max(*last);
            let at = *last;
            // A watch can skip states, and show them again.
            let observation = Some(observation.clone()).filter(|_| !self.random.percent(20));
            self.schedule(at, Some(number), Event::ShowLedger(observation));
        }
    }
}
