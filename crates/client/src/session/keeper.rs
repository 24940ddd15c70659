//! The task behind a session: carries requests, answers pings, and finds the way back when a stream is lost.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shardine_proto::ydb::coordination::session_response::{Failure, Response};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval_at};

use super::State;
use super::book::{Book, Order, Wish};
use super::line::{Line, Stream};
use crate::error::check;

pub(super) struct Keeper {
    line: Line,
    book: Book,
    orders: mpsc::UnboundedReceiver<Order>,
    state: watch::Sender<State>,
}

/// Why a stream is no longer served.
enum Parting {
    /// The session may be there still.
    Lost,
    /// It is over, and stands so from now on.
    Over(State),
}

impl Keeper {
    pub fn new(
        line: Line,
        orders: mpsc::UnboundedReceiver<Order>,
        state: watch::Sender<State>,
        last_req: Arc<AtomicU64>,
    ) -> Self {
        Self { line, book: Book::new(last_req), orders, state }
    }

    /// Returns when the session is over. Whoever still waits for an answer hears it by that.
    pub async fn keep(mut self, first: Stream) {
        let mut stream = first;
        let end = loop {
            if let Parting::Over(end) = self.serve(stream).await {
                break end;
            }
            self.state.send_replace(State::Detached);
            self.book.lose_watches();
            match self.come_back().await {
                Ok(next) => stream = next,
                Err(end) => break end,
            }
            self.state.send_replace(State::Attached);
            self.book.repeat(&stream);
        };
        self.state.send_replace(end);
    }

    async fn serve(&mut self, mut stream: Stream) -> Parting {
        let period = self.line.period();
        // The first one at once: it tells the server that this client speaks by itself. The next may follow closely.
        stream.ping(period);
        let mut pings = interval_at(stream.next_beat(period), period);
        // Late or not, the next is sent on the beat.
        pings.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let parting = tokio::select! {
                order = self.orders.recv(), if self.book.wish().is_none() => {
                    self.book.take(order, Some(&stream));
                    (self.book.wish() == Some(Wish::Leave)).then_some(Parting::Over(State::Stopped))
                }
                response = stream.next() => match response {
                    Some(response) => self.hear(response, &mut stream),
                    None => Some(Parting::Lost),
                },
                _ = pings.tick() => (!stream.ping(period / 2)).then_some(Parting::Lost),
            };
            if let Some(parting) = parting {
                if matches!(parting, Parting::Lost) {
                    stream.lose();
                }
                return parting;
            }
        }
    }

    fn hear(&mut self, response: Response, stream: &mut Stream) -> Option<Parting> {
        match response {
            Response::Ping(ping) => stream.pong(ping.opaque),
            Response::Pong(pong) => {
                if let Some(sent_at) = stream.heard_pong(pong.opaque) {
                    self.line.prove(sent_at);
                }
            }
            Response::SessionStopped(_) => return Some(Parting::Over(State::Stopped)),
            Response::Failure(failure) => return Some(self.fail(&failure)),
            answer => self.book.answer(answer),
        }
        None
    }

    /// A server that stops or loses its lead says so, and the session is there still; that somebody else has taken it is final.
    fn fail(&self, failure: &Failure) -> Parting {
        match check(failure.status, &failure.issues) {
            Err(error) if !error.is_passing() => Parting::Over(end(self.book.wish())),
            Err(_) | Ok(()) => Parting::Lost,
        }
    }

    /// Requests are taken down meanwhile, and sent when there is a stream again.
    async fn come_back(&mut self) -> Result<Stream, State> {
        let way_back = self.line.come_back();
        tokio::pin!(way_back);
        loop {
            tokio::select! {
                stream = &mut way_back => return stream.ok_or_else(|| end(self.book.wish())),
                order = self.orders.recv(), if self.book.wish().is_none() => {
                    self.book.take(order, None);
                    if self.book.wish() == Some(Wish::Leave) {
                        return Err(State::Stopped);
                    }
                }
            }
        }
    }
}

/// A session that cannot be come back to: as it was wanted, or expired.
fn end(wish: Option<Wish>) -> State {
    match wish {
        Some(Wish::Stop | Wish::Leave) => State::Stopped,
        None => State::Expired,
    }
}
