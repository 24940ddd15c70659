//! What can be asked of a session's semaphores.

use shardine_proto::ydb::coordination::session_request::{
    AcquireSemaphore, CreateSemaphore, DeleteSemaphore, DescribeSemaphore, ReleaseSemaphore, Request, UpdateSemaphore,
};
use shardine_proto::ydb::coordination::session_response::Response;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::book::Order;
use super::{Asked, Session};
use crate::error::{Error, check, unexpected};
use crate::semaphore::{Acquire, Change, Delete, Include, Semaphore, Watch};

impl Session {
    /// Makes a semaphore with so many tokens. It outlives the session.
    pub async fn create(&self, name: &str, limit: u64, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let req_id = self.next_req();
        let request = CreateSemaphore { req_id, name: name.to_owned(), limit, data: data.into() };
        match self.ask(Asked::plain(req_id, Request::CreateSemaphore(request))).await? {
            Response::CreateSemaphoreResult(result) => check(result.status, &result.issues),
            _ => Err(unexpected("result of a create")),
        }
    }

    /// Replaces the data of a semaphore; nobody has to hold it for that.
    pub async fn update(&self, name: &str, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let req_id = self.next_req();
        let request = UpdateSemaphore { req_id, name: name.to_owned(), data: data.into() };
        match self.ask(Asked::plain(req_id, Request::UpdateSemaphore(request))).await? {
            Response::UpdateSemaphoreResult(result) => check(result.status, &result.issues),
            _ => Err(unexpected("result of an update")),
        }
    }

    /// Deletes a semaphore.
    pub async fn delete(&self, name: &str, which: Delete) -> Result<(), Error> {
        let req_id = self.next_req();
        let request = DeleteSemaphore { req_id, name: name.to_owned(), force: which == Delete::Force };
        match self.ask(Asked::plain(req_id, Request::DeleteSemaphore(request))).await? {
            Response::DeleteSemaphoreResult(result) => check(result.status, &result.issues),
            _ => Err(unexpected("result of a delete")),
        }
    }

    /// Takes tokens, waiting for them if need be; false if that took too long. Not recursive: a session has one claim on a
    /// semaphore, and a further acquire changes it (fewer tokens, other data).
    ///
    /// Dropping the future takes the claim back, as [`Session::release`] does.
    pub async fn acquire(&self, name: &str, how: Acquire) -> Result<bool, Error> {
        let req = self.next_req();
        let request = AcquireSemaphore {
            req_id: req,
            name: name.to_owned(),
            timeout_millis: how.timeout_millis(),
            count: how.count,
            data: how.data,
            ephemeral: how.ephemeral,
        };
        let deadline = how.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let asked = Asked { req, request: Request::AcquireSemaphore(request), deadline, watch: None };
        let mut regret = Regret { orders: self.inner.orders.clone(), req, name: Some(name.to_owned()) };
        let answer = self.ask(asked).await;
        regret.name = None;
        match answer? {
            Response::AcquireSemaphoreResult(result) => check(result.status, &result.issues).map(|()| result.acquired),
            _ => Err(unexpected("result of an acquire")),
        }
    }

    /// Gives back what is held, or leaves the queue; false if it was in neither.
    pub async fn release(&self, name: &str) -> Result<bool, Error> {
        let req_id = self.next_req();
        let request = ReleaseSemaphore { req_id, name: name.to_owned() };
        match self.ask(Asked::plain(req_id, Request::ReleaseSemaphore(request))).await? {
            Response::ReleaseSemaphoreResult(result) => check(result.status, &result.issues).map(|()| result.released),
            _ => Err(unexpected("result of a release")),
        }
    }

    /// A semaphore as it is now.
    pub async fn describe(&self, name: &str, include: Include) -> Result<Semaphore, Error> {
        self.look(name, include, None).await
    }

    /// Describes, with owners if they are watched, and hears of the first change after that. A session has one watch on a
    /// semaphore: a second one takes the place of the first, which then fires without a change.
    pub async fn watch(&self, name: &str, watch: Watch) -> Result<(Semaphore, Watching), Error> {
        let (tell, told) = oneshot::channel();
        let include = Include { owners: watch.owners, waiters: false };
        let found = self.look(name, include, Some((watch, tell))).await?;
        Ok((found, Watching { told }))
    }

    /// Every state of a semaphore from now on, as far as one can be told from the one before. Begun twice on one semaphore
    /// by one session, the two would take each other's watches away without end.
    #[must_use]
    pub fn follow(&self, name: &str, watch: Watch) -> Follow {
        Follow { session: self.clone(), name: name.to_owned(), watch, standing: None, last: None }
    }

    /// The fencing token of what this session holds: it grows from owner to owner for the life of the node. `None` if it
    /// holds nothing there.
    pub async fn fence(&self, name: &str) -> Result<Option<u64>, Error> {
        let found = self.describe(name, Include { owners: true, waiters: false }).await?;
        Ok(found.owners.iter().find(|owner| owner.session_id == self.id()).map(|owner| owner.order_id))
    }

    async fn look(
        &self,
        name: &str,
        include: Include,
        watch: Option<(Watch, oneshot::Sender<Change>)>,
    ) -> Result<Semaphore, Error> {
        let req = self.next_req();
        let (watched, tell) = watch.map_or((None, None), |(watch, tell)| (Some(watch), Some(tell)));
        let request = DescribeSemaphore {
            req_id: req,
            name: name.to_owned(),
            include_owners: include.owners,
            include_waiters: include.waiters,
            watch_data: watched.is_some_and(|watch| watch.data),
            watch_owners: watched.is_some_and(|watch| watch.owners),
        };
        let asked = Asked { req, request: Request::DescribeSemaphore(request), deadline: None, watch: tell };
        match self.ask(asked).await? {
            Response::DescribeSemaphoreResult(result) => {
                check(result.status, &result.issues)?;
                result.semaphore_description.map(Semaphore::from).ok_or_else(|| unexpected("description"))
            }
            _ => Err(unexpected("result of a describe")),
        }
    }
}

/// Takes an acquire back whose answer nobody waits for any more; else it would be held without anybody's knowledge.
struct Regret {
    orders: mpsc::UnboundedSender<Order>,
    req: u64,
    /// Taken away once the answer is there.
    name: Option<String>,
}

impl Drop for Regret {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let _ = self.orders.send(Order::Abandon { req: self.req, name });
        }
    }
}

/// A watch that stands.
#[derive(Debug)]
pub struct Watching {
    told: oneshot::Receiver<Change>,
}

impl Watching {
    /// Waits for a change, or for the moment from which on one might be missed ([`Change::is_spurious`]).
    pub async fn changed(self) -> Change {
        // A watch that is given up without a word is one whose change might be missed.
        self.told.await.unwrap_or_default()
    }
}

/// See [`Session::follow`].
#[derive(Debug)]
pub struct Follow {
    session: Session,
    name: String,
    watch: Watch,
    standing: Option<Watching>,
    last: Option<Semaphore>,
}

impl Follow {
    /// The first time the state as it is, then the next one that differs. States that follow each other quickly may be
    /// skipped; the last is not.
    ///
    /// # Errors
    ///
    /// As for a describe; `NOT_FOUND` when the semaphore is gone.
    pub async fn next(&mut self) -> Result<Semaphore, Error> {
        loop {
            if let Some(standing) = self.standing.take() {
                standing.changed().await;
            }
            let (found, standing) = self.session.watch(&self.name, self.watch).await?;
            self.standing = Some(standing);
            if self.last.as_ref() != Some(&found) {
                self.last = Some(found.clone());
                return Ok(found);
            }
        }
    }
}
