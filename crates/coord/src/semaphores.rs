//! Semaphores: made, given data, deleted, looked at.

use std::collections::BTreeMap;

use crate::attach::room_for;
use crate::ids::{OrderId, SemaphoreId};
use crate::limits::{DATA_BYTES_MAX, SEMAPHORE_NAME_BYTES_MAX, SEMAPHORES_MAX};
use crate::outcome::{Notice, Outcome};
use crate::state::{NodeEdit, Semaphore};
use crate::status::{Refusal, Status, refuse};

impl NodeEdit<'_> {
    pub(crate) fn create(&mut self, name: &str, limit: u64, data: &[u8]) -> Result<Outcome, Refusal> {
        check_sizes(name, data)?;
        if limit == 0 {
            return refuse(Status::BadRequest, "a semaphore's limit is one at least");
        }
        if let Some(&id) = self.node.names.get(name) {
            if self.semaphore(id).ephemeral {
                return refuse(Status::PreconditionFailed, format!("semaphore {name:?} is ephemeral"));
            }
            return refuse(Status::AlreadyExists, format!("there is a semaphore {name:?}"));
        }
        if self.node.semaphores.len() >= SEMAPHORES_MAX {
            return refuse(Status::PreconditionFailed, format!("{SEMAPHORES_MAX} semaphores are the limit of a node"));
        }
        let semaphore = Semaphore {
            name: name.into(),
            limit,
            count: 0,
            ephemeral: false,
            data: data.into(),
            owners: BTreeMap::new(),
            waiters: BTreeMap::new(),
        };
        room_for(*self.bytes, semaphore.bytes())?;
        self.add_semaphore(semaphore);
        Ok(Outcome::Done)
    }

    pub(crate) fn update(&mut self, name: &str, data: &[u8]) -> Result<Outcome, Refusal> {
        check_sizes(name, data)?;
        let id = self.known(name)?;
        let held = self.semaphore(id).data.len() as u64;
        if *self.semaphore(id).data == *data {
            return Ok(Outcome::Done);
        }
        room_for(*self.bytes - held, data.len() as u64)?;
        self.set_data(id, data);
        *self.bytes = *self.bytes - held + data.len() as u64;
        self.notices.push(Notice::DataChanged { node: self.number, semaphore: id });
        Ok(Outcome::Done)
    }

    pub(crate) fn delete(&mut self, name: &str, force: bool) -> Result<Outcome, Refusal> {
        let id = self.known(name)?;
        if self.semaphore(id).ephemeral {
            return refuse(Status::PreconditionFailed, "an ephemeral semaphore goes with its last owner");
        }
        if !force && !self.semaphore(id).is_idle() {
            return refuse(Status::PreconditionFailed, format!("semaphore {name:?} has owners or waiters"));
        }
        let waiting: Vec<OrderId> = self.semaphore(id).waiters.keys().copied().collect();
        for order in waiting {
            self.notices.push(Notice::Aborted(self.place(id, order)));
        }
        self.remove_semaphore(id);
        Ok(Outcome::Done)
    }

    pub(crate) fn see(&mut self, name: &str) -> Result<Outcome, Refusal> {
        self.known(name).map(|_| Outcome::Done)
    }

    fn known(&self, name: &str) -> Result<SemaphoreId, Refusal> {
        let missing = || Refusal::new(Status::NotFound, format!("there is no semaphore {name:?}"));
        self.node.names.get(name).copied().ok_or_else(missing)
    }
}

fn check_sizes(name: &str, data: &[u8]) -> Result<(), Refusal> {
    if name.len() > SEMAPHORE_NAME_BYTES_MAX {
        return refuse(Status::BadRequest, format!("a name has {SEMAPHORE_NAME_BYTES_MAX} bytes at most"));
    }
    if data.len() > DATA_BYTES_MAX {
        return refuse(Status::BadRequest, format!("data has {DATA_BYTES_MAX} bytes at most"));
    }
    Ok(())
}
