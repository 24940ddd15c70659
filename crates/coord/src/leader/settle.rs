//! What is done when a command of this leader has been applied, or certainly never will be.

use super::streams::Stage;
use super::watches::Change;
use super::{Leader, Message, NodeReply, Origin, Out, StreamId, not_leading};
use crate::command::{Asker, Command};
use crate::outcome::{ClaimRef, Notice, Outcome};
use crate::state::Coord;
use crate::status::{Refusal, Status};

impl Leader {
    /// One command has been applied: `notices` are told first, then whoever sent it. `origin` is `None` for a command of
    /// an earlier leader.
    pub fn applied(
        &mut self,
        coord: &Coord,
        notices: &mut Vec<Notice>,
        origin: Option<Origin>,
        outcome: Outcome,
        out: &mut Out,
    ) {
        if !self.leads {
            return self.answer_calls(coord, origin, outcome, out);
        }
        for notice in notices.drain(..) {
            self.notice(coord, notice, out);
        }
        if let Some(origin) = origin {
            self.settle(coord, origin, outcome, out);
        }
    }

    /// An entry of this leader's was overtaken, or its fate is unknown. Streams have been told by the change of leader.
    pub fn lost(&mut self, origin: Origin, refusal: Refusal, out: &mut Out) {
        if let Origin::Node(ticket) | Origin::DescribeNode { ticket, .. } | Origin::Resources { ticket, .. } = origin {
            out.replies.push((ticket, NodeReply::Refused(refusal)));
        }
    }

    fn notice(&mut self, coord: &Coord, notice: Notice, out: &mut Out) {
        match notice {
            Notice::Granted(place) => self.finish_wait(place, Some(Ok(true)), out),
            Notice::Aborted(place) => {
                let aborted = Refusal::new(Status::Aborted, "the acquire was replaced, released or lost its semaphore");
                self.finish_wait(place, Some(Err(aborted)), out);
            }
            Notice::TimedOut(place) => self.finish_wait(place, Some(Ok(false)), out),
            Notice::Withdrawn(place) => self.finish_wait(place, None, out),
            Notice::DataChanged { node, semaphore } => self.watches.fire(node, semaphore, Change::Data, out),
            Notice::OwnersChanged { node, semaphore } => self.watches.fire(node, semaphore, Change::Owners, out),
            Notice::SemaphoreGone { node, semaphore } => self.watches.fire(node, semaphore, Change::Gone, out),
            Notice::SessionGone { node, session } => self.end_session(Asker { node, session }, out),
            Notice::NodeGone { node } => {
                self.forget_node(coord, node, out);
                self.drain_pool(node, out);
            }
            Notice::ResourceMade { node, resource } => self.fill(coord, node, resource),
            Notice::ResourceAltered { node, resource } => self.repace(coord, node, resource, out),
            Notice::ResourceGone { node, resource } => self.forget_resource(coord, node, resource, out),
        }
    }

    fn finish_wait(&mut self, place: ClaimRef, result: Option<Result<bool, Refusal>>, out: &mut Out) {
        let Some(wait) = self.end_wait(place) else { return };
        if let (Some((stream, req)), Some(result)) = (wait.reply, result) {
            out.say(stream, Message::Acquired { req, result });
        }
    }

    /// A stream that has taken the session over while its end was on its way is told that it has nothing.
    fn end_session(&mut self, by: Asker, out: &mut Out) {
        let holder = self.attachments.get(&by).and_then(|attachment| attachment.stream);
        if let Some(stream) = holder.filter(|id| self.streams.get(id).is_some_and(|s| s.stage == Stage::Attached(by))) {
            self.streams.remove(&stream);
            let refusal = Refusal::new(Status::SessionExpired, format!("session {} has ended", by.session));
            out.say(stream, Message::Failure(refusal));
        }
        self.forget_session(by);
    }

    fn forget_session(&mut self, by: Asker) {
        self.watches.forget(by);
        if let Some(attachment) = self.attachments.remove(&by)
            && let Some(at) = attachment.deadline_ms
        {
            self.timers.clear(at, super::Timer::Session(by));
        }
    }

    /// Streams of a dropped node are cut (coordination 26).
    fn forget_node(&mut self, coord: &Coord, node: crate::ids::NodeNumber, out: &mut Out) {
        let streams: Vec<StreamId> =
            self.streams.iter().filter(|(_, stream)| stream.is_of(node)).map(|(&id, _)| id).collect();
        for stream in streams {
            self.fail(coord, stream, Refusal::new(Status::Unavailable, "the coordination node was dropped"), out);
        }
        let sessions: Vec<Asker> = self.attachments.keys().filter(|by| by.node == node).copied().collect();
        sessions.into_iter().for_each(|by| self.forget_session(by));
        let waits: Vec<ClaimRef> = self.waits.keys().filter(|place| place.node == node).copied().collect();
        for place in waits {
            self.end_wait(place);
        }
    }

    fn settle(&mut self, coord: &Coord, origin: Origin, outcome: Outcome, out: &mut Out) {
        match origin {
            Origin::Attach { stream, restored, seq_no, timeout_ms, asked_ms } => {
                self.confirm(asked_ms);
                if let Some(held) = restored.and_then(|by| self.attachments.get_mut(&by)) {
                    held.attaching -= 1;
                }
                self.settle_attach(coord, stream, seq_no, timeout_ms, outcome, out);
            }
            Origin::Stop { stream: Some(stream), by } => self.settle_stop(coord, stream, by, outcome, out),
            Origin::Stop { stream: None, .. } | Origin::Expire | Origin::TimeOut(_) | Origin::GiveUp => {}
            Origin::Create { stream, req } => {
                self.answer(stream, Message::Created { req, result: done(outcome) }, out);
            }
            Origin::Update { stream, req } => {
                self.answer(stream, Message::Updated { req, result: done(outcome) }, out);
            }
            Origin::Delete { stream, req } => {
                self.answer(stream, Message::Deleted { req, result: done(outcome) }, out);
            }
            Origin::Acquire { stream, req, by } => self.settle_acquire(stream, req, by, outcome, out),
            Origin::Release { stream, req } => {
                let result = match outcome {
                    Outcome::Released(released) => Ok(released),
                    other => Err(refusal_of(other)),
                };
                self.answer(stream, Message::Released { req, result }, out);
            }
            Origin::Describe(look) => {
                let Some(stream) = self.streams.get_mut(&look.stream) else { return };
                stream.in_flight -= 1;
                match outcome {
                    Outcome::Refused(refusal) if refusal.status != Status::NotFound => {
                        let result = Err(refusal);
                        out.say(look.stream, Message::Described { req: look.req, result, watch_added: false });
                    }
                    _ => self.describe(coord, &look, out),
                }
            }
            Origin::Mark { asked_ms } => {
                self.confirm(asked_ms);
                self.end_mark();
            }
            origin @ (Origin::Node(_) | Origin::DescribeNode { .. } | Origin::Resources { .. }) => {
                self.answer_calls(coord, Some(origin), outcome, out);
            }
        }
    }

    /// Calls about nodes are answered also by a leader that has just been replaced: what was applied has happened.
    fn answer_calls(&self, coord: &Coord, origin: Option<Origin>, outcome: Outcome, out: &mut Out) {
        let (ticket, described) = match origin {
            Some(Origin::Node(ticket)) => (ticket, None),
            Some(Origin::DescribeNode { ticket, path }) => (ticket, coord.describe_node(&path)),
            Some(Origin::Resources { ticket, node, path, list }) => {
                return out.replies.push((ticket, coord.see_resources(&node, &path, list)));
            }
            _ => return,
        };
        let reply = match (outcome, described) {
            (Outcome::Refused(refusal), _) => NodeReply::Refused(refusal),
            (_, Some((name, config))) => NodeReply::Described { name, config },
            (_, None) => NodeReply::Done,
        };
        out.replies.push((ticket, reply));
    }

    fn settle_attach(
        &mut self,
        coord: &Coord,
        stream: StreamId,
        seq_no: u64,
        timeout_ms: u64,
        outcome: Outcome,
        out: &mut Out,
    ) {
        let (by, is_new) = match outcome {
            Outcome::Attached { node, session, is_new } => (Asker { node, session }, is_new),
            other => return self.fail(coord, stream, refusal_of(other), out),
        };
        let grace_ms = coord.config(by.node).unwrap_or_default().grace_ms();
        if !self.is_proven(grace_ms) && self.streams.remove(&stream).is_some() {
            // Committed, but perhaps so long ago that another leader has ended the session since.
            out.say(stream, Message::Failure(not_leading()));
        }
        if self.streams.contains_key(&stream) {
            return self.attach(coord, stream, by, seq_no, out);
        }
        if is_new {
            // The client has left and will never know its number (coordination 45).
            self.attachments.entry(by).or_default();
            return out.propose(&Command::Stop(by), Origin::Stop { stream: None, by });
        }
        if self.attachments.get(&by).is_none_or(|attachment| attachment.stream.is_none()) {
            self.detach(by, timeout_ms);
        }
    }

    fn settle_stop(&mut self, coord: &Coord, stream: StreamId, by: Asker, outcome: Outcome, out: &mut Out) {
        match outcome {
            Outcome::Refused(refusal) => self.fail(coord, stream, refusal, out),
            _ if self.streams.remove(&stream).is_some() => out.say(stream, Message::Stopped { session: by.session }),
            _ => {}
        }
    }

    fn settle_acquire(&mut self, stream: StreamId, req: u64, by: Asker, outcome: Outcome, out: &mut Out) {
        // A stream that was lost, or whose session was taken over, hears nothing; its place in the queue stays.
        let listens = self.streams.get(&stream).is_some_and(|found| found.stage == Stage::Attached(by));
        let result = match outcome {
            Outcome::Queued { semaphore, order, revision, timeout_ms } => {
                let place = ClaimRef { node: by.node, semaphore, order };
                self.wait(place, revision, timeout_ms, listens.then_some((stream, req)));
                return self.answer(stream, Message::Pending { req }, out);
            }
            Outcome::Acquired => Ok(true),
            Outcome::NotAcquired => Ok(false),
            other => Err(refusal_of(other)),
        };
        self.answer(stream, Message::Acquired { req, result }, out);
    }

    /// Says something to a stream if it is still there.
    fn answer(&mut self, stream: StreamId, message: Message, out: &mut Out) {
        if let Some(found) = self.streams.get_mut(&stream) {
            found.in_flight -= 1;
            out.say(stream, message);
        }
    }
}

fn done(outcome: Outcome) -> Result<(), Refusal> {
    match outcome {
        Outcome::Done => Ok(()),
        other => Err(refusal_of(other)),
    }
}

/// Outcomes belong to their commands; any other is a fault of ours, and is told as one instead of as success.
fn refusal_of(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        Outcome::Done
        | Outcome::Attached { .. }
        | Outcome::Acquired
        | Outcome::NotAcquired
        | Outcome::Queued { .. }
        | Outcome::Released(_) => not_leading(),
    }
}
