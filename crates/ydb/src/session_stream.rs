//! One Session stream: its first message, then requests one way and messages the other, with pings in between.
//!
//! A task per stream. It ends with the stream, from whichever side, and then tells the engine, so that the session is
//! detached and nothing is kept.

use std::sync::Arc;
use std::time::Duration;

use shardine_coord::{Message, Refusal, Status as Code, StreamId};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::convert::{ask_of, failure, opening_of, response_of};
use crate::engine::CoordEngine;
use crate::envelope::bad_request;
use crate::pings::Pings;
use crate::rights::{Pass, Rights};
use shardine_proto::ydb::coordination::session_request::Request;
use shardine_proto::ydb::coordination::session_response::{PingPong, Response};
use shardine_proto::ydb::coordination::{SessionRequest, SessionResponse};

/// Answers that wait for the network, and how long one may wait before its client counts as gone. No request of a stream is
/// read meanwhile, so what a client can pile up is bounded.
const ANSWERS_WAITING: usize = 64;
const SLOW_CLIENT: Duration = Duration::from_secs(10);

type Answer = Result<SessionResponse, Status>;

/// Serves a stream in a task of its own; what it says comes out of the stream that is returned.
pub(crate) fn serve(
    engine: Arc<dyn CoordEngine>,
    requests: Streaming<SessionRequest>,
    pass: Pass,
) -> ReceiverStream<Answer> {
    let (answers, out): (Sender<Answer>, Receiver<Answer>) = channel(ANSWERS_WAITING);
    tokio::spawn(async move {
        let mut requests = requests;
        match first_message(&mut requests).await {
            Some(Ok(start)) => {
                let rights = pass.at(&start.path);
                if let Err(refusal) = rights.check_any() {
                    let last = SessionResponse { response: Some(failure(&refusal)) };
                    return drop(answers.send(Ok(last)).await);
                }
                let (hear, heard) = unbounded_channel();
                let opening = opening_of(start);
                let timeout_ms = opening.timeout_ms;
                let id = engine.open(opening, Box::new(move |message| drop(hear.send(message))));
                let open = OpenStream { engine, id };
                let pings = Pings::default();
                SessionStream { open, requests, heard, answers, pings, timeout_ms, rights }.run().await;
            }
            Some(Err(status)) => drop(answers.send(Err(status)).await),
            None => {}
        }
    });
    ReceiverStream::new(out)
}

/// The only thing that a stream may begin with (coordination 31).
async fn first_message(
    requests: &mut Streaming<SessionRequest>,
) -> Option<Result<shardine_proto::ydb::coordination::session_request::SessionStart, Status>> {
    match requests.message().await {
        Ok(Some(SessionRequest { request: Some(Request::SessionStart(start)) })) => Some(Ok(start)),
        Ok(Some(_)) => Some(Err(Status::invalid_argument("First message must be a SessionStart"))),
        Ok(None) | Err(_) => None,
    }
}

/// Tells the engine when the stream is over, however it ends.
struct OpenStream {
    engine: Arc<dyn CoordEngine>,
    id: StreamId,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.engine.close(self.id);
    }
}

struct SessionStream {
    open: OpenStream,
    requests: Streaming<SessionRequest>,
    heard: UnboundedReceiver<Message>,
    answers: Sender<Answer>,
    pings: Pings,
    timeout_ms: u64,
    rights: Rights,
}

/// Why a stream is over.
enum End {
    /// The client has left, or has been told everything.
    Quiet,
    /// It has to be told.
    Failure(Refusal),
}

impl SessionStream {
    async fn run(mut self) {
        let end = match self.started().await {
            Ok(()) => self.talk().await,
            Err(end) => end,
        };
        if let End::Failure(refusal) = end {
            let _ = self.say(failure(&refusal)).await;
        }
    }

    /// Waits for the session. No request is read before that, so none can overtake it.
    async fn started(&mut self) -> Result<(), End> {
        let message = tokio::select! {
            message = self.heard.recv() => message.ok_or(End::Quiet)?,
            () = self.answers.closed() => return Err(End::Quiet),
        };
        self.pass_on(message).await?;
        self.ping().await
    }

    async fn talk(&mut self) -> End {
        let next_ping = sleep(self.pings.period(self.timeout_ms));
        tokio::pin!(next_ping);
        loop {
            let step = tokio::select! {
                message = self.heard.recv() => match message {
                    Some(message) => self.pass_on(message).await,
                    None => Err(End::Failure(Refusal::new(Code::Unavailable, "the node is stopping"))),
                },
                request = self.requests.message() => match request {
                    Ok(Some(request)) => {
                        if self.is_ping_of_its_own(&request) {
                            next_ping.as_mut().reset(Instant::now() + self.pings.period(self.timeout_ms));
                        }
                        self.take(request).await
                    }
                    Ok(None) | Err(_) => Err(End::Quiet),
                },
                () = &mut next_ping => {
                    next_ping.as_mut().reset(Instant::now() + self.pings.period(self.timeout_ms));
                    self.ping().await
                }
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Notes a ping, also one that is the echo of ours.
    fn is_ping_of_its_own(&mut self, message: &SessionRequest) -> bool {
        matches!(&message.request, Some(Request::Ping(ping)) if self.pings.ping(ping.opaque))
    }

    async fn take(&mut self, message: SessionRequest) -> Result<(), End> {
        match message.request {
            None => Err(End::Failure(bad_request("Empty request"))),
            Some(Request::Ping(ping)) => self.say(Response::Pong(PingPong { opaque: ping.opaque })).await,
            Some(Request::Pong(pong)) => self.pings.pong(pong.opaque).map_err(End::Failure),
            Some(request) => {
                let ask = ask_of(request).map_err(End::Failure)?;
                if let Err(refusal) = self.rights.check_ask(&ask) {
                    return self.say(response_of(ask.refused(refusal))).await;
                }
                self.open.engine.ask(self.open.id, ask);
                Ok(())
            }
        }
    }

    /// After its last message a stream is over.
    async fn pass_on(&mut self, message: Message) -> Result<(), End> {
        let is_last = message.is_last();
        self.say(response_of(message)).await?;
        if is_last { Err(End::Quiet) } else { Ok(()) }
    }

    async fn ping(&mut self) -> Result<(), End> {
        let opaque = self.pings.next().map_err(End::Failure)?;
        self.say(Response::Ping(PingPong { opaque })).await
    }

    async fn say(&mut self, response: Response) -> Result<(), End> {
        tell(&self.answers, response, SLOW_CLIENT).await
    }
}

/// Whoever does not take an answer in time loses the stream: nothing is left out of what is said on it (reliability I70).
async fn tell(answers: &Sender<Answer>, response: Response, patience: Duration) -> Result<(), End> {
    match timeout(patience, answers.send(Ok(SessionResponse { response: Some(response) }))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Quiet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reliability I70: the one that is not taken ends the stream, and those before it are all there.
    #[tokio::test]
    async fn a_client_that_does_not_listen_is_cut_and_nothing_is_skipped() {
        let (answers, mut out) = channel(2);
        let patience = Duration::from_millis(20);
        let pong = |opaque| Response::Pong(PingPong { opaque });

        let told = [
            tell(&answers, pong(1), patience).await.is_ok(),
            tell(&answers, pong(2), patience).await.is_ok(),
            tell(&answers, pong(3), patience).await.is_ok(),
        ];
        drop(answers);
        let mut heard = Vec::new();
        while let Some(Ok(answer)) = out.recv().await {
            heard.push(answer.response);
        }

        assert_eq!(told, [true, true, false], "the third one finds no room, and is the end");
        assert_eq!(heard, [Some(pong(1)), Some(pong(2))]);
    }
}
