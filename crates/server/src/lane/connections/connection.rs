//! One Redis connection: bytes between its socket and the protocol, and when it is over.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use shardine_resp::{Flow, RespConnection};

use super::super::core::Core;

/// A buffer above this is given back once it is empty.
const KEEP_BYTES: usize = 64 << 10;

/// Bytes written to one socket in one go. More would hold the other clients of the lane up for milliseconds.
const WRITE_BYTES_MAX: usize = 1 << 20;

pub(super) struct Connection {
    pub stream: TcpStream,
    pub resp: RespConnection,
    /// Bytes of commands that are not complete, or wait.
    input: Vec<u8>,
    pub out: Vec<u8>,
    written: usize,
    /// Commands wait in `input` until replies have left.
    pub is_paused: bool,
    /// No more is executed; it ends when the last reply has left.
    pub is_closing: bool,
    /// The socket may hold more than was read.
    pub is_readable: bool,
    pub is_writable: bool,
    /// The other side sends nothing more. What it sent is executed and answered all the same, as Redis does.
    pub is_ending: bool,
    /// The end of what the other side sent has been read.
    pub is_at_end: bool,
    /// It waits in the list of those to be written to.
    pub is_listed: bool,
    /// Nobody is there any more.
    pub is_over: bool,
    /// It has yet to say who it is, and has been expected to since then.
    pub stranger_since_ms: Option<u64>,
    /// When it last said something, or took something.
    pub active_ms: u64,
    /// Bytes of its buffers that the lane counts.
    pub counted_bytes: usize,
}

/// What one read from a socket brought.
pub(super) enum Brought {
    Commands,
    Nothing,
}

impl Connection {
    pub fn new(stream: TcpStream, resp: RespConnection, now_ms: u64) -> Self {
        Self {
            stream,
            resp,
            input: Vec::new(),
            out: Vec::new(),
            written: 0,
            is_paused: false,
            is_closing: false,
            is_readable: true,
            is_writable: true,
            is_ending: false,
            is_at_end: false,
            is_listed: false,
            is_over: false,
            stranger_since_ms: None,
            active_ms: now_ms,
            counted_bytes: 0,
        }
    }

    pub fn may_read(&self) -> bool {
        self.is_readable && !(self.is_paused || self.is_closing || self.is_over || self.is_at_end)
    }

    /// Reads once, and executes what came.
    pub fn read(&mut self, buffer: &mut [u8], core: &mut Core) -> Brought {
        match self.stream.read(buffer) {
            Ok(0) => self.is_at_end = true,
            Ok(count) => {
                // Less than asked for: the socket is empty, and the kernel will tell when it is not. But not again that the
                // other side has finished: what is told once has to be read.
                self.is_readable = count == buffer.len() || self.is_ending;
                core.see_definitions();
                self.take_in(&buffer[..count], core);
                return Brought::Commands;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.is_over = true,
        }
        Brought::Nothing
    }

    /// Executes what has come; keeps what is not complete.
    fn take_in(&mut self, bytes: &[u8], core: &mut Core) {
        if !self.input.is_empty() {
            self.input.extend_from_slice(bytes);
            self.offer_again(core);
            return;
        }
        let received = self.resp.receive(bytes, core, &mut self.out);
        self.take_flow(received.flow);
        self.input.extend_from_slice(&bytes[received.consumed..]);
    }

    /// Executes commands that had to wait. Says whether there were any that need not wait longer.
    pub fn offer_again(&mut self, core: &mut Core) -> bool {
        let received = self.resp.receive(&self.input, core, &mut self.out);
        self.take_flow(received.flow);
        if received.consumed == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEEP_BYTES);
        } else {
            self.input.drain(..received.consumed);
        }
        received.consumed > 0
    }

    pub fn take_flow(&mut self, flow: Flow) {
        self.is_paused = flow == Flow::Pause;
        self.is_closing |= flow == Flow::Close;
    }

    /// Writes what the socket takes, up to a limit.
    pub fn write(&mut self, now_ms: u64) {
        let end = self.out.len().min(self.written + WRITE_BYTES_MAX);
        while self.is_writable && self.written < end {
            match self.stream.write(&self.out[self.written..end]) {
                Ok(count) => {
                    self.written += count;
                    self.active_ms = now_ms;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
        self.give_back();
    }

    /// Frees what has been written: small buffers are kept for the next replies, large ones shrink as they empty.
    fn give_back(&mut self) {
        if self.written == self.out.len() {
            self.out.clear();
            self.out.shrink_to(KEEP_BYTES);
            self.written = 0;
        } else if self.written >= WRITE_BYTES_MAX && self.written >= self.out.len() / 2 {
            self.out.drain(..self.written);
            self.out.shrink_to_fit();
            self.written = 0;
        }
    }

    pub fn has_unwritten(&self) -> bool {
        self.written < self.out.len()
    }

    /// Whether it waits for neither an answer nor the socket, so that nothing will call for it.
    pub fn must_go_on_by_itself(&self) -> bool {
        let waits = self.resp.waiting() > 0 || !self.out.is_empty();
        (self.is_paused && !waits && !self.resp.waits_for_names() && !self.resp.is_held())
            || (self.may_read() && !self.is_paused)
    }

    /// Whether its last reply has left, and nothing more will come.
    pub fn is_done(&self, is_door_closing: bool) -> bool {
        let is_idle = self.out.is_empty() && self.resp.waiting() == 0;
        let has_finished = self.is_at_end && !self.is_paused && is_idle;
        self.is_over || has_finished || (self.is_closing && self.out.is_empty()) || (is_door_closing && is_idle)
    }

    /// Memory that it holds for what is not executed and not read.
    pub fn buffered_bytes(&self) -> usize {
        self.input.len() + self.out.len() + self.resp.held_bytes()
    }
}
