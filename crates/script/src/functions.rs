//! Libraries of functions: a text that registers functions when it is run, which are called later by their names.
//!
//! A sandbox loads a library when one of its functions is called there for the first time, and keeps it. So what a library keeps in
//! variables of its own lives as long as that sandbox, and is nothing to rely on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mlua::{Function, MultiValue, Table, Value};
use shardine_resp::{FunctionOf, Library, LibraryHeader, Protocol, digest};

use crate::limits::{COMPILED_MAX, Limits};
use crate::raised::Raised;
use crate::reply::{self, Place};
use crate::sandbox::{Ended, FUNCTION_CHUNK, Host, Sandbox, is_memory, with_sandbox, words};

/// A library whose text has run.
pub(crate) struct Loaded {
    functions: BTreeMap<Vec<u8>, Registered>,
}

struct Registered {
    act: Function,
    description: Option<String>,
    flags: Vec<String>,
}

/// A call of a function.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub library: &'a [u8],
    pub name: &'a [u8],
    pub keys: &'a [Box<[u8]>],
    pub args: &'a [Box<[u8]>],
    pub protocol: Protocol,
}

/// The flags that Redis knows.
const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Why a library was not loaded.
enum Failed {
    Ended(Ended),
    /// The line to answer.
    Line(Vec<u8>),
}

/// Reads a library, to be shown and called from then on; else the line to answer, without its minus.
pub fn read_library(text: &[u8]) -> Result<Library, Vec<u8>> {
    let header = LibraryHeader::of(text).map_err(|why| format!("ERR {why}").into_bytes())?;
    let loaded = with_sandbox(|sandbox| match sandbox.load(text, Limits::LOADING, None) {
        Ok(loaded) => Ok(loaded),
        Err(Failed::Line(line)) => Err(line),
        Err(Failed::Ended(_)) => {
            Err(b"ERR Error registering functions: it takes too long, or too much memory".to_vec())
        }
    })?;
    let functions = loaded.functions.iter().map(|(name, registered)| FunctionOf {
        name: String::from_utf8_lossy(name).into_owned(),
        description: registered.description.clone(),
        flags: registered.flags.clone(),
    });
    Ok(Library { name: header.name, text: text.into(), functions: functions.collect() })
}

impl Sandbox {
    /// Calls a function, and appends its reply.
    pub fn call(
        &mut self,
        call: Call<'_>,
        limits: Limits,
        kill: Option<Arc<AtomicBool>>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        let loaded = match self.load(call.library, limits, kill.clone()) {
            Ok(loaded) => loaded,
            Err(Failed::Ended(ended)) => return Err(ended),
            Err(Failed::Line(line)) => {
                shardine_resp::wire::error(out, &line);
                return Ok(());
            }
        };
        let Some(registered) = loaded.functions.get(call.name) else {
            shardine_resp::wire::error(out, b"ERR Function not found");
            return Ok(());
        };
        let set_out = |sandbox: &Self| {
            let (keys, args) = (words(&sandbox.lua, call.keys)?, words(&sandbox.lua, call.args)?);
            sandbox.bind.call((&registered.act, keys, args))
        };
        self.guarded(set_out, (call.protocol, Place::Function(call.name)), limits, kill, host, out)
    }

    fn load(&mut self, text: &[u8], limits: Limits, kill: Option<Arc<AtomicBool>>) -> Result<Rc<Loaded>, Failed> {
        let sum = digest(text);
        if let Some(known) = self.libraries.get(&sum) {
            return Ok(Rc::clone(known));
        }
        let function = self.read(text, FUNCTION_CHUNK);
        let function =
            function.map_err(|why| Failed::Line(format!("ERR Error compiling function: {why}").into_bytes()))?;
        self.shared.begin(limits, kill);
        let before = self.lua.used_memory();
        let _ = self.lua.set_memory_limit(before + limits.memory_bytes);
        let ran = self.register_all(&function);
        let _ = self.lua.set_memory_limit(0);
        if let Some(ended) = self.shared.ended.get() {
            return Err(Failed::Ended(ended));
        }
        let functions = match ran {
            Ok(Ok(functions)) => functions,
            Ok(Err(line)) => return Err(Failed::Line(line)),
            Err(error) if is_memory(&error) => return Err(Failed::Ended(Ended::TooLong)),
            Err(error) => return Err(Failed::Line(format!("ERR Error registering functions: {error}").into_bytes())),
        };
        if functions.is_empty() {
            return Err(Failed::Line(b"ERR No functions registered".to_vec()));
        }
        if self.libraries.len() >= COMPILED_MAX {
            self.libraries.clear();
        }
        let loaded = Rc::new(Loaded { functions });
        self.libraries.insert(sum, Rc::clone(&loaded));
        Ok(loaded)
    }

    /// Runs a library's text. What it says of itself, if it fails, is the inner error.
    #[allow(clippy::type_complexity, reason = "two ways to fail, and what comes of it")]
    fn register_all(&self, library: &Function) -> mlua::Result<Result<BTreeMap<Vec<u8>, Registered>, Vec<u8>>> {
        let registered = RefCell::new(BTreeMap::new());
        let failed = self.lua.scope(|scope| {
            let refused = "ERR redis.call/pcall can only be called inside a script invocation";
            let call =
                scope.create_function(|lua, _: MultiValue| Ok((true, reply::failure(lua, refused.as_bytes())?)))?;
            self.native.raw_set("call", call)?;
            self.native.raw_set("log", scope.create_function(|_, _: MultiValue| Ok(()))?)?;
            self.native.raw_set("is_command", scope.create_function(|_, _: MultiValue| Ok(false))?)?;
            let register = scope.create_function(|_, args: MultiValue| {
                let (name, function) = registration(&args)?;
                if registered.borrow().contains_key(&name) {
                    return Err(said("Function already exists in the library"));
                }
                registered.borrow_mut().insert(name, function);
                Ok(())
            })?;
            self.native.raw_set("register", register)?;
            let ran = self.execute.call(library);
            self.native.raw_remove("register")?;
            let (is_done, value): (bool, Value) = ran?;
            Ok(match (is_done, value) {
                (true, _) => None,
                (false, Value::Table(failure)) => Some(failure.raw_get::<Value>("err")?.to_string()?),
                (false, Value::Error(error)) => return Err(*error),
                (false, other) => Some(other.to_string()?),
            })
        })?;
        Ok(match failed {
            None => Ok(registered.into_inner()),
            Some(why) => {
                let why = why.strip_prefix("ERR ").unwrap_or(&why);
                Err(format!("ERR Error registering functions: {why}").into_bytes())
            }
        })
    }
}

fn said(words: &str) -> mlua::Error {
    Raised::Reply(format!("ERR {words}").into_bytes()).into()
}

/// `redis.register_function(name, callback)`, or a table that has these and more by their names.
fn registration(args: &MultiValue) -> mlua::Result<(Vec<u8>, Registered)> {
    match (args.len(), args.front(), args.get(1)) {
        (2, Some(Value::String(name)), Some(Value::Function(act))) => {
            let registered = Registered { act: act.clone(), description: None, flags: Vec::new() };
            Ok((checked(name)?, registered))
        }
        (2, Some(Value::String(_)), _) => Err(said("second argument to redis.register_function must be a function")),
        (2, ..) => Err(said("first argument to redis.register_function must be a string")),
        (1, Some(Value::Table(table)), _) => named(table),
        (1, ..) => Err(said(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        )),
        _ => Err(said("wrong number of arguments to redis.register_function")),
    }
}

fn named(table: &Table) -> mlua::Result<(Vec<u8>, Registered)> {
    let (mut name, mut act, mut description, mut flags) = (None, None, None, Vec::new());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(key) = key else {
            return Err(said("named argument key given to redis.register_function is not a string"));
        };
        match (&*key.as_bytes(), value) {
            (b"function_name", Value::String(text)) => name = Some(checked(&text)?),
            (b"function_name", _) => {
                return Err(said("function_name argument given to redis.register_function must be a string"));
            }
            (b"description", Value::String(text)) => description = Some(text.to_string_lossy()),
            (b"description", _) => {
                return Err(said("description argument given to redis.register_function must be a string"));
            }
            (b"callback", Value::Function(function)) => act = Some(function),
            (b"callback", _) => {
                return Err(said("callback argument given to redis.register_function must be a function"));
            }
            (b"flags", Value::Table(given)) => flags = flags_in(&given)?,
            (b"flags", _) => {
                return Err(said(
                    "flags argument to redis.register_function must be a table representing function flags",
                ));
            }
            _ => return Err(said("unknown argument given to redis.register_function")),
        }
    }
    let name = name.ok_or_else(|| said("redis.register_function must get a function name argument"))?;
    let act = act.ok_or_else(|| said("redis.register_function must get a callback argument"))?;
    Ok((name, Registered { act, description, flags }))
}

fn flags_in(given: &Table) -> mlua::Result<Vec<String>> {
    let mut flags = Vec::new();
    for flag in given.sequence_values::<Value>() {
        let known = match flag? {
            Value::String(flag) => FLAGS.iter().find(|known| flag.as_bytes() == known.as_bytes()).copied(),
            _ => None,
        };
        flags.push(known.ok_or_else(|| said("unknown flag given"))?.to_owned());
    }
    Ok(flags)
}

/// A name of letters, digits and underscores.
fn checked(name: &mlua::LuaString) -> mlua::Result<Vec<u8>> {
    let name = name.as_bytes().to_vec();
    if shardine_resp::is_library_word(&name) {
        return Ok(name);
    }
    Err(said(
        "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
    ))
}
