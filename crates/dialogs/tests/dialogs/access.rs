//! Who may do what, and what is refused with which words.

use http::StatusCode;
use serde_json::{Value as Json, json};
use shardine_client::records::Scan;

use crate::stage::{Answer, Stage, TOKEN};

async fn rows(stage: &Stage, table: &str) -> usize {
    stage.records().scan(&Scan::table(table)).await.unwrap().records.len()
}

fn problem(answer: &Answer) -> (u16, &str) {
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
    assert_eq!(answer.body["status"].as_u64(), Some(answer.status.as_u16().into()));
    (answer.status.as_u16(), answer.body["code"].as_str().unwrap())
}

/// sharding B-4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_4_without_the_token_nothing_is_stored_or_shown() {
    let stage = Stage::new().await;
    let wrong = ["", "Bearer", "Bearer wrong", "Basic SOME_SECRET_TOKEN", "SOME_SECRET_TOKEN"];

    for header in wrong.map(Some).into_iter().chain([None]) {
        let headers: Vec<(&str, &str)> = header.map(|header| ("authorization", header)).into_iter().collect();
        for (method, path) in [("POST", "/chats"), ("GET", "/chats?user_id=1"), ("GET", "/metrics")] {
            let answer = stage.ask_with(method, path, &headers, Some(json!({ "users": [1, 2] }))).await;
            assert_eq!(problem(&answer), (401, "unauthenticated"), "{header:?} {path}");
        }
    }

    assert_eq!(rows(&stage, "chats").await + rows(&stage, "chat_intents").await, 0);
    let bearer = format!("bearer {TOKEN}");
    let answer = stage.ask_with("GET", "/chats?user_id=1", &[("authorization", &bearer)], None).await;
    assert_eq!(answer.status, StatusCode::OK, "the scheme's case does not matter");
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(stage.ask_with("GET", path, &[], None).await.status, StatusCode::OK);
    }
}

/// sharding B-5, and the same for whoever reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_5_a_chat_is_its_members_alone() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;

    let writes = stage.ask("POST", "/messages", Some(json!({ "user_id": 3, "chat_id": chat, "text": "Hi!" }))).await;
    assert_eq!(problem(&writes), (403, "forbidden"));
    for path in ["", "/messages", "/stream"] {
        let reads = stage.ask("GET", &format!("/chats/{chat}{path}?user_id=3"), None).await;
        assert_eq!(problem(&reads), (403, "forbidden"), "{path}");
    }

    assert_eq!(rows(&stage, "messages").await, 0);
}

/// sharding B-6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_6_what_makes_no_sense_is_refused_and_nothing_is_stored() {
    let stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    let nowhere = "601ebca6a834d8abc568f3c7";
    let text = |text: &str| json!({ "user_id": 1, "chat_id": chat, "text": text });

    let cases: Vec<(Json, u16, &str)> = vec![
        (json!({ "user_id": 1, "chat_id": nowhere, "text": "Hi!" }), 404, "not_found"),
        (json!({ "user_id": 1, "chat_id": "601E", "text": "Hi!" }), 400, "bad_request"),
        (json!({ "user_id": 1, "chat_id": nowhere.to_uppercase(), "text": "Hi!" }), 400, "bad_request"),
        (text(""), 400, "bad_request"),
        (text("a\u{0}b"), 400, "bad_request"),
        (json!({ "user_id": 1, "chat_id": chat }), 400, "bad_request"),
        (json!({ "user_id": "1", "chat_id": chat, "text": "Hi!" }), 400, "bad_request"),
        (json!({ "user_id": 1, "chat_id": chat, "text": "Hi!", "color": "red" }), 400, "bad_request"),
        (json!("not json"), 400, "bad_request"),
        (text(&"x".repeat((16 << 10) + 1)), 413, "too_large"),
        (text(&"x".repeat(200_000)), 413, "too_large"),
    ];
    for (body, status, code) in cases {
        let answer = stage.ask("POST", "/messages", Some(body.clone())).await;
        assert_eq!(problem(&answer), (status, code), "{body}");
    }
    assert_eq!(rows(&stage, "messages").await, 0);

    stage.post("/messages", text(&"x".repeat(16 << 10))).await;
    stage.post("/messages", text("\"\\ ё 🙂")).await;
    let messages = format!("/chats/{chat}/messages?user_id=1");
    assert_eq!(stage.get(&messages).await["messages"][1]["text"], "\"\\ ё 🙂");
    let paths = ["&limit=0", "&limit=-1", "&order=up", "&cursor=x", "&cursor=1-2", "&colour=red"];
    for more in paths {
        let answer = stage.ask("GET", &format!("{messages}{more}"), None).await;
        assert_eq!(problem(&answer), (400, "bad_request"), "{more}");
    }
    assert_eq!(problem(&stage.ask("GET", &format!("/chats/{chat}/messages"), None).await), (400, "bad_request"));
    assert_eq!(problem(&stage.ask("GET", &format!("/chats/{nowhere}?user_id=1"), None).await), (404, "not_found"));
    assert_eq!(problem(&stage.ask("DELETE", "/chats", None).await), (405, "unsupported"));
    assert_eq!(problem(&stage.ask("GET", "/cats", None).await), (404, "not_found"));
}

/// sharding B-7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_7_users_are_two_at_least_different_and_positive() {
    let stage = Stage::new().await;
    let many: Vec<u32> = (1..=501).collect();

    for users in [
        json!([]),
        json!([1]),
        json!([1, 1]),
        json!([0, 1]),
        json!([-1, 1]),
        json!([1.5, 2]),
        json!(["1", 2]),
        json!(many),
    ] {
        let answer = stage.ask("POST", "/chats", Some(json!({ "users": users }))).await;
        assert_eq!(problem(&answer), (400, "bad_request"), "{users}");
    }

    assert_eq!(rows(&stage, "chats").await + rows(&stage, "chat_intents").await + rows(&stage, "user_chats").await, 0);
}

/// sharding B-15: without its cluster the service says so, and when to come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_15_without_shardine_requests_are_refused_with_503_or_504() {
    let mut stage = Stage::new().await;
    let chat = stage.chat(&[1, 2]).await;
    stage.server.kill9().unwrap();

    let reads = stage.ask("GET", &format!("/chats/{chat}/messages?user_id=1"), None).await;
    let writes = stage.ask("POST", "/messages", Some(json!({ "user_id": 1, "chat_id": chat, "text": "Hi!" }))).await;
    let ready = stage.ask("GET", "/readyz", None).await;

    assert_eq!(problem(&reads), (503, "no_leader"));
    assert!([503, 504].contains(&writes.status.as_u16()), "{writes:?}");
    assert_eq!((ready.status.as_u16(), stage.ask("GET", "/healthz", None).await.status.as_u16()), (503, 200));
}

/// sharding B-16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharding_b_16_the_description_has_every_address_and_no_other() {
    let stage = Stage::new().await;
    let document = stage.get("/openapi.json").await;

    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            // The stream of a chat that is nobody's ends at once.
            let path = path.replace("{chat_id}", "601ebca6a834d8abc568f3c7");
            let answer = stage.ask(&method.to_uppercase(), &path, None).await;
            assert!(answer.status != StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            let nothing = answer.body["detail"].as_str().is_some_and(|detail| detail.contains("nothing is served"));
            assert!(!nothing, "{method} {path}");
            let described = item[method]["responses"].as_object().unwrap();
            assert!(described.contains_key(answer.status.as_str()), "{method} {path}: {}", answer.status);
        }
    }
    assert_eq!(document["paths"].as_object().unwrap().len(), 9);
}
