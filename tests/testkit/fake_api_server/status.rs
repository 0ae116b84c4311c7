//! Errors as a `Status`, the format of Kubernetes.

use serde_json::{Value, json};

use super::resource::ResourceType;

/// A request's result; the error is a `Status`.
pub(super) type ApiResult<T> = Result<T, Value>;

/// A `Status` of failure.
pub(super) fn status(code: u16, message: &str) -> Value {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 if message.ends_with("already exists") => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

pub(super) fn not_found() -> Value {
    status(404, "the server could not find the requested resource")
}

/// A `Status` about a type or an object of it, which stands for `{}` in the message.
pub(super) fn status_about(
    (group, plural): &ResourceType,
    name: Option<&str>,
    code: u16,
    message: &str,
) -> Value {
    let dot = if group.is_empty() { "" } else { "." };
    let quoted = name.map_or(String::new(), |name| format!(" \"{name}\""));
    let called = format!("{plural}{dot}{group}{quoted}");
    let mut status = status(code, &message.replace("{}", &called));
    // What is called kind there is the plural.
    status["details"] = json!({"name": name.unwrap_or_default(), "group": group, "kind": plural});
    status
}
