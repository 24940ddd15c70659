//! Applies committed entries. A function of state and entry alone; every check is made here, when the entry is applied.

use shardine_model::codec::DecodeError;
use thiserror::Error;

use crate::command::{Command, read_opening};
use crate::outcome::{Notice, Outcome};
use crate::state::Coord;
use crate::status::Refusal;

/// An entry that this replica must not skip and cannot apply: it stops instead of guessing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the entry cannot be read: {0}; it was written by a newer version or is damaged: upgrade this node, or restore it from a peer"
)]
pub struct Fatal(#[from] DecodeError);

impl Coord {
    /// Applies one entry. `each` hears of every command in order: the state right behind it, what others should know of
    /// it (first), and its outcome.
    pub fn apply(&mut self, entry: &[u8], mut each: impl FnMut(&Self, &mut Vec<Notice>, Outcome)) -> Result<(), Fatal> {
        let mut reader = read_opening(entry)?;
        let mut notices = Vec::new();
        while !reader.is_empty() {
            let command = Command::decode(&mut reader)?;
            let outcome = self.execute(&command, &mut notices).unwrap_or_else(Outcome::Refused);
            each(self, &mut notices, outcome);
            notices.clear();
        }
        Ok(())
    }

    fn execute(&mut self, command: &Command<'_>, notices: &mut Vec<Notice>) -> Result<Outcome, Refusal> {
        match *command {
            Command::CreateNode { path, ref config, placed } => self.create_node(path, config, placed),
            Command::AlterNode { path, ref config } => self.alter_node(path, config),
            Command::DropNode { path, placed } => self.drop_node(path, placed, notices),
            Command::DescribeNode { path } => self.see_node(path),
            Command::Attach(ref start) => self.attach(start, notices),
            Command::Stop(by) => self.stop_session(by, notices),
            Command::Expire(by) => Ok(self.expire_session(by, notices)),
            Command::Create { by, name, limit, data } => self.guest(by, notices)?.create(name, limit, data),
            Command::Update { by, name, data } => self.guest(by, notices)?.update(name, data),
            Command::Delete { by, name, force } => self.guest(by, notices)?.delete(name, force),
            Command::Acquire { by, name, timeout_ms, count, data, ephemeral } => {
                let acquire = crate::acquire::Acquire { name, timeout_ms, count, data, ephemeral };
                acquire.check()?;
                self.guest(by, notices)?.acquire(by.session, &acquire)
            }
            Command::Release { by, name } => self.guest(by, notices)?.release(by.session, name),
            Command::Describe { by, name } => self.guest(by, notices)?.see(name),
            Command::TimeOut { node, semaphore, order, revision } => {
                if let Some(mut edit) = self.edit(node, notices) {
                    edit.time_out(semaphore, order, revision);
                }
                Ok(Outcome::Done)
            }
            Command::Mark => Ok(Outcome::Done),
            Command::CreateResource { node, path, ref pace } => self.create_resource(node, path, pace, notices),
            Command::AlterResource { node, path, ref pace } => self.alter_resource(node, path, pace, notices),
            Command::DropResource { node, path } => self.drop_resource(node, path, notices),
            Command::GiveUp { placed } => Ok(self.give_up(placed)),
        }
    }
}
