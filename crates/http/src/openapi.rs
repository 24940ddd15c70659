//! `/openapi.json`: what this door serves, for tools.

use axum::Json as JsonReply;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as OpenApiDocument, Ref, RefOr, Required, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use crate::gate::TIMEOUT_HEADER;
use crate::{batch, cluster, coord, health, metrics, nodes, records, scans, schemas, tables};

const BEARER: &str = "token";
const PROBLEM: &str = "Problem";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Shardine",
        description = "Records, tables, coordination and the cluster over HTTP. Errors are application/problem+json with a stable `code` (docs/errors.md). Blobs are base64; integers beyond 2^53 are strings."
    ),
    paths(
        records::get,
        records::replace,
        records::set,
        records::change,
        records::delete,
        records::flush,
        records::kick,
        batch::batch,
        scans::table,
        scans::partition,
        tables::list,
        tables::create,
        tables::show,
        tables::add_field,
        tables::remove,
        cluster::status,
        nodes::list,
        nodes::change,
        nodes::remove,
        nodes::drain,
        nodes::transfer_leader,
        cluster::shards,
        cluster::explain,
        cluster::writeback,
        coord::nodes,
        coord::sessions,
        coord::semaphores,
        health::alive,
        health::ready,
        metrics::metrics,
        document,
    ),
    components(schemas(schemas::ProblemView, records::Returned, records::Acknowledged, scans::Direction)),
    modifiers(&Common)
)]
struct Document;

#[utoipa::path(get, path = "/openapi.json", tag = "health",
    responses((status = 200, description = "this document", body = serde_json::Value)))]
pub(crate) async fn document() -> JsonReply<OpenApiDocument> {
    JsonReply(Document::openapi())
}

/// What all addresses behind the gate have in common: the token, the deadline, and how they say no.
struct Common;

/// Every address may answer with these, whatever is asked of it.
const ANYWHERE: [(&str, &str); 10] = [
    ("400", "bad_request, unknown_field, wrong_type"),
    ("401", "unauthenticated"),
    ("403", "forbidden: another site's page, or a name that is not this door's"),
    ("404", "not_found, unknown_table, or nothing is served at this address"),
    ("408", "expired: certainly nothing was done"),
    ("413", "too_large"),
    ("422", "overflow, sql_refused, unsupported"),
    ("500", "internal"),
    ("503", "busy, no_leader, backend_unavailable, dirty_limit, suspended: nothing was done, ask again"),
    ("504", "in_doubt: it may or may not have been done"),
];

/// Changes may also find something else than they were made for.
const OF_CHANGES: [(&str, &str); 2] = [("409", "exists, cas_mismatch"), ("412", "version_mismatch")];

impl Modify for Common {
    fn modify(&self, document: &mut OpenApiDocument) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("What the server was started with (`--token`); without one everybody may enter."))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(BEARER, SecurityScheme::Http(scheme));
        for (path, item) in &mut document.paths.paths {
            if path == "/healthz" || path == "/readyz" {
                continue;
            }
            for (operation, is_change) in operations(item) {
                finish(operation, is_change);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let PathItem { get, put, post, patch, delete, .. } = item;
    let changes = [put, post, patch, delete].into_iter().flatten().map(|operation| (operation, true));
    get.iter_mut().map(|operation| (operation, false)).chain(changes)
}

fn finish(operation: &mut Operation, is_change: bool) {
    operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, [])]);
    let timeout = ParameterBuilder::new()
        .name(TIMEOUT_HEADER)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("The deadline in milliseconds: 30000 without it; more than 600000 means 600000."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(timeout));
    let more = if is_change { &OF_CHANGES[..] } else { &[] };
    for (status, meaning) in ANYWHERE.iter().chain(more) {
        operation.responses.responses.insert((*status).to_owned(), RefOr::T(problem(status, meaning)));
    }
}

fn problem(status: &str, meaning: &str) -> utoipa::openapi::Response {
    let schema = Ref::from_schema_name(PROBLEM);
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(meaning).content("application/problem+json", content);
    match status {
        "401" => response.header("WWW-Authenticate", text_header()).build(),
        "503" => response.header("Retry-After", text_header()).build(),
        _ => response.build(),
    }
}

fn text_header() -> Header {
    Header::new(ObjectBuilder::new().schema_type(Type::String).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_says_how_it_answers() {
        let mut document = Document::openapi();
        assert_eq!(document.paths.paths.len(), 24, "an address that the router serves is missing, or has no words");

        for (path, item) in &mut document.paths.paths {
            for (operation, _) in operations(item) {
                let good = operation.responses.responses.iter().find(|(status, _)| status.starts_with('2'));
                assert!(good.is_some(), "{path} has no answer");
                if !path.ends_with('z') {
                    assert!(
                        operation.security.is_some() && operation.responses.responses.contains_key("401"),
                        "{path}"
                    );
                }
            }
        }
    }
}
