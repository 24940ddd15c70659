//! Libraries of functions: what is read of them, and how they run.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "common/stand.rs"]
mod stand;

use shardine_router::{Program, Step};
use shardine_script::{Limits, Stopped, read_library};
use stand::{Stand, row};

const LIBRARY: &str = "#!lua name=mylib
local seen = 0
local function set(keys, args)
  return redis.call('set', keys[1], args[1])
end
redis.register_function('put', set)
redis.register_function{function_name='look', callback=function(keys) return redis.call('get', keys[1]) end,
  flags={'no-writes'}, description='Looks.'}
redis.register_function('fails', function(keys, args)
  redis.call('set', keys[1], '1')
  error('on purpose')
end)
redis.register_function('counts', function() seen = seen + 1 return seen end)
redis.register_function('again', function() redis.register_function('x', function() end) end)
redis.register_function('global', function() leaked = 1 end)
redis.register_function('keys', function() return KEYS end)
redis.register_function('forever', function() while true do end end)
";

fn call(library: &str, name: &str, keys: &[&str], args: &[&str]) -> Program {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().into()).collect();
    let step = Step::Function {
        library: library.as_bytes().into(),
        name: name.as_bytes().into(),
        keys: words(keys),
        args: words(args),
        reads_only: false,
    };
    let base = stand::script("", keys, args);
    Program { home: row(keys.first().copied().unwrap_or_default()), steps: vec![step], ..base }
}

fn say(stand: &mut Stand, name: &str, keys: &[&str], args: &[&str]) -> String {
    String::from_utf8(stand.perform(call(LIBRARY, name, keys, args))).unwrap()
}

fn why(text: &str) -> String {
    String::from_utf8(read_library(text.as_bytes()).unwrap_err()).unwrap()
}

#[test]
fn a_library_tells_its_functions() {
    let library = read_library(LIBRARY.as_bytes()).unwrap();

    assert_eq!((library.name.as_str(), library.functions.len()), ("mylib", 8));
    let look = library.functions.iter().find(|function| function.name == "look").unwrap();
    assert_eq!(look.description.as_deref(), Some("Looks."));
    assert!(look.reads_only());
}

#[test]
fn functions_are_called_by_their_names() {
    let mut stand = Stand::new();

    assert_eq!(say(&mut stand, "put", &["a"], &["1"]), "+OK\r\n");
    assert_eq!(say(&mut stand, "look", &["a"], &[]), "$1\r\n1\r\n");
    assert_eq!(say(&mut stand, "nope", &[], &[]), "-ERR Function not found\r\n");
    // What a library keeps for itself lives as long as the sandbox.
    assert_eq!(say(&mut stand, "counts", &[], &[]), ":1\r\n");
}

/// What was written before an error stays, as in Redis.
#[test]
fn a_function_that_fails_says_where() {
    let mut stand = Stand::new();

    let reply = say(&mut stand, "fails", &["a"], &[]);

    assert!(reply.starts_with("-ERR user_function:11: on purpose script: fails, on @user_function:11."), "{reply}");
    assert_eq!(say(&mut stand, "look", &["a"], &[]), "$1\r\n1\r\n");
}

#[test]
fn a_function_has_the_world_of_a_script_without_its_words() {
    let mut stand = Stand::new();

    for (name, part) in [
        ("again", "redis.register_function can only be called on FUNCTION LOAD command"),
        ("global", "Attempt to modify a readonly table"),
        ("keys", "nonexistent global variable 'KEYS'"),
    ] {
        let reply = say(&mut stand, name, &[], &[]);
        assert!(reply.starts_with("-ERR ") && reply.contains(part), "{name}: {reply}");
    }
    // A script has no functions, and registers none.
    let reply = String::from_utf8(stand.eval("redis.register_function('x', function() end)")).unwrap();
    assert!(reply.contains("can only be called on FUNCTION LOAD command"), "{reply}");
}

#[test]
fn a_function_that_takes_too_long_has_done_nothing() {
    let mut stand = Stand::new();
    stand.limits = Limits::LANE;

    assert_eq!(stand.run(&call(LIBRARY, "forever", &[], &[])).unwrap_err(), Stopped::TooLong);
    assert_eq!(say(&mut stand, "put", &["a"], &["1"]), "+OK\r\n");
}

#[test]
fn what_is_no_library_says_why() {
    let body = |body: &str| format!("#!lua name=x\n{body}");

    assert_eq!(why("return 1"), "ERR Missing library metadata");
    assert_eq!(why(&body("return 1")), "ERR No functions registered");
    assert!(why(&body("bad syntax")).starts_with("ERR Error compiling function: "));
    for (text, part) in [
        ("redis.call('set', 'a', '1')", "redis.call/pcall can only be called inside a script invocation"),
        ("redis.register_function('f')", "calling redis.register_function with a single argument"),
        ("redis.register_function('f', 1)", "second argument to redis.register_function must be a function"),
        ("redis.register_function('a b', function() end)", "Library names can only contain letters"),
        ("redis.register_function{callback=function() end}", "must get a function name argument"),
        ("redis.register_function{function_name='f'}", "must get a callback argument"),
        ("redis.register_function{function_name='f', callback=function() end, flags={'x'}}", "unknown flag given"),
        ("redis.register_function{function_name='f', callback=function() end, x=1}", "unknown argument given"),
        (
            "redis.register_function('f', function() end) redis.register_function('f', function() end)",
            "Function already exists in the library",
        ),
        ("x = 1", "Attempt to modify a readonly table"),
    ] {
        let why = why(&body(text));
        assert!(why.starts_with("ERR Error registering functions: ") && why.contains(part), "{text}: {why}");
    }
    assert!(why(&body("while true do end")).contains("takes too long"));
}
