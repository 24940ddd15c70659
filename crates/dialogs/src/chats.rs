//! Chats: made, listed, and whose they are. A chat is there when its row in `chats` is, which is written last; members' lists
//! show nothing that is not there. So it appears in all of them at one moment.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join_all;
use serde::Serialize;
use shardine_client::records::{Change, ErrorCode, Record, Row, Scan};
use utoipa::ToSchema;

use crate::error::Error;
use crate::id::Id;
use crate::tables::{CHATS, INTENTS, USER_CHATS};
use crate::{Dialogs, limits, once};

/// A chat. Nobody enters or leaves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Chat {
    /// 24 hex digits in the order of time.
    #[schema(value_type = String, example = "601eb87efa1a4d54af02bb20")]
    pub chat_id: Id,
    /// Its members.
    pub users: Vec<i64>,
    /// Seconds since 1970 when it was made.
    pub ts: i64,
}

/// A part of somebody's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChatPage {
    /// In the order in which they were made.
    pub chats: Vec<Chat>,
    /// The `cursor` of the next page; null at the end.
    #[schema(value_type = Option<String>)]
    pub next: Option<Id>,
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Chats that were asked for: they never change and never go. Forgets all of them when there are too many.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<Id, Arc<Chat>>>);

impl Known {
    fn get(&self, id: &Id) -> Option<Arc<Chat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn add(&self, chat: Chat) -> Arc<Chat> {
        let chat = Arc::new(chat);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= limits::KNOWN_MAX {
            known.clear();
        }
        known.insert(chat.chat_id.clone(), Arc::clone(&chat));
        chat
    }
}

impl Dialogs {
    /// Makes a chat. With a key, the same request makes it once, however often it is sent.
    pub async fn create_chat(&self, users: &[i64], key: Option<&str>) -> Result<Chat, Error> {
        check_users(users)?;
        let what = format!("chat of {}", joined(users));
        let stamp = once::stamp(self, "chats", key, &what).await?;
        let chat = Chat { chat_id: stamp.id, users: users.to_vec(), ts: stamp.ts };
        self.intend(&chat).await?;
        // From here on whoever finds the intent goes on with it, whatever becomes of this process.
        self.finish(&chat).await.map_err(Error::in_the_middle)?;
        Ok(chat)
    }

    async fn intend(&self, chat: &Chat) -> Result<(), Error> {
        let insert = Change::insert(Row::new(INTENTS, chat.chat_id.as_str()), fields(chat));
        there(self.records.change(insert).await)
    }

    /// Does what is left to do of a chat that somebody has begun to make. Again is no harm.
    pub(crate) async fn finish(&self, chat: &Chat) -> Result<(), Error> {
        let id = chat.chat_id.as_str();
        let listed = chat.users.iter().map(|user| async move {
            let row = Row::new(USER_CHATS, user.to_string()).at(id);
            there(self.records.change(Change::insert(row, [("ts", chat.ts)])).await)
        });
        try_join_all(listed).await?;
        there(self.records.change(Change::insert(Row::new(CHATS, id), fields(chat))).await)?;
        self.known.add(chat.clone());
        // If this does not succeed, whoever looks for intents does it.
        if let Err(error) = self.records.delete(Row::new(INTENTS, id)).await {
            tracing::debug!(chat = id, %error, "the intent of a chat that is made is left for later");
        }
        Ok(())
    }

    /// A chat, for one of its members.
    pub async fn chat(&self, id: &Id, user: i64) -> Result<Arc<Chat>, Error> {
        let chat = self.find(id).await?.ok_or_else(|| Error::NoChat(id.clone()))?;
        match chat.users.contains(&user) {
            true => Ok(chat),
            false => Err(Error::NotAMember { user, chat: id.clone() }),
        }
    }

    async fn find(&self, id: &Id) -> Result<Option<Arc<Chat>>, Error> {
        if let Some(chat) = self.known.get(id) {
            return Ok(Some(chat));
        }
        let found = self.records.get(&Row::new(CHATS, id.as_str())).await?;
        found.map(|record| Ok(self.known.add(read(&record)?))).transpose()
    }

    /// The chats of a user behind `after`, in the order in which they were made.
    pub async fn chats_of(&self, user: i64, after: Option<Id>, limit: u32) -> Result<ChatPage, Error> {
        let mut chats: Vec<Chat> = Vec::new();
        let mut scan = Scan::rows_of(USER_CHATS, user.to_string()).limit(limit);
        if let Some(after) = &after {
            scan = scan.beyond([after.as_str()]);
        }
        loop {
            let page = self.records.scan(&scan).await?;
            let listed = page.records.iter().map(listed_chat).collect::<Result<Vec<Id>, Error>>()?;
            let found = try_join_all(listed.iter().map(|id| self.find(id))).await?;
            // A chat that is being made is in nobody's list.
            chats.extend(found.into_iter().flatten().map(|chat| Chat::clone(&chat)));
            let is_full = chats.len() >= limit as usize;
            match page.next {
                Some(next) if !is_full => scan = scan.after(next),
                next => {
                    let is_end = next.is_none() && chats.len() <= limit as usize;
                    chats.truncate(limit as usize);
                    let next = chats.last().filter(|_| !is_end).map(|chat| chat.chat_id.clone());
                    return Ok(ChatPage { chats, next });
                }
            }
        }
    }
}

fn listed_chat(record: &Record) -> Result<Id, Error> {
    let id = record.row.sort().first().and_then(|part| match part {
        shardine_client::records::Value::Text(id) => id.parse().ok(),
        _ => None,
    });
    id.ok_or_else(|| Error::Foreign(format!("a row of {USER_CHATS} names no chat: {:?}", record.row)))
}

/// sharding B-7.
fn check_users(users: &[i64]) -> Result<(), Error> {
    let different: BTreeSet<i64> = users.iter().copied().collect();
    match users.len() {
        0 | 1 => Err(Error::Bad("a chat has two users at least".into())),
        number if number > limits::USERS_MAX => Err(Error::Bad(format!("{} users are the limit", limits::USERS_MAX))),
        _ if users.iter().any(|user| *user < 1) => Err(Error::Bad("users are numbers from 1".into())),
        number if different.len() < number => Err(Error::Bad("a user is named twice".into())),
        _ => Ok(()),
    }
}

fn joined(users: &[i64]) -> String {
    users.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn fields(chat: &Chat) -> [(&'static str, shardine_client::records::Value); 2] {
    [("users", joined(&chat.users).into()), ("ts", chat.ts.into())]
}

pub(crate) fn read(record: &Record) -> Result<Chat, Error> {
    let chat = || {
        let chat_id = std::str::from_utf8(record.row.key()).ok()?.parse().ok()?;
        let users = record.get::<&str>("users")?.split(',').map(|user| user.parse().ok()).collect::<Option<_>>()?;
        Some(Chat { chat_id, users, ts: record.get("ts")? })
    };
    chat().ok_or_else(|| Error::Foreign(format!("a row of {CHATS} is not a chat: {record:?}")))
}

/// A row that is there already was inserted by an earlier try.
pub(crate) fn there<T>(inserted: Result<T, shardine_client::records::Error>) -> Result<(), Error> {
    match inserted {
        Err(error) if error.code() == Some(ErrorCode::Exists) => Ok(()),
        inserted => Ok(inserted.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sharding B-7.
    #[test]
    fn a_chat_has_two_different_users_at_least() {
        assert!(check_users(&[1, 2]).is_ok() && check_users(&[3, 2, 1]).is_ok());
        let many: Vec<i64> = (1..=501).collect();
        for wrong in [&[][..], &[1], &[1, 1], &[1, 2, 1], &[0, 1], &[-1, 1], &many] {
            assert!(matches!(check_users(wrong), Err(Error::Bad(_))), "{wrong:?}");
        }
        assert!(check_users(&many[..500]).is_ok());
    }
}
