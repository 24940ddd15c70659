//! What the view from above sees of coordination: what is asked, what is told, and what leaders hold.

use std::collections::BTreeSet;

use shardine_coord::{Ask, Command, Description, Message, SessionId, Status, read_opening};
use shardine_model::log::LogEntry;

use crate::check::Violation;
use crate::coord::Coordination;
use crate::coord::check::every_request_is_answered_once::{Request, Requests};
use crate::coord::check::first_come_first_served::{self, Queues};
use crate::coord::check::granted_stays_granted;
use crate::coord::check::no_change_is_missed::Watched;
use crate::coord::check::order_ids_only_grow::Orders;
use crate::coord::check::reads_are_fresh::{Floor, Log};
use crate::coord::check::sessions_live_their_time::{self, Sessions};
use crate::coord::check::tokens_stay_within_the_limit::{self, Told};
use crate::coord::counters::Counters;
use crate::coord::names::{NAMES, PATH};
use crate::world::World;

/// A request as its client sent it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub wire: usize,
    pub session: SessionId,
    pub req: u64,
    pub name: usize,
    /// The session certainly had no claim on the semaphore.
    pub was_free: bool,
    pub sent: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Watch {
    requests: Requests,
    sessions: Sessions,
    tokens: Told,
    queues: Queues,
    orders: Orders,
    changes: Watched,
    log: Log,
    /// Leaders that have begun to serve, by term.
    led: BTreeSet<u64>,
}

impl Watch {
    /// A client sends a request.
    pub fn asked(&mut self, asked: Asked, ask: &Ask) {
        let Asked { session, req, name, .. } = asked;
        match *ask {
            Ask::Release { .. } => {
                self.tokens.give_up(name, session, req);
                self.orders.give_up(name, session);
                self.queues.leave(name, session);
            }
            Ask::Acquire { count, .. } => {
                self.tokens.lower(name, session, req, count);
                self.queues.leave(name, session);
            }
            Ask::Stop | Ask::Create { .. } | Ask::Update { .. } | Ask::Delete { .. } | Ask::Describe { .. } => {}
        }
        let (order_floor, index_floor) = (self.orders.largest(), self.log.newest());
        self.requests.ask(Request { asked, ask: ask.clone(), waits: false, order_floor, index_floor });
    }

    /// A client asks for the end of its session.
    pub fn leaves(&mut self, session: SessionId) {
        self.sessions.leave(session);
        self.tokens.forget(session);
        self.queues.forget_session(session);
    }

    pub fn forget_wire(&mut self, wire: usize) {
        self.requests.forget_wire(wire);
        self.queues.forget_wire(wire);
        self.changes.forget_wire(wire);
    }

    /// An acquire is granted.
    fn grant(&mut self, request: &Request, count: u64, seat: (usize, u64), now: u64) -> Result<u64, Violation> {
        let Asked { wire, session, req, name, was_free, sent } = request.asked;
        if self.sessions.is_stopped(session) {
            return Ok(0);
        }
        if was_free && !NAMES[name].is_scrap {
            self.queues.serve(name, session, seat, sent)?;
            self.orders.grant(name, session, wire, request.order_floor);
        }
        self.queues.leave(name, session);
        let sessions = &self.sessions;
        self.tokens.grant((name, session), (req, count), |session| sessions.is_alive(session, now))
    }

    /// A describe is answered. Says whether an owner learned its own number.
    fn describe(&mut self, request: &Request, found: &Description, watch_added: bool) -> Result<bool, Violation> {
        let Asked { wire, session, req, name, .. } = request.asked;
        if let (true, &Ask::Describe { watch_data, watch_owners, .. }) = (watch_added, &request.ask) {
            self.changes.set((wire, req), name, found, watch_data, watch_owners);
        }
        self.orders.see(name, session, wire, found)
    }
}

impl World<Coordination> {
    /// A node says something to a stream.
    pub fn hear_from_above(&mut self, node: usize, wire: usize, message: &Message) -> Result<(), Violation> {
        let (now, seat) = (self.now, (node, self.nodes[node].life));
        let Coordination { watch, counters, wires, .. } = &mut self.tenant;
        let request = watch.requests.answer(wire, message)?;
        match (message, request) {
            (Message::Started { session, .. }, _) => {
                wires[wire].session = Some(*session);
                if wires[wire].wants == SessionId(0) {
                    counters.sessions_begun += 1;
                    watch.sessions.begin(*session)?;
                } else {
                    counters.sessions_restored += 1;
                }
            }
            (Message::Stopped { .. }, _) => counters.sessions_stopped += 1,
            (Message::Failure(refusal), _) => {
                counters.streams_sent_away += u64::from(refusal.status == Status::Unavailable);
                counters.streams_taken_over += u64::from(refusal.status == Status::BadSession);
            }
            (Message::Changed { req, data, owners }, _) => {
                counters.changes_told += u64::from(*data || *owners);
                counters.changes_spurious += u64::from(!*data && !*owners);
                watch.changes.fire(wire, *req)?;
            }
            (Message::Pending { .. }, Some(request)) => {
                let Asked { session, name, .. } = request.asked;
                counters.queues_joined += u64::from(!watch.queues.is_empty(name));
                // Told after its client has asked for its end, which the leader may know before anybody else asks.
                if !watch.sessions.is_stopped(session) {
                    watch.queues.wait(name, session, wire, seat, now);
                }
            }
            (Message::Acquired { result, .. }, Some(request)) => {
                let Asked { session, name, .. } = request.asked;
                let &Ask::Acquire { count, .. } = &request.ask else { return Ok(()) };
                match result {
                    Ok(true) => {
                        counters.granted_after_wait += u64::from(request.waits);
                        counters.granted_at_once += u64::from(!request.waits);
                        counters.shared += u64::from(watch.grant(&request, count, seat, now)? > 0);
                    }
                    Ok(false) => counters.not_granted += 1,
                    Err(refusal) if refusal.status == Status::Aborted => counters.aborted += 1,
                    Err(_) => counters.refused += 1,
                }
                if request.waits {
                    watch.queues.leave(name, session);
                }
            }
            (Message::Described { result, watch_added, .. }, Some(request)) => {
                counters.watches_set += u64::from(*watch_added);
                if let Ok(found) = result {
                    counters.own_numbers += u64::from(watch.describe(&request, found, *watch_added)?);
                }
                return self.check_freshness(node, request.index_floor);
            }
            (answer, Some(_)) => count_answer(counters, answer),
            (_, None) => {}
        }
        Ok(())
    }

    fn check_freshness(&mut self, node: usize, asked_at: u64) -> Result<(), Violation> {
        let config = self.tenant.plan.config;
        self.tenant.counters.described += 1;
        self.tenant.counters.described_by_deposed += u64::from(self.newest_leader(0) != Some(node));
        let floor = match config.reads_are_strict() {
            true => Floor::Strict { asked_at },
            false => Floor::Relaxed { grace_ms: config.grace_ms() },
        };
        self.tenant.watch.log.check(self.nodes[node].replicas[0].applied(), floor, self.now)
    }

    /// An entry is applied for the first time anywhere.
    pub fn look_at_entry(&mut self, entry: &LogEntry) -> Result<(), Violation> {
        let Coordination { watch, counters, main_node, .. } = &mut self.tenant;
        watch.log.apply(entry.index, self.now);
        if entry.data.is_empty() {
            return Ok(());
        }
        let mut reader = read_opening(&entry.data).expect("made by a replica of this run");
        while !reader.is_empty() {
            match Command::decode(&mut reader).expect("made by a replica of this run") {
                Command::Expire(by) if Some(by.node) == *main_node => {
                    counters.sessions_expired += 1;
                    watch.sessions.expire(by.session, self.now)?;
                }
                // Who has come back and left again in the same moment has its timeout from then on.
                Command::Attach(start) => watch.sessions.promise(start.session, self.now, start.timeout_ms),
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks at a replica that has just taken its turn.
    pub fn look_at_replica(&mut self, node: usize, has_applied: bool) -> Result<(), Violation> {
        let Some(main) = self.tenant.main_node else { return Ok(()) };
        let leads = self.newest_leader(0) == Some(node) && self.nodes[node].replicas[0].is_serving();
        if leads {
            self.renew_promises(node);
        }
        if !has_applied {
            return Ok(());
        }
        let (coord, watch) = (self.nodes[node].replicas[0].coord(), &self.tenant.watch);
        for (number, name) in NAMES.iter().enumerate() {
            if leads {
                let held = watch.tokens.held(number, |session| watch.sessions.is_alive(session, self.now));
                granted_stays_granted::check(coord, main, number, held)?;
            }
            let Some(found) = coord.describe(main, name.text, true, true) else { continue };
            tokens_stay_within_the_limit::check_state(&found)?;
            first_come_first_served::check_state(&found)?;
            sessions_live_their_time::check_state(coord, main, &found)?;
        }
        let (wires, life) = (&self.tenant.wires, self.nodes[node].life);
        watch.changes.check(coord, main, |wire| (wires[wire].node, wires[wire].life) == (node, life))
    }

    /// Whoever is attached to the newest leader lives for its timeout from now, at least; a new leader gives more.
    fn renew_promises(&mut self, node: usize) {
        let Some(main) = self.tenant.main_node else { return };
        let replica = &self.nodes[node].replicas[0];
        let timeout_of = |session| {
            let by = shardine_coord::Asker { node: main, session };
            replica.coord().session(by).map(|(timeout_ms, _)| timeout_ms)
        };
        let grace_ms = self.tenant.plan.config.grace_ms();
        let mut promised: Vec<(SessionId, u64)> = Vec::new();
        if self.tenant.watch.led.insert(replica.term()) {
            let known = self.tenant.watch.sessions.known();
            promised.extend(known.filter_map(|session| Some((session, timeout_of(session)? + grace_ms))));
            self.tenant.counters.takeovers_with_sessions += u64::from(!promised.is_empty());
        }
        let attached = self.wires_at(node).into_iter().filter_map(|wire| self.tenant.wires[wire].session);
        promised.extend(attached.filter_map(|session| Some((session, timeout_of(session)?))));
        for (session, for_ms) in promised {
            self.tenant.watch.sessions.promise(session, self.now, for_ms);
        }
    }

    /// The number of the node where everything happens, once it is made.
    pub fn learn_main_node(&mut self) {
        let found = self.nodes.iter().filter_map(|node| node.replicas.first()?.coord().find_node(PATH)).next();
        self.tenant.main_node = found;
    }
}

fn count_answer(counters: &mut Counters, answer: &Message) {
    match answer {
        Message::Released { result: Ok(released), .. } => counters.released += u64::from(*released),
        Message::Created { result: Ok(()), .. } => counters.created += 1,
        Message::Updated { result: Ok(()), .. } => counters.updated += 1,
        Message::Deleted { result: Ok(()), .. } => counters.deleted += 1,
        _ => counters.refused += 1,
    }
}
