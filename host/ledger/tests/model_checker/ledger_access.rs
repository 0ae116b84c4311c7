//! Reads and writes of the ledger at the API server, and the watches of the ledger.

use std::sync::Arc;

use opgate_ledger::{Document, Input, Write, WriteResult};

use crate::cluster::{Cluster, Mutation};
use crate::state::{Access, State};

impl Cluster {
    /// Executes a write at the API server, and adds the event for all watches.
    pub(crate) fn execute(&self, state: &mut State, write: &Write) -> WriteResult {
        let store = &mut state.store;
        let result = match (self.mutation, write) {
            (Mutation::NoCompare, Write::Update(key, document)) if store.object.is_some() => {
                store.put(key.uid.clone(), document.clone())
            }
            (Mutation::NoWatermark, Write::Update(key, document)) => {
                let versions = store.object.as_ref().map(|(_, stored)| stored.versions.clone());
                let versions = versions.unwrap_or_default();
                let document = Document { versions, ..(**document).clone() };
                store.write(&Write::Update(key.clone(), Arc::new(document)))
            }
            (Mutation::NoWaitAfterLoss, Write::Create(document)) if store.object.is_none() => {
                let uid = format!("uid-{}", store.uids + 1);
                let established = Some(uid.into());
                store.create(Arc::new(Document { established, ..(**document).clone() }));
                WriteResult::Conflict
            }
            _ => store.write(write),
        };
        let is_written = matches!(result, WriteResult::Done(_))
            || (self.mutation == Mutation::NoWaitAfterLoss && matches!(write, Write::Create(_)));
        if is_written {
            Self::show(state);
        }
        result
    }

    pub(crate) fn show(state: &mut State) {
        let event = state.store.read();
        for replica in &mut state.replicas {
            replica.watch.push_back(event.clone());
        }
    }

    pub(crate) fn serve(&self, state: &mut State, replica: usize) {
        match state.replicas[replica].access.take() {
            Some(Access::Read) => {
                let read = state.store.read();
                self.input(state, replica, Input::ReadFinished(Ok(read)));
            }
            Some(Access::Write(write)) => {
                let result = self.execute(state, &write);
                self.input(state, replica, Input::WriteFinished(result));
            }
            None => {}
        }
    }

    pub(crate) fn time_out(&self, state: &mut State, replica: usize, is_executed: bool) {
        state.failures.timeouts -= 1;
        let problem = String::from("timeout");
        match state.replicas[replica].access.take() {
            Some(Access::Read) => self.input(state, replica, Input::ReadFinished(Err(problem))),
            Some(Access::Write(write)) => {
                if is_executed {
                    self.execute(state, &write);
                } else {
                    state.late.push(write);
                }
                self.input(state, replica, Input::WriteFinished(WriteResult::Unknown(problem)));
            }
            None => {}
        }
    }
}
