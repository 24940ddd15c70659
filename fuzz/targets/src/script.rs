//! Scripts: values that came from anywhere become values of Lua, and those become replies.

use std::cell::RefCell;

use shardine_resp::{Protocol, digest};
use shardine_script::{Host, Limits, Sandbox, Script};

/// What is done with the input: as an argument, as the reply of a command, as a pattern, as the script itself.
const SCRIPTS: [&str; 8] = [
    "return cmsgpack.unpack(ARGV[1])",
    "return redis.pcall('any')",
    "redis.setresp(3) return redis.pcall('any')",
    "return cjson.decode(ARGV[1])",
    "return {struct.unpack(ARGV[1], ARGV[2])}",
    "return {ARGV[2]:find(ARGV[1])}",
    "return {ARGV[2]:gsub(ARGV[1], ARGV[2])}",
    "return {cjson.encode({cmsgpack.unpack(ARGV[1])}), cmsgpack.pack(cjson.decode(ARGV[2]))}",
];

/// Enough for any honest input of this size.
const LIMITS: Limits = Limits { steps: 50_000, memory_bytes: 1 << 20 };

struct Echo<'a>(&'a [u8]);

impl Host for Echo<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(self.0);
        Some(())
    }

    fn log(&mut self, _: u8, _: &str) {}

    fn is_command(&self, name: &[u8]) -> bool {
        name.len() == 3
    }
}

/// A script, or values for one. Whatever it does, it ends, and its reply is one reply.
pub fn script(data: &[u8]) {
    thread_local! {
        static SANDBOX: RefCell<Sandbox> = RefCell::new(Sandbox::new().expect("there is memory"));
    }
    let Some((&kind, rest)) = data.split_first() else { return };
    let (text, args) = match SCRIPTS.get(usize::from(kind >> 1)) {
        Some(text) => {
            let middle = rest.len() / 2;
            (text.as_bytes(), vec![rest.into(), rest[middle..].into()])
        }
        None => (rest, Vec::new()),
    };
    let protocol = if kind & 1 == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
    let script = Script { text, sum: digest(text), keys: &[], args: &args, protocol };
    let mut out = Vec::new();
    let ran = SANDBOX.with_borrow_mut(|sandbox| sandbox.run(script, LIMITS, None, &mut Echo(rest), &mut out));
    match ran {
        Ok(()) => assert_eq!(reply(&out), Some(&[][..]), "one reply, whole: {:?}", String::from_utf8_lossy(&out)),
        Err(_) => assert!(out.is_empty(), "a script that ended has said nothing"),
    }
}

/// What stands behind the first reply; `None` if there is none, or not all of it.
fn reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let (mark, line) = line.split_first()?;
    let length = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let several = |count: i64| (0..count).try_fold(rest, |rest, _| reply(rest));
    match mark {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Some(rest),
        b'$' | b'=' if length()? < 0 => Some(rest),
        b'$' | b'=' => rest.get(length()? as usize..)?.strip_prefix(b"\r\n"),
        b'*' | b'~' => several(length()?),
        b'%' => several(length()? * 2),
        _ => None,
    }
}
