//! The test client against the real Redis: if this fails, no other test that uses it means anything.

use shardine_testkit::{Appendonly, Dir, RedisServer, Reply};

#[test]
fn the_client_speaks_with_redis_in_both_protocols() {
    let server = RedisServer::start(Dir::new().unwrap(), Appendonly::Off, &[]).unwrap();
    let mut client = server.client().unwrap();

    assert_eq!(client.call(&["HSET", "user:1", "name", "bob", "age", "10"]).unwrap(), Reply::Int(2));
    let resp2 = client.call(&["HGETALL", "user:1"]).unwrap();
    client.call(&["HELLO", "3"]).unwrap();
    let resp3 = client.call(&["HGETALL", "user:1"]).unwrap();

    assert_eq!(resp2, Reply::bulks(&["name", "bob", "age", "10"]));
    let name = (Reply::bulk("name"), Reply::bulk("bob"));
    let age = (Reply::bulk("age"), Reply::bulk("10"));
    assert_eq!(resp3, Reply::Map(vec![name, age]));
}

#[test]
fn pipelined_replies_come_in_order() {
    let server = RedisServer::start(Dir::new().unwrap(), Appendonly::Off, &[]).unwrap();
    let mut client = server.client().unwrap();

    let replies = client.pipeline(&[&["INCR", "n"][..], &["GET", "n"], &["NOSUCH"], &["INCR", "n"]]).unwrap();

    assert_eq!(replies[..2], [Reply::Int(1), Reply::bulk("1")]);
    assert!(replies[2].is_error("ERR unknown command"));
    assert_eq!(replies[3], Reply::Int(2));
}
