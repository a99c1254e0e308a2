//! How errors are told: to people in a sentence or two with the next step and the code, to programs
//! as a problem document. Both on stderr; stdout holds answers only.

use std::error::Error;
use std::process::ExitCode;

use hermod_client::{ClientError, Problem};
use serde_json::{Value, json};

use crate::noun::ClientArgs;

/// The exit code of an error.
const ERROR: u8 = 2;

/// Tells the error and gives the exit code.
pub(crate) fn report(fault: &anyhow::Error, client: Option<&ClientArgs>) -> ExitCode {
    let asked = client.zip(fault.downcast_ref::<ClientError>());
    match asked {
        Some((client, fault)) if client.json => eprintln!("{:#}", document(fault, &client.server)),
        Some((client, fault)) => eprintln!("error: {}", sentence(fault, &client.server)),
        None => eprintln!("error: {fault:#}"),
    }
    ExitCode::from(ERROR)
}

/// The error's stable code.
fn code(fault: &ClientError) -> &str {
    match fault {
        ClientError::Problem(problem) => &problem.code,
        ClientError::Unreachable(_) => "unreachable",
        ClientError::Timeout => "timeout",
        ClientError::BadAnswer { .. } => "bad_answer",
        ClientError::Invalid { .. } => "invalid",
        _ => "error",
    }
}

/// The error for people: what happened, what to do, the code.
pub(crate) fn sentence(fault: &ClientError, server: &str) -> String {
    let mut text = what(fault, server);
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    format!("{text} {} ({})", advice(fault), code(fault))
}

/// What happened.
fn what(fault: &ClientError, server: &str) -> String {
    match fault {
        ClientError::Problem(problem) if problem.detail.is_empty() => problem.title.clone(),
        ClientError::Problem(problem) => problem.detail.clone(),
        ClientError::Unreachable(cause) => format!("No answer from {server}: {}", root(cause.as_ref())),
        ClientError::Timeout => format!("No answer from {server} in time"),
        ClientError::BadAnswer { status, .. } => format!("What answers at {server} (status {status}) does not look like Hermod"),
        other => other.to_string(),
    }
}

/// What to do next.
fn advice(fault: &ClientError) -> String {
    match fault {
        ClientError::Problem(problem) => advice_for(problem),
        ClientError::Unreachable(_) => {
            "Start a server with `hermod dev` or `hermod serve`, or name one with --server or HERMOD_SERVER.".to_owned()
        }
        ClientError::Timeout => "Try again; if it stays so, look at the server's log.".to_owned(),
        ClientError::BadAnswer { .. } => "Check --server and HERMOD_SERVER.".to_owned(),
        _ => "Correct it and try again.".to_owned(),
    }
}

fn advice_for(problem: &Problem) -> String {
    match (problem.status, &problem.field) {
        (401, _) => "Give an API key with --key or HERMOD_KEY.".to_owned(),
        (403, _) => "Use a key whose scopes allow this, or have one made with `hermod keys create`.".to_owned(),
        (404, _) => "Check the spelling; the `list` command shows what there is.".to_owned(),
        (_, Some(field)) => format!("Correct `{field}` and try again."),
        _ if problem.is_retryable() => match problem.retry_after {
            Some(wait) => format!("Try again in {}.", humantime::format_duration(wait)),
            None => "Try again shortly.".to_owned(),
        },
        _ => match &problem.request_id {
            Some(id) => format!("The server's log has more under the request id {id}."),
            None => "The server's log has more.".to_owned(),
        },
    }
}

/// The first cause; the ones in between only say "error sending request".
fn root<'a>(fault: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    std::iter::successors(Some(fault), |&fault| fault.source()).last().unwrap_or(fault)
}

/// The server's problem document, or one of the same form for what never reached a server.
fn document(fault: &ClientError, server: &str) -> Value {
    match fault.problem().and_then(|problem| serde_json::to_value(problem).ok()) {
        Some(document) => document,
        None => json!({
            "type": "about:blank",
            "title": "No answer",
            "detail": what(fault, server),
            "code": code(fault),
            "retryable": fault.is_retryable(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> ClientError {
        ClientError::Problem(Box::new(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn an_error_says_what_happened_what_to_do_and_its_code() {
        let unauthorized = problem(r#"{"status":401,"code":"unauthorized","detail":"This needs an API key."}"#);
        let invalid = problem(r#"{"status":422,"code":"invalid","detail":"limit must be at least 1","field":"limit"}"#);
        let busy = problem(r#"{"status":503,"code":"overloaded","title":"Too much at once"}"#);
        for (fault, told) in [
            (unauthorized, "This needs an API key. Give an API key with --key or HERMOD_KEY. (unauthorized)"),
            (invalid, "limit must be at least 1. Correct `limit` and try again. (invalid)"),
            (busy, "Too much at once. Try again shortly. (overloaded)"),
            (ClientError::Timeout, "No answer from http://h in time. Try again; if it stays so, look at the server's log. (timeout)"),
        ] {
            assert_eq!(sentence(&fault, "http://h"), told);
        }
    }

    #[test]
    fn programs_get_the_servers_own_document() {
        let text = r#"{"type":"about:blank","title":"T","status":409,"detail":"D","code":"taken","retryable":false,"seen":[1]}"#;
        assert_eq!(document(&problem(text), "http://h"), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(document(&ClientError::Timeout, "http://h").get("code"), Some(&json!("timeout")));
    }
}
