//! A client in one line: says a command, gives the reply back with `|` for every line end.

use std::sync::Arc;

use shardine_fake::LocalFake;
use shardine_resp::{Flow, Options, Peer, Received, RespConnection};

use crate::engine::engine;

pub struct Door {
    pub connection: RespConnection,
    pub engine: LocalFake,
    pub out: Vec<u8>,
}

/// A command as an array of bulk strings.
pub fn frame<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Several commands in one packet.
pub fn pipeline(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| frame(&words(line))).collect()
}

/// Words between spaces; `''` is the empty word.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').map(|word| if word == "''" { "" } else { word }).collect()
}

impl Door {
    pub fn open() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::numbered(7, options)
    }

    /// One of several of a node, which share what is behind the options.
    pub fn numbered(id: u64, options: Options) -> Self {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1_000 + id as u16));
        let peer = Peer { id, address: (id != 7).then_some(address), ..Peer::default() };
        Self { connection: RespConnection::new(id, peer, Arc::new(options)), engine: engine(), out: Vec::new() }
    }

    pub fn late() -> Self {
        let mut door = Self::open();
        door.engine.is_late = true;
        door
    }

    /// Hands bytes in and leaves the engine's responses where they are.
    pub fn receive(&mut self, input: &[u8]) -> Received {
        self.connection.receive(input, &mut self.engine, &mut self.out)
    }

    /// Delivers the oldest response, or the one at `index`.
    pub fn deliver(&mut self, index: usize) -> Flow {
        let (sequence, response) = self.engine.responses.remove(index);
        self.connection.complete(sequence, response, &mut self.engine, &mut self.out)
    }

    /// Sends bytes and goes on until everything is answered, as a host does.
    pub fn send(&mut self, input: &[u8]) -> Flow {
        let mut rest = input;
        loop {
            let Received { consumed, flow } = self.receive(rest);
            rest = &rest[consumed..];
            if self.engine.responses.is_empty() && (flow != Flow::Pause || consumed == 0) {
                return flow;
            }
            while !self.engine.responses.is_empty() {
                self.deliver(0);
            }
        }
    }

    pub fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.out)).replace("\r\n", "|")
    }

    pub fn say(&mut self, line: &str) -> String {
        self.send(&frame(&words(line)));
        self.take()
    }

    /// Says each line and compares its reply; an expectation that ends with `…` is a beginning.
    #[track_caller]
    pub fn script(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.say(line);
            match expected.strip_suffix('…') {
                Some(beginning) => assert!(reply.starts_with(beginning), "{line}\n  said {reply}\n  not  {expected}"),
                None => assert_eq!(&reply, expected, "{line}"),
            }
        }
    }
}
