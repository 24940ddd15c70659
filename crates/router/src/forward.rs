//! Requests that other nodes may have to execute: in order, answered once, and asked again only where that is certain to be
//! right. Has no sockets, threads or clock.
//!
//! A lane has one [`Forwards`] for its connections. It is told what happens and says what to do:
//!
//! ```text
//! submit       a request of a connection            ->  Attempt   execute it here, or send it to a node
//! give_back    requests that came before those in line
//! answered     an attempt was executed or refused   ->  Answer    nobody will execute it: tell its connection why
//!              for good; gives the request back
//! refused      an attempt was certainly not executed
//! link_up/down, news (of leaders or the map), tick, closed (a connection)
//! ```
//!
//! What the host must do: perform attempts in the order in which they are told, on one link per node that keeps order; take
//! local ones through its own [`Gate`](crate::Gate) too, as link [`Gate::LOCAL`](crate::Gate::LOCAL); call `link_down` when
//! answers may have been lost, and not pass on answers of a link after that; write what it hears into [`Routes`] before it
//! calls. A request that goes to a group which this node alone holds, in a cluster of one, needs none of this, as long as
//! [`Forwards::is_clear`].
//!
//! **Order.** Requests of one connection and partition form a line. Those under way all go to the same node, in one
//! generation of their stream, by one epoch; the node refuses the rest of a generation once it has refused one of it. After a
//! refusal nothing is sent until all that is under way is answered; then the line goes on, in its order, in the next
//! generation. So it does not matter which shard or leader a request went to first.
//!
//! **Certainty.** A refusal means that nothing was done. A broken link leaves a change in doubt, which is its answer; reads,
//! and requests with a number, are asked again. If one of these is then refused for good it is in doubt. (A read that is asked
//! again may see a numbered change behind it, if that was executed at the first try.)
//!
//! **Patience.** A line without a leader is held for [`Options::hold_ms`], then its requests are `no_leader`; one whose
//! deadline passes meanwhile has `expired`; requests above [`Options::bytes_max`] are `busy`.

mod line;

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{CatalogueVersion, ErrorCode, NodeId, Position, RequestEpoch, ShardId};

use self::line::{Entry, Line};
use crate::routes::{Moved, Routes};

/// What is certain about a request without looking into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Changes no record: may be asked any number of times.
    Read,
    /// Has a number of its client's: is executed once, however often it is asked.
    Numbered,
    Change,
}

/// A request of a connection.
#[derive(Clone, Debug)]
pub struct Submission<T> {
    /// Orders requests; one that needs no order has a number of its own.
    pub connection: u64,
    pub position: Position,
    pub nature: Nature,
    /// The definitions that it was read by.
    pub catalogue: CatalogueVersion,
    /// What it takes of the memory for requests.
    pub bytes: usize,
    /// After this nobody waits for it, by the clock of `now_ms`.
    pub deadline_ms: Option<u64>,
    /// The request itself, and who gets the answer.
    pub what: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// On this lane or another one of this node.
    Here {
        lane: usize,
    },
    Node(NodeId),
}

/// One try at a request. [`Forwards::get`] has what is to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Under which the answer is told. Never used again.
    pub id: u64,
    pub to: Destination,
    pub stream: u64,
    pub generation: u64,
    pub shard: ShardId,
    pub epoch: RequestEpoch,
    pub nature: Nature,
    /// An earlier try of it may have been executed: a numbered request says so (`Attempt::Again`).
    pub is_again: bool,
    /// For how long the answer is of use to anybody.
    pub within_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<T> {
    Attempt(Attempt),
    /// It was not executed, except where the code says that this is in doubt.
    Answer {
        what: T,
        code: ErrorCode,
    },
}

/// A request whose attempt has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    pub what: T,
    /// An earlier try of it, on a link that broke, may have been executed: that this one was refused says nothing of that one
    /// ([`Response::of_later_try`](crate::Response::of_later_try)).
    pub may_have_happened: bool,
}

/// Why an attempt was certainly not executed, where another one may be. Every other refusal is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It belongs elsewhere.
    Moved(Moved),
    /// The node knows no leader, and has proposed nothing.
    NoLeader,
    /// One before it in its generation was refused.
    OldGeneration,
    /// The shard has other bounds than it was asked by. Where the routes know better by now it is asked again at once.
    StaleRoute,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long requests wait for a leader. An election takes a fraction of it.
    pub hold_ms: u64,
    /// How long a node that has refused is left alone, if nothing new is heard meanwhile.
    pub retry_ms: u64,
    /// Bytes of all requests that wait or are under way.
    pub bytes_max: usize,
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hold_ms: 1_500,
            retry_ms: 50,
            bytes_max: 64 << 20,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// A mistake to be made on purpose, so that tests show that they would see it.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A request that came from a node is passed on to another one. Made by the host, which has both ends.
    ForwardOfForward,
    /// The leader that a refusal names is asked, whatever its term.
    HintFollowedBlindly,
    /// A refused request is sent again while others of its line are under way.
    OrderLostByRetry,
    /// A change whose link broke is sent again.
    RetryInDoubt,
    /// What is given back goes behind those who have come since.
    GivenBackLast,
}

/// A connection and a partition of it.
type LineId = (u64, Position);

pub struct Forwards<T> {
    options: Options,
    lines: BTreeMap<LineId, Line<T>>,
    attempts: BTreeMap<u64, LineId>,
    /// Lines with requests that wait.
    waiting: BTreeSet<LineId>,
    links: BTreeSet<NodeId>,
    bytes: usize,
    last_attempt: u64,
    last_stream: u64,
}

impl<T> Forwards<T> {
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            lines: BTreeMap::new(),
            attempts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            links: BTreeSet::new(),
            bytes: 0,
            last_attempt: 0,
            last_stream: 0,
        }
    }

    /// Whether nothing waits or is under way, so that no order has to be kept.
    #[inline]
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a request of this connection and partition waits or is under way: whoever comes now stands behind it.
    #[inline]
    #[must_use]
    pub fn has_line(&self, connection: u64, position: Position) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&(connection, position))
    }

    /// Requests that wait, for those who look.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiting.iter().map(|id| self.lines[id].waiting()).sum()
    }

    /// What an attempt is about, as long as it is under way.
    #[must_use]
    pub fn get(&self, attempt: u64) -> Option<&T> {
        let line = &self.lines[self.attempts.get(&attempt)?];
        line.entries.iter().find(|entry| entry.attempt == Some(attempt)).map(|entry| &entry.request.what)
    }

    /// Whether an earlier try of a change may have been executed: then a refusal of this one is not certain to have done nothing, because
    /// whoever refuses says so of this try alone.
    #[must_use]
    pub fn doubts(&self, attempt: u64) -> bool {
        let line = self.attempts.get(&attempt).map(|id| &self.lines[id]);
        let entry = line.and_then(|line| line.entries.iter().find(|entry| entry.attempt == Some(attempt)));
        entry.is_some_and(|entry| entry.is_again && entry.request.nature == Nature::Numbered)
    }

    /// How often a request has been tried before this attempt, for those who look.
    #[must_use]
    pub fn retries(&self, attempt: u64) -> u32 {
        let line = self.attempts.get(&attempt).map(|id| &self.lines[id]);
        let entry = line.and_then(|line| line.entries.iter().find(|entry| entry.attempt == Some(attempt)));
        entry.map_or(0, |entry| entry.tries.saturating_sub(1))
    }

    pub fn submit(&mut self, request: Submission<T>, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        if self.bytes.saturating_add(request.bytes) > self.options.bytes_max {
            return out.push(Action::Answer { what: request.what, code: ErrorCode::Busy });
        }
        self.bytes += request.bytes;
        let id = (request.connection, request.position);
        let line = self.line(id);
        line.entries.push_back(Entry { attempt: None, is_again: false, tries: 0, arrived_ms: now_ms, request });
        self.go_on(id, now_ms, routes, out);
    }

    /// Requests of this node's connections that were not in line, because nobody stood in it when they came, and were given back by
    /// their replica, which leads no more and has not proposed them; in the order in which they came. Whoever is in the line has
    /// come since, and goes behind them.
    pub fn give_back(&mut self, requests: Vec<Submission<T>>, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::GivenBackLast) {
            return requests.into_iter().for_each(|request| self.submit(request, now_ms, routes, out));
        }
        let mut ids = BTreeSet::new();
        for request in requests.into_iter().rev() {
            self.bytes += request.bytes;
            let id = (request.connection, request.position);
            let line = self.line(id);
            // Nothing goes before those under way are back.
            line.is_draining |= line.under_way > 0;
            line.entries.push_front(Entry { attempt: None, is_again: false, tries: 0, arrived_ms: now_ms, request });
            ids.insert(id);
        }
        for id in ids {
            self.go_on(id, now_ms, routes, out);
        }
    }

    fn line(&mut self, id: LineId) -> &mut Line<T> {
        let stream = &mut self.last_stream;
        self.lines.entry(id).or_insert_with(|| {
            *stream += 1;
            Line::new(*stream)
        })
    }

    /// The attempt has its answer, whatever it is: executed, refused for good, or in doubt. Gives back who asked, unless
    /// nobody waits any more.
    pub fn answered(
        &mut self,
        attempt: u64,
        now_ms: u64,
        routes: &Routes,
        out: &mut Vec<Action<T>>,
    ) -> Option<Answered<T>> {
        let id = self.attempts.remove(&attempt)?;
        let line = self.lines.get_mut(&id).expect("an attempt belongs to a line");
        let entry = line.remove(attempt);
        self.bytes -= entry.request.bytes;
        if !line.is_draining {
            (line.stuck_since_ms, line.refused_by) = (None, None);
        }
        self.go_on(id, now_ms, routes, out);
        let may_have_happened = entry.is_again && entry.request.nature == Nature::Numbered;
        Some(Answered { what: entry.request.what, may_have_happened })
    }

    /// The attempt was certainly not executed. What the refusal says of the map goes into the routes.
    pub fn refused(&mut self, attempt: u64, why: Refused, now_ms: u64, routes: &mut Routes, out: &mut Vec<Action<T>>) {
        let Some(id) = self.attempts.remove(&attempt) else { return };
        let line = self.lines.get_mut(&id).expect("an attempt belongs to a line");
        let (to, shard, epoch) = line.target.expect("what is under way has a target");
        line.take_back(attempt);
        line.is_draining = true;
        line.stuck_since_ms.get_or_insert(now_ms);
        match why {
            Refused::Moved(moved) => {
                line.refused_by = Some((to, now_ms + self.options.retry_ms));
                #[cfg(feature = "mutants")]
                if let (Some(Mutant::HintFollowedBlindly), Some(node)) = (self.options.mutant, moved.leader) {
                    line.hint = Some(node);
                }
                routes.heed(shard, moved);
                // It has been told that the shard is another one by now.
                if routes.find(id.1).is_some_and(|place| place.epoch.owner() != epoch.owner()) {
                    line.refused_by = None;
                }
            }
            Refused::StaleRoute if routes.find(id.1).is_some_and(|place| place.epoch.owner() != epoch.owner()) => {}
            Refused::NoLeader | Refused::StaleRoute => line.refused_by = Some((to, now_ms + self.options.retry_ms)),
            Refused::OldGeneration => {}
        }
        self.go_on(id, now_ms, routes, out);
    }

    pub fn link_up(&mut self, node: NodeId, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        self.links.insert(node);
        self.news(now_ms, routes, out);
    }

    /// Whatever was under way there has no answer, and gets none.
    pub fn link_down(&mut self, node: NodeId, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        self.links.remove(&node);
        let is_hit =
            |line: &Line<T>| line.under_way > 0 && line.target.is_some_and(|(to, ..)| to == Destination::Node(node));
        let hit: Vec<LineId> = self.lines.iter().filter(|(_, line)| is_hit(line)).map(|(id, _)| *id).collect();
        for id in hit {
            let line = self.lines.get_mut(&id).expect("it was just found");
            line.is_draining = true;
            line.stuck_since_ms.get_or_insert(now_ms);
            for (attempt, nature) in line.attempts() {
                self.attempts.remove(&attempt);
                let is_lost = nature == Nature::Change;
                #[cfg(feature = "mutants")]
                let is_lost = is_lost && self.options.mutant != Some(Mutant::RetryInDoubt);
                if is_lost {
                    let entry = line.remove(attempt);
                    self.bytes -= entry.request.bytes;
                    out.push(Action::Answer { what: entry.request.what, code: ErrorCode::InDoubt });
                } else {
                    line.take_back(attempt).is_again = true;
                }
            }
            self.go_on(id, now_ms, routes, out);
        }
    }

    /// Something was heard of leaders, nodes or the map.
    pub fn news(&mut self, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        let waiting: Vec<LineId> = self.waiting.iter().copied().collect();
        for id in waiting {
            self.go_on(id, now_ms, routes, out);
        }
    }

    /// Time has passed. Gives up what has waited for too long, and tries the rest again.
    pub fn tick(&mut self, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        let waiting: Vec<LineId> = self.waiting.iter().copied().collect();
        for id in waiting {
            let line = self.lines.get_mut(&id).expect("a line that waits is there");
            for (entry, code) in line.give_up(now_ms, self.options.hold_ms) {
                self.bytes -= entry.request.bytes;
                out.push(Action::Answer { what: entry.request.what, code });
            }
            self.go_on(id, now_ms, routes, out);
        }
    }

    /// A connection is gone: what waits is dropped, what is under way goes to nobody.
    pub fn closed(&mut self, connection: u64) {
        let first = (connection, Position(0));
        let last = (connection, Position(u64::MAX));
        let ids: Vec<LineId> = self.lines.range(first..=last).map(|(id, _)| *id).collect();
        for id in ids {
            let line = self.lines.remove(&id).expect("it was just found");
            self.waiting.remove(&id);
            for entry in line.entries {
                self.bytes -= entry.request.bytes;
                if let Some(attempt) = entry.attempt {
                    self.attempts.remove(&attempt);
                }
            }
        }
    }

    /// Sends of a line what may be sent.
    fn go_on(&mut self, id: LineId, now_ms: u64, routes: &Routes, out: &mut Vec<Action<T>>) {
        let line = self.lines.get_mut(&id).expect("lines are removed only here and when a connection closes");
        if line.under_way == 0 && line.is_draining {
            line.is_draining = false;
            line.generation += 1;
        }
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(Mutant::OrderLostByRetry) && line.is_draining {
            line.is_draining = false;
            line.generation += 1;
        }
        while !line.is_draining
            && let Some(next) = line.next()
        {
            let catalogue = line.entries[next].request.catalogue;
            let way = line.way(id.1, now_ms, routes, &self.links).map(|(to, place)| {
                let target = (to, place.shard, place.request_epoch(catalogue));
                (target, line.under_way == 0 || line.target == Some(target))
            });
            match way {
                None => {
                    line.stuck_since_ms.get_or_insert(now_ms);
                    break;
                }
                // It waits for those before it, which go another way.
                Some((_, false)) => break,
                Some((target, true)) => {
                    self.last_attempt += 1;
                    self.attempts.insert(self.last_attempt, id);
                    out.push(Action::Attempt(line.begin(next, self.last_attempt, target, now_ms)));
                }
            }
        }
        let waits = line.waiting() > 0;
        if line.entries.is_empty() {
            self.lines.remove(&id);
        }
        if waits {
            self.waiting.insert(id)
        } else {
            self.waiting.remove(&id)
        };
    }
}

#[cfg(test)]
mod tests;
