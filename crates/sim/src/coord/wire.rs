//! Streams between clients and nodes: in order both ways, until they break, and each end may notice that later or never.
//! And the door at the node's end, as far as it matters to the core: it answers pings and ends what is silent.

use std::collections::VecDeque;

use shardine_coord::{Ask, Message, Opening, Refusal, SessionId, Status, StreamId};

use crate::coord::Coordination;
use crate::coord::event::{Event, Input, arrive, own};
use crate::ground::MS;
use crate::world::World;

/// The door ends a stream on which it heard nothing for so long.
const SILENCE: u64 = 2_500 * MS;
pub const SWEEP_EVERY: u64 = 300 * MS;

#[derive(Clone, Debug)]
pub enum Up {
    Open(Opening),
    Ask(Ask),
    Ping,
    Close,
}

#[derive(Clone, Debug)]
pub enum Down {
    Say(Message),
    Pong,
    Broken,
}

#[derive(Clone, Debug)]
pub struct Wire {
    pub client: usize,
    pub node: usize,
    /// The node's life at whose door it ends; nobody listens in another.
    pub life: u64,
    /// Nothing gets through any more, either way.
    is_cut: bool,
    /// The door listens.
    pub is_open: bool,
    up: VecDeque<Up>,
    down: VecDeque<Down>,
    heard: u64,
    /// What its client asks for, and what the node has told.
    pub wants: SessionId,
    pub session: Option<SessionId>,
}

impl World<Coordination> {
    /// A client dials a node.
    pub fn connect(&mut self, client: usize, node: usize, wants: SessionId) -> usize {
        let wire = Wire {
            client,
            node,
            life: self.nodes[node].life,
            is_cut: false,
            is_open: true,
            up: VecDeque::new(),
            down: VecDeque::new(),
            heard: self.now,
            wants,
            session: None,
        };
        self.tenant.wires.push(wire);
        self.tenant.wires.len() - 1
    }

    fn is_hidden(&self, node: usize) -> bool {
        self.now < self.tenant.hidden_until[node]
    }

    pub fn send_up(&mut self, wire: usize, up: Up) {
        let node = self.tenant.wires[wire].node;
        let arrival = self.net.send_to_client_or_back(self.now).filter(|_| !self.is_hidden(node));
        let Some(at) = arrival else { return self.lose(wire) };
        if !self.tenant.wires[wire].is_cut {
            self.tenant.wires[wire].up.push_back(up);
            self.schedule.at(at, arrive(node, Input::Readable { wire }));
        }
    }

    pub fn send_down(&mut self, wire: usize, down: Down) {
        let node = self.tenant.wires[wire].node;
        let arrival = self.net.send_to_client_or_back(self.now).filter(|_| !self.is_hidden(node));
        let Some(at) = arrival else { return self.lose(wire) };
        if !self.tenant.wires[wire].is_cut {
            self.tenant.wires[wire].down.push_back(down);
            self.schedule.at(at, Event::Hears { wire }.into());
        }
    }

    /// Something was lost, and with it everything behind it. Neither end is told.
    fn lose(&mut self, wire: usize) {
        let wire = &mut self.tenant.wires[wire];
        wire.is_cut = true;
        wire.up.clear();
    }

    /// Nothing gets through any more. The client may be told, or find out; the door finds out by silence.
    pub fn break_wire(&mut self, wire: usize) {
        self.lose(wire);
        if self.chance.percent(60) {
            self.tell_broken(wire);
        }
    }

    fn tell_broken(&mut self, wire: usize) {
        self.tenant.wires[wire].down.push_back(Down::Broken);
        let delay = self.chance.between(self.ground.net.delay);
        self.later(delay, Event::Hears { wire }.into());
    }

    pub fn wires_at(&self, node: usize) -> Vec<usize> {
        let life = self.nodes[node].life;
        let wires = self.tenant.wires.iter().enumerate().skip(self.tenant.first_open);
        let ends_here = |wire: &Wire| wire.is_open && (wire.node, wire.life) == (node, life);
        wires.filter(|(_, wire)| ends_here(wire)).map(|(number, _)| number).collect()
    }

    /// The door takes the next thing from a stream.
    pub fn read_wire(&mut self, node: usize, wire: usize) {
        let now = self.now;
        let life = self.nodes[node].life;
        let end = &mut self.tenant.wires[wire];
        let Some(up) = end.up.pop_front() else { return };
        if end.life != life || !end.is_open {
            // Nobody listens here: the dialler is told so.
            return self.break_wire(wire);
        }
        end.heard = now;
        let stream = StreamId(wire as u64);
        match up {
            Up::Ping => self.send_down(wire, Down::Pong),
            Up::Open(opening) => {
                self.note(&[20, node as u64, wire as u64], || format!("node {} takes {opening:?} on {wire}", node + 1));
                self.drive(node, 0, |replica, actions| replica.start(stream, &opening, actions));
            }
            Up::Ask(ask) => {
                self.note(&[21, node as u64, wire as u64], || format!("node {} takes {ask:?} on {wire}", node + 1));
                self.drive(node, 0, |replica, actions| replica.ask(stream, &ask, actions));
                if self.nodes[node].replicas.first().is_some_and(shardine_shard::coord::Replica::is_serving) {
                    self.spring(node);
                }
            }
            Up::Close => self.end_wire(wire),
        }
    }

    /// The door's end is gone, and the core is told.
    fn end_wire(&mut self, wire: usize) {
        let node = self.tenant.wires[wire].node;
        self.forget_wire(wire);
        self.drive(node, 0, |replica, _| replica.close(StreamId(wire as u64)));
    }

    /// What was promised on a stream ends with it.
    pub fn forget_wire(&mut self, wire: usize) {
        self.tenant.wires[wire].is_open = false;
        self.tenant.watch.forget_wire(wire);
        let wires = &self.tenant.wires;
        while wires.get(self.tenant.first_open).is_some_and(|wire| !wire.is_open) {
            self.tenant.first_open += 1;
        }
    }

    pub fn sweep(&mut self, node: usize) {
        let life = self.nodes[node].life;
        self.later(SWEEP_EVERY, own(node, life, Input::Sweep));
        for wire in self.wires_at(node) {
            if self.tenant.wires[wire].heard + SILENCE <= self.now {
                self.tenant.counters.streams_silent += 1;
                self.note(&[22, node as u64, wire as u64], || format!("node {} hears nothing on {wire}", node + 1));
                let refusal = Refusal::new(Status::Timeout, "nothing was heard from the client");
                self.send_down(wire, Down::Say(Message::Failure(refusal)));
                self.end_wire(wire);
            }
        }
    }

    /// The core says something to a stream.
    pub fn say(&mut self, node: usize, stream: StreamId, message: Message) {
        let wire = stream.0 as usize;
        if !self.tenant.wires[wire].is_open {
            return;
        }
        self.note(&[23, node as u64, stream.0], || format!("node {} says on {wire}: {message:?}", node + 1));
        let verdict = self.hear_from_above(node, wire, &message);
        self.demand(verdict);
        let is_last = message.is_last();
        self.send_down(wire, Down::Say(message));
        if is_last {
            self.forget_wire(wire);
        }
    }

    /// The client's end takes the next thing. A paused client finds it later.
    pub fn hear_wire(&mut self, wire: usize) {
        let client = self.tenant.wires[wire].client;
        let paused_until = self.tenant.clients[client].paused_until;
        if self.now < paused_until {
            return self.schedule.at(paused_until, Event::Hears { wire }.into());
        }
        if let Some(down) = self.tenant.wires[wire].down.pop_front() {
            self.client_hears(client, wire, down);
        }
    }

    /// The process at a node's end is gone. Some clients hear of it at once, others find out.
    pub fn break_wires_of(&mut self, node: usize) {
        for wire in self.wires_at(node) {
            self.forget_wire(wire);
            self.break_wire(wire);
        }
    }
}
