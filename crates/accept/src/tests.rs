//! The loop over real sockets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::get;
use futures_util::stream::unfold;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::{Limits, serve};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

struct Door {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

async fn open(limits: Limits) -> Door {
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "late"
    };
    let ticks = || async {
        let tick = |left: u32| async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            (left > 0).then(|| (Ok::<_, Infallible>(if left > 1 { "tick " } else { "end" }), left - 1))
        };
        Body::from_stream(unfold(10, tick))
    };
    let large = async |Path(megabytes): Path<usize>| vec![b'x'; megabytes << 20];
    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/slow", get(slow))
        .route("/ticks", get(ticks))
        .route("/large/{megabytes}", get(large));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(serve(listener, router, limits, async { drop(stopped.await) }));
    Door { address, stop, running }
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4_096];
    let length = stream.read(&mut buffer).await.unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

fn brief() -> Limits {
    Limits { header_time: Duration::from_millis(200), idle_time: Duration::from_millis(600), ..Limits::default() }
}

/// reliability F38, I81.
#[tokio::test]
async fn a_header_that_trickles_is_cut_off() {
    let door = open(brief()).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let begun = Instant::now();

    assert_eq!(answer(&mut stream).await, "");
    assert!(begun.elapsed() < Duration::from_millis(500), "the idle limit must not be what ended it");
}

#[tokio::test]
async fn a_connection_may_rest_between_requests_but_not_for_ever() {
    let door = open(brief()).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut stream).await.ends_with("hello"));

    tokio::time::sleep(Duration::from_millis(400)).await;
    stream.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut stream).await.ends_with("hello"));

    assert_eq!(answer(&mut stream).await, "", "an idle connection is closed");
}

/// reliability S12: idleness is that of the client, and whoever reads a long answer is not idle.
#[tokio::test]
async fn an_answer_that_goes_on_for_longer_than_a_connection_may_rest_is_given_to_its_end() {
    let door = open(Limits { grace: Duration::from_millis(1), ..brief() }).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(b"GET /ticks HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();

    let mut whole = String::new();
    loop {
        let part = answer(&mut stream).await;
        if part.is_empty() {
            break;
        }
        whole += &part;
    }

    assert!(whole.matches("tick").count() == 9 && whole.contains("end"), "{whole}");
}

/// reliability I81.
#[tokio::test]
async fn who_says_nothing_is_closed_too() {
    let door = open(brief()).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();

    assert_eq!(answer(&mut stream).await, "");
}

/// reliability F39, S13.
#[tokio::test]
async fn above_the_cap_connections_are_closed_and_places_come_back() {
    let door = open(Limits { connections_max: 1, ..Limits::default() }).await;
    let mut inside = TcpStream::connect(door.address).await.unwrap();
    inside.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut inside).await.ends_with("hello"));

    let mut outside = TcpStream::connect(door.address).await.unwrap();
    assert_eq!(answer(&mut outside).await, "");

    drop(inside);
    let mut hellos = 0;
    for _ in 0..50 {
        let mut next = TcpStream::connect(door.address).await.unwrap();
        if next.write_all(REQUEST).await.is_ok() && answer(&mut next).await.ends_with("hello") {
            hellos += 1;
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(hellos, 1);
}

/// Asks for so many megabytes, and takes the first byte, so that the answer is there.
async fn begin_large(door: &Door, megabytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(format!("GET /large/{megabytes} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'H');
    stream
}

/// Bytes until so many have come, or no more do.
async fn read_on(mut stream: TcpStream, enough: usize) -> usize {
    let (mut buffer, mut all) = (vec![0; 1 << 20], 0);
    while all < enough
        && let Ok(length @ 1..) = stream.read(&mut buffer).await
    {
        all += length;
    }
    all
}

/// What the system's own buffers may hold of an answer is less than these differ by.
#[tokio::test]
async fn who_holds_most_of_what_nobody_reads_is_cut_when_it_is_too_much() {
    let door = open(Limits { unread_bytes_max: 100 << 20, ..Limits::default() }).await;
    let less = begin_large(&door, 40).await;
    let most = begin_large(&door, 55).await;
    let last = begin_large(&door, 45).await;

    assert!(read_on(most, 55 << 20).await < 55 << 20, "it was cut");
    assert!(read_on(less, 40 << 20).await >= 40 << 20);
    assert!(read_on(last, 45 << 20).await >= 45 << 20);
}

#[tokio::test]
async fn answers_that_are_read_take_no_room() {
    let door = open(Limits { unread_bytes_max: 30 << 20, ..Limits::default() }).await;
    for _ in 0..3 {
        let stream = begin_large(&door, 20).await;
        assert!(read_on(stream, 20 << 20).await >= 20 << 20);
    }
}

#[tokio::test]
async fn closing_lets_requests_finish() {
    let door = open(Limits::default()).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;

    door.stop.send(()).unwrap();

    assert!(answer(&mut stream).await.ends_with("late"));
    tokio::time::timeout(Duration::from_secs(2), door.running).await.unwrap().unwrap();
    assert!(TcpStream::connect(door.address).await.is_err());
}
