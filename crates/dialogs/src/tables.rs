//! The tables of the service, made by itself. Behind each of the first three stands an SQL table of the same name.
//!
//! | table | key | sort key | why |
//! |---|---|---|---|
//! | `chats` | chat | | who its members are: asked for with every message |
//! | `messages` | chat | second, id | a chat's messages lie together and in their order, spread by chat; a busy chat can be cut inside |
//! | `user_chats` | user | chat | the index over members, in the order in which chats were made |
//! | `chat_intents` | chat | | chats that are being made (`intents.rs`) |
//! | `dialog_requests` | key of a request | | what repeated requests are answered with (`once.rs`) |
//! | `dialog_processes` | | | how many processes of the service there have been |

use std::time::Duration;

use shardine_client::records::{ErrorCode, FieldType, FromValue, Records, Row, Table};

use crate::error::Error;

pub(crate) const CHATS: &str = "chats";
pub(crate) const MESSAGES: &str = "messages";
pub(crate) const USER_CHATS: &str = "user_chats";
pub(crate) const INTENTS: &str = "chat_intents";
pub(crate) const REQUESTS: &str = "dialog_requests";
const PROCESSES: &str = "dialog_processes";

/// How long a node may take to hear of a table.
const LOOKS_MAX: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

fn all() -> [Table; 6] {
    use FieldType::{Int64, String};
    let chat = |name| Table::new(name).field("users", String).field("ts", Int64);
    let message = Table::new(MESSAGES).field("aid", Int64).field("txt", String);
    [
        chat(CHATS),
        message.sort("ts", Int64).sort("id", String),
        Table::new(USER_CHATS).field("ts", Int64).sort("cid", String),
        chat(INTENTS),
        // What is forgotten in a day is not worth a trip to SQL.
        Table::new(REQUESTS).field("what", String).field("id", String).field("ts", Int64).without_sql(),
        Table::new(PROCESSES).field("last", Int64),
    ]
}

/// Makes the tables that are missing, by however many processes at once; again is no harm.
pub(crate) async fn prepare(records: &Records) -> Result<(), Error> {
    for table in all() {
        let found = match records.table(table.name()).await? {
            Some(found) => found,
            None => make(records, &table).await?,
        };
        if !table.is_met_by(&found) {
            let name = table.name();
            return Err(Error::Foreign(format!("the table {name} is not of this service: it has {found:?}")));
        }
    }
    Ok(())
}

async fn make(records: &Records, table: &Table) -> Result<Table, Error> {
    match records.create_table(table).await {
        // A cluster without SQL keeps rows in memory and in its log.
        Err(error) if error.code() == Some(ErrorCode::Unsupported) => {
            records.create_table(&table.clone().without_sql()).await?;
        }
        made => made?,
    }
    let name = table.name();
    // Another node may have made it, and this one hears of it a moment later.
    for _ in 0..LOOKS_MAX {
        if let Some(found) = records.table(name).await? {
            return Ok(found);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Err(Error::Foreign(format!("the table {name} was made, and is not there")))
}

/// A row that is there, to see whether anybody answers.
pub(crate) fn some_row() -> Row {
    Row::new(PROCESSES, "all")
}

/// A number that no other process of the service has or will have.
pub(crate) async fn next_process(records: &Records) -> Result<u64, Error> {
    let number = records.incr(some_row(), "last", 1).await?;
    let number = number.as_ref().and_then(i64::from_value).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Error::Foreign(format!("the table {PROCESSES} holds no number")))
}
