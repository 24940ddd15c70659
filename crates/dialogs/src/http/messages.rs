//! `/messages` and `/chats/{chat_id}/messages`.

use axum::Json;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::Door;
use super::input::{self, Body, Parameters};
use super::problem::Problem;
use crate::messages::{Message, Order, Page};

/// A message that is to be written.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    /// Who writes: one of the chat's members.
    user_id: i64,
    /// Where to.
    chat_id: String,
    /// What; not empty, 16 KiB at most.
    text: String,
}

#[utoipa::path(post, path = "/messages", tag = "messages", request_body = NewMessage,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same request with the same key writes one message.")),
    responses((status = 201, description = "it is written, and everybody who reads the chat from now on sees it", body = Message)))]
pub(super) async fn create(
    State(door): State<Door>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Message>), Problem> {
    let NewMessage { user_id, chat_id, text } = input::body(body)?;
    let chat = input::id(&chat_id)?;
    let message = door.dialogs.post(&chat, user_id, &text, input::once_key(&headers)?).await?;
    Ok((StatusCode::CREATED, Json(message)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParameters {
    /// Who asks: one of the chat's members.
    user_id: i64,
    /// `asc`, from the oldest, or `desc`, from the newest; `asc` if nothing is said.
    #[serde(default)]
    order: Order,
    /// Messages of a page: 50 if nothing is said, 1,000 at most.
    limit: Option<u32>,
    /// What `next` of the page before said. It is a place in the chat, and good for as long as the chat.
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/chats/{chat_id}/messages", tag = "messages",
    params(("chat_id" = String, Path, description = "24 hex digits"), ListParameters),
    responses((status = 200, description = "messages by second and id", body = Page)))]
pub(super) async fn list(
    State(door): State<Door>,
    Path(chat): Path<String>,
    parameters: Parameters<ListParameters>,
) -> Result<Json<Page>, Problem> {
    let ListParameters { user_id, order, limit, cursor } = input::parameters(parameters)?;
    let (chat, after) = (input::id(&chat)?, cursor.as_deref().map(input::cursor).transpose()?);
    Ok(Json(door.dialogs.messages(&chat, user_id, order, after, input::limit(limit)?).await?))
}
