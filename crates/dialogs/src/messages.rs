//! Messages of a chat, in the order of their seconds and ids.

use serde::{Deserialize, Serialize};
use shardine_client::records::{Change, Record, Row, Scan, Value};
use utoipa::ToSchema;

use crate::chats::there;
use crate::error::Error;
use crate::id::{Id, Stamp};
use crate::tables::MESSAGES;
use crate::{Dialogs, limits, once};

/// A message as its readers have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Message {
    /// 24 hex digits in the order of time.
    #[schema(value_type = String, example = "601eb8aefa1a4d54af02bb21")]
    pub message_id: Id,
    /// Where it stands.
    #[schema(value_type = String, example = "601eb87efa1a4d54af02bb20")]
    pub chat_id: Id,
    /// Who wrote it.
    pub user_id: i64,
    /// What it says.
    pub text: String,
    /// Seconds since 1970 when it was written.
    pub ts: i64,
}

impl Message {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { ts: self.ts, id: self.message_id.clone() }
    }
}

/// From the oldest, or from the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The oldest first.
    #[default]
    Asc,
    /// The newest first.
    Desc,
}

/// A part of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Page {
    /// In the order that was asked for.
    pub messages: Vec<Message>,
    /// The `cursor` of the next page; null at the end.
    pub next: Option<String>,
}

impl Dialogs {
    /// Writes a message. With a key, the same request writes it once, however often it is sent.
    pub async fn post(&self, chat: &Id, user: i64, text: &str, key: Option<&str>) -> Result<Message, Error> {
        check_text(text)?;
        self.chat(chat, user).await?;
        // Keys of two users are two keys.
        let scope = format!("messages:{user}");
        let stamp = once::stamp(self, &scope, key, &format!("{chat} {user} {text}")).await?;
        let row = Row::new(MESSAGES, chat.as_str()).at(stamp.ts).at(stamp.id.as_str());
        let fields: [(&str, Value); 2] = [("aid", user.into()), ("txt", text.into())];
        there(self.records.change(Change::insert(row, fields)).await)?;
        // Nobody need be there to hear it.
        let _ = self.posted.send(chat.clone());
        let Stamp { ts, id } = stamp;
        Ok(Message { message_id: id, chat_id: chat.clone(), user_id: user, text: text.to_owned(), ts })
    }

    /// A page of a chat, for one of its members. A cursor is a place in the chat, wherever the chat lives by now.
    pub async fn messages(
        &self,
        chat: &Id,
        user: i64,
        order: Order,
        after: Option<Stamp>,
        limit: u32,
    ) -> Result<Page, Error> {
        self.chat(chat, user).await?;
        self.read(chat, order, after, limit).await
    }

    pub(crate) async fn read(&self, chat: &Id, order: Order, after: Option<Stamp>, limit: u32) -> Result<Page, Error> {
        let mut messages: Vec<Message> = Vec::new();
        let mut scan = Scan::rows_of(MESSAGES, chat.as_str()).limit(limit);
        if order == Order::Desc {
            scan = scan.descending();
        }
        if let Some(Stamp { ts, id }) = &after {
            scan = scan.beyond([Value::Int(*ts), Value::Text(id.to_string())]);
        }
        loop {
            let page = self.records.scan(&scan).await?;
            for record in &page.records {
                messages.push(message(chat, record)?);
            }
            let is_full = messages.len() >= limit as usize;
            match page.next {
                // A page may be short and have a next all the same.
                Some(next) if !is_full => scan = scan.after(next),
                next => {
                    let is_end = next.is_none() && messages.len() <= limit as usize;
                    messages.truncate(limit as usize);
                    let next = messages.last().filter(|_| !is_end).map(|message| message.stamp().to_string());
                    return Ok(Page { messages, next });
                }
            }
        }
    }
}

/// sharding B-6.
fn check_text(text: &str) -> Result<(), Error> {
    match text.len() {
        0 => Err(Error::Bad("a message has a text".into())),
        bytes if bytes > limits::TEXT_BYTES_MAX => {
            Err(Error::TooLarge(format!("the text has {bytes} bytes, the limit is {}", limits::TEXT_BYTES_MAX)))
        }
        // PostgreSQL has no text with it, and the row would never get there.
        _ if text.contains('\0') => Err(Error::Bad("a text has no zero byte".into())),
        _ => Ok(()),
    }
}

fn message(chat: &Id, record: &Record) -> Result<Message, Error> {
    let read = || {
        let [Value::Int(ts), Value::Text(id)] = record.row.sort() else { return None };
        let (user_id, text) = (record.get("aid")?, record.get::<&str>("txt")?.to_owned());
        Some(Message { message_id: id.parse().ok()?, chat_id: chat.clone(), user_id, text, ts: *ts })
    };
    read().ok_or_else(|| Error::Foreign(format!("a row of {MESSAGES} is not a message: {record:?}")))
}
