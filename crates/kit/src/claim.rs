//! A server's claim on a shard of its data centre: takes one that is free, proves again and again that it is still held, and
//! ends the process when it is not. What is decided is decided in `core::tenure`; where it is written down, a [`Store`] knows.

mod lease;
mod store;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "coordination")]
mod semaphore;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod table;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use crate::core::interval::Interval;
use crate::core::shard::Hold;
use crate::core::tenure::{Outcome, StoreRequest, Tenure, Times, WhileSilent};
use crate::panics;
use crate::server::{Identity, Shard};

pub(crate) use lease::Lease;
#[cfg(feature = "mysql")]
pub use mysql::MysqlTable;
#[cfg(feature = "postgres")]
pub use postgres::PostgresTable;
#[cfg(feature = "coordination")]
pub use semaphore::Semaphores;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteTable;
pub use store::{Error, Holder, Store};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use table::Table;

/// What a server does when somebody else has its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Ends the process at once, as the seed of this design does: no request is half answered by a server that is wrong.
    #[default]
    Abort,
    /// Stops serving and tells by [`Claim::lost`].
    Tell,
}

/// How a claim is made and kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimOptions {
    /// How often it is proven, and when it runs out.
    pub times: Times,
    /// When somebody else has the shard.
    pub on_loss: OnLoss,
    /// When the store says nothing.
    pub while_silent: WhileSilent,
}

/// A claim that keeps itself alive for as long as this lives. Dropped, it is left to time out; [`Claim::release`] gives it
/// back at once.
#[derive(Debug)]
pub struct Claim<S: Store> {
    store: Arc<S>,
    identity: Identity,
    lease: Lease,
    /// How long the store's answer is waited for.
    patience: Duration,
    state: watch::Receiver<State>,
    keeper: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Seeking,
    Holding(Hold),
    Lost(Hold),
}

impl<S: Store> Claim<S> {
    /// Begins to look for a shard, and goes on until it has one.
    ///
    /// # Panics
    ///
    /// If the times cannot work ([`Times::flaw`]), or outside of tokio's runtime.
    pub fn start(store: Arc<S>, identity: Identity, options: ClaimOptions) -> Self {
        Self::start_by(Lease::new(), store, identity, options)
    }

    /// The same by the clocks of this lease.
    fn start_by(lease: Lease, store: Arc<S>, identity: Identity, options: ClaimOptions) -> Self {
        let timeout = store.timeout();
        let flaw = options.times.flaw(timeout);
        assert!(flaw.is_none(), "{}: {:?}, timeout {timeout:?}", flaw.unwrap_or_default(), options.times);
        let (tell, state) = watch::channel(State::Seeking);
        let keeper = Keeper {
            store: Arc::clone(&store),
            identity: identity.clone(),
            options,
            lease: lease.clone(),
            tenure: Tenure::new(options.times, timeout, options.while_silent, lease.now().moment),
            tell,
        };
        let patience = options.times.patience(timeout);
        Self { store, identity, lease, patience, state, keeper: tokio::spawn(keeper.run()) }
    }

    /// Waits until a shard is held, and says which.
    pub async fn taken(&self) -> Hold {
        let mut state = self.state.clone();
        loop {
            if let State::Holding(hold) | State::Lost(hold) = *state.borrow_and_update() {
                return hold;
            }
            if state.changed().await.is_err() {
                // The keeper goes only after a loss, or with this.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What is held now.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match *self.state.borrow() {
            State::Holding(hold) => Some(hold),
            State::Seeking | State::Lost(_) => None,
        }
    }

    /// Whether answers may be given at this moment: the claim was proven lately enough, or it is served on while the store is
    /// silent ([`WhileSilent::Serve`]).
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.lease.is_proven()
    }

    /// Lets a shard be served under this claim, once what it serves has been read. Without a claim nothing is served.
    pub fn open(&self, shard: &Shard, interval: Interval) {
        if let Some(hold) = self.hold() {
            shard.serve_under(interval, hold, self.lease.clone());
        }
    }

    /// Waits until the shard is somebody else's. Only after [`OnLoss::Tell`] anybody is there to hear it.
    pub async fn lost(&self) -> Hold {
        let mut state = self.state.clone();
        let lost = state.wait_for(|state| matches!(state, State::Lost(_))).await.map(|state| *state);
        match lost {
            Ok(State::Lost(hold)) => hold,
            _ => std::future::pending().await,
        }
    }

    /// Gives the shard back, so that the next one need not wait. Whoever held it last is still preferred for it.
    ///
    /// # Errors
    ///
    /// If the store could not be told, or does not answer in time; the claim times out then.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        self.lease.close();
        let Some(hold) = self.hold() else { return Ok(()) };
        // A server that stops is not to hang on a store that does.
        let told = timeout(self.patience, self.store.release(&self.identity, hold)).await;
        told.unwrap_or_else(|_| Err(Error::new("the store", "no answer in time")))
    }
}

impl<S: Store> Drop for Claim<S> {
    fn drop(&mut self) {
        self.keeper.abort();
        // Nobody renews it any more: nothing may be answered under it.
        self.lease.close();
    }
}

/// The task that runs the errands of a claim.
struct Keeper<S> {
    store: Arc<S>,
    identity: Identity,
    options: ClaimOptions,
    lease: Lease,
    tenure: Tenure,
    tell: watch::Sender<State>,
}

impl<S: Store> Keeper<S> {
    async fn run(mut self) {
        loop {
            sleep_until(self.lease.instant(self.tenure.due())).await;
            let sent = self.lease.now();
            let Some(request) = self.tenure.request(sent.moment) else { return };
            let outcome = self.perform(request).await;
            self.tenure.settle(outcome);
            let state = match (self.tenure.hold(), self.tenure.lost()) {
                (Some(hold), _) => State::Holding(hold),
                (None, Some(hold)) => State::Lost(hold),
                (None, None) => State::Seeking,
            };
            match (state, outcome, self.tenure.until()) {
                (State::Holding(hold), Outcome::Held(_), Some(until)) => self.lease.extend(hold, sent, until),
                // Silence leaves it as it was.
                (State::Holding(_), _, _) => {}
                (State::Seeking | State::Lost(_), _, _) => self.lease.end(),
            }
            self.tell.send_if_modified(|told| std::mem::replace(told, state) != state);
            if let State::Lost(hold) = state {
                return self.give_up(hold);
            }
        }
    }

    /// A store that does not answer in time is asked anew.
    async fn perform(&self, request: StoreRequest) -> Outcome {
        let who = &self.identity;
        // A store that panics has said nothing, like one that is down.
        let answer = panics::caught(async {
            match request {
                StoreRequest::Claim => {
                    let taken = self.store.claim(who).await?;
                    Ok(taken.map_or(Outcome::Nothing, Outcome::Held))
                }
                StoreRequest::Renew(hold) => {
                    let held = self.store.renew(who, hold).await?;
                    Ok(held.map_or(Outcome::Lost, Outcome::Held))
                }
            }
        });
        let answer = async { answer.await.unwrap_or_else(|panic| Err(Error::new("the store", panic))) };
        match timeout(self.options.times.patience(self.store.timeout()), answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                tracing::warn!(host = %who.host, %error, ?request, "no word about the claim");
                Outcome::Unknown
            }
            Err(_) => {
                tracing::warn!(host = %who.host, ?request, "no word about the claim in time");
                Outcome::Unknown
            }
        }
    }

    fn give_up(self, hold: Hold) {
        tracing::error!(host = %self.identity.host, shard = hold.shard, generation = hold.generation, "the shard is lost");
        if self.options.on_loss == OnLoss::Abort {
            std::process::abort();
        }
    }
}

#[cfg(test)]
#[path = "claim/tests.rs"]
mod tests;
