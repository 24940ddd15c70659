//! Applies committed entries. A function of state and entry alone; every check is made here, when the entry is applied.

mod groups;
mod keyspace;
pub(crate) mod libraries;
mod nodes;
mod paths;
mod splits;
mod tables;

use shardine_model::codec::DecodeError;
use shardine_model::{ErrorCode, Refusal};
use thiserror::Error;

use crate::command::{Command, read_opening};
use crate::event::Occasion;
use crate::reply::Reply;
use crate::state::{Meta, refused};

/// An entry that this replica must not skip and cannot apply: it stops instead of guessing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the entry cannot be read: {0}; it was written by a newer version or is damaged: upgrade this node, or restore it from a peer"
)]
pub struct Fatal(#[from] DecodeError);

impl Meta {
    /// Applies one entry. `each` hears of every command in order.
    pub fn apply(&mut self, entry: &[u8], mut each: impl FnMut(Result<Reply, Refusal>)) -> Result<(), Fatal> {
        let mut reader = read_opening(entry)?;
        while !reader.is_empty() {
            let command = Command::decode(&mut reader)?;
            each(self.execute(command));
        }
        Ok(())
    }

    fn execute(&mut self, command: Command) -> Result<Reply, Refusal> {
        if let Command::At { at, why, command } = command {
            self.occasion = Some(Occasion { at, why });
            let done = self.execute(*command);
            self.occasion = None;
            return done;
        }
        let begins = matches!(command, Command::Init { .. } | Command::Mark);
        if !begins && !self.map.is_formed() {
            return refused(ErrorCode::BadRequest, "there is no cluster yet: run `shardine init` once");
        }
        match command {
            Command::Init { map, starts } => self.init(map, starts),
            Command::Join { joiner, replaces } => self.join(joiner, replaces),
            Command::Announce { node, joiner } => self.announce(node, joiner),
            Command::SetMode { node, mode } => self.set_mode(node, mode),
            Command::SetWeight { node, weight } => self.set_weight(node, weight),
            Command::RemoveNode { node } => self.remove_node(node),
            Command::Replace { shard, replica, node } => self.replace(shard, replica, node),
            Command::Reconfigure { shard, conf, voters, learners } => self.reconfigure(shard, conf, &voters, &learners),
            Command::ConfChanged { shard, conf, voters, learners } => {
                self.conf_changed(shard, conf, &voters, &learners)
            }
            Command::CaughtUp { operation, replica } => self.caught_up(operation, replica),
            Command::Cancel { operation } => self.cancel(operation),
            Command::CreateTable { table } => self.create_table(table),
            Command::AddField { table, field } => self.add_field(&table, field),
            Command::DropTable { table } => self.drop_table(&table),
            Command::PlacePath { path, instead_of, group } => self.place_path(path, instead_of, group),
            Command::ForgetPath { path, placed } => Ok(self.forget_path(path, placed)),
            Command::FindPath { path } => self.find_path(&path),
            Command::Set { name, value } => self.set(name, value),
            Command::SetSql { sql } => self.set_sql(sql),
            Command::Split { shard, epoch, at } => self.split(shard, epoch, at),
            Command::SplitOver { operation, is_done } => self.split_over(operation, is_done),
            Command::PutLibraries { libraries, replaces, begins_anew } => {
                self.put_libraries(libraries, replaces, begins_anew)
            }
            Command::DropLibrary { name } => self.drop_library(name),
            Command::Mark => Ok(Reply::Done),
            Command::At { .. } => unreachable!("one command is dated once"),
        }
    }
}
