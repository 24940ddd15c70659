//! Redis connections that come and go, of a real server: whose answer is whose, who gets a place, and what becomes of a
//! client that has said its last word.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start(sql: Sql, args: &[&str]) -> Shardine {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql, args, binary, ..Options::default() }).unwrap()
}

/// A connection that answers, without the client around it.
fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut word = [0; 7];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"+PONG\r\n");
    stream
}

/// Comes, and has left when this returns: the server hangs up last.
fn visit(address: SocketAddr) {
    let mut stream = connect(address);
    stream.write_all(b"QUIT\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"+OK\r\n");
}

/// Leaves with a reply unread, so that the server cannot take it for a client that only has nothing more to say.
fn break_off(stream: TcpStream) {
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
}

/// A hand on the SQLite file, so that nobody else writes to it; let go when dropped.
struct SqliteLock(Child);

fn hold(server: &Shardine) -> SqliteLock {
    let mut command = Command::new("sqlite3");
    command.args(["-cmd", ".timeout 10000"]).arg(server.sqlite_path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"begin immediate;\nselect 'held';\n").unwrap();
    let mut line = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"held\n");
    SqliteLock(child)
}

impl Drop for SqliteLock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn clients_of(client: &mut Client) -> u64 {
    let Reply::Bulk(text) = client.call(&["INFO", "clients"]).unwrap() else { panic!("INFO is text") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix("connected_clients:")).unwrap().trim().parse().unwrap()
}

/// An answer that comes after its client has gone goes to nobody, however many have had the client's place since. It once
/// went to the 4,096th.
#[test]
fn a_late_answer_goes_to_nobody_else() {
    let server = start(Sql::Sqlite, &["--lanes", "1"]);
    let made = server.command(&["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let address = server.redis().address();
    let mut watcher = server.client().unwrap();

    watcher.call(&["HSET", "users:late", "age", "1"]).unwrap();

    // Waits in the shard for SQL, which is held, and leaves.
    let held = hold(&server);
    let mut early = connect(address);
    early.write_all(b"PING\r\nREC.SET users:early age 1 ACK sql\r\n").unwrap();
    break_off(early);
    wait_for("it to be gone", PATIENCE, || Ok((clients_of(&mut watcher) == 1).then_some(()))).unwrap();
    (0..4_095).for_each(|_| visit(address));

    // In the same place, the same wait for another record.
    let mut late = Client::connect(address).unwrap();
    late.send(&["REC.SET", "users:late", "age", "2", "ACK", "sql"]).unwrap();
    late.flush().unwrap();
    wait_for("the late write", PATIENCE, || {
        Ok((watcher.call(&["HGET", "users:late", "age"])? == Reply::bulk("2")).then_some(()))
    })
    .unwrap();
    drop(held);

    assert_eq!(late.receive().unwrap(), Reply::Array(vec![Reply::Int(2), Reply::Int(2), Reply::bulk("written")]));
}

/// A client that breaks off while it waits is not waited for: the place is free at once, whatever it had asked.
#[test]
fn whoever_breaks_off_while_waiting_frees_the_place() {
    let server = start(Sql::Sqlite, &["--lanes", "1"]);
    let made = server.command(&["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut watcher = server.client().unwrap();
    let _held = hold(&server);
    watcher.call(&["HSET", "users:lili", "age", "1"]).unwrap();

    for wait in ["REC.FLUSH users", "REC.SET users:lili age 2 ACK sql"] {
        let mut client = connect(server.redis().address());
        client.write_all(format!("PING\r\n{wait}\r\n").as_bytes()).unwrap();
        break_off(client);

        wait_for("the place to be free", PATIENCE, || Ok((clients_of(&mut watcher) == 1).then_some(()))).unwrap();
    }
}

/// Data and the end of the connection in one piece of news from the kernel: the connection once stayed for an hour, and
/// whoever made enough of them shut the door for everybody.
#[test]
fn a_last_word_and_a_hanging_up_at_once_free_the_place() {
    let mut server = start(Sql::None, &["--lanes", "1", "--connections-max", "9"]);
    let address = server.redis().address();
    let mut watcher = server.client().unwrap();
    let pid = Pid::from_raw(server.process().pid().try_into().unwrap()).unwrap();

    for _ in 0..3 {
        let clients: Vec<TcpStream> = (0..8).map(|_| connect(address)).collect();
        kill_process(pid, Signal::STOP).unwrap();
        for mut client in clients {
            // Half a command, so that no reply finds out that nobody listens.
            client.write_all(b"PI").unwrap();
        }
        kill_process(pid, Signal::CONT).unwrap();

        wait_for("all places to be free", PATIENCE, || Ok((clients_of(&mut watcher) == 1).then_some(()))).unwrap();
    }
}

/// What `nc` and scripts do: send everything, say that nothing more comes, and read.
fn half_close(address: SocketAddr, input: &[u8]) -> String {
    let mut stream = connect(address);
    let mut sender = stream.try_clone().unwrap();
    let input = input.to_vec();
    let sending = std::thread::spawn(move || {
        sender.write_all(&input).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    sending.join().unwrap();
    replies
}

#[test]
fn a_client_that_has_said_everything_gets_all_its_replies() {
    for lanes in ["1", "2"] {
        let server = start(Sql::None, &["--lanes", lanes]);
        let address = server.redis().address();

        // More than may be outstanding, so that some wait in the input when the end comes.
        for count in [1, 50, 5_000] {
            let input: String = (0..count).map(|number| format!("INCR {{t}}a\r\nSET k{number} {number}\r\n")).collect();

            let replies = half_close(address, format!("DEL {{t}}a\r\n{input}GET {{t}}a\r\n").as_bytes());

            let lines: Vec<&str> = replies.lines().collect();
            assert_eq!(lines.len(), 2 * count + 3, "{lanes} lanes, {count} pairs");
            assert_eq!(lines[2 * count - 1], format!(":{count}"));
            assert_eq!(lines[2 * count + 2], count.to_string());
        }
    }
}

/// Half a command at the end is no command, and nothing waits for the rest.
#[test]
fn half_a_last_command_is_dropped() {
    let server = start(Sql::None, &[]);

    assert_eq!(half_close(server.redis().address(), b"PING\r\n*2\r\n$3\r\nGET\r\n"), "+PONG\r\n");
    assert_eq!(half_close(server.redis().address(), b"PING\r\nGET a"), "+PONG\r\n");
    assert_eq!(half_close(server.redis().address(), b""), "");
}

/// Those who have not said who they are cannot keep out those who do: the longest of them makes room.
#[test]
fn strangers_do_not_shut_the_door() {
    let server = start(Sql::None, &["--lanes", "1", "--connections-max", "16", "--token", "secret"]);
    let address = server.redis().address();
    let strangers: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"PING\r\n").unwrap();
            let mut word = [0; 8];
            stream.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"-NOAUTH ");
            stream
        })
        .collect();

    let mut friends: Vec<Client> = (0..16)
        .map(|_| {
            let mut client = server.client().unwrap();
            assert_eq!(client.call(&["AUTH", "secret"]).unwrap(), Reply::ok());
            client
        })
        .collect();

    // Whoever said the password stays, and is not pushed out by friends either.
    friends.iter_mut().for_each(|friend| friend.ping().unwrap());
    let refused = server.client().unwrap().read_to_end().unwrap();
    assert_eq!(String::from_utf8(refused).unwrap(), "-ERR max number of clients reached\r\n");
    drop(strangers);
}

/// The limit is that of the node, however its connections are spread over lanes.
/// reliability F39, S13.
#[test]
fn the_limit_of_connections_is_that_of_the_whole_node() {
    let server = start(Sql::None, &["--lanes", "2", "--connections-max", "10"]);

    let clients: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = server.client().unwrap();
            client.ping().unwrap();
            client
        })
        .collect();

    let refused = server.client().unwrap().read_to_end().unwrap();
    assert_eq!(String::from_utf8(refused).unwrap(), "-ERR max number of clients reached\r\n");
    drop(clients);
}

/// Makes a table without SQL and returns when that is said to be done.
fn make_table(server: &Shardine, name: &str) {
    let address = server.http().address();
    let body = format!(r#"{{"name":"{name}","fields":[{{"name":"age","type":"int64"}}],"backing":"none"}}"#);
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST /v1/tables HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 201");
}

/// Asks so much that its lane has long turns.
fn flood(address: SocketAddr, is_over: &AtomicBool) {
    const COMMANDS: usize = 5_000;
    let mut stream = connect(address);
    let mut replies = vec![0; COMMANDS * "$-1\r\n".len()];
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all("GET nothing\r\n".repeat(COMMANDS).as_bytes()).unwrap();
        stream.read_exact(&mut replies).unwrap();
    }
}

/// records 129: whoever is told that a table is there may name it at once, also on a lane that has yet to come to its messages. It
/// once took the name for a key of `kv` then.
#[test]
fn a_table_is_known_to_every_connection_when_it_is_said_to_be_there() {
    let server = start(Sql::None, &["--lanes", "2"]);
    let address = server.redis().address();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| flood(address, &is_over))));
        let mut clients = [server.client().unwrap(), server.client().unwrap()];

        let replies: Vec<Reply> = (0..60)
            .map(|number| {
                let table = format!("people{number}");
                make_table(&server, &table);
                let client = &mut clients[number % 2];
                client.call(&["HSET", &format!("{table}:lili"), "age", "no number"]).unwrap()
            })
            .collect();

        is_over.store(true, Ordering::Relaxed);
        let is_refused = |reply: &Reply| matches!(reply, Reply::Error(_));
        assert_eq!(replies.iter().filter(|reply| !is_refused(reply)).count(), 0, "written to kv: {replies:?}");
    });
}
