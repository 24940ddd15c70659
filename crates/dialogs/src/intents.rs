//! Chats that somebody has begun to make and not finished: a process that died, or a shard that had no leader for longer than a
//! request waits. Every process looks for them; two that find the same do the same.

use shardine_client::records::Scan;
use tokio::time::sleep;

use crate::chats::read;
use crate::error::Error;
use crate::tables::INTENTS;
use crate::{Dialogs, limits};

impl Dialogs {
    /// Finishes whatever has been begun, and says how many chats that were.
    pub async fn finish_all(&self) -> Result<usize, Error> {
        let (mut finished, mut scan) = (0, Scan::table(INTENTS));
        loop {
            let page = self.records.scan(&scan).await?;
            for intent in &page.records {
                match read(intent) {
                    Ok(chat) => self.finish(&chat).await?,
                    // One that somebody has spoiled by hand holds up no other.
                    Err(error) => {
                        tracing::warn!(%error, "an intent cannot be read, and is left as it is");
                        continue;
                    }
                }
                finished += 1;
            }
            match page.next {
                Some(next) => scan = scan.after(next),
                None => return Ok(finished),
            }
        }
    }
}

pub(crate) async fn finish_for_ever(dialogs: Dialogs) {
    loop {
        match dialogs.finish_all().await {
            Ok(0) => {}
            Ok(chats) => tracing::info!(chats, "chats are finished that somebody else has begun to make"),
            Err(error) => tracing::warn!(%error, "chats that are half made cannot be finished now"),
        }
        sleep(limits::FINISH_EVERY).await;
    }
}
