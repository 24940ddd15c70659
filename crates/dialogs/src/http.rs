//! The door of the service: JSON in, JSON out, and server-sent events.

// In the order in which a request meets them.
mod gate;
mod chats;
mod messages;
mod events;
mod health;
mod openapi;
mod page;
// What they share.
mod input;
mod measures;
mod problem;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use http::StatusCode;
use shardine_client::records::ErrorCode;
use shardine_service::GateOptions;

pub use openapi::document as openapi;

use self::measures::Measures;
use self::problem::Problem;
use crate::{Dialogs, limits};

/// Who may enter.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The token, and how many requests may be inside.
    pub gate: GateOptions,
}

/// What handlers share.
#[derive(Clone)]
struct Door {
    dialogs: Dialogs,
    measures: Measures,
}

/// Everything the service answers to.
pub fn router(dialogs: Dialogs, options: Options) -> Router {
    let measures = Measures::default();
    let inside = Router::new()
        .route("/chats", post(chats::create).get(chats::list))
        .route("/chats/{chat_id}", get(chats::show))
        .route("/chats/{chat_id}/messages", get(messages::list))
        .route("/chats/{chat_id}/stream", get(events::stream))
        .route("/messages", post(messages::create))
        .route("/metrics", get(measures::metrics))
        .layer(DefaultBodyLimit::max(limits::BODY_BYTES_MAX));
    let inside = gate::guard(inside, options.gate, measures.clone());
    // Probes and tools come without a token.
    let open = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::show))
        .merge(page::routes());
    let door = Door { dialogs, measures };
    open.merge(inside).method_not_allowed_fallback(wrong_method).fallback(nothing_here).with_state(door)
}

async fn wrong_method() -> Problem {
    Problem::new(ErrorCode::Unsupported, "this address does not know that method").with(StatusCode::METHOD_NOT_ALLOWED)
}

async fn nothing_here() -> Problem {
    Problem::new(ErrorCode::NotFound, "nothing is served at this address; /openapi.json tells what is")
}
