//! A server, and services in front of it that are asked without a socket.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, StatusCode};
use serde_json::{Value as Json, json};
use shardine_client::Client;
use shardine_client::records::Records;
use shardine_dialogs::{Dialogs, Options, router};
use shardine_service::GateOptions;
use shardine_testkit::{Options as ServerOptions, Shardine, Sql};
use tower::ServiceExt;

pub const TOKEN: &str = "SOME_SECRET_TOKEN";

pub struct Stage {
    pub server: Shardine,
    pub dialogs: Dialogs,
    pub router: Router,
}

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub body: Json,
}

impl Stage {
    pub async fn new() -> Self {
        let server = Shardine::start_with(ServerOptions { sql: Sql::Sqlite, ..ServerOptions::default() }).unwrap();
        let (dialogs, router) = service(&server).await;
        Self { server, dialogs, router }
    }

    pub fn records(&self) -> Records {
        client(&self.server).records()
    }

    pub async fn ask(&self, method: &str, path: &str, body: Option<Json>) -> Answer {
        self.ask_with(method, path, &[(AUTHORIZATION.as_str(), &format!("Bearer {TOKEN}"))], body).await
    }

    pub async fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<Json>) -> Answer {
        ask(&self.router, method, path, headers, body).await
    }

    pub async fn get(&self, path: &str) -> Json {
        let answer = self.ask("GET", path, None).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    pub async fn post(&self, path: &str, body: Json) -> Json {
        let answer = self.ask("POST", path, Some(body)).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{path}: {}", answer.body);
        answer.body
    }

    /// A chat of these users, by its id.
    pub async fn chat(&self, users: &[i64]) -> String {
        self.post("/chats", json!({ "users": users })).await["chat_id"].as_str().unwrap().to_owned()
    }

    /// Texts of all messages, read by pages of `limit`.
    pub async fn texts(&self, chat: &str, order: &str, limit: u32) -> Vec<String> {
        let (mut texts, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/chats/{chat}/messages?user_id=1&order={order}&limit={limit}{cursor}");
            let page = self.get(&path).await;
            let messages = page["messages"].as_array().unwrap();
            assert!(messages.len() <= limit as usize);
            texts.extend(messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return texts,
            }
        }
    }
}

pub fn client(server: &Shardine) -> Client {
    Client::new(&server.grpc().address().to_string()).unwrap()
}

/// One more process of the service.
pub async fn service(server: &Shardine) -> (Dialogs, Router) {
    let dialogs = Dialogs::start(&client(server)).await.unwrap();
    let gate = GateOptions { token: Some(TOKEN.to_owned()), ..GateOptions::default() };
    (dialogs.clone(), router(dialogs, Options { gate }))
}

pub async fn ask(router: &Router, method: &str, path: &str, headers: &[(&str, &str)], body: Option<Json>) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map_or_else(Body::empty, |body| match body {
        // What is no JSON at all.
        Json::String(text) => Body::from(text),
        body => Body::from(body.to_string()),
    });
    let response = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
    let bytes = to_bytes(response.into_body(), 10_000_000).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Json::String(text));
    Answer { status, content_type: content_type.unwrap_or_default(), body }
}
