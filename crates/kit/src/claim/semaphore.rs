//! Claims on semaphores of Shardine: one semaphore per data centre and shard, held by the server's session. The semaphore's
//! data tells the generation and who held it last.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use shardine_client::{Acquire, Client, Include, NodeSettings, Semaphore, Session, SessionOptions, Status};
use tokio::sync::Mutex;

use super::store::{Error, Holder, Store};
use crate::core::shard::Hold;
use crate::core::tenure::TIMEOUT;
use crate::server::Identity;

/// Claims on the semaphores `DC/shard-N` of one coordination node. A claim's timeout is its session's: the server counts
/// it, and hands a shard on when it is over. Of the shards that nobody holds, the server's own last one is taken, or the
/// lowest: semaphores do not tell since when they are free.
#[derive(Debug)]
pub struct Semaphores {
    client: Client,
    node: String,
    dcs: Vec<String>,
    shards: u32,
    timeout: Duration,
    kept: Mutex<Kept>,
}

/// What this server has on the node. Whoever asks may give up at any step, so that it is written down before the next one.
#[derive(Debug, Default)]
struct Kept {
    /// The session that holds whatever is held.
    session: Option<Session>,
    /// The session that looks who holds what, where nothing was claimed yet. Nothing is ever held by it: this host's next process
    /// would not come back to it.
    lookout: Option<Session>,
    /// What is being claimed anew: the semaphore may be this session's already, under a generation that nobody has.
    anew: Option<Hold>,
}

type Outcome<T> = Result<T, shardine_client::Error>;

/// What a session's key may have.
const KEY_BYTES_MAX: usize = 16;

/// Semaphores that are looked at beside each other.
const LOOKS_MAX: usize = 32;

const OWNERS: Include = Include { owners: true, waiters: false };

impl Semaphores {
    /// Of these data centres, with so many shards each.
    pub fn new(
        client: Client,
        node: impl Into<String>,
        dcs: impl IntoIterator<Item = impl Into<String>>,
        shards: u32,
    ) -> Self {
        let dcs = dcs.into_iter().map(Into::into).collect();
        Self { client, node: node.into(), dcs, shards, timeout: TIMEOUT, kept: Mutex::default() }
    }

    /// The same with another timeout, which is that of its sessions.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The session that holds whatever is held; a new one if the last is over.
    async fn session(&self, kept: &mut Kept, who: &Identity) -> Outcome<Session> {
        if let Some(session) = kept.session.as_ref().filter(|session| !session.state().is_over()) {
            return Ok(session.clone());
        }
        self.client.create_node(&self.node, NodeSettings::default()).await?;
        let session = self.client.start_session(&self.node, self.options(who, None)).await?;
        kept.session = Some(session.clone());
        Ok(session)
    }

    async fn take_one(&self, who: &Identity) -> Outcome<Option<Hold>> {
        let mut kept = self.kept.lock().await;
        let session = self.session(&mut kept, who).await?;
        let mut free = Vec::new();
        for (shard, found) in (0..).zip(self.look_at_all(&session, &who.dc).await?) {
            let note = Note::read(&found.data);
            match owner(&found) {
                // Its own from before a restart, or from a claim whose answer was lost.
                Some((id, host)) if host == who.host => {
                    let session = match id == session.id() {
                        true => session,
                        false => self.come_back(&mut kept, who, id).await?,
                    };
                    return self.sign(&session, who, shard, note.generation).await.map(Some);
                }
                Some(_) => {}
                None => free.push((note.host != who.host, shard, note)),
            }
        }
        free.sort_by_key(|(is_strange, shard, _)| (*is_strange, *shard));
        for (_, shard, note) in free {
            if session.acquire(&name(&who.dc, shard), at_once(who)).await? {
                return self.sign(&session, who, shard, note.generation).await.map(Some);
            }
        }
        Ok(None)
    }

    /// The semaphores of a data centre in their order. Beside each other: many shards take no longer than a few.
    async fn look_at_all(&self, session: &Session, dc: &str) -> Outcome<Vec<Semaphore>> {
        let looks = (0..self.shards).map(|shard| async move { look(session, &name(dc, shard)).await });
        stream::iter(looks).buffered(LOOKS_MAX).try_collect().await
    }

    /// Takes over the session of this host's process before. If that one still lives, it hears that its session is over.
    async fn come_back(&self, kept: &mut Kept, who: &Identity, id: u64) -> Outcome<Session> {
        let session = self.client.start_session(&self.node, self.options(who, Some(id))).await?;
        kept.session = Some(session.clone());
        Ok(session)
    }

    /// Writes down a new generation. Nobody else does while this session holds the semaphore.
    async fn sign(&self, session: &Session, who: &Identity, shard: u32, before: u64) -> Outcome<Hold> {
        // Whatever somebody has written into the semaphore is no panic, which would keep everybody from all shards.
        let generation = before.saturating_add(1);
        let note = Note { generation, host: who.host.clone() };
        session.update(&name(&who.dc, shard), note.write()).await?;
        Ok(Hold { shard, generation })
    }

    async fn prove(&self, who: &Identity, hold: Hold) -> Outcome<Option<Hold>> {
        let mut kept = self.kept.lock().await;
        // Without a session nothing was ever claimed from here.
        let Some(session) = kept.session.clone() else { return Ok(None) };
        if session.state().is_over() {
            return self.find_again(&mut kept, who, hold, &session).await;
        }
        match look(&session, &name(&who.dc, hold.shard)).await {
            Err(shardine_client::Error::Expired) => self.find_again(&mut kept, who, hold, &session).await,
            found => self.judge(&mut kept, &session, who, hold, &found?).await,
        }
    }

    /// Looks whether a claim is still held although its session is over. It may be over because the server was silent for
    /// longer than it lives, on this machine's clock: that says nothing about the claim. Whoever claims a shard writes down a
    /// new generation, so as long as it is this one nobody else has had it.
    async fn find_again(&self, kept: &mut Kept, who: &Identity, hold: Hold, before: &Session) -> Outcome<Option<Hold>> {
        // By a session of its own: whoever has come back to the old one, under this host's name, is not to be disturbed.
        let session = self.client.start_session(&self.node, self.options(who, None)).await?;
        let found = look(&session, &name(&who.dc, hold.shard)).await?;
        let is_same = Note::read(&found.data).generation == hold.generation || kept.anew == Some(hold);
        match owner(&found) {
            Some((id, _)) if id == before.id() && is_same => {
                let session = self.come_back(kept, who, id).await?;
                let found = look(&session, &name(&who.dc, hold.shard)).await?;
                self.judge(kept, &session, who, hold, &found).await
            }
            Some(_) => Ok(None),
            None => {
                kept.session = Some(session.clone());
                self.claim_again(kept, &session, who, hold).await
            }
        }
    }

    /// What a look at its semaphore says about a claim.
    async fn judge(
        &self,
        kept: &mut Kept,
        session: &Session,
        who: &Identity,
        hold: Hold,
        found: &Semaphore,
    ) -> Outcome<Option<Hold>> {
        let is_ours = match owner(found) {
            None => return self.claim_again(kept, session, who, hold).await,
            Some((id, _)) => id == session.id(),
        };
        if is_ours && kept.anew == Some(hold) {
            return self.claim_again(kept, session, who, hold).await;
        }
        Ok((is_ours && Note::read(&found.data).generation == hold.generation).then_some(hold))
    }

    /// Takes a shard that nobody holds, and that was this server's, and goes on with that where it was given up.
    async fn claim_again(
        &self,
        kept: &mut Kept,
        session: &Session,
        who: &Identity,
        hold: Hold,
    ) -> Outcome<Option<Hold>> {
        kept.anew = Some(hold);
        let held = self.claim_anew(session, who, hold).await?;
        kept.anew = None;
        Ok(held)
    }

    /// Under the generation that it had if nobody has claimed it meanwhile, or else (it was claimed and is free again, or
    /// deleted, or is an older one from a backup) under a new one.
    async fn claim_anew(&self, session: &Session, who: &Identity, hold: Hold) -> Outcome<Option<Hold>> {
        let semaphore = name(&who.dc, hold.shard);
        if !session.acquire(&semaphore, at_once(who)).await? {
            return Ok(None);
        }
        // What it says now, nobody else changes any more.
        let generation = Note::read(&look(session, &semaphore).await?.data).generation;
        if generation == hold.generation {
            return Ok(Some(hold));
        }
        tracing::warn!(semaphore, host = who.host, generation, "the claim is not there any more, making it anew");
        self.sign(session, who, hold.shard, generation.max(hold.generation)).await.map(Some)
    }

    /// A session to look by, whichever there is.
    async fn lookout(&self) -> Outcome<Session> {
        let mut kept = self.kept.lock().await;
        let is_live = |session: &&Session| !session.state().is_over();
        let known = kept.session.as_ref().filter(is_live).or(kept.lookout.as_ref().filter(is_live));
        if let Some(session) = known {
            return Ok(session.clone());
        }
        self.client.create_node(&self.node, NodeSettings::default()).await?;
        let session = self.client.start_session(&self.node, self.options(&Identity::new("", ""), None)).await?;
        kept.lookout = Some(session.clone());
        Ok(session)
    }

    async fn list(&self) -> Outcome<Vec<Holder>> {
        // Proofs do not wait for a long list.
        let session = self.lookout().await?;
        let mut holders = Vec::new();
        for dc in &self.dcs {
            for (shard, found) in (0..).zip(self.look_at_all(&session, dc).await?) {
                if let Some((_, host)) = owner(&found) {
                    let (dc, generation) = (dc.clone(), Note::read(&found.data).generation);
                    holders.push(Holder { dc, shard, host, generation });
                }
            }
        }
        Ok(holders)
    }

    /// A session that this host's next process can come back to.
    fn options(&self, who: &Identity, resume: Option<u64>) -> SessionOptions {
        // Keeps others from a session by mistake, not on purpose: whoever may write to the node may delete its semaphores too.
        let host = who.host.as_bytes();
        let protection_key = Some(host[host.len().saturating_sub(KEY_BYTES_MAX)..].to_vec());
        let description = format!("shards of {} {}", who.dc, who.host);
        SessionOptions { timeout: self.timeout, description, protection_key, resume }
    }
}

/// What a semaphore's data says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Note {
    generation: u64,
    host: String,
}

impl Note {
    fn read(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let (generation, host) = text.split_once(' ').unwrap_or_default();
        Self { generation: generation.parse().unwrap_or_default(), host: host.to_owned() }
    }

    fn write(&self) -> String {
        format!("{} {}", self.generation, self.host)
    }
}

fn name(dc: &str, shard: u32) -> String {
    format!("{dc}/shard-{shard}")
}

/// Takes it if it is free at this moment.
fn at_once(who: &Identity) -> Acquire {
    Acquire::tokens(1).within(Duration::ZERO).data(who.host.as_str())
}

/// The semaphore, made if it is missing.
async fn look(session: &Session, name: &str) -> Outcome<Semaphore> {
    match session.describe(name, OWNERS).await {
        Err(error) if error.status() == Some(Status::NotFound) => {}
        found => return found,
    }
    match session.create(name, 1, "").await {
        Err(error) if error.status() != Some(Status::AlreadyExists) => Err(error),
        _ => session.describe(name, OWNERS).await,
    }
}

/// Whose it is: session and host.
fn owner(found: &Semaphore) -> Option<(u64, String)> {
    let claim = found.owners.first()?;
    Some((claim.session_id, String::from_utf8_lossy(&claim.data).into_owned()))
}

fn error(cause: shardine_client::Error) -> Error {
    Error::new("Shardine", cause)
}

impl Store for Semaphores {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn claim(&self, who: &Identity) -> Result<Option<Hold>, Error> {
        self.take_one(who).await.map_err(error)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        self.prove(who, hold).await.map_err(error)
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        // With the session, so that nothing is found again that was given back.
        match self.kept.lock().await.session.take() {
            Some(session) => session.release(&name(&who.dc, hold.shard)).await.map(drop).map_err(error),
            None => Ok(()),
        }
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        self.list().await.map_err(error)
    }
}
