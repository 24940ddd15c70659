//! The libraries that scripts find, as far as Lua's own are not it. What a function fails with is told in Lua's words, and with the
//! place in the script.

mod bits;
mod json;
mod msgpack;
mod packing;
mod strings;

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::chance::Chance;
use crate::raised::Raised;
use crate::sandbox::Shared;

/// What a function of a library comes to.
pub(crate) enum Fault {
    /// An error of the script's.
    Said(String),
    /// The script is to end.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Said(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::Said(message.into())
    }
}

pub(crate) type Outcome = Result<Vec<Value>, Fault>;

/// The arguments of a call, for error messages as Lua has them.
pub(crate) struct Args<'a> {
    pub lua: &'a Lua,
    pub shared: &'a Shared,
    function: &'static str,
    values: MultiValue,
}

impl Args<'_> {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, place: usize) -> Option<&Value> {
        self.values.get(place)
    }

    pub fn wrong(&self, place: usize, what: impl std::fmt::Display) -> Fault {
        Fault::Said(format!("bad argument #{} to '{}' ({what})", place + 1, self.function))
    }

    fn expected(&self, place: usize, kind: &str) -> Fault {
        let got = self.get(place).map_or("no value", Value::type_name);
        let got = if got == "integer" { "number" } else { got };
        self.wrong(place, format_args!("{kind} expected, got {got}"))
    }

    /// Text, or a number as text.
    pub fn text(&self, place: usize) -> Result<mlua::LuaString, Fault> {
        match self.get(place) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Integer(_) | Value::Number(_))) => {
                self.lua.coerce_string(value.clone())?.ok_or_else(|| self.expected(place, "string"))
            }
            _ => Err(self.expected(place, "string")),
        }
    }

    pub fn number(&self, place: usize) -> Result<f64, Fault> {
        match self.get(place) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(value @ Value::String(_)) => {
                self.lua.coerce_number(value.clone())?.ok_or_else(|| self.expected(place, "number"))
            }
            _ => Err(self.expected(place, "number")),
        }
    }

    pub fn number_or(&self, place: usize, usual: f64) -> Result<f64, Fault> {
        if self.get(place).is_none_or(Value::is_nil) { Ok(usual) } else { self.number(place) }
    }
}

pub(crate) fn install(lua: &Lua, native: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    strings::install(lua, native, shared)?;
    put(lua, native, shared, "random", random)?;
    put(lua, native, shared, "random_seed", |args| {
        args.shared.chance.set(Chance::new(args.number(0)? as i64));
        Ok(Vec::new())
    })?;
    for (name, fill) in [
        ("cjson", json::install as fn(&Lua, &Table, &Rc<Shared>) -> mlua::Result<()>),
        ("cmsgpack", msgpack::install),
        ("bit", bits::install),
        ("struct", packing::install),
    ] {
        let library = lua.create_table()?;
        fill(lua, &library, shared)?;
        native.raw_set(name, library)?;
    }
    Ok(())
}

/// Adds one function to a library.
pub(crate) fn put(
    lua: &Lua,
    library: &Table,
    shared: &Rc<Shared>,
    name: &'static str,
    act: impl Fn(&Args<'_>) -> Outcome + 'static,
) -> mlua::Result<()> {
    let shared = Rc::clone(shared);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args { lua, shared: &shared, function: name, values };
        match act(&args) {
            Ok(results) => Ok(MultiValue::from_vec(results)),
            Err(Fault::Said(message)) => Err(Raised::at_caller(lua, &message).into()),
            Err(Fault::Lua(error)) => Err(error),
        }
    })?;
    library.raw_set(name, function)
}

fn random(args: &Args<'_>) -> Outcome {
    let mut chance = args.shared.chance.get();
    let drawn = chance.draw();
    args.shared.chance.set(chance);
    let (low, high) = match args.len() {
        0 => return Ok(vec![Value::Number(drawn)]),
        1 => (1.0, args.number(0)?.trunc()),
        2 => (args.number(0)?.trunc(), args.number(1)?.trunc()),
        _ => return Err("wrong number of arguments".into()),
    };
    if low > high {
        return Err(args.wrong(args.len() - 1, "interval is empty"));
    }
    Ok(vec![Value::Number((drawn * (high - low + 1.0)).floor() + low)])
}
