//! A chat as it goes on. A message may become readable a little after one that is later than it: another request was quicker, or
//! another process' clock is ahead. So each look goes back behind what was seen last, and tells only what is new in it.

use std::collections::BTreeSet;
use std::collections::VecDeque;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::error::Error;
use crate::id::{Id, Stamp};
use crate::messages::{Message, Order};
use crate::{Dialogs, limits};

/// Somebody who reads along.
struct Reader {
    dialogs: Dialogs,
    chat: Id,
    posted: broadcast::Receiver<Id>,
    closing: watch::Receiver<bool>,
    /// The latest that was told, or from where on is told.
    latest: Option<Stamp>,
    /// What has been told of the last seconds.
    told: BTreeSet<Stamp>,
    ready: VecDeque<Message>,
    is_broken: bool,
}

impl Dialogs {
    /// Messages of a chat from a place in it on, as they come, for one of its members. Without a place, those that are
    /// written from now on. Within a stream each message comes once. Whoever comes back with the place of the last one that he
    /// had misses nothing, and may hear of the last seconds again.
    ///
    /// # Errors
    ///
    /// If there is no such chat, or it is somebody else's; the stream itself ends with an error of the store.
    pub async fn stream(
        &self,
        chat: &Id,
        user: i64,
        from: Option<Stamp>,
    ) -> Result<impl Stream<Item = Result<Message, Error>> + use<>, Error> {
        self.chat(chat, user).await?;
        // Before the first look, so that nothing falls between the two.
        let posted = self.posted.subscribe();
        let mut told = BTreeSet::new();
        let latest = match from {
            Some(from) => Some(from),
            None => {
                let seen = self.last_seconds(chat).await?;
                told.extend(seen.iter().map(Message::stamp));
                told.last().cloned()
            }
        };
        let (dialogs, chat) = (self.clone(), chat.clone());
        let (ready, closing) = (VecDeque::new(), self.closing.subscribe());
        let reader = Reader { dialogs, chat, posted, closing, latest, told, ready, is_broken: false };
        Ok(unfold(reader, Reader::next))
    }

    /// The newest messages: those of as many seconds as a late one may be late, and one more.
    async fn last_seconds(&self, chat: &Id) -> Result<Vec<Message>, Error> {
        let mut all: Vec<Message> = Vec::new();
        let mut after = None;
        loop {
            let page = self.read(chat, Order::Desc, after, limits::PAGE_DEFAULT).await?;
            all.extend(page.messages);
            let is_far = all.first().zip(all.last()).is_some_and(|(new, old)| old.ts < new.ts - limits::SETTLE_SECONDS);
            match page.next {
                Some(next) if !is_far => after = next.parse().ok(),
                _ => return Ok(all),
            }
        }
    }
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Message, Error>, Self)> {
        if self.is_broken {
            return None;
        }
        loop {
            // Whoever reads comes back to another process, with the place of the last message.
            if *self.closing.borrow() {
                return None;
            }
            if let Some(message) = self.ready.pop_front() {
                return Some((Ok(message), self));
            }
            if let Err(error) = self.look().await {
                self.is_broken = true;
                return Some((Err(error), self));
            }
            if self.ready.is_empty() {
                self.wait().await;
            }
        }
    }

    /// Takes what is new since the last look, a page at most.
    async fn look(&mut self) -> Result<(), Error> {
        let mut after =
            self.latest.as_ref().map(|latest| Stamp { ts: latest.ts - limits::SETTLE_SECONDS, ..latest.clone() });
        loop {
            let page = self.dialogs.read(&self.chat, Order::Asc, after.take(), limits::PAGE_MAX).await?;
            for message in page.messages {
                let stamp = message.stamp();
                if self.told.insert(stamp.clone()) {
                    self.latest = self.latest.take().max(Some(stamp));
                    self.ready.push_back(message);
                }
            }
            match page.next {
                Some(next) if self.ready.is_empty() => after = next.parse().ok(),
                _ => break,
            }
        }
        if let Some(latest) = &self.latest {
            let settled = latest.ts - limits::SETTLE_SECONDS;
            self.told.retain(|told| told.ts >= settled);
        }
        Ok(())
    }

    /// Until there may be something new.
    async fn wait(&mut self) {
        let posted = async {
            // Whoever was told too much to remember looks for himself.
            while let Ok(chat) = self.posted.recv().await {
                if chat == self.chat {
                    break;
                }
            }
        };
        tokio::select! {
            () = posted => {}
            _ = self.closing.wait_for(|closing| *closing) => {}
            () = sleep(limits::LOOK_EVERY) => {}
        }
    }
}
