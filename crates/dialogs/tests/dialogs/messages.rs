//! Messages: stored as the seed has them, in one order, by pages.

use serde_json::json;
use shardine_client::records::{Change, Row};

use crate::stage::{Stage, TOKEN, ask, service};

/// sharding B-3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_3_a_message_is_stored_with_its_chat_author_text_and_time() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;

    let written = stage.post("/messages", json!({ "user_id": 2, "chat_id": chat, "text": "Hi there!" })).await;

    let (id, ts) = (written["message_id"].as_str().unwrap(), written["ts"].as_i64().unwrap());
    let stored = stage.records().get(&Row::new("messages", chat.as_str()).at(ts).at(id)).await.unwrap().unwrap();
    assert_eq!((stored.get::<i64>("aid"), stored.get::<&str>("txt")), (Some(2), Some("Hi there!")));
    assert_eq!(stage.get(&format!("/chats/{chat}/messages?user_id=1")).await["messages"], json!([written]));
}

/// sharding B-11, B-12: also of one second, by pages of any size, from both ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_12_a_thousand_messages_of_one_second_are_read_once_each_in_one_order() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    let records = stage.records();
    let mut expected = Vec::new();
    for number in 0..1_000_u64 {
        // As if many processes had written them, in no order.
        let id = format!("601eb8ae{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let row = Row::new("messages", chat.as_str()).at(1_612_626_094_i64).at(id.as_str());
        records.change(Change::insert(row, [("txt", id.as_str())])).await.unwrap();
        expected.push(id);
    }
    expected.sort();

    for limit in [1_000, 333, 50] {
        assert_eq!(stage.texts(&chat, "asc", limit).await, expected);
    }
    expected.reverse();
    for limit in [1_000, 7] {
        assert_eq!(stage.texts(&chat, "desc", limit).await, expected);
    }
}

/// sharding B-13: by another process of the service, which has never heard of the chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_13_what_was_answered_is_seen_by_every_process_at_once() {
    let stage = Stage::new().await;
    let (_, other) = service(&stage.server).await;
    let bearer = format!("Bearer {TOKEN}");
    let chat = stage.chat(&[1, 2]).await;

    for number in 1..=20 {
        stage.post("/messages", json!({ "user_id": 1, "chat_id": chat, "text": number.to_string() })).await;
        let path = format!("/chats/{chat}/messages?user_id=2&order=desc&limit=1");
        let page = ask(&other, "GET", &path, &[("authorization", &bearer)], None).await.body;
        assert_eq!(page["messages"][0]["text"], number.to_string());
    }
}
