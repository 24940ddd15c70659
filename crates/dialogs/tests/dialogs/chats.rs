//! Chats: made, listed, and never half there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use serde_json::json;
use shardine_client::records::{Row, Scan};

use crate::stage::{Stage, service};

/// sharding B-2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_2_a_chat_is_stored_with_its_users_and_the_servers_time() {
    let stage = Stage::new().await;

    let made = stage.post("/chats", json!({ "users": [2, 1] })).await;

    let id = made["chat_id"].as_str().unwrap();
    let stored = stage.records().get(&Row::new("chats", id)).await.unwrap().unwrap();
    assert_eq!((stored.get::<&str>("users"), stored.get::<i64>("ts")), (Some("2,1"), made["ts"].as_i64()));
    assert_eq!(made["users"], json!([2, 1]));
    let seconds = i64::from_str_radix(&id[..8], 16).unwrap();
    assert_eq!((id.len(), Some(seconds)), (24, made["ts"].as_i64()), "an id begins with its second");
    assert_eq!(stage.get(&format!("/chats/{id}?user_id=1")).await, made);
}

/// sharding B-10: by pages of any size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_10_a_user_s_list_has_exactly_his_chats_in_the_order_of_their_making() {
    let stage = Stage::new().await;
    let mut mine = Vec::new();
    for number in 0..25 {
        match number % 5 {
            0 => drop(stage.chat(&[2, 3]).await),
            _ => mine.push(stage.chat(&[number + 2, 1]).await),
        }
    }

    for limit in [1, 7, 20, 1_000] {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = stage.get(&format!("/chats?user_id=1&limit={limit}{cursor}")).await;
            listed.extend(
                page["chats"].as_array().unwrap().iter().map(|chat| chat["chat_id"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(listed, mine, "pages of {limit}");
    }
    assert_eq!(stage.get("/chats?user_id=999").await, json!({ "chats": [], "next": null }));
}

/// What comes of it in so many steps; without an end by then it is dropped, as a process that dies drops it.
async fn within<F: Future>(steps: usize, future: F) -> Option<F::Output> {
    let (mut future, mut taken) = (pin!(future), 0);
    poll_fn(|context| {
        if taken == steps {
            return Poll::Ready(None);
        }
        taken += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// In whose lists a chat is.
async fn listed(stage: &Stage, users: &[i64]) -> Vec<usize> {
    let mut numbers = Vec::new();
    for user in users {
        let page = stage.get(&format!("/chats?user_id={user}")).await;
        numbers.push(page["chats"].as_array().unwrap().len());
    }
    numbers
}

/// A process that dies at any step of making a chat: it is in all lists or in none at every moment, and soon in all of them or
/// certainly not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_that_is_half_made_is_in_nobody_s_list_and_finished_by_another_process() {
    let stage = Stage::new().await;
    let (other, _) = service(&stage.server).await;
    let mut finished = 0;

    for steps in 1.. {
        let first = i64::try_from(steps).unwrap() * 10;
        let users = [first, first + 1, first + 2];
        let made = within(steps, stage.dialogs.create_chat(&users, None)).await;
        let is_done = made.is_some();

        for _ in 0..3 {
            let now = listed(&stage, &users).await;
            assert!(now == [0, 0, 0] || now == [1, 1, 1], "{now:?} after {steps} steps");
            assert!(!is_done || now == [1, 1, 1], "it has answered");
        }
        let has_begun = other.finish_all().await.unwrap() > 0;
        finished += usize::from(has_begun);
        let in_the_end = listed(&stage, &users).await;
        assert!(!has_begun || in_the_end == [1, 1, 1], "{in_the_end:?} after {steps} steps");
        if is_done {
            made.unwrap().unwrap();
            break;
        }
    }

    assert!(finished > 0, "no step lies between the beginning and the end");
    // What was sent by a process that is dead may arrive late, and is then finished too.
    while other.finish_all().await.unwrap() > 0 {}
    let left = stage.records().scan(&Scan::table("chat_intents")).await.unwrap();
    assert!(left.records.is_empty(), "{left:?}");
}

/// A cluster that has the tables of somebody else is not written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_somebody_else_s_is_refused() {
    use shardine_client::records::{FieldType, Table};
    let server = shardine_testkit::Shardine::start().unwrap();
    let client = crate::stage::client(&server);
    let foreign = Table::new("messages").field("body", FieldType::Blob).without_sql();
    client.records().create_table(&foreign).await.unwrap();

    let refused = shardine_dialogs::Dialogs::start(&client).await;

    assert!(refused.unwrap_err().to_string().contains("the table messages is not of this service"));
}
