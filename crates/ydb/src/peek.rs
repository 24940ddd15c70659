//! What a request is about, read from its first message before anybody serves it. The request is as it was afterwards.
//!
//! A stream says its path in its first message, so nothing is answered before that has come; YDB does the same.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use prost::Message;
use shardine_coord::Path;
use shardine_proto::ydb::coordination::session_request::Request as Asked;
use shardine_proto::ydb::coordination::{CreateNodeRequest, SessionRequest};
use tokio_stream::StreamExt;
use tonic::metadata::MetadataMap;

use crate::REQUEST_BYTES_MAX;
use crate::engine::Purpose;
use crate::nodes::{check_database, pass_of};
use crate::rights::Right;

/// Bytes before a message: whether it is packed, and how long it is.
const HEAD_BYTES: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub path: String,
    pub purpose: Purpose,
}

/// Calls about a coordination node; what else is in them is not looked at.
#[derive(Clone, PartialEq, Message)]
struct OfNode {
    #[prost(string, tag = "1")]
    path: String,
}

/// Calls about a resource of one.
#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(string, tag = "2")]
    coordination_node_path: String,
}

/// `None` for what cannot be read, or may not be asked: whoever serves it refuses it.
pub(crate) async fn peek(request: Request) -> (Request, Option<About>) {
    let (parts, body) = request.into_parts();
    let mut rest = body.into_data_stream();
    let mut read: Vec<Result<Bytes, axum::Error>> = Vec::new();
    let mut bytes = Vec::new();
    while !is_enough(&bytes) {
        match rest.next().await {
            Some(Ok(more)) => {
                bytes.extend_from_slice(&more);
                read.push(Ok(more));
            }
            Some(Err(error)) => {
                read.push(Err(error));
                break;
            }
            None => break,
        }
    }
    let body = Body::from_stream(tokio_stream::iter(read).chain(rest));
    let request = Request::from_parts(parts, body);
    let about = message(&bytes).and_then(|message| about(request.uri().path(), message));
    let about = about.filter(|about| may_ask(&request, about));
    (request, about)
}

/// Whether the first message is there, or will never be read.
fn is_enough(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return false };
    head[0] != 0 || len_of(head) > REQUEST_BYTES_MAX || rest.len() >= len_of(head)
}

fn len_of(head: &[u8]) -> usize {
    u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize
}

fn message(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    if head[0] == 0 { rest.get(..len_of(head)) } else { None }
}

fn about(uri: &str, message: &[u8]) -> Option<About> {
    let (service, method) = uri.rsplit_once('/')?;
    let used = |path| Some(About { path, purpose: Purpose::Use });
    match method {
        "Session" => match SessionRequest::decode(message).ok()?.request? {
            Asked::SessionStart(start) => used(start.path),
            _ => None,
        },
        "CreateNode" => {
            let path = CreateNodeRequest::decode(message).ok()?.path;
            Some(About { path, purpose: Purpose::Make })
        }
        _ if service.ends_with("RateLimiterService") => used(OfResource::decode(message).ok()?.coordination_node_path),
        _ => used(OfNode::decode(message).ok()?.path),
    }
}

/// A path gets a place only by those who may make a node there, and only if there can be one.
fn may_ask(request: &Request, about: &About) -> bool {
    let pass = pass_of(request.extensions());
    match about.purpose {
        Purpose::Use => pass.at(&about.path).check_any().is_ok(),
        Purpose::Make => {
            let metadata = MetadataMap::from_headers(request.headers().clone());
            let is_path = Path::parse(&about.path).is_some_and(|path| path.check().is_ok());
            is_path && pass.check(&about.path, Right::Write).is_ok() && check_database(&metadata, &about.path).is_ok()
        }
    }
}
