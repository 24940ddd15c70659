//! A server under measurement, whichever it is: started on an empty folder, stopped, started again.

use anyhow::{Result, bail};
use clap::ValueEnum;
use shardine_testkit::{Appendonly, Client, Doors, Port, RedisServer, Reply, Shardine, Sql};

use super::{args::Options, workplace::Workplace};

/// The servers that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Redis,
    Shardine,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis-server",
            Kind::Shardine => "shardine",
        }
    }
}

/// What Redis promises about the disk. Shardine has one promise only: synced before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Memory,
    Synced,
}

/// One running server.
pub enum Server {
    Redis(RedisServer),
    Shardine(Shardine),
}

impl Server {
    /// Starts an empty server of `kind`.
    pub fn start(kind: Kind, promise: Promise, place: &Workplace, options: &Options) -> Result<Server> {
        let dir = place.dir()?;
        match kind {
            Kind::Redis => {
                let appendonly = match promise {
                    Promise::Memory => Appendonly::Off,
                    Promise::Synced => Appendonly::Always,
                };
                // A rewrite of the file would fall into one round and not into another; without it Redis does less work.
                let no_rewrite = ["--auto-aof-rewrite-percentage", "0"];
                Ok(Server::Redis(RedisServer::start(dir, appendonly, &no_rewrite)?))
            }
            Kind::Shardine => {
                let binary = options.subject_bin.clone();
                let up =
                    shardine_testkit::Options { sql: Sql::None, doors: Doors::Redis, binary, ..Default::default() };
                Ok(Server::Shardine(Shardine::start_in(dir, up)?))
            }
        }
    }

    /// Makes the table `people` with the fields of the records. Redis needs none.
    pub fn create_people(&mut self, more: &[&str]) -> Result<()> {
        let Server::Shardine(server) = self else { return Ok(()) };
        let fields = ["--field", "name:string", "--field", "age:int64", "--field", "city:string"];
        let output = server.command(&[&["table", "create", "people"], &fields[..], more].concat()).output()?;
        if !output.status.success() {
            bail!("table create: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Waits until nothing is left to be written behind. Redis writes nothing behind, and without SQL there is nothing.
    pub fn flush(&self) -> Result<()> {
        match self {
            Server::Redis(_) => Ok(()),
            Server::Shardine(_) => match self.client()?.call(&["REC.FLUSH"])? {
                Reply::Error(text) => bail!("REC.FLUSH: {text}"),
                _ => Ok(()),
            },
        }
    }

    pub fn port(&self) -> &Port {
        match self {
            Server::Redis(server) => server.port(),
            Server::Shardine(server) => server.redis(),
        }
    }

    pub fn pid(&mut self) -> u32 {
        match self {
            Server::Redis(server) => server.process().pid(),
            Server::Shardine(server) => server.process().pid(),
        }
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port().address())
    }

    /// Stops the server cleanly.
    pub fn stop(&mut self) -> Result<()> {
        match self {
            Server::Redis(server) => server.stop(),
            Server::Shardine(server) => server.stop(),
        }
    }

    /// Starts the stopped server on its data, without waiting for it to serve.
    pub fn start_again(&mut self) -> Result<()> {
        match self {
            Server::Redis(server) => server.start_again(),
            Server::Shardine(server) => server.start_again(),
        }
    }
}

/// The two servers of a row.
pub struct Pair {
    pub reference: Server,
    pub subject: Server,
}

impl Pair {
    /// Starts both on empty folders.
    pub fn start(promise: Promise, place: &Workplace, options: &Options) -> Result<Pair> {
        let reference = Server::start(Kind::Redis, promise, place, options)?;
        let subject = Server::start(options.subject, promise, place, options)?;
        Ok(Pair { reference, subject })
    }

    /// Shardine with SQLite behind it; the reference is as ever.
    pub fn in_front_of_sqlite(promise: Promise, place: &Workplace, options: &Options) -> Result<Pair> {
        let reference = Server::start(Kind::Redis, promise, place, options)?;
        let (sql, doors, binary) = (Sql::Sqlite, Doors::Redis, options.subject_bin.clone());
        let up = shardine_testkit::Options { sql, doors, binary, ..Default::default() };
        Ok(Pair { reference, subject: Server::Shardine(Shardine::start_in(place.dir()?, up)?) })
    }

    /// Two of the same kind with different numbers of groups.
    pub fn of_groups(groups: [u32; 2], place: &Workplace, options: &Options) -> Result<Pair> {
        let start = |groups: u32| -> Result<Server> {
            let up = shardine_testkit::Options {
                sql: Sql::None,
                doors: Doors::Redis,
                args: vec!["--shards".to_owned(), groups.to_string()],
                binary: options.subject_bin.clone(),
                ..Default::default()
            };
            Ok(Server::Shardine(Shardine::start_in(place.dir()?, up)?))
        };
        Ok(Pair { reference: start(groups[0])?, subject: start(groups[1])? })
    }

    /// Measures both, next to each other. Who is first changes from round to round, so that neither side always finds the
    /// disk or the caches as the other left them.
    pub fn in_turns<T>(&mut self, round: u32, mut measure: impl FnMut(&mut Server) -> Result<T>) -> Result<Both<T>> {
        if round.is_multiple_of(2) {
            let reference = measure(&mut self.reference)?;
            return Ok(Both { reference, subject: measure(&mut self.subject)? });
        }
        let subject = measure(&mut self.subject)?;
        Ok(Both { reference: measure(&mut self.reference)?, subject })
    }
}

/// One measurement of each side.
pub struct Both<T> {
    pub reference: T,
    pub subject: T,
}
