//! A script that takes too much ends, whatever it does to go on, and nothing of it was done.

#[path = "common/stand.rs"]
mod stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardine_model::Answer;
use shardine_script::{Limits, Stopped};
use stand::{Stand, row, script};

fn ends(text: &str) -> Result<Vec<u8>, Stopped> {
    let mut stand = Stand::new();
    stand.limits = Limits { steps: 1_000_000, memory_bytes: 4 << 20 };
    stand.run(&script(text, &["a"], &[])).map(|performance| performance.reply)
}

/// records 141
#[test]
fn nothing_goes_on_for_ever() {
    for text in [
        "while true do end",
        "redis.call('set', KEYS[1], '1') while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "local co = coroutine.wrap(function() while true do end end) while true do pcall(co) end",
        "while true do local co = coroutine.create(function() while true do end end) coroutine.resume(co) end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "return string.find(string.rep('a', 200), string.rep('a*', 20) .. 'b')",
        "return string.find(string.rep('a', 30000), '.-.-.-.-.-b')",
        "return (string.gsub(string.rep('a', 10000), 'a*a*a*b', ''))",
        "local t = {} table.insert(t, -1e15, 1)",
        "local t = {} for i = 1, 1e6 do t[i] = i % 7 end for i = 1, 1e6 do table.sort(t) end",
        "while true do redis.call('get', KEYS[1]) end",
        "return loadstring(string.rep('x = 1 ', 1e6))",
    ] {
        assert_eq!(ends(text), Err(Stopped::TooLong), "{text}");
    }
}

/// records 141
#[test]
fn nothing_takes_all_memory() {
    for text in [
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
        "return string.rep('x', 1e9)",
        "local t = {} for i = 1, 1e5 do t[i] = {i} end return t",
    ] {
        assert_eq!(ends(text), Err(Stopped::TooLong), "{text}");
    }
}

#[test]
fn nothing_takes_all_of_the_stack() {
    for text in [
        "local function f() return f() + 1 end f()",
        "local t = {} for i = 1, 1e4 do t = {t} end return t",
        "return cjson.encode((function() local t = {} for i = 1, 1e4 do t = {t} end return t end)())",
        "return cjson.decode(string.rep('[', 1e5))",
        "return cmsgpack.unpack(string.rep('\\145', 1e5))",
        "return string.find('x', string.rep('(', 5000))",
        "return string.find(string.rep('a', 5000), string.rep('a?', 4000))",
        "return loadstring(string.rep('(', 1e5))()",
        "local f = function() end for i = 1, 1e4 do local g = f f = function() return pcall(g) end end return f()",
    ] {
        let _ = ends(text);
    }
}

#[test]
fn as_many_values_come_back_as_were_given() {
    for text in [
        "return select('#', pcall(unpack, t))",
        "return select('#', pcall(function() return unpack(t) end))",
        "return select('#', xpcall(function() return unpack(t) end, tostring))",
        "return select('#', coroutine.resume(coroutine.create(function() return unpack(t) end)))",
        "return select('#', coroutine.resume(coroutine.create(function() coroutine.yield(unpack(t)) end)))",
        "return select('#', 0, coroutine.wrap(function(...) return ... end)(unpack(t)))",
    ] {
        let text = format!("local t = {{}} for i = 1, 500 do t[i] = i end t[500] = false {text}");

        assert_eq!(Stand::new().perform(script(&text, &["a"], &[])), b":501\r\n", "{text}");
    }
}

/// records 141
#[test]
fn a_killed_script_ends() {
    let mut stand = Stand::new();
    stand.limits = Limits::BESIDE;
    let kill = Arc::new(AtomicBool::new(true));
    stand.kill = Some(Arc::clone(&kill));
    let program = script(
        "redis.call('set', KEYS[1], '1') while true do pcall(function() while true do end end) end",
        &["a"],
        &[],
    );

    assert_eq!(stand.run(&program).map(drop), Err(Stopped::Killed));

    // The next one runs as if nothing had been.
    kill.store(false, Ordering::Relaxed);
    assert_eq!(stand.perform(script("return redis.call('exists', KEYS[1])", &["a"], &[])), b":0\r\n");
}

/// reliability S9
#[test]
fn one_script_changes_nothing_of_the_world_of_the_next() {
    let mut stand = Stand::new();
    for text in [
        "getmetatable('').__index.rep = 1",
        "string.rep = 1",
        "rawset(string, 'rep', 1)",
        "loadstring('x = 1; string = 1')()",
        "local mt = getmetatable(_G) mt.__index = 1",
        "setmetatable(redis, {})",
        "table.sort = nil",
        "_G.redis = nil",
        "cjson.encode = nil",
        "KEYS = 1",
        "KEYS[1] = 'other' ARGV[9] = 1",
        "math.randomseed(7)",
        "redis.setresp(3)",
        "coroutine.wrap(function() x = 1 end)()",
        "collectgarbage('stop')",
    ] {
        let _ = stand.eval(text);
    }

    let text = "return {('ab'):rep(2), type(redis.call), #KEYS, #ARGV, math.random(1000), redis.call('get', 'x'), cjson.encode({1})}";

    let expected = b"*7\r\n$4\r\nabab\r\n$8\r\nfunction\r\n:0\r\n:0\r\n:397\r\n$-1\r\n$3\r\n[1]\r\n";
    assert_eq!(String::from_utf8(stand.eval(text)).unwrap(), String::from_utf8_lossy(expected));
    assert!(stand.eval("return x").starts_with(b"-ERR user_script:1: Script attempted to access nonexistent"));
}

#[test]
fn only_text_is_a_script() {
    let mut stand = Stand::new();

    assert!(stand.eval("\u{1b}Lua").starts_with(b"-ERR Error compiling script"));
    assert_eq!(stand.eval("return tostring(loadstring('\\27Lua'))"), b"$3\r\nnil\r\n");
    assert!(stand.eval("return tostring(load(function() return '\\27Lua' end))").len() > 3);
    assert_eq!(stand.eval("return type(string.dump)"), b"$3\r\nnil\r\n");
}

#[test]
fn a_row_that_is_not_at_hand_is_asked_for_whatever_the_script_catches() {
    let mut stand = Stand::new();
    stand.missing = vec![row("a")];
    let program = script("pcall(redis.call, 'get', KEYS[1]) redis.pcall('get', KEYS[1]) return 1", &["a"], &[]);

    assert_eq!(stand.run(&program).map(drop), Err(Stopped::Missing(row("a"))));

    stand.missing.clear();
    assert_eq!(stand.perform(program), b":1\r\n");
}

/// records 140
#[test]
fn what_a_script_saw_must_hold_or_nothing_is_done() {
    let mut stand = Stand::new();
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    stand.eval("redis.call('set', 'lock', 'mine')");
    let performance = stand.run(&script(release, &["lock"], &["mine"])).unwrap();
    stand.eval("redis.call('set', 'lock', 'theirs')");

    assert_eq!(stand.apply(&performance), Some(Answer::ConditionFailed));

    assert_eq!(stand.eval("return redis.call('get', 'lock')"), b"$6\r\ntheirs\r\n");
    assert_eq!(stand.perform(script(release, &["lock"], &["mine"])), b":0\r\n");
    assert_eq!(stand.perform(script(release, &["lock"], &["theirs"])), b":1\r\n");
}

#[test]
fn an_empty_script_sees_nothing_and_writes_nothing() {
    let performance = Stand::new().run(&script("return 1", &[], &[])).unwrap();

    assert!(performance.seen.is_empty() && performance.writes.is_empty());
}
