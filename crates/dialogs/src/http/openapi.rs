//! `/openapi.json`: what tools and people read to use the service.

use axum::Json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi as Document, Ref, RefOr, ResponseBuilder, SecurityRequirement};
use utoipa::{Modify, OpenApi, ToSchema};

use super::{chats, events, health, measures, messages};

const BEARER: &str = "token";

/// How the service says no.
#[allow(dead_code, reason = "only its shape is used, by the document")]
#[derive(ToSchema)]
struct ProblemView {
    /// `urn:shardine:error:CODE`
    r#type: String,
    title: String,
    status: u16,
    /// For a person.
    detail: String,
    /// For a program: one of `docs/errors.md`.
    code: String,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Shardine dialogs", description = "Chats and messages. See docs/dialogs.md."),
    paths(
        chats::create,
        chats::list,
        chats::show,
        messages::create,
        messages::list,
        events::stream,
        health::alive,
        health::ready,
        measures::metrics,
        show,
    ),
    components(schemas(ProblemView)),
    modifiers(&Common)
)]
struct Described;

/// The whole document.
#[must_use]
pub fn document() -> Document {
    Described::openapi()
}

#[utoipa::path(get, path = "/openapi.json", tag = "health",
    responses((status = 200, description = "this document", body = serde_json::Value)))]
pub(super) async fn show() -> Json<Document> {
    Json(document())
}

/// What all addresses behind the gate have in common.
struct Common;

/// Addresses that want no token.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

const ANYWHERE: [(&str, &str); 9] = [
    ("400", "bad_request"),
    ("401", "unauthenticated"),
    ("403", "forbidden: the user is not in that chat"),
    ("404", "not_found: there is no such chat, or nothing is served at this address"),
    ("413", "too_large"),
    ("422", "exists: the Idempotency-Key was used for another request"),
    ("500", "internal"),
    ("503", "busy, no_leader, backend_unavailable, …: nothing was done, ask again"),
    ("504", "in_doubt: it may have been done, or may be done soon"),
];

impl Modify for Common {
    fn modify(&self, document: &mut Document) {
        let scheme =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("`--token` of the service.")).build();
        document.components.get_or_insert_default().add_security_scheme(BEARER, SecurityScheme::Http(scheme));
        let closed = document.paths.paths.iter_mut().filter(|(path, _)| !OPEN.contains(&path.as_str()));
        for (_, item) in closed {
            for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
                operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, [])]);
                for (status, meaning) in ANYWHERE {
                    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemView"))).build();
                    let problem =
                        ResponseBuilder::new().description(meaning).content("application/problem+json", content);
                    operation.responses.responses.insert(status.to_owned(), RefOr::T(problem.build()));
                }
            }
        }
    }
}
