//! Requests that are sent again.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value as Json, json};
use shardine_client::records::Scan;

use crate::stage::{Answer, Stage, TOKEN};

async fn post(stage: &Stage, path: &str, key: &str, body: &Json) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
    stage.ask_with("POST", path, &headers, Some(body.clone())).await
}

/// sharding B-8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_8_two_equal_requests_make_two_chats_and_with_one_key_one() {
    let stage = Stage::new().await;
    let body = json!({ "users": [1, 2] });
    assert_ne!(stage.chat(&[1, 2]).await, stage.chat(&[1, 2]).await);

    let answers = join_all((0..5).map(|_| post(&stage, "/chats", "key-1", &body))).await;
    let other = post(&stage, "/chats", "key-1", &json!({ "users": [1, 3] })).await;

    let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.body["chat_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{answers:?}");
    assert_eq!((other.status.as_u16(), other.body["code"].as_str()), (422, Some("exists")));
    assert_eq!(stage.get("/chats?user_id=1").await["chats"].as_array().unwrap().len(), 3);
    assert_eq!(post(&stage, "/chats", "", &body).await.status.as_u16(), 400);
    assert_eq!(post(&stage, "/chats", &"k".repeat(256), &body).await.status.as_u16(), 400);
}

/// sharding B-9: also when the server was killed in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_9_a_message_that_is_sent_again_with_its_key_is_stored_once() {
    let mut stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    let body = json!({ "user_id": 1, "chat_id": chat, "text": "Hi there!" });

    let first = post(&stage, "/messages", "key-1", &body).await;
    stage.server.kill9().unwrap();
    let meanwhile = post(&stage, "/messages", "key-2", &body).await;
    stage.server.restart().unwrap();
    let again = post(&stage, "/messages", "key-1", &body).await;
    let at_last = post(&stage, "/messages", "key-2", &body).await;

    assert!([503, 504].contains(&meanwhile.status.as_u16()), "{meanwhile:?}");
    assert_eq!((first.status.as_u16(), &first.body), (201, &again.body));
    assert_eq!(at_last.status.as_u16(), 201);
    let other =
        post(&stage, "/messages", "key-1", &json!({ "user_id": 2, "chat_id": chat, "text": "Hi there!" })).await;
    assert_eq!(other.status.as_u16(), 201, "keys of two users are two keys");
    let stored = stage.records().scan(&Scan::table("messages")).await.unwrap().records.len();
    assert_eq!(stored, 3);
}
