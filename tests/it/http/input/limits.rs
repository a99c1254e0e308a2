//! Bad input to the operations of `limit`.

use serde_json::json;

use super::super::site::Ask;
use super::{Row, get};

/// A request of `witness` about `watched` with these fields besides.
fn limit(operation: &str, fields: &str) -> Ask {
    let gap = if fields.is_empty() { "" } else { "," };
    Ask::new("POST", format!("/v1/limit/{operation}"), format!(r#"{{"subject":"witness","action":"watched"{gap}{fields}}}"#))
}

/// A request about a lease of `witness`.
fn lease(operation: &str, fields: &str) -> Ask {
    Ask::new("POST", format!("/v1/limit/{operation}"), format!(r#"{{"subject":"witness",{fields}}}"#))
}

/// So many checks at once.
fn batch(count: usize) -> Ask {
    Ask::json("POST", "/v1/limit/batch", &json!({"checks": vec![json!({"subject": "witness", "action": "watched"}); count]}))
}

pub(super) fn rows() -> Vec<Row> {
    let many = vec!["7"; 257].join(",");
    let long = "x".repeat(16 * 1024);
    let gate = |rest: &str| get(&format!("/v1/limit/gate/{rest}"));
    vec![
        limit("check", r#""peek":true,"force":true"#).gives(400, "invalid_field", "force"),
        limit("check", r#""dry_run":true,"force":true"#).gives(400, "invalid_field", "force"),
        limit("check", r#""peek":"yes""#).gives(400, "invalid_field", "peek"),
        limit("check", r#""attributes":7"#).gives(400, "invalid_field", "attributes"),
        limit("check", &format!(r#""attributes":{{"many":[{many}]}}"#)).gives(400, "invalid_field", "attributes"),
        limit("check", &format!(r#""attributes":{{"long":"{long}"}}"#)).gives(400, "invalid_field", "attributes"),
        limit("acquire", &format!(r#""attributes":{{"x{long}":1}}"#)).gives(400, "invalid_field", "attributes"),
        limit("refund", r#""cost":0"#).gives(400, "invalid_field", "cost"),
        limit("refund", r#""peek":true"#).gives(400, "unknown_field", "peek"),
        limit("refund", &format!(r#""attributes":{{"many":[{many}]}}"#)).gives(400, "invalid_field", "attributes"),
        limit("reset", r#""cost":1"#).gives(400, "invalid_field", "cost"),
        batch(0).gives(400, "invalid_field", "checks"),
        batch(1_001).gives(400, "invalid_field", "checks"),
        Ask::new("POST", "/v1/limit/batch", "{}").gives(400, "missing_field", "checks"),
        Ask::new("POST", "/v1/limit/batch", r#"{"checks":{}}"#).gives(400, "invalid_field", "checks"),
        limit("acquire", r#""lease":"two words""#).gives(400, "invalid_field", "lease"),
        limit("acquire", r#""lease":"""#).gives(400, "invalid_field", "lease"),
        limit("acquire", &format!(r#""lease":"{}""#, "l".repeat(129))).gives(400, "invalid_field", "lease"),
        limit("acquire", r#""ttl":"0s""#).gives(400, "invalid_field", "ttl"),
        limit("acquire", r#""ttl":"soon""#).gives(400, "invalid_field", "ttl"),
        limit("acquire", r#""ttl":30"#).gives(400, "invalid_field", "ttl"),
        limit("acquire", r#""cost":2"#).gives(400, "unknown_field", "cost"),
        lease("renew", r#""lease":"a b""#).gives(400, "invalid_field", "lease"),
        lease("renew", r#""lease":"a","ttl":"0s""#).gives(400, "invalid_field", "ttl"),
        lease("renew", r#""ttl":"1s""#).gives(400, "missing_field", "lease"),
        lease("release", r#""lease":"a b""#).gives(400, "invalid_field", "lease"),
        lease("release", r#""lease":"a","ttl":"1s""#).gives(400, "invalid_field", "ttl"),
        gate("watched/%FF").gives(400, "invalid_field", "action"),
        gate("watched/%0A").gives(400, "invalid_field", "subject"),
        gate("watched/witness?cost=0").gives(400, "invalid_field", "cost"),
        gate("watched/witness?cost=ten").gives(400, "invalid_field", "cost"),
        gate("watched/witness?peek=true").gives(400, "unknown_field", "peek"),
        gate("watched").gives(404, "not_found", None),
        gate("watched/witness/again").gives(404, "not_found", None),
        Ask::new("POST", "/v1/limit/gate/watched/witness", "").gives(405, "method_not_allowed", None),
        get("/v1/limit/refused?limit=0").gives(400, "invalid_field", "limit"),
        get("/v1/limit/refused?limit=101").gives(400, "invalid_field", "limit"),
        get("/v1/limit/refused?limit=ten").gives(400, "invalid_field", "limit"),
        get("/v1/limit/refused?top=3").gives(400, "unknown_field", "top"),
    ]
}
