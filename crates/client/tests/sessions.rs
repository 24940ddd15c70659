//! Sessions and semaphores through the client, against a real server that is stopped, killed and paused.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use shardine_client::{
    Acquire, Change, Client, Consistency, Delete, Error, Include, NodeSettings, Session, SessionOptions, State, Status,
    Watch,
};
use shardine_testkit::{Options, PATIENCE, Shardine};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const NODE: &str = "/local/tests";
const OWNERS: Include = Include { owners: true, waiters: false };

async fn start() -> (Shardine, Client) {
    let server = Shardine::start().unwrap();
    let client = Client::new(&server.grpc().address().to_string()).unwrap();
    client.create_node(NODE, NodeSettings::default()).await.unwrap();
    (server, client)
}

/// Long enough that nothing expires in a test by accident.
async fn session(client: &Client) -> Session {
    let options = SessionOptions { timeout: Duration::from_secs(120), ..SessionOptions::default() };
    client.start_session(NODE, options).await.unwrap()
}

fn status<T>(outcome: Result<T, Error>) -> Option<Status> {
    outcome.err().and_then(|error| error.status())
}

/// Waits for an event of the session, however slow the machine is.
async fn wait<T>(event: impl Future<Output = T>) -> T {
    timeout(PATIENCE, event).await.unwrap()
}

async fn wait_for_state(session: &Session, wanted: State) {
    let mut states = session.states();
    wait(states.wait_for(|state| *state == wanted)).await.unwrap();
}

/// coordination 10, 17, 20, 23, 25.
#[tokio::test]
async fn nodes_are_made_altered_described_and_dropped() {
    let (_server, client) = start().await;
    let settings = NodeSettings {
        self_check_period: Some(Duration::from_millis(700)),
        reads: Consistency::Strict,
        ..NodeSettings::default()
    };

    client.create_node("/local/one", settings).await.unwrap();
    client.create_node("/local/one", NodeSettings::default()).await.unwrap();
    assert_eq!(client.describe_node("/local/one").await.unwrap(), settings);
    let change = NodeSettings { attaches: Consistency::Relaxed, ..NodeSettings::default() };
    client.alter_node("/local/one", change).await.unwrap();
    let altered = NodeSettings { attaches: Consistency::Relaxed, ..settings };
    assert_eq!(client.describe_node("/local/one").await.unwrap(), altered);
    client.drop_node("/local/one").await.unwrap();

    assert_eq!(status(client.describe_node("/local/one").await), Some(Status::SchemeError));
}

/// coordination 84, 85, 102, 110, 112, 117, 119, 149, 151.
#[tokio::test]
async fn a_semaphore_from_create_to_delete() {
    let (_server, client) = start().await;
    let (one, two) = (session(&client).await, session(&client).await);

    one.create("jobs", 2, "first").await.unwrap();
    assert_eq!(status(one.create("jobs", 2, "").await), Some(Status::AlreadyExists));
    one.update("jobs", "second").await.unwrap();
    assert!(one.acquire("jobs", Acquire::tokens(2).data("here")).await.unwrap());
    assert!(!two.acquire("jobs", Acquire::tokens(1).within(Duration::ZERO)).await.unwrap());
    let found = two.describe("jobs", OWNERS).await.unwrap();
    assert_eq!((found.limit, found.count, &found.data[..]), (2, 2, &b"second"[..]));
    assert_eq!((found.owners[0].session_id, &found.owners[0].data[..]), (one.id(), &b"here"[..]));
    assert_eq!(one.fence("jobs").await.unwrap(), Some(found.owners[0].order_id));
    assert_eq!(status(two.delete("jobs", Delete::Idle).await), Some(Status::PreconditionFailed));
    assert!(one.release("jobs").await.unwrap());
    assert!(!one.release("jobs").await.unwrap());
    two.delete("jobs", Delete::Idle).await.unwrap();

    assert_eq!(status(one.describe("jobs", OWNERS).await), Some(Status::NotFound));
}

/// coordination 164, 167, 177, reliability F25: a watch that was replaced fires without a change.
#[tokio::test]
async fn a_watch_fires_once_and_says_why() {
    let (_server, client) = start().await;
    let (one, two) = (session(&client).await, session(&client).await);
    one.create("jobs", 1, "").await.unwrap();

    let (_, replaced) = one.watch("jobs", Watch::DATA).await.unwrap();
    let (_, data) = one.watch("jobs", Watch::DATA).await.unwrap();
    assert!(wait(replaced.changed()).await.is_spurious());
    two.update("jobs", "new").await.unwrap();
    assert_eq!(wait(data.changed()).await, Change { data: true, owners: false });
    let (found, owners) = one.watch("jobs", Watch::OWNERS).await.unwrap();
    assert_eq!(found.data, b"new");
    two.acquire("jobs", Acquire::tokens(1)).await.unwrap();

    assert_eq!(wait(owners.changed()).await, Change { data: false, owners: true });
}

/// coordination 54, 56, 69, 191: through kill -9 the session holds what it held, waiters wait on, and watches say
/// that something may be missed.
#[tokio::test]
async fn a_session_comes_back_after_kill_9_with_what_it_held() {
    let (mut server, client) = start().await;
    let (one, two) = (session(&client).await, session(&client).await);
    one.create("jobs", 1, "").await.unwrap();
    one.acquire("jobs", Acquire::tokens(1)).await.unwrap();
    let fence = one.fence("jobs").await.unwrap();
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.acquire("jobs", Acquire::tokens(1)).await }
    });
    let mut lines = one.follow("jobs", Watch::OWNERS);
    lines.next().await.unwrap();
    let (_, watching) = two.watch("jobs", Watch::OWNERS).await.unwrap();

    server.kill9().unwrap();
    wait_for_state(&one, State::Detached).await;
    assert!(wait(watching.changed()).await.is_spurious());
    server.restart().unwrap();
    wait_for_state(&one, State::Attached).await;

    assert_eq!(wait(one.fence("jobs")).await.unwrap(), fence);
    assert!(!waiting.is_finished());
    one.release("jobs").await.unwrap();
    assert!(wait(waiting).await.unwrap().unwrap());
    // States between the first and this one may be skipped.
    wait(async { while lines.next().await.unwrap().owners.first().map(|owner| owner.session_id) != Some(two.id()) {} })
        .await;
}

/// coordination 187: with the server gone for longer than its timeout, the session says so by itself, and so does
/// every request.
#[tokio::test]
async fn a_session_that_cannot_come_back_says_that_it_has_expired() {
    let (mut server, client) = start().await;
    let options = SessionOptions { timeout: Duration::from_secs(2), ..SessionOptions::default() };
    let short = client.start_session(NODE, options).await.unwrap();
    short.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap();

    server.kill9().unwrap();
    let waiting = short.release("lock");
    assert!(matches!(wait(waiting).await, Err(Error::Expired)));
    assert_eq!(wait(short.over()).await, State::Expired);

    assert!(matches!(short.release("lock").await, Err(Error::Expired)));
}

/// coordination 50, 55: a server that hears nothing gives the lock away; a client that hears nothing gives it up.
#[tokio::test]
async fn a_paused_server_is_not_believed_in() {
    let (mut server, client) = start().await;
    let options = SessionOptions { timeout: Duration::from_secs(3), ..SessionOptions::default() };
    let short = client.start_session(NODE, options).await.unwrap();

    server.process().pause().unwrap();
    let end = wait(short.over()).await;
    server.process().resume().unwrap();

    assert_eq!(end, State::Expired);
    // Whoever comes next gets it, if not at once.
    let next = session(&client).await;
    assert!(wait(next.acquire("lock", Acquire::exclusive().ephemeral())).await.unwrap());
}

/// coordination 65: one session has one holder.
#[tokio::test]
async fn a_session_that_somebody_else_resumed_is_over() {
    let (_server, client) = start().await;
    let open = SessionOptions { protection_key: Some(Vec::new()), ..SessionOptions::default() };
    let one = client.start_session(NODE, open.clone()).await.unwrap();

    let resumed = SessionOptions { resume: Some(one.id()), ..open };
    let other = client.start_session(NODE, resumed).await.unwrap();

    assert_eq!(wait(one.over()).await, State::Expired);
    assert_eq!((other.id(), other.state()), (one.id(), State::Attached));
}

/// coordination 61.
#[tokio::test]
async fn a_session_is_its_process_own_unless_it_says_otherwise() {
    let (_server, client) = start().await;
    let one = session(&client).await;

    let stranger = SessionOptions { resume: Some(one.id()), ..SessionOptions::default() };

    assert_eq!(status(client.start_session(NODE, stranger).await), Some(Status::BadSession));
    assert_eq!(one.state(), State::Attached);
}

/// coordination 53, 56: left and come back to.
#[tokio::test]
async fn a_session_that_was_left_can_be_resumed() {
    let (_server, client) = start().await;
    let open = SessionOptions {
        protection_key: Some(Vec::new()),
        timeout: Duration::from_secs(120),
        ..SessionOptions::default()
    };
    let one = client.start_session(NODE, open.clone()).await.unwrap();
    one.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap();

    let id = one.leave().await;
    let again = client.start_session(NODE, SessionOptions { resume: Some(id), ..open }).await.unwrap();

    assert!(again.release("lock").await.unwrap());
}

/// coordination 73: with the last handle the session goes, and at once.
#[tokio::test]
async fn dropping_a_session_frees_what_it_held() {
    let (_server, client) = start().await;
    let (one, two) = (session(&client).await, session(&client).await);
    one.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap();

    drop(one);

    assert!(wait(two.acquire("lock", Acquire::exclusive().ephemeral())).await.unwrap());
}

/// coordination 150: nobody is left holding what nobody waits for.
#[tokio::test]
async fn an_acquire_that_is_given_up_is_taken_back() {
    let (_server, client) = start().await;
    let (one, two) = (session(&client).await, session(&client).await);
    one.create("jobs", 1, "").await.unwrap();
    one.acquire("jobs", Acquire::tokens(1)).await.unwrap();

    {
        let waiting = two.acquire("jobs", Acquire::tokens(1));
        tokio::pin!(waiting);
        // Polled once, so that it is on its way; a describe behind it on the same stream comes back after it is queued.
        assert!(poll_once(&mut waiting).await.is_none());
        let queued = two.describe("jobs", Include { owners: false, waiters: true }).await.unwrap();
        assert_eq!(queued.waiters.len(), 1);
    }
    let left = two.describe("jobs", Include { owners: true, waiters: true }).await.unwrap();

    assert_eq!((left.waiters.len(), left.owners[0].session_id), (0, one.id()));
}

/// Polls once; `None` if it is not ready.
async fn poll_once<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// coordination 5.
#[tokio::test]
async fn a_server_with_a_token_wants_it() {
    let args = vec!["--token".to_owned(), "secret".to_owned()];
    let server = Shardine::start_with(Options { args, doors: shardine_testkit::Doors::All, ..Options::default() });
    // The Redis door asks for the token too; whether it answers at all is enough to know that it serves.
    let server = server.unwrap();
    let client = Client::new(&server.grpc().address().to_string()).unwrap();

    assert_eq!(status(client.create_node(NODE, NodeSettings::default()).await), Some(Status::Unauthorized));
    let client = client.with_token("secret").unwrap();
    client.create_node(NODE, NodeSettings::default()).await.unwrap();

    assert_eq!(session(&client).await.state(), State::Attached);
}

#[tokio::test]
async fn an_absent_server_is_named() {
    let client = Client::new("127.0.0.1:1").unwrap();

    let Err(error) = client.start_session(NODE, SessionOptions::default()).await else { panic!("nobody is there") };

    assert!(error.to_string().contains("127.0.0.1:1 cannot be reached"), "{error}");
}

/// A machine that has vanished does not say so.
#[tokio::test]
async fn who_gives_up_early_does_not_wait_on_the_same_connection_again() {
    let vanished = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&vanished.local_addr().unwrap().to_string()).unwrap();
    let start = || client.start_session("/local/x", SessionOptions::default());

    let mut first = tokio::select! {
        started = start() => panic!("{started:?}, and nobody answers"),
        socket = async {
            let mut socket = vanished.accept().await.unwrap().0;
            is_asked(&mut socket).await;
            socket
        } => socket,
    };

    tokio::select! {
        biased;
        second = vanished.accept() => drop(second),
        () = is_asked(&mut first) => panic!("asked where nobody answers"),
        started = start() => panic!("{started:?}, and nobody answers"),
    }
}

/// Waits until a session was asked for.
async fn is_asked(socket: &mut TcpStream) {
    let mut heard = Vec::new();
    while !heard.windows(8).any(|word| word == b"/local/x") {
        assert_ne!(socket.read_buf(&mut heard).await.unwrap(), 0, "it is left open");
    }
}
