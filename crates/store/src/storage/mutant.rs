//! Planted bugs, for proving that the simulator's checkers can fail. Compiled only with the feature `mutants`.

use shardine_model::log::Install;

use super::{Batch, Storage};
use crate::error::Error;

/// One bug each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A snapshot from a peer takes the log's place while earlier writes of the same group wait, which then land behind it.
    InstallBeforeEarlierWrites,
    /// The log is reset before the snapshot that takes its place has its name.
    ResetBeforeRename,
}

impl Storage {
    #[must_use]
    pub fn with_mutant(self, mutant: Option<Mutant>) -> Self {
        Self { mutant, ..self }
    }

    pub(super) fn install_wrongly(&self, install: Install, batch: &mut Batch) -> Result<(), Error> {
        match self.mutant {
            Some(Mutant::InstallBeforeEarlierWrites) => {
                let mut alone = Batch::default();
                self.install(install, &mut alone)?;
                self.append(alone)
            }
            Some(Mutant::ResetBeforeRename) => {
                self.append(std::mem::take(batch))?;
                let (snapshot, changes) = self.stage(install)?;
                let shard = snapshot.shard();
                self.append(Batch { changes: changes.into(), cleanups: Vec::new() })?;
                self.snapshots.publish(snapshot)?;
                self.snapshots.remove_older(shard)
            }
            None => self.install(install, batch),
        }
    }
}
