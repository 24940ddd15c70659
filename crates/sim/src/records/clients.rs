//! Clients: each does one thing at a time, finds the leader by trying, gives up in its own way, and knows of every
//! operation whether it was done, certainly not done, or neither.

use std::rc::Rc;

use shardine_model::command::Origin;
use shardine_model::{Answer, ClientId, ErrorCode, RequestEpoch, Version, WriteMode};
use shardine_shard::{Caller, ReadNow, ReadStale, Replica};

use crate::chance::Chance;
use crate::check::heals_in_time;
use crate::ground::{MS, Span};
use crate::records::Records;
use crate::records::ask::{Ask, Job, Saw, read_answer, with_request};
use crate::records::check::stale_reads_are_bounded::{Answered, Known, ReplicaLife};
use crate::records::check::{flush_means_in_sql, told_sql_is_true};
use crate::records::draw::draw;
use crate::records::event::{Event, Input, arrive};
use crate::records::history::{Attempt, Operation};
use crate::records::lanes::ALONE;
use crate::records::model::{Moments, State, effect};
use crate::records::plan::Plan;
use crate::records::universe::{Content, Row, USERS, Universe, content_of};
use crate::records::watch::Watch;
use crate::world::World;

#[derive(Clone, Debug)]
pub struct Client {
    pub chance: Chance,
    /// Only reads, from any node: a node that merely believes to lead is found out by what it tells readers.
    pub only_reads: bool,
    /// Whether it numbers its requests, and so may send them again.
    numbered: bool,
    patience: u64,
    attempts_max: u32,
    think: Span,
    /// The node that answered last, by shard.
    leader: Vec<usize>,
    next_sequence: u64,
    /// Operations that are under way, oldest first: one, unless it sends several behind each other.
    running: Vec<Running>,
    pub window: usize,
    /// Whether it is about to begin another one.
    is_acting: bool,
    /// Where it is connected, in runs in which nodes have links.
    pub connection: Option<u64>,
    /// What it saw last of each row.
    pub known: Vec<(Version, i64)>,
    /// Rows still to be read when everything has settled.
    pub last_reads: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Running {
    operation: usize,
    shard: usize,
    origin: Option<Origin>,
    attempt: u64,
    attempts: u32,
    /// Between two attempts: the last one has failed, the next is not sent yet.
    waiting: bool,
    /// Whether some attempt may have been executed.
    in_doubt: bool,
    /// For a flush: rows, and the magnitudes acknowledged before it began.
    flush_floor: Vec<(usize, u64)>,
}

impl Client {
    #[must_use]
    pub fn new(number: usize, plan: &Plan, universe: &Universe, groups: usize, chance: &mut Chance) -> Self {
        let mut chance = chance.fork(number as u64);
        Self {
            only_reads: number % 3 == 2 && chance.percent(60),
            numbered: chance.percent(plan.operations.numbered_percent),
            patience: chance.pick(&[400 * MS, 1_000 * MS, 4_000 * MS]),
            attempts_max: chance.pick(&[2, 6, 20]),
            think: plan.think,
            leader: vec![0; groups],
            next_sequence: 1,
            running: Vec::new(),
            window: 1,
            is_acting: false,
            connection: None,
            known: vec![(Version::NEVER, 0); universe.rows.len()],
            last_reads: Vec::new(),
            chance,
        }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    fn running(&mut self, operation: usize) -> Option<&mut Running> {
        self.running.iter_mut().find(|running| running.operation == operation)
    }

    /// Attempts that it waits for.
    pub fn awaited(&self) -> Vec<u64> {
        self.running.iter().filter(|running| !running.waiting).map(|running| running.attempt).collect()
    }
}

impl World<Records> {
    /// A client without work begins the next operation.
    pub fn client_acts(&mut self, number: usize) {
        let client = &mut self.tenant.clients[number];
        client.is_acting = false;
        if client.running.len() >= client.window {
            return;
        }
        let job = match client.last_reads.pop() {
            Some(row) => Job::One { row, ask: Ask::Get },
            None if self.faults_on => {
                draw(client, &self.tenant.plan, &self.tenant.universe, self.now, &mut self.tenant.next_value)
            }
            None => return,
        };
        self.begin(number, job);
    }

    fn begin(&mut self, number: usize, job: Job) {
        let shard = self.tenant.watch.truth.owner(job.row());
        let flush_floor = self.flush_floor(&job);
        let client = &mut self.tenant.clients[number];
        // A read or a kick may be repeated as it is; only changes need a number.
        let is_change = !job.only_reads() && !job.touches().is_empty();
        let outstanding =
            client.running.iter().filter_map(|running| running.origin).map(|origin| origin.sequence).min();
        let origin = (client.numbered && is_change).then(|| {
            let sequence = client.next_sequence;
            client.next_sequence += 1;
            // Whatever has a lower number is answered, or given up.
            let lowest = outstanding.unwrap_or(sequence);
            Origin { lowest, ..Origin::new(ClientId(number as u64 + 1), sequence) }
        });
        let operation = self.tenant.history.invoke(job, origin);
        let (attempt, attempts, waiting, in_doubt) = (0, 0, false, false);
        let running = Running { operation, shard, origin, attempt, attempts, waiting, in_doubt, flush_floor };
        let client = &mut self.tenant.clients[number];
        self.tenant.counters.pipelined += u64::from(!client.running.is_empty());
        client.running.push(running);
        let goes_on = client.running.len() < client.window && !client.is_acting && self.faults_on;
        if goes_on {
            client.is_acting = true;
            let pause = client.chance.between((0, 2 * MS));
            self.later(pause, Event::ClientActs { client: number }.into());
        }
        self.try_once(number, operation);
    }

    fn flush_floor(&self, job: &Job) -> Vec<(usize, u64)> {
        let Job::Flush { row, whole_shard } = *job else { return Vec::new() };
        let truth = &self.tenant.watch.truth;
        let covered = |other: &usize| {
            let is_sql = self.tenant.universe.rows[*other].is_sql();
            is_sql && (*other == row || whole_shard && truth.owner(*other) == truth.owner(row))
        };
        (0..self.tenant.universe.rows.len()).filter(covered).map(|row| (row, self.tenant.acknowledged[row])).collect()
    }

    /// Sends the running operation to the node that is thought to lead, or now and then to any.
    fn try_once(&mut self, number: usize, operation: usize) {
        let nodes = self.nodes.len();
        let is_stale = matches!(self.tenant.history.operation(operation).job, Job::Stale { .. });
        let connection = (self.ground.has_links && !is_stale).then(|| self.connection_of(number));
        let client = &mut self.tenant.clients[number];
        let shard = client.running(operation).expect("only called while an operation runs").shard;
        let stray_percent = if client.only_reads || is_stale { 100 } else { self.tenant.plan.stray_percent };
        let node = match connection {
            Some((_, node)) => node,
            None if client.chance.percent(stray_percent) => client.chance.index(nodes),
            None => client.leader[shard],
        };
        let patience = client.patience;
        let connection = connection.map(|(connection, _)| connection);
        let attempt = self.tenant.history.send(number, operation, node, connection);
        let running = client.running(operation).expect("only called while an operation runs");
        running.attempts += 1;
        (running.attempt, running.waiting) = (attempt, false);
        self.tenant.counters.retries += u64::from(running.attempts > 1 && running.origin.is_some());
        self.note(&[8, number as u64, operation as u64, node as u64], || {
            format!("client {number} sends operation {operation} to node {} as {attempt}", node + 1)
        });
        if let Some(connection) = connection {
            self.put_into_pipe(connection, attempt);
        } else if let Some(at) = self.net.send_to_client_or_back(self.now) {
            self.schedule.at(at, arrive(node, Input::Request { attempt }));
        }
        self.later(patience, Event::ClientGivesUp { attempt }.into());
    }

    /// A request comes to a node on a connection.
    pub fn take_request_of(&mut self, node: usize, attempt: u64, connection: u64) {
        self.tenant.history.take(attempt, self.nodes[node].life, self.now);
        let job = self.tenant.history.job_of(attempt).clone();
        self.note(&[33, node as u64, attempt], || {
            format!("node {} takes request {attempt} on connection {connection}: {job:?}", node + 1)
        });
        self.take_routed(node, attempt, connection);
    }

    /// A request reaches a node.
    pub fn take_request(&mut self, node: usize, attempt: u64) {
        let &Attempt { client, operation, .. } = self.tenant.history.attempt(attempt);
        self.tenant.history.take(attempt, self.nodes[node].life, self.now);
        let caller = Caller { source: client as u64, sequence: attempt };
        let Operation { job, origin, .. } = self.tenant.history.operation(operation).clone();
        if let Job::Stale { row, max_age_ms } = job {
            return self.take_stale_read(node, attempt, row, max_age_ms);
        }
        let universe = Rc::clone(&self.tenant.universe);
        self.note(&[9, node as u64, attempt], || format!("node {} takes request {attempt}: {job:?}", node + 1));
        let Some(shard) = self.holder(node, job.row()) else {
            return self.answer(node, attempt, Answer::Failed(ErrorCode::NotLeader));
        };
        self.tenant.history.is_for(attempt, shard);
        self.drive(node, shard, |replica, actions| serve(replica, &universe.rows, &job, origin, caller, actions));
        let is_serving = self.nodes[node].replicas.get(shard).is_some_and(Replica::is_serving);
        let is_read = matches!(job, Job::One { ask: Ask::Get, .. });
        self.tenant.counters.asked_deposed += u64::from(is_serving && is_read && self.leader_of(shard) != Some(node));
        if is_serving && is_read {
            self.spring(node);
        }
    }

    /// A read that may be old reaches a node, which answers at once or not at all.
    fn take_stale_read(&mut self, node: usize, attempt: u64, row: usize, max_age_ms: u64) {
        let client = self.tenant.history.attempt(attempt).client;
        // On no connection: it must not end with one that happens to have the client's number.
        let caller = Caller { source: ALONE | attempt, sequence: attempt };
        let universe = Rc::clone(&self.tenant.universe);
        let key = universe.rows[row].key.as_ref();
        self.note(&[16, node as u64, attempt], || format!("node {} takes stale read {attempt}", node + 1));
        let found = self.holder(node, row);
        let found = found.and_then(|shard| Some((shard, self.nodes[node].replicas.get(shard)?.id())));
        let Some((shard, replica)) = found else {
            return self.answer(node, attempt, Answer::Failed(ErrorCode::NotLeader));
        };
        let mut found = None;
        self.drive(node, shard, |replica, actions| match replica.read_stale(key, max_age_ms) {
            ReadStale::Found { row, applied } => found = Some((shardine_records::read_reply(row), applied)),
            ReadStale::Refused(code) => actions.answers.push((caller, Answer::Failed(code))),
            ReadStale::Later => replica.read(caller, key, actions),
        });
        let Some((reply, applied)) = found else {
            self.tenant.counters.stale_refused += 1;
            return;
        };
        self.tenant.counters.stale_reads += u64::from(self.leader_of(shard) != Some(node));
        let told = (reply.version, reply.row().map(|image| content_of(image.view())));
        let place = ReplicaLife { node, life: self.nodes[node].life, shard, replica };
        let read = Answered { client, place, applied, told, max_age: max_age_ms * MS };
        let Watch { truth, stale, .. } = &mut self.tenant.watch;
        let known = Known { held: truth.at(row, shard, applied), replaced_at: truth.replaced_at(row, shard, applied) };
        self.tenant.counters.stale_old += u64::from(known.replaced_at.is_some());
        let verdict = stale.check(read, known, self.now);
        self.demand(verdict);
        self.answer(node, attempt, Answer::One(reply));
    }

    /// A node answers; the answer may be lost on its way.
    pub fn answer(&mut self, node: usize, attempt: u64, answer: Answer) {
        self.note(&[10, node as u64, attempt], || format!("node {} answers {attempt}: {answer:?}", node + 1));
        let are_parted = self.ground.groups > self.ground.founded;
        let verdict = self.tenant.history.answer(attempt, &answer, are_parted, self.now);
        self.demand(verdict);
        let &Attempt { client, operation, .. } = self.tenant.history.attempt(attempt);
        if let Some(running) = self.tenant.clients[client].running(operation)
            && !matches!(answer, Answer::Failed(_))
        {
            for (row, magnitude) in running.flush_floor.clone() {
                // What was parted off meanwhile is not in the shard that was flushed.
                let asked = self.tenant.history.attempt(attempt).shard;
                if asked.is_some_and(|shard| !self.tenant.watch.truth.is_of(row, shard)) {
                    continue;
                }
                let key = &self.tenant.universe.rows[row].key;
                if self.tenant.sql.is_purged(key, magnitude) {
                    continue;
                }
                let verdict = flush_means_in_sql::check(operation, key, magnitude, &self.tenant.sql.row(key));
                self.demand(verdict);
            }
        }
        self.check_told_contents(attempt, &answer);
        self.check_told_versions(attempt, &answer);
        if matches!(self.tenant.history.job_of(attempt), job @ Job::Pair { .. } if job.only_reads()) {
            self.tenant.counters.reads_in_log += 1;
        }
        if let Some(at) = self.net.send_to_client_or_back(self.now) {
            self.schedule.at(at, Event::Answer { attempt, answer }.into());
        }
    }

    /// What is said of a row must be what its version holds everywhere else.
    fn check_told_contents(&mut self, attempt: u64, answer: &Answer) {
        let job = self.tenant.history.job_of(attempt).clone();
        let Ok(seen) = read_answer(&job, answer) else { return };
        for ((row, ask), saw) in job.looks_at().into_iter().zip(&seen) {
            if let (Some(version), Some(content)) = (saw.version(), told_content(ask, saw)) {
                let verdict = self.tenant.watch.contents.note(row, version, content);
                self.demand(verdict);
            }
        }
    }

    /// What is said of SQL must be true when it is said; an answer of a table that is written through says that SQL has it,
    /// or that the wait was over.
    fn check_told_versions(&mut self, attempt: u64, answer: &Answer) {
        let replies = match answer {
            Answer::One(reply) => std::slice::from_ref(reply),
            Answer::Many(replies) => replies.as_slice(),
            Answer::ConditionFailed | Answer::Failed(_) => &[],
        };
        let touches = self.tenant.history.job_of(attempt).looks_at();
        for (reply, (row, ask)) in replies.iter().zip(touches) {
            let row = &self.tenant.universe.rows[row];
            if !row.is_sql() || self.tenant.sql.is_purged(&row.key, reply.sql_version.magnitude()) {
                continue;
            }
            let is_through = row.key.table == USERS && self.tenant.plan.tables.users_mode == WriteMode::Through;
            if is_through && ask != Ask::Get && reply.refusal().is_none() {
                let is_written = reply.sql_version.magnitude() >= reply.version.magnitude();
                self.tenant.counters.through_written += u64::from(is_written);
                self.tenant.counters.through_pending += u64::from(!is_written);
            }
            let verdict = told_sql_is_true::check(&row.key, reply, &self.tenant.sql.row(&row.key));
            self.demand(verdict);
        }
    }

    pub fn client_hears(&mut self, attempt: u64, answer: &Answer) {
        let &Attempt { client: number, operation, node, .. } = self.tenant.history.attempt(attempt);
        let seen = read_answer(self.tenant.history.job_of(attempt), answer);
        let Some(running) = self.tenant.clients[number].running(operation) else { return };
        match seen {
            Ok(seen) => {
                self.tenant.counters.recalled += u64::from(running.in_doubt && running.origin.is_some());
                let shard = running.shard;
                if !matches!(self.tenant.history.operation(operation).job, Job::Stale { .. }) {
                    self.tenant.clients[number].leader[shard] = node;
                }
                self.learn(number, operation, &seen);
                self.tenant.counters.answered += 1;
                self.end(number, operation);
            }
            // Of an attempt that was given up, no bad news is news.
            Err(_) if running.attempt != attempt || running.waiting => {}
            Err(code) => {
                running.in_doubt |= code.is_in_doubt();
                self.tenant.counters.refused_dirty += u64::from(code == ErrorCode::DirtyLimit);
                self.tenant.counters.refused_suspended += u64::from(code == ErrorCode::Suspended);
                self.try_again_or_end(
                    number,
                    operation,
                    !matches!(code, ErrorCode::Busy | ErrorCode::Suspended | ErrorCode::DirtyLimit),
                );
            }
        }
    }

    pub fn client_gives_up(&mut self, attempt: u64) {
        let &Attempt { client: number, connection, .. } = self.tenant.history.attempt(attempt);
        if !self.tenant.clients[number].awaited().contains(&attempt) {
            return;
        }
        match connection {
            Some(connection) => self.hang_up(number, connection),
            None => self.has_no_answer(attempt),
        }
    }

    /// Nobody will tell the client what has become of an attempt.
    pub fn has_no_answer(&mut self, attempt: u64) {
        let &Attempt { client: number, operation, .. } = self.tenant.history.attempt(attempt);
        let is_awaited = |running: &&mut Running| running.attempt == attempt && !running.waiting;
        let Some(running) = self.tenant.clients[number].running(operation).filter(is_awaited) else { return };
        running.in_doubt = true;
        self.try_again_or_end(number, operation, true);
    }

    /// A request that may have been executed is sent again only under its number, or if it changes nothing.
    fn try_again_or_end(&mut self, number: usize, operation: usize, elsewhere: bool) {
        let nodes = self.nodes.len();
        let client = &mut self.tenant.clients[number];
        let running = client.running.iter_mut().find(|running| running.operation == operation);
        let running = running.expect("only called while an operation runs");
        let only_reads = self.tenant.history.operation(running.operation).job.only_reads();
        let may_repeat = running.origin.is_some() || only_reads || !running.in_doubt;
        // The last reads must come through; a change may be refused for as long as memory is too small for its rows.
        let attempts_max = if self.faults_on || !only_reads { client.attempts_max } else { 1_000 };
        if !may_repeat || running.attempts >= attempts_max {
            if only_reads && !self.faults_on {
                let job = &self.tenant.history.operation(running.operation).job;
                let never = heals_in_time::violation(&format!("client {number} is refused again and again: {job:?}"));
                self.violation.get_or_insert(never);
            }
            self.tenant.counters.unknown += u64::from(running.in_doubt);
            self.tenant.counters.failed += u64::from(!running.in_doubt);
            return self.end(number, operation);
        }
        if elsewhere {
            let shard = running.shard;
            client.leader[shard] = (client.leader[shard] + 1) % nodes;
        }
        let delay = client.chance.between((MS, 60 * MS));
        running.waiting = true;
        let attempt = running.attempt;
        self.later(delay, Event::ClientActsAgain { client: number, attempt }.into());
    }

    /// The pause before another attempt is over.
    pub fn client_acts_again(&mut self, number: usize, attempt: u64) {
        let is_same = |running: &&Running| running.attempt == attempt && running.waiting;
        if let Some(running) = self.tenant.clients[number].running.iter().find(is_same) {
            self.try_once(number, running.operation);
        }
    }

    fn learn(&mut self, number: usize, operation: usize, seen: &[Saw]) {
        let touches = self.tenant.history.operation(operation).job.touches();
        self.tenant.counters.undone_batches += u64::from(seen.contains(&Saw::Undone));
        for ((row, ask), saw) in touches.into_iter().zip(seen) {
            let Some(version) = saw.version() else { continue };
            self.tenant.acknowledged[row] = self.tenant.acknowledged[row].max(version.magnitude());
            let value = told_content(ask, saw).flatten().map_or(0, |content| content.value);
            self.tenant.clients[number].known[row] = (version, value);
        }
    }

    fn end(&mut self, number: usize, operation: usize) {
        let client = &mut self.tenant.clients[number];
        client.running.retain(|running| running.operation != operation);
        let pause = client.chance.between(client.think);
        if std::mem::replace(&mut client.is_acting, true) && client.window > 1 {
            return;
        }
        self.later(pause, Event::ClientActs { client: number }.into());
    }
}

/// What the row holds after the command, if the answer tells.
fn told_content(ask: Ask, saw: &Saw) -> Option<Option<Content>> {
    match *saw {
        Saw::Read { now, .. } => Some(now),
        Saw::Changed { before, .. } => {
            let moments = Moments { invoked: 0, returned: 0 };
            effect(State { live: before, expires: None }, ask, moments).map(|after| after.live)
        }
        Saw::Kept { .. } | Saw::Refused { code: ErrorCode::NotFound, .. } => Some(None),
        // What stood in the way, whole.
        Saw::Refused { code: ErrorCode::Exists | ErrorCode::VersionMismatch, now, .. } => Some(now),
        Saw::Refused { .. } | Saw::Undone => None,
    }
}

/// By what a lane reads and routes a request for a replica of its own.
pub fn epoch_of(replica: &Replica) -> RequestEpoch {
    RequestEpoch { catalogue: RequestEpoch::FIRST.catalogue, ..replica.records().epoch() }
}

/// Hands a request to the replica, by the way that a door would take.
fn serve(
    replica: &mut Replica,
    rows: &[Row],
    job: &Job,
    origin: Option<Origin>,
    caller: Caller,
    actions: &mut shardine_shard::Actions,
) {
    let key = rows[job.row()].key.as_ref();
    match job {
        Job::One { ask: Ask::Get, .. } => {
            if matches!(replica.read_now(key.position(), key), ReadNow::Later) {
                return replica.read(caller, key, actions);
            }
            let reply = shardine_records::read_reply(replica.records().get(key.position(), key));
            actions.answers.push((caller, Answer::One(reply)));
        }
        Job::One { .. } | Job::Pair { .. } => {
            with_request(rows, job, origin, |request| replica.submit(caller, request, epoch_of(replica), actions));
        }
        Job::Stale { .. } => unreachable!("taken before"),
        Job::Kick { nowait, .. } => replica.kick(caller, key, *nowait, actions),
        Job::Flush { whole_shard: true, .. } => replica.flush_rows(caller, None, None, actions),
        Job::Flush { whole_shard: false, .. } => replica.flush_rows(caller, Some(key), None, actions),
    }
}
