//! The Redis connections of a lane: bytes between sockets and sessions, and the limits on both.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use shardine_resp::{Flow, Options, RespConnection};
use shardine_router::{Response, Ticket};
use slab::Slab;

use super::core::Core;

/// Bytes read at once into the lane's one buffer.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection in one turn, so that a flood on it does not starve the others.
const READS_MAX: usize = 16;
/// A connection without a complete command for that long is closed.
const IDLE_MS_MAX: u64 = 3_600_000;
/// A buffer above this is given back once it is empty.
const KEEP_BYTES: usize = 64 << 10;

/// Twenty bits of a connection's id are its place, the rest counts its users, so that a late answer finds nobody.
const PLACE_BITS: u32 = 20;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

struct Connection {
    stream: TcpStream,
    id: u32,
    resp: RespConnection,
    /// Bytes of commands that are not complete.
    input: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// Commands wait in `input` until replies have left.
    is_paused: bool,
    is_closing: bool,
    /// The socket may hold more than was read.
    is_readable: bool,
    is_writable: bool,
    is_listed: bool,
    is_over: bool,
    active_ms: u64,
}

pub(crate) struct Connections {
    open: Slab<Connection>,
    options: Arc<Options>,
    open_max: usize,
    users: u32,
    buffer: Vec<u8>,
    /// Connections with bytes to write or to go on reading.
    listed: Vec<usize>,
    readable: Vec<usize>,
    now_ms: u64,
    /// Nothing more is read; a connection goes when its last reply has left.
    is_closing: bool,
}

impl Connections {
    pub fn new(options: Arc<Options>, open_max: usize) -> Self {
        let open_max = open_max.min(PLACE_MASK as usize);
        let (users, now_ms) = (0, 0);
        Self {
            open: Slab::new(),
            options,
            open_max,
            users,
            buffer: vec![0; READ_BYTES],
            listed: Vec::new(),
            readable: Vec::new(),
            now_ms,
            is_closing: false,
        }
    }

    /// Takes no more commands: what came before is answered, then the connections end.
    pub fn close_door(&mut self) {
        self.is_closing = true;
        for (place, connection) in &mut self.open {
            list(&mut self.listed, connection, place);
        }
    }

    pub fn count(&self) -> u64 {
        self.open.len() as u64
    }

    pub fn add(&mut self, stream: std::net::TcpStream, registry: &Registry) {
        if stream.set_nonblocking(true).is_ok() {
            self.add_mio(TcpStream::from_std(stream), registry);
        }
    }

    pub fn add_mio(&mut self, mut stream: TcpStream, registry: &Registry) {
        if self.is_closing {
            return;
        }
        if self.open.len() >= self.open_max {
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        }
        // Replies are gathered here already; waiting for more would only add delay.
        let _ = stream.set_nodelay(true);
        let entry = self.open.vacant_entry();
        let place = entry.key();
        self.users = self.users.wrapping_add(1);
        let id = (place as u32) | (self.users << PLACE_BITS);
        if registry.register(&mut stream, Token(place), Interest::READABLE | Interest::WRITABLE).is_err() {
            return;
        }
        entry.insert(Connection {
            stream,
            id,
            resp: RespConnection::new(id, Arc::clone(&self.options)),
            input: Vec::new(),
            out: Vec::new(),
            written: 0,
            is_paused: false,
            is_closing: false,
            is_readable: true,
            is_writable: true,
            is_listed: false,
            is_over: false,
            active_ms: self.now_ms,
        });
        self.readable.push(place);
    }

    pub fn ready(&mut self, place: usize, event: &Event, core: &mut Core) {
        let Some(connection) = self.open.get_mut(place) else { return };
        if event.is_writable() {
            connection.is_writable = true;
            if connection.written < connection.out.len() {
                list(&mut self.listed, connection, place);
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.is_readable = true;
            self.read(place, core);
        }
    }

    /// Goes on with connections that were left in the middle.
    pub fn resume(&mut self, core: &mut Core) {
        self.now_ms = core.time().monotonic_ms;
        for place in std::mem::take(&mut self.readable) {
            if self.open.contains(place) {
                self.read(place, core);
            }
        }
    }

    pub fn has_ready(&self) -> bool {
        !self.readable.is_empty()
    }

    fn read(&mut self, place: usize, core: &mut Core) {
        let connection = &mut self.open[place];
        if self.is_closing {
            return list(&mut self.listed, connection, place);
        }
        connection.active_ms = core.time().monotonic_ms;
        for _ in 0..READS_MAX {
            if connection.is_paused || connection.is_closing || connection.is_over || !connection.is_readable {
                return list(&mut self.listed, connection, place);
            }
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => {
                    connection.is_over = true;
                    return list(&mut self.listed, connection, place);
                }
                Ok(count) => {
                    // Less than asked for: the socket is empty, and the kernel will tell when it is not.
                    connection.is_readable = count == self.buffer.len();
                    connection.take_in(&self.buffer[..count], core);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => connection.is_readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => connection.is_over = true,
            }
        }
        list(&mut self.listed, connection, place);
        self.readable.push(place);
    }

    pub fn complete(&mut self, ticket: Ticket, response: Response, core: &mut Core) {
        let place = (ticket.connection & PLACE_MASK) as usize;
        let Some(connection) = self.open.get_mut(place).filter(|connection| connection.id == ticket.connection) else {
            return;
        };
        let flow = connection.resp.complete(ticket.sequence, response, core, &mut connection.out);
        connection.is_closing |= flow == Flow::Close;
        list(&mut self.listed, connection, place);
    }

    /// Writes what has gathered: one call to the kernel for all replies of a connection. Says whether commands that had
    /// waited were executed: what they asked for is then still to be done.
    pub fn write_all(&mut self, core: &mut Core) -> bool {
        let mut executed = false;
        for place in std::mem::take(&mut self.listed) {
            let Some(connection) = self.open.get_mut(place) else { continue };
            connection.is_listed = false;
            connection.write();
            if connection.is_paused && !connection.is_closing && !connection.is_over && !self.is_closing {
                executed = true;
                connection.offer_again(core);
                connection.write();
                // Nothing will call for a connection that waits for neither an answer nor the socket: it goes on by itself.
                let waits = connection.resp.waiting() > 0 || !connection.out.is_empty();
                if (connection.is_paused && !waits) || (connection.is_readable && !connection.is_paused) {
                    self.readable.push(place);
                }
            }
            let is_idle = connection.out.is_empty() && connection.resp.waiting() == 0;
            let is_closed = connection.is_closing && connection.out.is_empty();
            if connection.is_over || is_closed || (self.is_closing && is_idle) {
                self.open.remove(place);
            }
        }
        executed
    }

    pub fn close_idle(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let idle = |connection: &Connection| {
            connection.resp.waiting() == 0 && now_ms.saturating_sub(connection.active_ms) > IDLE_MS_MAX
        };
        self.open.retain(|_, connection| !idle(connection));
    }
}

fn list(listed: &mut Vec<usize>, connection: &mut Connection, place: usize) {
    if !connection.is_listed {
        connection.is_listed = true;
        listed.push(place);
    }
}

impl Connection {
    /// Executes what has come; keeps what is not complete.
    fn take_in(&mut self, bytes: &[u8], core: &mut Core) {
        if !self.input.is_empty() {
            self.input.extend_from_slice(bytes);
            return self.offer_again(core);
        }
        let received = self.resp.receive(bytes, core, &mut self.out);
        self.take_flow(received.flow);
        self.input.extend_from_slice(&bytes[received.consumed..]);
    }

    fn offer_again(&mut self, core: &mut Core) {
        let received = self.resp.receive(&self.input, core, &mut self.out);
        self.take_flow(received.flow);
        if received.consumed == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEEP_BYTES);
        } else {
            self.input.drain(..received.consumed);
        }
    }

    fn take_flow(&mut self, flow: Flow) {
        self.is_paused = flow == Flow::Pause;
        self.is_closing |= flow == Flow::Close;
    }

    fn write(&mut self) {
        while self.is_writable && self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.out.shrink_to(KEEP_BYTES);
            self.written = 0;
        }
    }
}
