//! Long pipelines against the real server: whatever has to wait goes on by itself, in order.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{Read, Write};
use std::net::TcpStream;

use shardine_testkit::{Options, PATIENCE, Reply, Shardine, Sql};

fn start(args: &[&str]) -> Shardine {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::None, args, binary, ..Options::default() }).unwrap()
}

/// More replies than one connection may hold: the rest of the pipeline waits until they have left, then goes on. It once
/// waited for ever.
#[test]
fn a_pipeline_of_large_replies_is_answered_to_the_end() {
    let server = start(&[]);
    let mut client = server.client().unwrap();
    let value = "x".repeat(64 << 10);
    client.call(&["SET", "big", &value]).unwrap();

    let replies = client.pipeline(&vec![&["GET", "big"][..]; 200]).unwrap();

    assert_eq!(replies.len(), 200);
    assert!(replies.iter().all(|reply| *reply == Reply::Bulk(value.clone().into_bytes())));
}

/// Clients that ask for much and take nothing of it hold up nobody else of their lane, and hold no more than one reply each.
#[test]
fn large_replies_are_given_out_piece_by_piece() {
    const VALUE_BYTES: usize = 30 << 20;
    let server = start(&["--lanes", "1"]);
    let mut client = server.client().unwrap();
    client.call(&["SET", "big", &"x".repeat(VALUE_BYTES)]).unwrap();
    let ask = |keys: usize| format!("MGET{}\r\n", " big".repeat(keys));

    let mut takers: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(server.redis().address()).unwrap()).collect();
    for taker in &mut takers {
        taker.set_read_timeout(Some(PATIENCE)).unwrap();
        // More than one, so that the second waits until the first has left.
        taker.write_all(ask(2).repeat(2).as_bytes()).unwrap();
        taker.peek(&mut [0]).unwrap();
    }
    for round in 0..100 {
        assert_eq!(client.call(&["SET", "small", &round.to_string()]).unwrap(), Reply::ok());
        assert_eq!(client.call(&["GET", "small"]).unwrap(), Reply::Bulk(round.to_string().into_bytes()));
    }

    let head = format!("${VALUE_BYTES}\r\n");
    let reply_bytes = "*2\r\n".len() + 2 * (head.len() + VALUE_BYTES + "\r\n".len());
    for taker in &mut takers {
        let mut replies = vec![0; 2 * reply_bytes];
        taker.read_exact(&mut replies).unwrap();
        assert!(replies.starts_with(format!("*2\r\n{head}xxx").as_bytes()));
        assert!(replies[reply_bytes..].starts_with(format!("*2\r\n{head}xxx").as_bytes()));
        assert!(replies.ends_with(b"xxx\r\n"));
    }
    let refused = client.call(&["MGET", "big", "big", "big", "big", "big"]).unwrap();
    assert!(matches!(&refused, Reply::Error(line) if line.starts_with("ERR too_large: ")), "five were given");
}

/// A read behind a write of its key, and a write behind that read, keep their order, on one lane and across lanes.
#[test]
fn reads_and_writes_of_one_key_keep_their_order() {
    for lanes in ["1", "2"] {
        let server = start(&["--lanes", lanes]);
        let mut client = server.client().unwrap();
        let mut commands: Vec<Vec<String>> = Vec::new();
        for round in 0..300 {
            commands.push(vec!["SET".into(), format!("k{}", round % 7), round.to_string()]);
            commands.push(vec!["GET".into(), format!("k{}", round % 7)]);
        }
        let words: Vec<&[String]> = commands.iter().map(Vec::as_slice).collect();

        let replies = client.pipeline(&words).unwrap();

        for (round, pair) in replies.chunks(2).enumerate() {
            assert_eq!(pair[1], Reply::Bulk(round.to_string().into_bytes()), "round {round}, {lanes} lanes");
        }
    }
}

/// What is watched decides, even if a transaction names no other row.
#[test]
fn a_transaction_without_rows_is_answered() {
    for lanes in ["1", "2"] {
        let server = start(&["--lanes", lanes]);
        let mut client = server.client().unwrap();
        let mut exec = |lines: &str| {
            let replies = lines.split("; ").map(|line| client.call(&line.split(' ').collect::<Vec<_>>()).unwrap());
            replies.last().unwrap()
        };
        for key in ["a", "b", "c", "d"] {
            for line in ["PING", "SET x 1 EX nan"] {
                let reply = exec(&format!("MULTI; {line}; EXEC"));
                assert!(matches!(&reply, Reply::Array(parts) if parts.len() == 1), "{reply:?}");
                assert_eq!(exec(&format!("WATCH {key}; MULTI; {line}; EXEC")), reply, "{key}, {lanes} lanes");
                assert_eq!(exec(&format!("WATCH {key}; INCR {key}; MULTI; {line}; EXEC")), Reply::Nil);
            }
            assert_eq!(exec(&format!("WATCH {key}; MULTI; EXEC")), Reply::Array(Vec::new()));
        }
    }
}
