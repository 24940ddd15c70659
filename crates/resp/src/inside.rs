//! Commands of scripts and programs: said by nobody's connection, to an engine that answers at once.

use std::sync::Arc;

use shardine_model::ErrorCode;
use shardine_router::{LocalEngine, Response};

use crate::connection::{Peer, RespConnection};
use crate::failure::Failure;
use crate::frame::OwnedLine;
use crate::options::Options;
use crate::value::is;
use crate::verb::{Kind, Verb};
use crate::wire::Protocol;

/// Who says a command, and how it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Deed {
    pub protocol: Protocol,
    /// A script says it, which is told of errors in other words.
    pub from_script: bool,
    pub reads_only: bool,
}

pub struct Inside {
    connection: RespConnection,
    options: Arc<Options>,
}

impl Inside {
    #[must_use]
    pub fn new(options: Arc<Options>) -> Self {
        Self { connection: Self::fresh(&options), options }
    }

    fn fresh(options: &Arc<Options>) -> RespConnection {
        let mut connection = RespConnection::new(0, Peer::default(), Arc::clone(options));
        (connection.is_authenticated, connection.is_inside) = (true, true);
        connection
    }

    /// Whether scripts may ask for a command of this name.
    #[must_use]
    pub fn is_command(name: &[u8]) -> bool {
        Verb::find(name).is_some()
    }

    /// Executes a command; `next` gives what the engine has answered. `None` if the engine has left something unanswered: then
    /// nothing that came of the command counts.
    pub fn execute<H: LocalEngine>(
        &mut self,
        words: &[&[u8]],
        deed: Deed,
        engine: &mut H,
        next: impl Fn(&mut H) -> Option<(u64, Response)>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if let Err(failure) = fits(words, deed) {
            failure.write(out);
            return Some(());
        }
        let line = OwnedLine::of(words);
        self.connection.protocol = deed.protocol;
        let _ = self.connection.execute(line.line(), engine, out);
        while self.connection.waiting() > 0
            && let Some((sequence, response)) = next(engine)
        {
            self.connection.complete(sequence, response, engine, out);
        }
        if self.connection.waiting() > 0 {
            self.connection = Self::fresh(&self.options);
            return None;
        }
        Some(())
    }
}

/// Whether a command may be said here at all.
fn fits(words: &[&[u8]], deed: Deed) -> Result<(), Failure> {
    let name = words.first().copied().unwrap_or_default();
    let Some(verb) = Verb::find(name) else {
        if crate::verb::is_known_to_redis(name) {
            return Err(Failure::unsupported(format!(
                "Shardine has no {}",
                String::from_utf8_lossy(name).to_uppercase()
            )));
        }
        return Err(Failure::line("ERR Unknown Redis command called from script"));
    };
    if !verb.takes(words.len()) {
        return Err(Failure::line("ERR Wrong number of args calling Redis command from script"));
    }
    let is_own = matches!(verb, Verb::Ping | Verb::Echo | Verb::Time | Verb::Select | Verb::Command);
    let line = OwnedLine::of(words);
    match verb.kind_of(line.line()) {
        Kind::Own if !is_own && !matches!(verb, Verb::Object | Verb::Memory) => Err(refused(verb, deed)),
        Kind::Control | Kind::Program => Err(refused(verb, deed)),
        Kind::Call => Err(refused(verb, deed)),
        Kind::Change | Kind::ChangeMany | Kind::Atomic if deed.reads_only && !verb.only_looks() => {
            Err(Failure::line("ERR Write commands are not allowed from read-only scripts."))
        }
        Kind::Read | Kind::ReadMany | Kind::Change | Kind::ChangeMany | Kind::Atomic | Kind::Own => {
            let waits = verb.name().starts_with("REC.")
                && words.get(2..).unwrap_or_default().iter().any(|word| is(word, "ACK") || is(word, "STALE"));
            if waits { Err(refused(verb, deed)) } else { Ok(()) }
        }
    }
}

fn refused(verb: Verb, deed: Deed) -> Failure {
    let is_of_redis = deed.from_script && (verb == Verb::Function || !verb.is_about_many_partitions());
    if is_of_redis {
        return Failure::line("ERR This Redis command is not allowed from script");
    }
    let sentence = format!("{} looks beyond one partition, and a script or transaction does not", verb.name());
    Failure::new(ErrorCode::Unsupported, sentence)
}
