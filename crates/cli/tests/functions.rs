//! Functions on real nodes: they outlive a restart, and every node has them before whoever loaded them is answered.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_testkit::{Cluster, Options, Reply, Shardine, Sql};

fn library(name: &str, says: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{name}_says', function(keys, args)
        redis.call('set', keys[1], args[1])
        return '{says}'
    end)"
    )
}

#[test]
fn functions_outlive_a_kill() {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let mut server = Shardine::start_with(Options { sql: Sql::None, binary, ..Options::default() }).unwrap();
    let mut client = server.client().unwrap();
    for name in ["one", "two"] {
        assert_eq!(client.call(&["FUNCTION", "LOAD", &library(name, "first")]).unwrap(), Reply::bulk(name));
    }
    assert_eq!(client.call(&["FUNCTION", "DELETE", "two"]).unwrap(), Reply::ok());
    let taken = client.call(&["FUNCTION", "LOAD", &library("one", "second")]).unwrap();
    assert_eq!(taken, Reply::Error("ERR Library 'one' already exists".to_owned()));

    server.kill9().unwrap();
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    assert_eq!(client.call(&["FCALL", "one_says", "1", "a", "1"]).unwrap(), Reply::bulk("first"));
    assert_eq!(client.call(&["GET", "a"]).unwrap(), Reply::bulk("1"));
    let gone = client.call(&["FCALL", "two_says", "1", "a", "2"]).unwrap();
    assert_eq!(gone, Reply::Error("ERR Function not found".to_owned()));
}

#[test]
fn every_node_has_a_function_before_it_is_said_to_be_loaded() {
    let cluster = Cluster::form(3, &[], &[]).unwrap();
    let mut clients: Vec<_> = (0..3).map(|place| cluster.client(place).unwrap()).collect();

    for round in 0..6 {
        let says = round.to_string();
        let words = ["FUNCTION", "LOAD", "REPLACE", &library("told", &says)];
        assert_eq!(clients[round % 3].call(&words).unwrap(), Reply::bulk("told"));

        for (place, client) in clients.iter_mut().enumerate() {
            // Keys of all shards: most are executed on another node than is asked.
            for key in 0..5 {
                let words = ["FCALL", "told_says", "1", &format!("key{key}"), &says];
                assert_eq!(client.call(&words).unwrap(), Reply::bulk(says.as_str()), "node {place}");
            }
        }
    }

    assert_eq!(clients[1].call(&["FUNCTION", "FLUSH"]).unwrap(), Reply::ok());
    for client in &mut clients {
        assert_eq!(client.call(&["FUNCTION", "LIST"]).unwrap(), Reply::Array(Vec::new()));
    }
}
