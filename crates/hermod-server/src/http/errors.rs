//! What each code means, for people: where the `type` of a problem leads.

use std::fmt::Write;

use axum::response::{Html, IntoResponse, Response};

use crate::code::Code;

/// The table of codes, each with an anchor of its name.
pub(crate) async fn page() -> Response {
    let mut rows = String::new();
    for code in Code::ALL {
        let again = if code.is_retryable() { "yes" } else { "no" };
        let (status, title) = (code.status(), code.title());
        let _infallible =
            writeln!(rows, "<tr id=\"{code}\"><td><code>{code}</code></td><td>{status}</td><td>{title}</td><td>{again}</td></tr>");
    }
    Html(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Hermod: errors</title></head>\n<body>\n\
         <h1>Errors</h1>\n<table>\n<tr><th>code</th><th>status</th><th>meaning</th><th>may succeed later</th></tr>\n{rows}</table>\n\
         </body>\n</html>\n"
    ))
    .into_response()
}
