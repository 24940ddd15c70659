//! One Lua, with nothing in it that reaches outside: a script runs in it, calls its host, and leaves a reply.
//!
//! Every script gets the same world, which it cannot change, a clock that stands still (its host's) and the same chance.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use shardine_resp::{Protocol, wire};

use crate::chance::Chance;
use crate::functions::Loaded;
use crate::libraries;
use crate::limits::{CALLS_MAX, COMPILED_MAX, Limits, STEPS_BETWEEN_LOOKS};
use crate::raised::Raised;
use crate::reply::{self, Place};

/// Whom a script calls.
pub trait Host {
    /// Executes a command and appends its reply; `None` if the script is to end here and now, and nothing of it counts.
    fn call(&mut self, words: &[&[u8]], protocol: Protocol, out: &mut Vec<u8>) -> Option<()>;

    /// A line for the server's log.
    fn log(&mut self, level: u8, text: &str);

    /// Whether there is a command of this name.
    fn is_command(&self, name: &[u8]) -> bool;
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    pub text: &'a [u8],
    pub sum: [u8; 20],
    pub keys: &'a [Box<[u8]>],
    pub args: &'a [Box<[u8]>],
    /// The form of its reply.
    pub protocol: Protocol,
}

/// Why a script ended without a reply of its own. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its host said so.
    ByHost,
    /// It took more than it may.
    TooLong,
    /// Somebody had it killed.
    Killed,
}

/// What a run and the functions that it calls have in common.
pub(crate) struct Shared {
    steps: Cell<u64>,
    steps_max: Cell<u64>,
    pub ended: Cell<Option<Ended>>,
    pub chance: Cell<Chance>,
    pub protocol: Cell<Protocol>,
    kill: RefCell<Option<std::sync::Arc<AtomicBool>>>,
}

impl Shared {
    /// Counts steps. An error if there were too many, or the script was killed: from then on everything that it tries is one.
    pub fn charge(&self, steps: u64) -> mlua::Result<()> {
        self.steps.set(self.steps.get().saturating_add(steps));
        if self.ended.get().is_none() {
            if self.steps.get() > self.steps_max.get() {
                self.ended.set(Some(Ended::TooLong));
            } else if self.kill.borrow().as_ref().is_some_and(|kill| kill.load(Ordering::Relaxed)) {
                self.ended.set(Some(Ended::Killed));
            }
        }
        match self.ended.get() {
            Some(_) => Err(mlua::Error::external(Raised::End)),
            None => Ok(()),
        }
    }

    pub fn begin(&self, limits: Limits, kill: Option<std::sync::Arc<AtomicBool>>) {
        self.steps.set(0);
        self.steps_max.set(limits.steps);
        self.ended.set(None);
        self.chance.set(Chance::FIRST);
        self.protocol.set(Protocol::Resp2);
        *self.kill.borrow_mut() = kill;
    }
}

pub struct Sandbox {
    pub(crate) lua: Lua,
    pub(crate) shared: Rc<Shared>,
    pub(crate) native: Table,
    globals: Table,
    pub(crate) execute: Function,
    pub(crate) bind: Function,
    pub(crate) libraries: HashMap<[u8; 20], Rc<Loaded>>,
    compiled: HashMap<[u8; 20], Function>,
}

/// The chunk that is a script, in its messages.
pub(crate) const CHUNK: &str = "@user_script";
/// The chunk that is a library of functions.
pub(crate) const FUNCTION_CHUNK: &str = "@user_function";

/// Whether a chunk is what somebody has sent, not what the sandbox is made of.
pub(crate) fn is_sent(source: &str) -> bool {
    source == CHUNK || source == FUNCTION_CHUNK
}

impl Sandbox {
    /// A new world. It fails only if there is no memory for it.
    pub fn new() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let shared = Rc::new(Shared {
            steps: Cell::new(0),
            steps_max: Cell::new(u64::MAX),
            ended: Cell::new(None),
            chance: Cell::new(Chance::FIRST),
            protocol: Cell::new(Protocol::Resp2),
            kill: RefCell::new(None),
        });
        let (native, globals) = (lua.create_table()?, lua.create_table()?);
        libraries::install(&lua, &native, &shared)?;
        install_own(&lua, &native, &shared)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=sandbox");
        let (world, execute, bind): (Table, Function, Function) = prelude.call((&native, &globals))?;
        lua.set_globals(world)?;
        let watched = Rc::clone(&shared);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEPS_BETWEEN_LOOKS), move |_, _| {
            watched.charge(u64::from(STEPS_BETWEEN_LOOKS)).map(|()| VmState::Continue)
        })?;
        Ok(Self { lua, shared, native, globals, execute, bind, libraries: HashMap::new(), compiled: HashMap::new() })
    }

    fn compile(&mut self, text: &[u8], sum: [u8; 20]) -> Result<Function, Vec<u8>> {
        if let Some(known) = self.compiled.get(&sum) {
            return Ok(known.clone());
        }
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        let function = self.read(text, CHUNK);
        let function =
            function.map_err(|why| format!("ERR Error compiling script (new function): {why}").into_bytes())?;
        self.compiled.insert(sum, function.clone());
        Ok(function)
    }

    /// Makes a function of a text, or says why it is none.
    pub(crate) fn read(&self, text: &[u8], chunk: &str) -> Result<Function, String> {
        self.shared.begin(Limits { steps: u64::MAX, ..Limits::BESIDE }, None);
        let source = without_header(text);
        // Only text: what is compiled already could do anything to the memory of the process.
        if source.first() == Some(&0x1b) {
            return Err("a precompiled chunk is no script".to_owned());
        }
        let chunk = self.lua.load(&*source).set_name(chunk);
        let before = self.lua.used_memory();
        let _ = self.lua.set_memory_limit(before + Limits::BESIDE.memory_bytes);
        let function = chunk.into_function();
        let _ = self.lua.set_memory_limit(0);
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// Runs a script, and appends its reply. What it says of itself (that it is no script, that it failed) is a reply.
    pub fn run(
        &mut self,
        script: Script<'_>,
        limits: Limits,
        kill: Option<std::sync::Arc<AtomicBool>>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        let function = match self.compile(script.text, script.sum) {
            Ok(function) => function,
            Err(line) => {
                wire::error(out, &line);
                return Ok(());
            }
        };
        let set_out = |sandbox: &Self| {
            sandbox.globals.raw_set("KEYS", words(&sandbox.lua, script.keys)?)?;
            sandbox.globals.raw_set("ARGV", words(&sandbox.lua, script.args)?)?;
            Ok(function)
        };
        let ran = self.guarded(set_out, (script.protocol, Place::Script(script.sum)), limits, kill, host, out);
        self.tidy();
        ran
    }

    /// Runs what is set out, within its limits.
    pub(crate) fn guarded(
        &self,
        set_out: impl FnOnce(&Self) -> mlua::Result<Function>,
        form: (Protocol, Place<'_>),
        limits: Limits,
        kill: Option<std::sync::Arc<AtomicBool>>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        self.shared.begin(limits, kill);
        let before = self.lua.used_memory();
        let _ = self.lua.set_memory_limit(before + limits.memory_bytes);
        let start = out.len();
        let ran = set_out(self).and_then(|function| self.perform(&function, form, host, out));
        let _ = self.lua.set_memory_limit(0);
        if let Some(ended) = self.shared.ended.get() {
            out.truncate(start);
            return Err(ended);
        }
        if let Err(error) = ran {
            out.truncate(start);
            if is_memory(&error) {
                return Err(Ended::TooLong);
            }
            wire::error(out, format!("ERR {error}").as_bytes());
        }
        Ok(())
    }

    fn perform(
        &self,
        function: &Function,
        (protocol, place): (Protocol, Place<'_>),
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) -> mlua::Result<()> {
        let host = RefCell::new(host);
        let (mut calls, mut answer) = (0, Vec::new());
        self.lua.scope(|scope| {
            let shared = &self.shared;
            let host = &host;
            let call = scope.create_function_mut(move |lua, args: MultiValue| {
                calls += 1;
                if calls > CALLS_MAX {
                    shared.ended.set(Some(Ended::TooLong));
                }
                shared.charge(CALL_STEPS)?;
                answer.clear();
                call(lua, &args, shared, &mut **host.borrow_mut(), &mut answer)
            })?;
            self.native.raw_set("call", call)?;
            let log = scope.create_function(move |_, (level, words): (u8, mlua::Variadic<Value>)| {
                let text: Vec<String> = words.iter().map(|word| word.to_string().unwrap_or_default()).collect();
                host.borrow_mut().log(level, &text.join(" "));
                Ok(())
            })?;
            self.native.raw_set("log", log)?;
            let is_command = scope
                .create_function(move |_, name: mlua::LuaString| Ok(host.borrow().is_command(&name.as_bytes())))?;
            self.native.raw_set("is_command", is_command)?;
            let (is_done, value): (bool, Value) = self.execute.call(function)?;
            if shared.ended.get().is_some() {
                return Ok(());
            }
            match (is_done, value) {
                (true, value) => {
                    let form = reply::Form { client: protocol, script: shared.protocol.get() };
                    reply::write(&value, form, out)
                }
                (false, Value::Table(failure)) => reply::write_failure(&failure, place, out),
                (false, Value::String(text)) if &*text.as_bytes() == OUT_OF_MEMORY => {
                    Err(mlua::Error::MemoryError(String::new()))
                }
                (false, Value::Error(error)) if is_memory(&error) => Err(*error),
                (false, other) => {
                    let text = other.to_string().unwrap_or_default();
                    wire::error(out, format!("ERR {text}").as_bytes());
                    Ok(())
                }
            }
        })
    }

    /// Lets go of what was given to the run; Lua collects it, a little at a time.
    fn tidy(&self) {
        let _ = self.globals.raw_remove("KEYS");
        let _ = self.globals.raw_remove("ARGV");
    }
}

/// What a call of its host takes of a script's steps: about as long as that many of Lua's.
const CALL_STEPS: u64 = 50;
const OUT_OF_MEMORY: &[u8] = b"not enough memory";

pub(crate) fn is_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}

/// The text without its first line, if that says what the script is; the others keep their numbers.
fn without_header(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if !text.starts_with(b"#!") {
        return text.into();
    }
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    text[end..].into()
}

pub(crate) fn words(lua: &Lua, words: &[Box<[u8]>]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(words.len(), 0)?;
    for (place, word) in (1..).zip(words) {
        table.raw_set(place, lua.create_string(word)?)?;
    }
    Ok(table)
}

/// `redis.call`: whether it failed, and the reply as a value.
fn call(
    lua: &Lua,
    args: &MultiValue,
    shared: &Shared,
    host: &mut dyn Host,
    answer: &mut Vec<u8>,
) -> mlua::Result<(bool, Value)> {
    let failed = |line: &str| -> mlua::Result<(bool, Value)> { Ok((true, reply::failure(lua, line.as_bytes())?)) };
    if args.is_empty() {
        return failed("ERR Please specify at least one argument for this redis lib call");
    }
    let mut owned = Vec::with_capacity(args.len());
    for value in args {
        match reply::argument(value) {
            Some(word) => owned.push(word),
            None => return failed("ERR Lua redis lib command arguments must be strings or integers"),
        }
    }
    let borrowed: Vec<_> = owned.iter().map(reply::Argument::bytes).collect();
    let words: Vec<&[u8]> = borrowed.iter().map(|word| &**word).collect();
    shared.charge(words.iter().map(|word| word.len() as u64 / 64).sum())?;
    match host.call(&words, shared.protocol.get(), answer) {
        Some(()) => {
            shared.charge(answer.len() as u64 / 16)?;
            reply::read(lua, answer)
        }
        None => {
            shared.ended.set(Some(shared.ended.get().unwrap_or(Ended::ByHost)));
            Err(mlua::Error::external(Raised::End))
        }
    }
}

/// An error of Redis's, in its words.
fn said(words: &str) -> mlua::Result<Value> {
    Err(Raised::Reply(format!("ERR {words}").into_bytes()).into())
}

fn own(
    lua: &Lua,
    native: &Table,
    name: &str,
    act: impl Fn(&MultiValue) -> mlua::Result<Value> + 'static,
) -> mlua::Result<()> {
    native.raw_set(name, lua.create_function(move |_, args: MultiValue| act(&args))?)
}

/// What the prelude needs of Rust for itself.
fn install_own(lua: &Lua, native: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    let known = Rc::clone(shared);
    native.raw_set(
        "is_final",
        lua.create_function(move |_, failure: Value| {
            if known.ended.get().is_some() {
                return Ok(true);
            }
            let is_out_of_memory = match &failure {
                Value::String(text) => &*text.as_bytes() == OUT_OF_MEMORY,
                Value::Error(error) => is_memory(error),
                _ => false,
            };
            if is_out_of_memory {
                known.ended.set(Some(Ended::TooLong));
            }
            Ok(is_out_of_memory)
        })?,
    )?;
    let charged = Rc::clone(shared);
    native.raw_set("charge", lua.create_function(move |_, steps: f64| charged.charge(steps.max(0.0) as u64))?)?;
    let spoken = Rc::clone(shared);
    own(lua, native, "setresp", move |args| match args.front() {
        _ if args.len() != 1 => said("redis.setresp() requires one argument."),
        Some(Value::Integer(version @ (2 | 3))) => {
            spoken.protocol.set(if *version == 3 { Protocol::Resp3 } else { Protocol::Resp2 });
            Ok(Value::Nil)
        }
        _ => said("RESP version must be 2 or 3."),
    })?;
    own(lua, native, "sha1hex", {
        let lua = lua.weak();
        move |args| match args.front() {
            Some(value) if args.len() == 1 => Ok(Value::String(lua.upgrade().create_string(reply::sum_of(value))?)),
            _ => said("wrong number of arguments"),
        }
    })?;
    let of_run = native.clone();
    own(lua, native, "redis_log", move |args| {
        let level = match args.front() {
            _ if args.len() < 2 => return said("redis.log() requires two arguments or more."),
            Some(Value::Integer(level)) => *level as f64,
            Some(Value::Number(level)) => *level,
            _ => return said("First argument must be a number (log level)."),
        };
        if !(0.0..=3.0).contains(&level) {
            return said("Invalid debug level.");
        }
        of_run.raw_get::<Function>("log")?.call(args.clone())
    })?;
    let of_run = native.clone();
    own(lua, native, "acl_check_cmd", move |args| match args.front() {
        None => said("Please specify at least one argument for this redis.acl_check_cmd() call"),
        Some(Value::String(name)) if of_run.raw_get::<Function>("is_command")?.call(name)? => Ok(Value::Boolean(true)),
        Some(_) => said("Invalid command passed to redis.acl_check_cmd()"),
    })?;
    // There only while a library is loaded.
    let of_load = native.clone();
    own(lua, native, "register_function", move |args| match of_load.raw_get::<Option<Function>>("register")? {
        Some(register) => register.call(args.clone()),
        None => said("redis.register_function can only be called on FUNCTION LOAD command"),
    })?;
    native.raw_set("line", lua.create_function(|lua, ()| Ok(script_line(lua)))?)?;
    native.raw_set("version", shardine_resp::REDIS_VERSION)?;
    let number = shardine_resp::REDIS_VERSION.split('.').filter_map(|part| part.parse::<i64>().ok());
    native.raw_set("version_number", number.fold(0, |all, part| all << 8 | part))?;
    native.raw_set("error_reply", lua.create_function(reply::error_reply)?)?;
    native.raw_set("translate", lua.create_function(|lua, failure: Value| Raised::translate(lua, failure))?)?;
    native.raw_set(
        "raise",
        lua.create_function(|_, line: mlua::LuaString| -> mlua::Result<()> {
            Err(Raised::Reply(line.as_bytes().to_vec()).into())
        })?,
    )?;
    for name in ["redis_call", "redis_pcall"] {
        let of_run = native.clone();
        let is_protected = name == "redis_pcall";
        let forward = lua.create_function(move |_, args: MultiValue| {
            let call: Function = of_run.raw_get("call")?;
            match call.call(args)? {
                (false, value) => Ok(value),
                (true, Value::Table(failure)) if is_protected => {
                    failure.raw_set("ignore_error_stats_update", true)?;
                    Ok(Value::Table(failure))
                }
                (true, Value::Table(failure)) => {
                    let line: mlua::LuaString = failure.raw_get("err")?;
                    Err(Raised::Reply(line.as_bytes().to_vec()).into())
                }
                (true, value) => Ok(value),
            }
        })?;
        native.raw_set(name, forward)?;
    }
    Ok(())
}

/// The line of the innermost function that is the script's.
fn script_line(lua: &Lua) -> Option<usize> {
    const LEVELS: usize = 64;
    (1..LEVELS)
        .map_while(|level| {
            lua.inspect_stack(level, |frame| {
                let is_script = frame.source().source.is_some_and(|source| is_sent(&source));
                is_script.then(|| frame.current_line()).flatten()
            })
        })
        .flatten()
        .next()
}

/// Whether a text is a script at all; else the line to answer, without its minus.
pub fn check(text: &[u8]) -> Result<(), Vec<u8>> {
    with_sandbox(|sandbox| sandbox.compile(text, shardine_resp::digest(text)).map(drop))
}

/// A sandbox of this thread, for what is only looked at.
pub(crate) fn with_sandbox<T>(look: impl FnOnce(&mut Sandbox) -> Result<T, Vec<u8>>) -> Result<T, Vec<u8>> {
    thread_local! {
        static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
    }
    SANDBOX.with_borrow_mut(|sandbox| {
        let sandbox = match sandbox {
            Some(sandbox) => sandbox,
            none => none.insert(Sandbox::new().map_err(|_| b"ERR not enough memory".to_vec())?),
        };
        look(sandbox)
    })
}
