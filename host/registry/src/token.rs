//! Fetches tokens for a registry from the server that the registry names.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::credentials::Login;
use crate::transport::{Transport, header_value};
use crate::{Error, Limits};

/// Maximum bytes of a response with a token.
const MAX_RESPONSE_BYTES: usize = 256 << 10;
/// Maximum bytes of a token: it must fit into the head of a request.
const MAX_TOKEN_BYTES: usize = 32 << 10;

/// The characters to escape in a query.
const ESCAPED_IN_QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

/// The server that issues the tokens of a registry.
pub(crate) struct Realm<'a> {
    pub(crate) uri: &'a Uri,
    /// The name of the registry there.
    pub(crate) service: Option<&'a str>,
}

/// Returns the value of `Authorization` for this scope. opgate follows no redirects: only the realm gets credentials.
pub(crate) async fn fetch(
    transport: &Transport,
    limits: &Limits,
    Realm { uri: realm, service }: Realm<'_>,
    scope: &str,
    login: Option<&Login>,
) -> Result<HeaderValue, Error> {
    let mut query: Vec<(&str, &str)> = Vec::new();
    query.extend(service.map(|service| ("service", service)));
    query.push(("scope", scope));
    let request = Request::builder();
    let request = match login {
        Some(Login::Identity(token)) => {
            query.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "opgate"),
                ("refresh_token", token),
            ]);
            request
                .method(Method::POST)
                .uri(realm)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::new(Bytes::from(encode_query(&query))))
        }
        other => {
            let text = realm.to_string();
            let sign = if text.contains('?') { '&' } else { '?' };
            let mut request = request.uri(format!("{text}{sign}{}", encode_query(&query)));
            if let Some(Login::Password { username, password }) = other {
                let mut basic = header_value(&Login::basic(username, password))?;
                basic.set_sensitive(true);
                request = request.header(AUTHORIZATION, basic);
            }
            request.body(Full::default())
        }
    };
    let host = realm.host().unwrap_or_default();
    let request = request.map_err(|error| Error::permanent(format!("{host}: {error}")))?;
    let answer = transport.send(request, limits.progress_timeout).await?;
    let status = answer.status;
    if status.is_server_error() || status.as_u16() == 429 {
        return Err(Error::transient(format!("{host}: no token: {status}")));
    }
    if !status.is_success() {
        let who = if login.is_some() { "the credentials" } else { "a request without credentials" };
        return Err(Error::permanent(format!(
            "{host}: no token for {scope}: it answers {status} to {who}"
        )));
    }
    // opgate never shows the content.
    let bytes = answer.read(MAX_RESPONSE_BYTES).await.map_err(|error| error.with_subject(host))?;
    let tokens: Option<TokenResponse> = serde_json::from_slice(&bytes).ok();
    let token = tokens.and_then(|tokens| tokens.token.or(tokens.access_token));
    let token = token.filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
    let token = token.ok_or_else(|| Error::permanent(format!("{host}: no token in its answer")))?;
    let mut bearer = header_value(&format!("Bearer {token}"))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

fn encode_query(query: &[(&str, &str)]) -> String {
    let pairs = query
        .iter()
        .map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, ESCAPED_IN_QUERY)));
    pairs.collect::<Vec<_>>().join("&")
}
