//! One link to a node on a socket that never makes anybody wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use shardine_model::NodeId;
use shardine_transport::{Greeting, Hello, Inbound, Item, LinkKind, Opening, Outbox, Refusal};

use super::book::Book;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Reads of one link in one turn.
const READS_MAX: usize = 16;

/// Why a link is over, in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Nobody listens there.
    Refused,
    /// The node does not want us, or is not the one that was meant.
    Unwanted(String),
    /// The cluster has gone on without this node, for good, or with a newer start of it: this process is of no use to anybody.
    Removed(String),
    /// A peer has seen a newer start of this node, or another one of the same count: the directory is an old or a second copy.
    OldCopy(String),
    Broken(String),
}

enum Stage {
    /// This side has dialled, and the other one has not said who it is.
    Dialled {
        opening: Opening,
        hello: Box<Hello>,
        unsent: Vec<u8>,
    },
    Open(Inbound),
}

pub(crate) struct Link {
    stream: TcpStream,
    peer: NodeId,
    stage: Stage,
    outbox: Outbox,
    may_read: bool,
    /// The other side sends no more: there is an end to be read behind what has come.
    is_ending: bool,
}

impl Link {
    /// Begins to dial.
    pub fn dial(address: SocketAddr, hello: Hello, registry: &Registry, token: Token) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let (peer, kind, unsent) = (hello.expects, hello.kind, hello.to_frame());
        let stage = Stage::Dialled { opening: Opening::dialled(), hello: Box::new(hello), unsent };
        Ok(Self { stream, peer, stage, outbox: Outbox::new(kind), may_read: false, is_ending: false })
    }

    /// One that a peer has dialled and both sides have greeted on. `take` gets what the peer has said since.
    pub fn accepted(
        mut stream: TcpStream,
        peer: NodeId,
        kind: LinkKind,
        to: (&Registry, Token),
    ) -> std::io::Result<Self> {
        let (registry, token) = to;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let _ = stream.set_nodelay(true);
        let (stage, outbox) = (Stage::Open(Inbound::new(kind)), Outbox::new(kind));
        Ok(Self { stream, peer, stage, outbox, may_read: true, is_ending: false })
    }

    pub fn peer(&self) -> NodeId {
        self.peer
    }

    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// What is to be sent. Nothing should be put there before the link is open: it might be of no use by then.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The socket may have something to read, `is_ending` if that may be the end of it.
    pub fn note_readable(&mut self, is_ending: bool) {
        self.may_read = true;
        self.is_ending |= is_ending;
    }

    pub fn may_read(&self) -> bool {
        self.may_read
    }

    /// Takes what has come before somebody else took the link over.
    pub fn receive(&mut self, bytes: &[u8], take: impl FnMut(Item<'_>)) -> Result<(), Closed> {
        match &mut self.stage {
            Stage::Open(inbound) => inbound.receive(bytes, take).map_err(|broken| Closed::Broken(broken.to_string())),
            Stage::Dialled { .. } => Ok(()),
        }
    }

    /// Reads what there is, some of it if there is much.
    pub fn read(&mut self, book: &Book, buffer: &mut Vec<u8>, mut take: impl FnMut(Item<'_>)) -> Result<(), Closed> {
        buffer.resize(READ_BYTES, 0);
        for _ in 0..READS_MAX {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(Closed::Broken("the other side has closed it".to_owned())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.may_read = false;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::NotConnected => {
                    self.may_read = false;
                    return Ok(());
                }
                Err(error) => return Err(closed(&error)),
            };
            match &mut self.stage {
                Stage::Open(_) => self.receive(&buffer[..count], &mut take)?,
                Stage::Dialled { .. } => self.greet(book, &buffer[..count], &mut take)?,
            }
            // Less than there was room for: all of it. What comes later is news again, the end too unless that was told already.
            if count < READ_BYTES && !self.is_ending {
                self.may_read = false;
                return Ok(());
            }
        }
        Ok(())
    }

    fn greet(&mut self, book: &Book, bytes: &[u8], take: &mut impl FnMut(Item<'_>)) -> Result<(), Closed> {
        let Stage::Dialled { opening, hello, .. } = &mut self.stage else { return Ok(()) };
        let broken = |error: shardine_transport::Broken| Closed::Broken(error.to_string());
        let welcome = match opening.receive(bytes).map_err(broken)? {
            None => return Ok(()),
            Some(Greeting::Welcome(welcome)) => welcome,
            Some(Greeting::Refused(refusal @ Refusal::Removed { .. })) => {
                return Err(Closed::Removed(refusal.to_string()));
            }
            Some(Greeting::Refused(refusal @ Refusal::OldCopy { .. })) => {
                return Err(Closed::OldCopy(refusal.to_string()));
            }
            Some(Greeting::Refused(refusal)) => return Err(Closed::Unwanted(refusal.to_string())),
            Some(Greeting::Hello(_) | Greeting::OtherVersion { .. }) => {
                return Err(Closed::Unwanted("it says hello back".to_owned()));
            }
        };
        book.admit_acceptor(hello, &welcome).map_err(|refusal| Closed::Unwanted(refusal.to_string()))?;
        let kind = hello.kind;
        let rest = std::mem::replace(opening, Opening::dialled()).into_rest();
        self.stage = Stage::Open(Inbound::new(kind));
        self.receive(&rest, take)
    }

    /// Writes what waits, as much as the wire takes.
    pub fn flush(&mut self) -> Result<(), Closed> {
        if self.outbox.is_overflown() {
            return Err(Closed::Broken("an answer did not fit into what waits for it".to_owned()));
        }
        loop {
            let bytes = match &mut self.stage {
                Stage::Dialled { unsent, .. } => unsent.as_slice(),
                Stage::Open(_) => self.outbox.bytes(),
            };
            if bytes.is_empty() {
                return Ok(());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(Closed::Broken("nothing can be written to it".to_owned())),
                Ok(count) => match &mut self.stage {
                    Stage::Dialled { unsent, .. } => {
                        let _ = self.stream.set_nodelay(true);
                        unsent.drain(..count);
                    }
                    Stage::Open(_) => self.outbox.written(count),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A dial that is under way.
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(closed(&error)),
            }
        }
    }

    /// What a failed dial left at the socket.
    pub fn failure(&self) -> Option<Closed> {
        self.stream.take_error().ok().flatten().map(|error| closed(&error))
    }

    pub fn close(mut self, registry: &Registry) {
        let _ = registry.deregister(&mut self.stream);
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn closed(error: &std::io::Error) -> Closed {
    match error.kind() {
        ErrorKind::ConnectionRefused => Closed::Refused,
        _ => Closed::Broken(error.to_string()),
    }
}
