//! `/chats`.

use axum::Json;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::Door;
use super::input::{self, Body, Parameters};
use super::problem::Problem;
use crate::chats::{Chat, ChatPage};

/// A chat that is to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewChat {
    /// Its members: two at least, all different, from 1.
    #[schema(min_items = 2)]
    users: Vec<i64>,
}

#[utoipa::path(post, path = "/chats", tag = "chats", request_body = NewChat,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same request with the same key makes one chat.")),
    responses((status = 201, description = "it is made, and in the lists of all its members", body = Chat)))]
pub(super) async fn create(
    State(door): State<Door>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Chat>), Problem> {
    let NewChat { users } = input::body(body)?;
    let chat = door.dialogs.create_chat(&users, input::once_key(&headers)?).await?;
    Ok((StatusCode::CREATED, Json(chat)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParameters {
    /// Whose chats.
    user_id: i64,
    /// Chats of a page: 50 if nothing is said, 1,000 at most.
    limit: Option<u32>,
    /// What `next` of the page before said.
    cursor: Option<String>,
}

#[utoipa::path(get, path = "/chats", tag = "chats", params(ListParameters),
    responses((status = 200, description = "chats in the order in which they were made", body = ChatPage)))]
pub(super) async fn list(
    State(door): State<Door>,
    parameters: Parameters<ListParameters>,
) -> Result<Json<ChatPage>, Problem> {
    let ListParameters { user_id, limit, cursor } = input::parameters(parameters)?;
    let after = cursor.as_deref().map(input::id).transpose()?;
    Ok(Json(door.dialogs.chats_of(user_id, after, input::limit(limit)?).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ShowParameters {
    /// Who asks: one of its members.
    user_id: i64,
}

#[utoipa::path(get, path = "/chats/{chat_id}", tag = "chats",
    params(("chat_id" = String, Path, description = "24 hex digits"), ShowParameters),
    responses((status = 200, description = "the chat", body = Chat)))]
pub(super) async fn show(
    State(door): State<Door>,
    Path(chat): Path<String>,
    parameters: Parameters<ShowParameters>,
) -> Result<Json<Chat>, Problem> {
    let ShowParameters { user_id } = input::parameters(parameters)?;
    let chat = door.dialogs.chat(&input::id(&chat)?, user_id).await?;
    Ok(Json(Chat::clone(&chat)))
}
