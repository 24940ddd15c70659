//! Functions at the door. A tab stands for a space inside a word, `~` for the end of a line.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_fake::read_library;
use shardine_resp::{Options, Shelf};

use crate::talk::{Door, frame, words};

const LIBRARY: &str = "#!lua\tname=lib~redis.register_function('put',function(k,a)\treturn\tredis.call('set',k[1],a[1])\tend)~\
                       redis.register_function{function_name='look',callback=function(k)\treturn\tredis.call('get',k[1])\t\
                       end,flags={'no-writes'}}";

fn text(line: &str) -> Vec<Vec<u8>> {
    words(line).iter().map(|word| word.replace('\t', " ").replace('~', "\n").into_bytes()).collect()
}

fn say(door: &mut Door, line: &str) -> String {
    door.send(&frame(&text(line)));
    door.take()
}

/// A door whose shelf can be told what is there, as a server does when it has been loaded.
fn door() -> (Door, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::reading(read_library));
    (Door::with(Options { shelf: Arc::clone(&shelf), ..Options::default() }), shelf)
}

fn put(shelf: &Shelf) {
    let library = text(LIBRARY).concat();
    shelf.turn_to(&BTreeMap::from([("lib".to_owned(), Arc::from(library))]));
}

#[test]
fn a_function_that_is_there_is_called() {
    let (mut door, shelf) = door();
    assert_eq!(say(&mut door, "FCALL put 1 a 1"), "-ERR Function not found|");
    put(&shelf);

    for (line, expected) in [
        ("FCALL put 1 a 1", "+OK|"),
        ("FCALL look 1 a", "$1|1|"),
        ("FCALL_RO look 1 a", "$1|1|"),
        ("FCALL_RO put 1 a 2", "-ERR Can not execute a script with write flag using *_ro command.|"),
        ("FCALL put x a", "-ERR Bad number of keys provided|"),
        ("FCALL put 2 a", "-ERR Number of keys can't be greater than number of args|"),
        ("FCALL put -1 a", "-ERR Number of keys can't be negative|"),
        ("COMMAND GETKEYS fcall put 1 a 1", "*1|$1|a|"),
        ("EVAL return\tredis.call('fcall','put',1,'a','1') 0", "-ERR This Redis command is not allowed from script"),
    ] {
        let reply = say(&mut door, line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
    // In a transaction it is part of that.
    for (line, expected) in
        [("MULTI", "+OK|"), ("FCALL put 1 a 7", "+QUEUED|"), ("GET a", "+QUEUED|"), ("EXEC", "*2|+OK|$1|7|")]
    {
        assert_eq!(say(&mut door, line), expected, "{line}");
    }
}

#[test]
fn libraries_are_loaded_everywhere_before_it_is_said() {
    let (mut door, shelf) = door();
    let load = format!("FUNCTION LOAD {LIBRARY}");
    door.receive(&frame(&text(&load)));
    assert!(door.out.is_empty(), "nothing is said before the engine has answered");
    assert!(door.engine.calls[0].starts_with("Libraries(Put {"), "{:?}", door.engine.calls);
    door.deliver(0);
    assert_eq!(door.take(), "$3|lib|");
    put(&shelf);

    for (line, expected) in [
        (load.as_str(), "-ERR Library 'lib' already exists|"),
        (&load.replace("LOAD", "LOAD REPLACE"), "$3|lib|"),
        (&load.replace("LOAD", "LOAD NOPE"), "-ERR Unknown option given: NOPE|"),
        (&load.replace("name=lib", "name=other"), "-ERR Function 'look' already exists|"),
        ("FUNCTION LOAD x", "-ERR Missing library metadata|"),
        ("FUNCTION DELETE lib", "+OK|"),
        ("FUNCTION FLUSH", "+OK|"),
        ("FUNCTION FLUSH SYNC", "+OK|"),
        ("FUNCTION FLUSH NOPE", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option|"),
        ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now.|"),
        ("FUNCTION NOPE", "-ERR unknown subcommand 'NOPE'. Try FUNCTION HELP.|"),
    ] {
        assert_eq!(say(&mut door, line), expected, "{line}");
    }
}

#[test]
fn libraries_are_shown() {
    let (mut door, shelf) = door();
    assert_eq!(say(&mut door, "FUNCTION LIST"), "*0|");
    put(&shelf);

    let list = "*1|*6|$12|library_name|$3|lib|$6|engine|$3|LUA|$9|functions|*2|*6|$4|name|$4|look|$11|description|$-1|$5|flags|\
                *1|$9|no-writes|*6|$4|name|$3|put|$11|description|$-1|$5|flags|*0|";
    assert_eq!(say(&mut door, "FUNCTION LIST"), list);
    assert_eq!(say(&mut door, "FUNCTION LIST LIBRARYNAME l*"), list);
    assert_eq!(say(&mut door, "FUNCTION LIST LIBRARYNAME x*"), "*0|");
    assert!(say(&mut door, "FUNCTION LIST WITHCODE").contains("$12|library_code|"));
    assert_eq!(say(&mut door, "FUNCTION LIST LIBRARYNAME"), "-ERR library name argument was not given|");
    assert_eq!(say(&mut door, "FUNCTION LIST x"), "-ERR Unknown argument x|");
    let stats = "*4|$14|running_script|$-1|$7|engines|*2|$3|LUA|*4|$15|libraries_count|:1|$15|functions_count|:2|";
    assert_eq!(say(&mut door, "FUNCTION STATS"), stats);
}

#[test]
fn a_dump_is_restored_as_a_whole() {
    let (mut door, shelf) = door();
    put(&shelf);
    door.send(&frame(&["FUNCTION", "DUMP"]));
    let out = std::mem::take(&mut door.out);
    let begins = out.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &out[begins..out.len() - 2];
    let mut restore = |payload: &[u8], policy: &str| {
        door.send(&frame(&[&b"FUNCTION"[..], b"RESTORE", payload, policy.as_bytes()]));
        door.take()
    };

    assert_eq!(restore(payload, "APPEND"), "-ERR Library 'lib' already exists|");
    assert_eq!(restore(payload, "REPLACE"), "+OK|");
    assert_eq!(restore(payload, "FLUSH"), "+OK|");
    assert!(restore(payload, "NOPE").starts_with("-ERR Wrong restore policy given"));
    for place in [0, payload.len() / 2, payload.len() - 1] {
        let mut damaged = payload.to_vec();
        damaged[place] ^= 1;
        assert_eq!(restore(&damaged, "FLUSH"), "-ERR DUMP payload version or checksum are wrong|");
    }
}
