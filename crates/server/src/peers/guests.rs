//! Those who have dialled this node and have not said who they are. Each is given a moment, and nothing of it is believed before it
//! was admitted.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use shardine_transport::{Greeting, Hello, Opening, limits};

use super::book::Book;

/// How long somebody may take to say who it is.
const PATIENCE_MS: u64 = 2_000;
/// Strangers at a time; whoever listens beyond loopback meets many.
const GUESTS_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Guests {
    guests: BTreeMap<usize, Guest>,
}

struct Guest {
    stream: TcpStream,
    opening: Opening,
    since_ms: u64,
}

/// A node that was let in, with what it has said behind its hello.
pub(super) struct Arrived {
    pub stream: TcpStream,
    pub hello: Hello,
    pub rest: Vec<u8>,
}

impl Guests {
    pub fn enter(&mut self, mut stream: TcpStream, token: usize, now_ms: u64, registry: &Registry) {
        if self.guests.len() >= GUESTS_MAX || registry.register(&mut stream, Token(token), Interest::READABLE).is_err()
        {
            return;
        }
        self.guests.insert(token, Guest { stream, opening: Opening::accepted(), since_ms: now_ms });
    }

    pub fn close_late(&mut self, now_ms: u64, registry: &Registry) {
        let late = |guest: &Guest| now_ms.saturating_sub(guest.since_ms) > PATIENCE_MS;
        let late: Vec<usize> = self.guests.iter().filter(|(_, guest)| late(guest)).map(|(token, _)| *token).collect();
        late.into_iter().for_each(|token| self.send_away(token, registry));
    }

    fn send_away(&mut self, token: usize, registry: &Registry) {
        if let Some(mut guest) = self.guests.remove(&token) {
            let _ = registry.deregister(&mut guest.stream);
        }
    }

    /// Hears what a guest has to say. `None` also if it is none of them.
    pub fn ready(&mut self, token: usize, book: &Book, registry: &Registry) -> Option<Arrived> {
        let guest = self.guests.get_mut(&token)?;
        match guest.listen() {
            Ok(None) => None,
            Err(why) => {
                tracing::debug!(why, "somebody at the peer port was sent away");
                self.send_away(token, registry);
                None
            }
            Ok(Some(greeting)) => {
                let mut guest = self.guests.remove(&token)?;
                let _ = registry.deregister(&mut guest.stream);
                answer(guest, greeting, book)
            }
        }
    }
}

impl Guest {
    fn listen(&mut self) -> Result<Option<Greeting>, String> {
        let mut buffer = [0; limits::GREETING_BYTES_MAX];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("it has gone".to_owned()),
                Ok(count) => {
                    let greeting = self.opening.receive(&buffer[..count]).map_err(|error| error.to_string())?;
                    if greeting.is_some() {
                        return Ok(greeting);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// Welcomes it, or says why not. An answer is far smaller than what a socket takes at once.
fn answer(mut guest: Guest, greeting: Greeting, book: &Book) -> Option<Arrived> {
    let hello = match greeting {
        Greeting::Hello(hello) => hello,
        Greeting::OtherVersion { .. } => {
            let _ = guest.stream.write(&book.other_version().to_frame());
            return None;
        }
        Greeting::Welcome(_) | Greeting::Refused(_) => return None,
    };
    if let Err(refusal) = book.admit(&hello) {
        tracing::warn!(name = hello.who.name, node = %hello.who.node, %refusal, "a node was not let in");
        let _ = guest.stream.write(&refusal.to_frame());
        return None;
    }
    let welcome = book.welcome(&hello).to_frame();
    match guest.stream.write(&welcome) {
        Ok(count) if count == welcome.len() => {}
        Ok(_) | Err(_) => return None,
    }
    Some(Arrived { stream: guest.stream, hello, rest: guest.opening.into_rest() })
}
