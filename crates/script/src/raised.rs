//! What functions of ours raise in a script. Lua carries it as it is; whoever catches it is shown what Redis would have raised.

use std::fmt;

use mlua::{IntoLua, Lua, Value};

use crate::reply;
use crate::sandbox::is_sent;

#[derive(Clone, Debug)]
pub(crate) enum Raised {
    /// A message with its place.
    Text(String),
    /// A line that a command was answered with.
    Reply(Vec<u8>),
    /// The script is to end.
    End,
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Reply(line) => formatter.write_str(&String::from_utf8_lossy(line)),
            Self::End => formatter.write_str("the script ends here"),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for mlua::Error {
    fn from(raised: Raised) -> Self {
        Self::external(raised)
    }
}

impl Raised {
    /// A message of the function that runs, with the line that called it.
    pub fn at_caller(lua: &Lua, message: &str) -> Self {
        let line = lua.inspect_stack(1, |frame| {
            let source = frame.source().source.filter(|source| is_sent(source))?;
            Some((source[1..].to_owned(), frame.current_line()?))
        });
        Self::Text(match line.flatten() {
            Some((chunk, line)) => format!("{chunk}:{line}: {message}"),
            None => message.to_owned(),
        })
    }

    fn of(error: &mlua::Error) -> Option<&Self> {
        match error {
            mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => Self::of(cause),
            mlua::Error::ExternalError(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// What was raised, as Redis would have raised it.
    pub fn translate(lua: &Lua, failure: Value) -> mlua::Result<Value> {
        let Value::Error(error) = &failure else { return Ok(failure) };
        match Self::of(error) {
            Some(Self::Reply(line)) => reply::failure(lua, line),
            Some(Self::Text(text)) => text.as_str().into_lua(lua),
            Some(Self::End) => Ok(failure),
            None => error.to_string().into_lua(lua),
        }
    }
}
