//! Claims on semaphores of Shardine: one semaphore per data centre and shard, held by the server's session. The semaphore's
//! data tells the generation and who held it last.

use std::sync::OnceLock;
use std::time::Duration;

use shardine_client::{Acquire, Client, Include, NodeSettings, Semaphore, Session, SessionOptions, Status};
use tokio::sync::Mutex;

use super::store::{Error, Holder, Store};
use crate::core::shard::Hold;
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
    session: Mutex<Option<Session>>,
    /// Of the claims that were made from here.
    timeout: OnceLock<Duration>,
}

type Outcome<T> = Result<T, shardine_client::Error>;

/// What a session's key may have.
const KEY_BYTES_MAX: usize = 16;

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
        Self { client, node: node.into(), dcs, shards, session: Mutex::new(None), timeout: OnceLock::new() }
    }

    /// The session that holds whatever is held; a new one if the last is over.
    async fn session(&self, kept: &mut Option<Session>, who: &Identity, timeout: Duration) -> Outcome<Session> {
        if let Some(session) = kept.as_ref().filter(|session| !session.state().is_over()) {
            return Ok(session.clone());
        }
        self.client.create_node(&self.node, NodeSettings::default()).await?;
        let session = self.client.start_session(&self.node, options(who, timeout, None)).await?;
        *kept = Some(session.clone());
        Ok(session)
    }

    async fn take_one(&self, who: &Identity, timeout: Duration) -> Outcome<Option<Hold>> {
        self.timeout.get_or_init(|| timeout);
        let mut kept = self.session.lock().await;
        let session = self.session(&mut kept, who, timeout).await?;
        let mut free = Vec::new();
        for shard in 0..self.shards {
            let found = look(&session, &name(&who.dc, shard)).await?;
            let note = Note::read(&found.data);
            match owner(&found) {
                // Its own from before a restart, or from a claim whose answer was lost.
                Some((id, host)) if host == who.host => {
                    let session = match id == session.id() {
                        true => session,
                        false => self.come_back(&mut kept, who, timeout, id).await?,
                    };
                    return self.sign(&session, who, shard, note).await.map(Some);
                }
                Some(_) => {}
                None => free.push((note.host != who.host, shard, note)),
            }
        }
        free.sort_by_key(|(is_strange, shard, _)| (*is_strange, *shard));
        for (_, shard, note) in free {
            let how = Acquire::tokens(1).within(Duration::ZERO).data(who.host.as_str());
            if session.acquire(&name(&who.dc, shard), how).await? {
                return self.sign(&session, who, shard, note).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Takes over the session of this host's process before. If that one still lives, it hears that its session is over.
    async fn come_back(
        &self,
        kept: &mut Option<Session>,
        who: &Identity,
        timeout: Duration,
        id: u64,
    ) -> Outcome<Session> {
        let session = self.client.start_session(&self.node, options(who, timeout, Some(id))).await?;
        *kept = Some(session.clone());
        Ok(session)
    }

    /// Writes down a new generation. Nobody else does while this session holds the semaphore.
    async fn sign(&self, session: &Session, who: &Identity, shard: u32, before: Note) -> Outcome<Hold> {
        let generation = before.generation + 1;
        let note = Note { generation, host: who.host.clone() };
        session.update(&name(&who.dc, shard), note.write()).await?;
        Ok(Hold { shard, generation })
    }

    async fn is_held(&self, who: &Identity, hold: Hold) -> Outcome<bool> {
        let mut kept = self.session.lock().await;
        // Without a session nothing was ever claimed from here.
        let Some(session) = kept.clone() else { return Ok(false) };
        if session.state().is_over() {
            return self.find_again(&mut kept, who, hold, &session).await;
        }
        match session.describe(&name(&who.dc, hold.shard), OWNERS).await {
            Err(error) if error.status() == Some(Status::NotFound) => Ok(false),
            Err(shardine_client::Error::Expired) => self.find_again(&mut kept, who, hold, &session).await,
            found => found.map(|found| is_ours(&found, session.id(), hold)),
        }
    }

    /// Looks whether a claim is still held although its session is over. It may be over because the server was silent for
    /// longer than it lives, on this machine's clock: that says nothing about the claim. Whoever claims a shard writes down a
    /// new generation, so as long as it is this one nobody else has had it.
    async fn find_again(
        &self,
        kept: &mut Option<Session>,
        who: &Identity,
        hold: Hold,
        before: &Session,
    ) -> Outcome<bool> {
        let (semaphore, timeout) =
            (name(&who.dc, hold.shard), self.timeout.get().copied().unwrap_or(SessionOptions::default().timeout));
        // By a session of its own: whoever has come back to the old one, under this host's name, is not to be disturbed.
        let session = self.client.start_session(&self.node, options(who, timeout, None)).await?;
        let found = match session.describe(&semaphore, OWNERS).await {
            Err(error) if error.status() == Some(Status::NotFound) => return Ok(false),
            found => found?,
        };
        if Note::read(&found.data).generation != hold.generation {
            return Ok(false);
        }
        match owner(&found) {
            Some((id, _)) if id == before.id() => {
                let session = self.come_back(kept, who, timeout, id).await?;
                let found = session.describe(&semaphore, OWNERS).await?;
                Ok(is_ours(&found, session.id(), hold))
            }
            Some(_) => Ok(false),
            None => {
                let how = Acquire::tokens(1).within(Duration::ZERO).data(who.host.as_str());
                let is_taken = session.acquire(&semaphore, how).await?;
                // Somebody may have claimed it, and given it back, since it was looked at.
                let found = session.describe(&semaphore, OWNERS).await?;
                *kept = Some(session.clone());
                Ok(is_taken && is_ours(&found, session.id(), hold))
            }
        }
    }

    async fn list(&self) -> Outcome<Vec<Holder>> {
        let mut kept = self.session.lock().await;
        let nobody = Identity::new("", "");
        let session = self.session(&mut kept, &nobody, SessionOptions::default().timeout).await?;
        let mut holders = Vec::new();
        for dc in &self.dcs {
            for shard in 0..self.shards {
                let found = look(&session, &name(dc, shard)).await?;
                if let Some((_, host)) = owner(&found) {
                    let (dc, generation) = (dc.clone(), Note::read(&found.data).generation);
                    holders.push(Holder { dc, shard, host, generation });
                }
            }
        }
        Ok(holders)
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

/// A session that this host's next process can come back to.
fn options(who: &Identity, timeout: Duration, resume: Option<u64>) -> SessionOptions {
    // Keeps others from a session by mistake, not on purpose: whoever may write to the node may delete its semaphores too.
    let host = who.host.as_bytes();
    let protection_key = Some(host[host.len().saturating_sub(KEY_BYTES_MAX)..].to_vec());
    let description = format!("shards of {} {}", who.dc, who.host);
    SessionOptions { timeout, description, protection_key, resume }
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

/// Whether this session holds it under this generation.
fn is_ours(found: &Semaphore, session: u64, hold: Hold) -> bool {
    owner(found).is_some_and(|(id, _)| id == session) && Note::read(&found.data).generation == hold.generation
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
    async fn claim(&self, who: &Identity, timeout: Duration) -> Result<Option<Hold>, Error> {
        self.take_one(who, timeout).await.map_err(error)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<bool, Error> {
        self.is_held(who, hold).await.map_err(error)
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        let kept = self.session.lock().await;
        match kept.as_ref() {
            Some(session) => session.release(&name(&who.dc, hold.shard)).await.map(drop).map_err(error),
            None => Ok(()),
        }
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        self.list().await.map_err(error)
    }
}
