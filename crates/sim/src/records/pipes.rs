//! Connections of clients, in runs in which nodes have links: what is asked on one comes to its node in order, until one side closes or it
//! breaks.

use std::collections::{BTreeMap, VecDeque};

use crate::ground::MS;
use crate::records::Records;
use crate::records::event::{Event, Input, arrive};
use crate::world::World;

/// How long it takes until the other side knows that a connection is gone.
const NOTICED: (u64, u64) = (100, 5 * MS);

#[derive(Debug, Default)]
pub struct Pipes {
    all: BTreeMap<u64, Pipe>,
    last: u64,
}

#[derive(Debug)]
struct Pipe {
    client: usize,
    node: usize,
    /// The process at the other end, once it has heard anything.
    life: Option<u64>,
    /// What is on its way, and when it arrives.
    wire: VecDeque<(u64, u64)>,
    last_at: u64,
    /// Nothing that is sent now arrives any more.
    is_broken: bool,
}

impl World<Records> {
    /// The connection of a client and its node; a new one, to any node, if it has none.
    pub fn connection_of(&mut self, number: usize) -> (u64, usize) {
        let nodes = self.nodes.len();
        let client = &mut self.tenant.clients[number];
        let pipes = &mut self.tenant.pipes;
        if let Some(connection) = client.connection
            && let Some(pipe) = pipes.all.get(&connection)
        {
            return (connection, pipe.node);
        }
        pipes.last += 1;
        let node = client.chance.index(nodes);
        let (life, wire, last_at, is_broken) = (None, VecDeque::new(), 0, false);
        pipes.all.insert(pipes.last, Pipe { client: number, node, life, wire, last_at, is_broken });
        client.connection = Some(pipes.last);
        (pipes.last, node)
    }

    pub fn put_into_pipe(&mut self, connection: u64, attempt: u64) {
        let sent = self.net.send_to_client_or_back(self.now);
        let Some(pipe) = self.tenant.pipes.all.get_mut(&connection) else { return };
        pipe.is_broken |= sent.is_none();
        let Some(at) = sent.filter(|_| !pipe.is_broken) else { return };
        pipe.last_at = pipe.last_at.max(at);
        pipe.wire.push_back((pipe.last_at, attempt));
        let event = arrive(pipe.node, Input::Pipe { connection });
        self.schedule.at(pipe.last_at, event);
    }

    /// A node reads what has come on a connection.
    pub fn read_pipe(&mut self, node: usize, connection: u64) {
        let life = self.nodes[node].life;
        while let Some(pipe) = self.tenant.pipes.all.get_mut(&connection)
            && pipe.node == node
            && *pipe.life.get_or_insert(life) == life
            && pipe.wire.front().is_some_and(|(at, _)| *at <= self.now)
            && self.lives(node, life)
        {
            let Some((_, attempt)) = self.tenant.pipes.all.get_mut(&connection).and_then(|pipe| pipe.wire.pop_front())
            else {
                return;
            };
            self.take_request_of(node, attempt, connection);
        }
    }

    /// A client closes a connection, because it has waited for too long: what it has asked there it will not hear of.
    pub fn hang_up(&mut self, number: usize, connection: u64) {
        let Some(pipe) = self.tenant.pipes.all.remove(&connection) else { return };
        let noticed = self.chance.between(NOTICED);
        self.schedule.at(pipe.last_at.max(self.now) + noticed, arrive(pipe.node, Input::PipeGone { connection }));
        self.forget_pipe(number, connection);
    }

    fn forget_pipe(&mut self, number: usize, connection: u64) {
        self.tenant.history.drop_all_of(connection);
        let client = &mut self.tenant.clients[number];
        client.connection = client.connection.filter(|known| *known != connection);
        for attempt in client.awaited() {
            if self.tenant.history.attempt(attempt).connection == Some(connection) {
                self.has_no_answer(attempt);
            }
        }
    }

    /// The process at the other end has died, and its kernel says so.
    pub fn pipe_broke(&mut self, connection: u64) {
        if let Some(pipe) = self.tenant.pipes.all.remove(&connection) {
            self.forget_pipe(pipe.client, connection);
        }
    }

    /// A process is gone. Most of its clients hear of it at once, the others when they have waited for too long.
    pub fn pipes_break(&mut self, node: usize) {
        let broken = self.tenant.pipes.all.iter_mut().filter(|(_, pipe)| pipe.node == node);
        let broken: Vec<u64> = broken
            .map(|(connection, pipe)| {
                pipe.is_broken = true;
                *connection
            })
            .collect();
        for connection in broken {
            if self.chance.percent(80) {
                let noticed = self.chance.between(NOTICED);
                self.later(noticed, Event::PipeBroken { connection }.into());
            }
        }
    }
}
