//! What shall go wrong, and when: changes are counted, and one of them fails.

use std::io;

/// How a change fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This one change is refused with this error; a write is done by half, a sync leaves what it should have kept in doubt
    /// until it is written again. The next change works again.
    Error(io::ErrorKind),
    /// The machine stops in the middle of the change, and there is no other until a crash or a kill.
    Stop,
}

/// What becomes of a change.
#[derive(Debug)]
pub(super) enum Fate {
    Done,
    /// Nothing happens.
    Refused(io::Error),
    /// It goes wrong half-way.
    Failed(io::Error),
    /// It may have happened; nobody will be told.
    Unknown(io::Error),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    changes: u64,
    /// The change that fails, and how.
    armed: Option<(u64, Fault)>,
    is_stopped: bool,
    pub(super) bytes_max: Option<u64>,
}

impl Faults {
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn arm(&mut self, after: u64, fault: Fault) {
        self.armed = Some((self.changes + after, fault));
    }

    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn disarm(&mut self) {
        self.armed = None;
        self.is_stopped = false;
    }

    pub(super) fn judge(&mut self) -> Fate {
        if self.is_stopped {
            return Fate::Refused(gone());
        }
        let number = self.changes;
        self.changes += 1;
        match self.armed {
            Some((at, Fault::Error(kind))) if at == number => Fate::Failed(kind.into()),
            Some((at, Fault::Stop)) if at == number => {
                self.is_stopped = true;
                Fate::Unknown(gone())
            }
            _ => Fate::Done,
        }
    }

    pub(super) fn judge_write(&mut self, bytes: u64, growth: u64) -> Fate {
        match (self.judge(), self.bytes_max) {
            (Fate::Done, Some(bytes_max)) if growth > 0 && bytes + growth > bytes_max => {
                Fate::Failed(io::ErrorKind::StorageFull.into())
            }
            (verdict, _) => verdict,
        }
    }
}

/// What whoever lives on in a machine that has stopped is told.
pub(super) fn gone() -> io::Error {
    io::Error::other("the machine has stopped")
}
