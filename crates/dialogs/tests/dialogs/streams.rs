//! Chats that are read as they go on.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::json;
use shardine_client::records::{Change, Row};
use shardine_dialogs::{Id, Message, Options, Stamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::stage::{Stage, TOKEN, service};

const PATIENCE: Duration = Duration::from_secs(30);

async fn next<E: std::fmt::Debug>(stream: &mut (impl StreamExt<Item = Result<Message, E>> + Unpin)) -> Message {
    timeout(PATIENCE, stream.next()).await.expect("a message").unwrap().unwrap()
}

/// Written by both processes at once, read by both: every message once, nothing that was there before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_every_message_once_whoever_has_written_it() {
    let stage = Stage::new().await;
    let (other, _) = service(&stage.server).await;
    let chat: Id = stage.chat(&[1, 2]).await.parse().unwrap();
    stage.dialogs.post(&chat, 1, "before", None).await.unwrap();
    let mut streams = Vec::new();
    for dialogs in [&stage.dialogs, &other] {
        streams.push(Box::pin(dialogs.stream(&chat, 2, None).await.unwrap()));
    }

    let writers = [stage.dialogs.clone(), other].map(|dialogs| {
        let chat = chat.clone();
        tokio::spawn(async move {
            for number in 0..50 {
                dialogs.post(&chat, 1, &number.to_string(), None).await.unwrap();
            }
        })
    });

    for stream in &mut streams {
        let mut told = BTreeSet::new();
        for _ in 0..100 {
            let message = next(stream).await;
            assert!(message.text != "before" && told.insert(message.message_id.clone()), "{message:?}");
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// As browsers read it, and come back to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_server_sent_events_whose_ids_are_places_to_come_back_to() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    let written = stage.post("/messages", json!({ "user_id": 1, "chat_id": chat, "text": "two\nlines" })).await;
    let place = format!("{}-{}", written["ts"], written["message_id"].as_str().unwrap());
    let open = async |last: &str| {
        let request = Request::get(format!("/chats/{chat}/stream?user_id=2&cursor=1-000000000000000000000000"));
        let request = request.header("authorization", format!("Bearer {TOKEN}")).header("last-event-id", last);
        let response = stage.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        response.into_body().into_data_stream()
    };

    let first = timeout(PATIENCE, open("0-000000000000000000000000").await.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(first, format!("event: message\nid: {place}\ndata: {written}\n\n"));

    // Far behind it there is nothing, until something is written there.
    let mut later = open(&format!("{}-ffffffffffffffffffffffff", written["ts"].as_i64().unwrap() + 60)).await;
    let row =
        Row::new("messages", chat.as_str()).at(written["ts"].as_i64().unwrap() + 61).at("ffffffffffffffffffffffff");
    stage.records().change(Change::insert(row, [("txt", "later")])).await.unwrap();
    let second = timeout(PATIENCE, later.next()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(&second).contains("\"text\":\"later\""), "{second:?}");
}

/// A service that stops ends its streams, and does not wait for readers who would stay for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_when_the_service_stops() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let serving = tokio::spawn(shardine_dialogs::serve(stage.dialogs.clone(), listener, Options::default(), shutdown));
    let request = format!("GET /chats/{chat}/stream?user_id=2&cursor=1-{chat} HTTP/1.1\r\nhost: x\r\n\r\n");
    reader.write_all(request.as_bytes()).await.unwrap();
    stage.post("/messages", json!({ "user_id": 1, "chat_id": chat, "text": "the last word" })).await;

    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("the last word") {
        reader.read_buf(&mut read).await.unwrap();
    }
    stop.send(()).unwrap();
    reader.read_to_end(&mut read).await.unwrap();

    assert!(read.ends_with(b"0\r\n\r\n"), "ended, and not cut: {}", String::from_utf8_lossy(&read));
    serving.await.unwrap();
}

/// Whoever comes back misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_from_a_place_tells_what_came_after_it() {
    let stage = Stage::new().await;
    let chat: Id = stage.chat(&[1, 2]).await.parse().unwrap();
    let mut places = Vec::new();
    for number in 0..10 {
        let Message { ts, message_id: id, .. } = stage.dialogs.post(&chat, 1, &number.to_string(), None).await.unwrap();
        places.push(Stamp { ts, id });
    }

    let mut stream = pin!(stage.dialogs.stream(&chat, 2, Some(places[4].clone())).await.unwrap());

    let mut texts = BTreeSet::new();
    while texts.len() < 5 {
        let message = next(&mut stream).await;
        // Those of the last seconds may come again.
        if message.message_id > places[4].id {
            texts.insert(message.text);
        }
    }
    assert_eq!(texts.into_iter().collect::<Vec<_>>(), ["5", "6", "7", "8", "9"]);
}

/// A request that took long, or a clock that is behind: the message stands before one that was told already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_late_by_seconds_is_told_too() {
    let stage = Stage::new().await;
    let chat: Id = stage.chat(&[1, 2]).await.parse().unwrap();
    let mut stream = pin!(stage.dialogs.stream(&chat, 2, None).await.unwrap());
    let quick = stage.dialogs.post(&chat, 1, "quick", None).await.unwrap();
    assert_eq!(next(&mut stream).await, quick);

    let row = Row::new("messages", chat.as_str()).at(quick.ts - 10).at("000000000000000000000001");
    stage.records().change(Change::insert(row, [("txt", "slow")])).await.unwrap();

    assert_eq!(next(&mut stream).await.text, "slow");
}
