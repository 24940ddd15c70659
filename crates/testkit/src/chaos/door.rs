//! One record by each of a node's doors, as a client in a hurry uses them: what is not answered in time is not known.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::history::Outcome;
use super::{FIELD, TABLE};
use crate::{Client, Reply};

/// Longer than a node takes to notice that another one is gone.
pub const PATIENCE: Duration = Duration::from_secs(4);

pub enum Door {
    Redis {
        address: SocketAddr,
        client: Option<Client>,
    },
    Http {
        address: SocketAddr,
        stream: Option<BufReader<TcpStream>>,
    },
    /// By a process of its own for each request.
    Grpc {
        address: SocketAddr,
        binary: PathBuf,
    },
}

impl Door {
    pub fn write(&mut self, name: &str, number: u64) -> Outcome {
        match self.try_write(name, number) {
            Ok(outcome) => outcome,
            Err(_) => {
                self.forget();
                Outcome::Unknown
            }
        }
    }

    /// Nothing if there was no answer, or an error for one.
    pub fn read(&mut self, name: &str) -> Option<u64> {
        let found = self.try_read(name);
        if found.is_err() {
            self.forget();
        }
        found.ok().flatten()
    }

    fn try_write(&mut self, name: &str, number: u64) -> Result<Outcome> {
        match self {
            Door::Redis { address, client } => {
                let command = ["HSET", &format!("{TABLE}:{name}"), FIELD, &number.to_string()];
                Ok(match redis(*address, client)?.call(&command)? {
                    Reply::Error(text) if text.starts_with("INDOUBT") => Outcome::Unknown,
                    Reply::Error(_) => Outcome::Refused,
                    _ => Outcome::Done,
                })
            }
            Door::Http { address, stream } => {
                let body = format!("{{\"{FIELD}\": {number}}}");
                let (status, body) = http(*address, stream, "PATCH", name, &body)?;
                Ok(match status {
                    200 => Outcome::Done,
                    _ if body.contains("\"code\":\"in_doubt\"") => Outcome::Unknown,
                    _ if body.contains("\"code\":") => Outcome::Refused,
                    _ => Outcome::Unknown,
                })
            }
            Door::Grpc { address, binary } => {
                let (key, change) = (format!("{TABLE}:{name}"), format!("{FIELD}={number}"));
                let (is_done, said) = grpc(*address, binary, &["set", &key, &change])?;
                // Its other errors may be its own: it has lost the node on the way.
                let is_refused =
                    ["no_leader", "busy"].iter().any(|code| said.contains(&format!("\"code\":\"{code}\"")));
                Ok(if is_done {
                    Outcome::Done
                } else if is_refused {
                    Outcome::Refused
                } else {
                    Outcome::Unknown
                })
            }
        }
    }

    fn try_read(&mut self, name: &str) -> Result<Option<u64>> {
        match self {
            Door::Redis { address, client } => {
                let reply = redis(*address, client)?.call(&["HGET", &format!("{TABLE}:{name}"), FIELD])?;
                Ok(super::load::number(&reply))
            }
            Door::Http { address, stream } => {
                let (status, body) = http(*address, stream, "GET", name, "")?;
                Ok(if status == 200 { field(&body) } else { absent(&body) })
            }
            Door::Grpc { address, binary } => {
                let (is_done, said) = grpc(*address, binary, &["get", &format!("{TABLE}:{name}")])?;
                Ok(if is_done { field(&said) } else { absent(&said) })
            }
        }
    }

    /// What was on its way on this connection is no answer to what is asked next.
    fn forget(&mut self) {
        match self {
            Door::Redis { client, .. } => *client = None,
            Door::Http { stream, .. } => *stream = None,
            Door::Grpc { .. } => {}
        }
    }
}

fn redis(address: SocketAddr, client: &mut Option<Client>) -> Result<&mut Client> {
    Ok(match client {
        Some(client) => client,
        none => none.insert(Client::connect_for(address, PATIENCE)?),
    })
}

fn http(
    address: SocketAddr,
    stream: &mut Option<BufReader<TcpStream>>,
    verb: &str,
    name: &str,
    body: &str,
) -> Result<(u16, String)> {
    let stream = match stream {
        Some(stream) => stream,
        none => none.insert(connect(address)?),
    };
    let head = format!("{verb} /v1/tables/{TABLE}/records/{name} HTTP/1.1\r\nhost: {address}\r\n");
    let kind = "content-type: application/json\r\n";
    write!(stream.get_mut(), "{head}{kind}content-length: {}\r\n\r\n{body}", body.len())?;
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).context("no status")?.parse()?;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            bail!("the answer ends in its head");
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, String::from_utf8(body)?))
}

fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

/// Whether it succeeded, and what it said.
fn grpc(address: SocketAddr, binary: &PathBuf, args: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(binary);
    command.args(args).args(["--json", "--timeout", &PATIENCE.as_secs().to_string()]);
    let output = command.env("SHARDINE_SERVER", address.to_string()).stdin(Stdio::null()).output()?;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Ok((output.status.success(), String::from_utf8(said)?))
}

fn field(body: &str) -> Option<u64> {
    let (_, rest) = body.split_once(&format!("\"{FIELD}\":"))?;
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A record that is not there holds none.
fn absent(body: &str) -> Option<u64> {
    body.contains("\"code\":\"not_found\"").then_some(0)
}
