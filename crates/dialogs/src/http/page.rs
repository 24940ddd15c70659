//! The page at `/`: a small client of the service. Its files are part of the program, and it loads nothing from elsewhere.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

use super::Door;

/// Path, type, content.
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("../../page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("../../page/style.css")),
    ("/page/app.js", "text/javascript; charset=utf-8", include_str!("../../page/app.js")),
    ("/page/service.js", "text/javascript; charset=utf-8", include_str!("../../page/service.js")),
];

/// What a text that somebody has written must not be able to do, whatever it says.
const POLICY: &str = "default-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

/// Open to all: whoever looks at it needs the token to see anything.
pub(super) fn routes() -> Router<Door> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        router.route(path, get(move || async move { file(kind, content) }))
    })
}

fn file(kind: &'static str, content: &'static str) -> impl IntoResponse {
    let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_no_file_that_is_not_served_and_nothing_of_others() {
        for (path, _, content) in FILES {
            assert!(!content.contains("http://") && !content.contains("https://"), "{path} goes elsewhere");
            for named in content.split('"').filter(|text| text.starts_with("/page/")) {
                assert!(FILES.iter().any(|(served, ..)| *served == named), "{path} names {named}");
            }
            assert!(!content.contains("innerHTML"), "{path}: what people write is text");
        }
    }
}
