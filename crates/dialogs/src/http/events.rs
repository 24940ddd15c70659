//! `/chats/{chat_id}/stream`: messages as they come, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::Door;
use super::input::{self, Parameters};
use super::problem::Problem;
use crate::error::Error;
use crate::messages::Message;

/// What browsers send when they come back.
const LAST_HEADER: &str = "last-event-id";
/// A connection on which nothing is said is closed by whoever stands between; well before they lose their patience.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamParameters {
    /// Who reads: one of the chat's members.
    user_id: i64,
    /// The id of the last event that is known, or a page's `next`; without it, only what is written from now on.
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/chats/{chat_id}/stream", tag = "messages",
    params(("chat_id" = String, Path, description = "24 hex digits"), StreamParameters,
        ("Last-Event-ID" = Option<String>, Header, description = "as `cursor`, which it comes before")),
    responses((status = 200, description = "events `message` with a message as data and its cursor as id; `problem` at the end \
        if the store fails. Whoever comes back with the last id misses nothing, and may hear of the last 15 seconds again.",
        body = String, content_type = "text/event-stream")))]
pub(super) async fn stream(
    State(door): State<Door>,
    Path(chat): Path<String>,
    headers: HeaderMap,
    parameters: Parameters<StreamParameters>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Problem> {
    let StreamParameters { user_id, cursor } = input::parameters(parameters)?;
    let last = headers.get(LAST_HEADER).and_then(|last| last.to_str().ok()).map(str::to_owned);
    let from = last.or(cursor).as_deref().map(input::cursor).transpose()?;
    let messages = door.dialogs.stream(&input::id(&chat)?, user_id, from).await?;
    let events = messages.map(|message| Ok(event(message)));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE)))
}

fn event(message: Result<Message, Error>) -> Event {
    match message {
        Ok(message) => {
            let (id, data) = (message.stamp().to_string(), json!(message).to_string());
            Event::default().event("message").id(id).data(data)
        }
        Err(error) => {
            let data = json!({ "code": error.code().name(), "detail": error.to_string() });
            Event::default().event("problem").data(data.to_string())
        }
    }
}
