//! A small blocking Redis client for tests: commands out, replies in, pipelining by sending before receiving. It hides
//! nothing: an error reply is a [`Reply::Error`], not an `Err`, which is left for a broken connection or protocol.

mod reply;

use std::{
    io::{BufReader, BufWriter, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::PATIENCE;

pub use reply::Reply;

/// One connection.
pub struct Client {
    input: BufReader<TcpStream>,
    output: BufWriter<TcpStream>,
}

impl Client {
    /// Connects. A read that gets no answer within [`PATIENCE`] fails, so that a silent server fails a test.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        Client::connect_for(address, PATIENCE)
    }

    /// The same with another patience, for a client that goes on without an answer.
    pub fn connect_for(address: SocketAddr, patience: Duration) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&address, patience);
        let stream = stream.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Client { input: BufReader::new(stream.try_clone()?), output: BufWriter::new(stream) })
    }

    /// Sends one command and returns its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends all commands before reading the first reply.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> Result<Vec<Reply>> {
        for command in commands {
            self.send(command)?;
        }
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Puts one command into the output buffer. It leaves when the buffer is full, at [`Client::flush`], or when a reply
    /// is asked for.
    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Result<()> {
        write!(self.output, "*{}\r\n", command.len())?;
        for argument in command {
            let bytes = argument.as_ref();
            write!(self.output, "${}\r\n", bytes.len())?;
            self.output.write_all(bytes)?;
            self.output.write_all(b"\r\n")?;
        }
        Ok(())
    }

    /// Sends bytes as they are, for inline commands and for broken input.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes).context("send raw bytes")
    }

    pub fn flush(&mut self) -> Result<()> {
        self.output.flush().context("send")
    }

    /// Reads the next reply, after sending what is still in the output buffer.
    pub fn receive(&mut self) -> Result<Reply> {
        self.flush()?;
        Reply::read(&mut self.input)
    }

    /// Checks that the server answers PING as it should.
    pub fn ping(&mut self) -> Result<()> {
        match self.call(&["PING"])? {
            Reply::Simple(text) if text == "PONG" => Ok(()),
            other => bail!("PING was answered with {other:?}"),
        }
    }

    /// Checks that the server serves: it answers PING, or asks who is there, if it wants a token.
    pub fn knock(&mut self) -> Result<()> {
        match self.call(&["PING"])? {
            Reply::Simple(text) if text == "PONG" => Ok(()),
            Reply::Error(text) if text.starts_with("NOAUTH ") => Ok(()),
            other => bail!("PING was answered with {other:?}"),
        }
    }

    /// Reads until the server closes the connection and returns what came before that.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        self.flush()?;
        let mut rest = Vec::new();
        self.input.read_to_end(&mut rest)?;
        Ok(rest)
    }
}
