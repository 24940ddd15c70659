//! The Redis connections of a lane: who is there, whose answer is whose, and the limits on all of them together.

mod connection;
mod population;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use shardine_resp::{Options, Peer, RespConnection};
use shardine_router::{Response, Ticket};

use self::connection::{Brought, Connection};
pub(crate) use self::population::Population;
use super::core::Core;
use super::numbered::Numbered;

/// Bytes read at once into the lane's one buffer.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection in one turn, so that a flood on it does not starve the others.
const READS_MAX: usize = 16;
/// A connection without a complete command for that long is closed.
const IDLE_MS_MAX: u64 = 3_600_000;
/// How long somebody who sends nothing more is waited for after the last sign of life. A client that has hung up looks like
/// one that only has nothing more to say, until something is written to it.
const LINGER_MS_MAX: u64 = 60_000;
/// How long a client may take to say who it is.
const STRANGER_MS_MAX: u64 = 60_000;
/// Bytes that all connections of a lane may hold in half-read commands and unread replies. Beyond, the one with most is
/// closed: each may hold a whole command and a whole reply, and there may be thousands.
const BUFFERED_BYTES_MAX: usize = 1 << 30;

/// Twenty bits of a connection's id are its place, the others its number among all that there ever were, so that a late
/// answer finds nobody. The uppermost stays free for callers that are no connections.
const PLACE_BITS: u32 = 20;
const PLACES_MAX: usize = 1 << PLACE_BITS;
const NUMBERS_MAX: u64 = 1 << (63 - PLACE_BITS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionId {
    place: usize,
    number: u64,
}

impl ConnectionId {
    #[inline]
    fn of(id: u64) -> Self {
        Self { place: id as usize % PLACES_MAX, number: id >> PLACE_BITS }
    }

    #[inline]
    fn to_u64(self) -> u64 {
        self.number << PLACE_BITS | self.place as u64
    }
}

pub(crate) struct Connections {
    lane: usize,
    open: Numbered<Connection>,
    options: Arc<Options>,
    population: Arc<Population>,
    buffer: Vec<u8>,
    /// Connections with bytes to write or to go on reading.
    listed: Vec<ConnectionId>,
    readable: Vec<ConnectionId>,
    /// Those who have yet to say who they are, the longest waiting first; some have said it, or are gone.
    strangers: VecDeque<ConnectionId>,
    buffered_bytes: usize,
    /// Those that have left since somebody asked.
    gone: Vec<u64>,
    now_ms: u64,
    /// Nothing more is read; a connection goes when its last reply has left.
    is_closing: bool,
}

impl Connections {
    pub fn new(lane: usize, options: Arc<Options>, population: Arc<Population>) -> Self {
        Self {
            lane,
            open: Numbered::default(),
            options,
            population,
            buffer: vec![0; READ_BYTES],
            listed: Vec::new(),
            readable: Vec::new(),
            strangers: VecDeque::new(),
            buffered_bytes: 0,
            gone: Vec::new(),
            now_ms: 0,
            is_closing: false,
        }
    }

    /// Takes no more commands: what came before is answered, then the connections end.
    pub fn close_door(&mut self) {
        self.is_closing = true;
        for (place, number) in self.open.find(|_| true) {
            self.list(ConnectionId { place, number });
        }
    }

    /// What waits is offered again: it is known what keys name, or that nobody can say it.
    pub fn go_on(&mut self) {
        for (place, number) in self.open.find(|connection| connection.resp.waits_for_names()) {
            self.list(ConnectionId { place, number });
        }
    }

    /// Commands that a pause let wait are offered again: nobody tells when one is over.
    pub fn look_whether_paused(&mut self) {
        for (place, number) in self.open.find(|connection| connection.resp.is_held()) {
            self.list(ConnectionId { place, number });
        }
    }

    /// Connections that are no more.
    pub fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    pub fn count(&self) -> u64 {
        self.open.len() as u64
    }

    pub fn population(&self) -> &Population {
        &self.population
    }

    /// Takes a client in that was dealt to this lane.
    pub fn add(&mut self, mut stream: TcpStream, registry: &Registry) {
        if self.is_closing {
            return self.population.leave(self.lane);
        }
        let has_room = (!self.population.is_overfull(0) || self.make_room()) && self.open.len() < PLACES_MAX;
        if !has_room {
            refuse(&mut stream);
            return self.population.leave(self.lane);
        }
        // Replies are gathered here already; waiting for more would only add delay.
        let _ = stream.set_nodelay(true);
        let number = self.population.next_number();
        assert!(number < NUMBERS_MAX, "a million connections a second do not come that far in a hundred days");
        let peer = Peer { id: number, address: stream.peer_addr().ok(), local: stream.local_addr().ok() };
        let id = ConnectionId { place: self.open.next_place(), number };
        let token = Token(id.to_u64() as usize);
        if registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_err() {
            return self.population.leave(self.lane);
        }
        let resp = RespConnection::new(id.to_u64(), peer, Arc::clone(&self.options));
        let is_stranger = !resp.is_authenticated();
        let place = self.open.insert(number, Connection::new(stream, resp, self.now_ms));
        assert_eq!(place, id.place, "the place that was promised");
        if is_stranger {
            self.becomes_stranger(id);
        }
        self.readable.push(id);
    }

    /// Closes the connection of whoever has been here longest without saying who it is.
    fn make_room(&mut self) -> bool {
        while let Some(id) = self.strangers.pop_front() {
            if self.is_stranger(id) {
                self.remove(id);
                return true;
            }
        }
        false
    }

    fn is_stranger(&mut self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.stranger_since_ms.is_some())
    }

    fn becomes_stranger(&mut self, id: ConnectionId) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.get(id) {
            connection.stranger_since_ms = Some(now_ms);
            self.population.is_stranger(self.lane);
            self.strangers.push_back(id);
        }
    }

    #[inline]
    fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.open.get_mut(id.place, id.number)
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.remove(id.place, id.number) else { return };
        self.gone.push(id.to_u64());
        self.population.leave(self.lane);
        self.buffered_bytes -= connection.counted_bytes;
        if connection.stranger_since_ms.is_some() {
            self.population.is_no_stranger(self.lane);
        }
    }

    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.open.get_mut(id.place, id.number)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.listed.push(id);
        }
    }

    pub fn ready(&mut self, token: usize, event: &Event, core: &mut Core) {
        let id = ConnectionId::of(token as u64);
        let Some(connection) = self.get(id) else { return };
        if event.is_error() || event.is_write_closed() {
            // Whatever it waits for, it will not hear of it.
            connection.is_over = true;
            return self.list(id);
        }
        connection.is_ending |= event.is_read_closed();
        if event.is_writable() {
            connection.is_writable = true;
            if connection.has_unwritten() {
                self.list(id);
            }
        }
        if event.is_readable() || event.is_read_closed() {
            if let Some(connection) = self.get(id) {
                connection.is_readable = true;
            }
            self.read(id, core);
        }
    }

    /// Goes on with connections that were left in the middle.
    pub fn resume(&mut self, core: &mut Core) {
        self.now_ms = core.time().monotonic_ms;
        for id in std::mem::take(&mut self.readable) {
            self.read(id, core);
        }
    }

    pub fn has_ready(&self) -> bool {
        !self.readable.is_empty() || !self.listed.is_empty()
    }

    fn read(&mut self, id: ConnectionId, core: &mut Core) {
        let Some(connection) = self.open.get_mut(id.place, id.number) else { return };
        if !self.is_closing {
            connection.active_ms = core.time().monotonic_ms;
            let mut reads = 0;
            while reads < READS_MAX && connection.may_read() {
                if let Brought::Commands = connection.read(&mut self.buffer, core) {
                    reads += 1;
                }
            }
            if reads == READS_MAX && connection.may_read() {
                self.readable.push(id);
            }
        }
        self.list(id);
    }

    pub fn complete(&mut self, ticket: Ticket, response: Response, core: &mut Core) {
        let id = ConnectionId::of(ticket.connection);
        let now_ms = self.now_ms;
        let Some(connection) = self.get(id) else { return };
        core.stopwatch.end(ticket, &response);
        let flow = connection.resp.complete(ticket.sequence, response, core, &mut connection.out);
        connection.is_closing |= flow == shardine_resp::Flow::Close;
        connection.active_ms = now_ms;
        self.list(id);
    }

    /// Writes what has gathered: one call to the kernel for all replies of a connection. Says whether commands that had
    /// waited were executed: what they asked for is then still to be done.
    pub fn write_all(&mut self, core: &mut Core) -> bool {
        let mut executed = false;
        let (now_ms, is_closing) = (self.now_ms, self.is_closing);
        for id in std::mem::take(&mut self.listed) {
            let Some(connection) = self.open.get_mut(id.place, id.number) else { continue };
            connection.is_listed = false;
            connection.write(now_ms);
            if connection.is_paused && !connection.is_closing && !connection.is_over && !is_closing {
                executed |= connection.offer_again(core);
                connection.write(now_ms);
                if connection.must_go_on_by_itself() {
                    self.readable.push(id);
                }
            }
            if connection.is_done(is_closing) {
                self.remove(id);
                continue;
            }
            let has_more = connection.is_writable && connection.has_unwritten();
            self.count_bytes(id);
            self.look_who_it_is(id);
            self.look_for_crossings(id);
            if has_more {
                self.list(id);
            }
        }
        self.give_bytes_back();
        executed
    }

    /// Whether somebody has an answer that [`Connections::write_all`] will send.
    pub fn has_replies(&self) -> bool {
        !self.listed.is_empty()
    }

    fn count_bytes(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.get_mut(id.place, id.number) else { return };
        let bytes = connection.buffered_bytes();
        self.buffered_bytes = self.buffered_bytes - connection.counted_bytes + bytes;
        connection.counted_bytes = bytes;
    }

    /// Notes whoever has said who it is since it was looked at, or has taken it back.
    #[inline]
    fn look_who_it_is(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.get_mut(id.place, id.number) else { return };
        match (connection.resp.is_authenticated(), connection.stranger_since_ms) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(_)) => {
                connection.stranger_since_ms = None;
                self.population.is_no_stranger(self.lane);
            }
            (false, None) => self.becomes_stranger(id),
        }
    }

    /// Tells whoever reads the log, once per client library, of a transaction that was refused because its keys live in
    /// several partitions: some libraries never show it to anybody.
    #[inline]
    fn look_for_crossings(&mut self, id: ConnectionId) {
        let Some(connection) = self.open.get_mut(id.place, id.number) else { return };
        if !connection.resp.take_crossing() {
            return;
        }
        let library = connection.resp.library();
        if self.population.warns_first(&library) {
            tracing::warn!(
                client = id.number,
                library,
                "a transaction over several partitions was refused with CROSSSLOT and nothing of it was done; use no MULTI \
                 (transaction=False in redis-py), one {{tag}} for its keys, or rows of one key (docs/from-redis.md)"
            );
        }
    }

    /// Closes connections until the others' buffers fit the lane.
    fn give_bytes_back(&mut self) {
        while self.buffered_bytes > BUFFERED_BYTES_MAX {
            let Some((place, number)) = self.open.largest_by(|connection| connection.counted_bytes) else { return };
            let id = ConnectionId { place, number };
            if let Some(connection) = self.get(id) {
                let bytes = connection.counted_bytes;
                tracing::warn!(
                    client = number,
                    bytes,
                    "a Redis client is disconnected: it holds too many bytes unread"
                );
            }
            self.remove(id);
        }
    }

    pub fn close_idle(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let is_idle = |connection: &Connection| {
            let idle_ms = now_ms.saturating_sub(connection.active_ms);
            (connection.resp.waiting() == 0 && idle_ms > IDLE_MS_MAX)
                || (connection.is_ending && idle_ms > LINGER_MS_MAX)
                || connection.resp.is_killed()
        };
        for (place, number) in self.open.find(is_idle) {
            self.remove(ConnectionId { place, number });
        }
        while let Some(&id) = self.strangers.front() {
            let since_ms = self.get(id).and_then(|connection| connection.stranger_since_ms);
            match since_ms {
                Some(since_ms) if now_ms.saturating_sub(since_ms) <= STRANGER_MS_MAX => return,
                Some(_) => self.remove(id),
                None => {}
            }
            self.strangers.pop_front();
        }
    }
}

/// In Redis's words.
pub(super) fn refuse(stream: &mut TcpStream) {
    let _ = stream.write(b"-ERR max number of clients reached\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_place_and_number() {
        for (place, number) in [(0, 1), (PLACES_MAX - 1, 7), (12, NUMBERS_MAX - 1)] {
            let id = ConnectionId { place, number };

            assert_eq!(ConnectionId::of(id.to_u64()), id);
            assert!(id.to_u64() < 1 << 63, "the uppermost bit is not for connections");
        }
    }
}
