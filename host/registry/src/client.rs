//! Requests to the API of a registry, with authentication and retries.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;

use crate::challenge::{Challenge, parse_realm};
use crate::credentials::Login;
use crate::redirect::{is_insecure_host, is_redirect, is_same_origin, redirect_target};
use crate::transport::{StreamingResponse, Transport, header_value};
use crate::{Credentials, Error, Limits, Reference, token};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Maximum bytes of an error of a registry.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Connections to registries, with credentials.
#[derive(Debug)]
pub(crate) struct Client {
    transport: Transport,
    credentials: Credentials,
    insecure: BTreeSet<String>,
    limits: Limits,
}

/// A session for one repository.
pub(crate) struct Session<'c> {
    client: &'c Client,
    reference: Reference,
    /// `pull`, or `pull,push`.
    scope_actions: &'static str,
    /// Scheme and authority of the registry.
    registry_uri: Uri,
    authorization: Option<HeaderValue>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) accept: Option<&'static str>,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    /// Maximum bytes of the response.
    pub(crate) max_bytes: usize,
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The address of the response, after redirects.
    pub(crate) uri: Uri,
}

#[derive(Deserialize)]
struct ErrorResponse {
    errors: Vec<ErrorDetail>,
}

#[derive(Deserialize)]
struct ErrorDetail {
    code: Option<String>,
    message: Option<String>,
}

impl Client {
    pub(crate) fn new(
        transport: Transport,
        credentials: Credentials,
        insecure: BTreeSet<String>,
        limits: Limits,
    ) -> Self {
        Self { transport, credentials, insecure, limits }
    }

    pub(crate) fn session(
        &self,
        reference: &Reference,
        access: &'static str,
    ) -> Result<Session<'_>, Error> {
        let host = reference.api_host();
        let scheme = if is_insecure_host(&self.insecure, host) { "http" } else { "https" };
        let home = format!("{scheme}://{host}").parse();
        let home = home.map_err(|_| Error::permanent(format!("{host}: not a host")))?;
        Ok(Session {
            client: self,
            reference: reference.clone(),
            scope_actions: access,
            registry_uri: home,
            authorization: None,
        })
    }
}

impl Session<'_> {
    /// Returns an address in the repository.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        let host = self.registry_uri.to_string();
        let text =
            format!("{}/v2/{}/{path}", host.trim_end_matches('/'), self.reference.repository());
        text.parse().map_err(|_| Error::permanent(format!("{text}: not an address")))
    }

    /// Returns the address that a response names.
    pub(crate) fn location_uri(&self, reply: &Reply) -> Result<Uri, Error> {
        redirect_target(&reply.uri, reply.headers.get(LOCATION), &self.client.insecure)
    }

    /// Sends a GET for a path in the repository.
    pub(crate) async fn get(
        &mut self,
        path: &str,
        accept: &'static str,
        most: usize,
    ) -> Result<Reply, Error> {
        let uri = self.uri(path)?;
        let accept = Some(accept);
        self.call(&Call {
            method: Method::GET,
            uri,
            accept,
            content_type: None,
            body: Bytes::new(),
            max_bytes: most,
        })
        .await
    }

    /// Repeats a request until its result is final, within the limits.
    pub(crate) async fn call(&mut self, call: &Call) -> Result<Reply, Error> {
        let limits = self.client.limits;
        let mut wait = limits.initial_backoff;
        let mut attempt = 1;
        loop {
            let error = match self.call_once(call).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !error.is_transient() {
                return Err(error);
            }
            let after = error.retry_after();
            if attempt >= limits.max_attempts {
                return Err(error.with_subject(&format!("{attempt} attempts")));
            }
            if after.is_some_and(|after| after > limits.max_retry_wait) {
                return Err(error);
            }
            tracing::debug!(registry = self.reference.host(), %error, "trying again");
            tokio::time::sleep(after.unwrap_or(Duration::ZERO).max(with_jitter(wait))).await;
            wait = wait.saturating_mul(2);
            attempt += 1;
        }
    }

    /// Sends a request once, and follows redirects.
    async fn call_once(&mut self, call: &Call) -> Result<Reply, Error> {
        let limits = self.client.limits;
        // An upload needs time before the response starts; the total time limits it.
        let patience =
            if call.body.is_empty() { limits.progress_timeout } else { limits.total_timeout };
        let mut uri = call.uri.clone();
        let (mut redirects, mut is_asked) = (0, false);
        loop {
            let is_home = is_same_origin(&uri, &self.registry_uri);
            let mut request = Request::builder().method(call.method.clone()).uri(&uri);
            for (name, text) in [(ACCEPT, call.accept), (CONTENT_TYPE, call.content_type)] {
                if let Some(text) = text {
                    request = request.header(name, text);
                }
            }
            if is_home && let Some(authorization) = &self.authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            let request = request.body(Full::new(call.body.clone()));
            let request = request.map_err(|error| Error::permanent(error.to_string()))?;
            let answer = self.client.transport.send(request, patience).await?;
            if answer.status == StatusCode::UNAUTHORIZED && is_home && !is_asked {
                is_asked = true;
                self.authorization = Some(self.authorize(&answer.headers).await?);
                continue;
            }
            if is_redirect(answer.status) {
                if call.method != Method::GET && call.method != Method::HEAD {
                    let (status, method) = (answer.status, &call.method);
                    return Err(Error::permanent(format!(
                        "the registry answers {status} to {method}: no upload is redirected"
                    )));
                }
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(Error::permanent(format!("more than {MAX_REDIRECTS} redirects")));
                }
                uri = redirect_target(&uri, answer.headers.get(LOCATION), &self.client.insecure)?;
                continue;
            }
            return self.reply(answer, call, uri, is_home).await;
        }
    }

    async fn reply(
        &self,
        answer: StreamingResponse,
        call: &Call,
        uri: Uri,
        is_home: bool,
    ) -> Result<Reply, Error> {
        let status = answer.status;
        if status.is_success() {
            let headers = answer.headers.clone();
            // The response to HEAD states the length of a body that it does not have.
            let is_head = call.method == Method::HEAD;
            let body = if is_head { Vec::new() } else { answer.read(call.max_bytes).await? };
            return Ok(Reply { headers, body, uri });
        }
        let after = retry_after(&answer.headers, SystemTime::now());
        // opgate quotes only the registry itself: the registry chose the other hosts.
        let said = if is_home { error_text(answer).await } else { String::new() };
        let host = uri.host().unwrap_or_default();
        let why = format!("{host}: {status}{said}");
        Err(match status.as_u16() {
            404 => Error::not_found(format!(
                "{why}: it has no such thing, or does not show it to who asks"
            )),
            401 | 403 => {
                let from = self.client.credentials.source();
                let who = match self.client.credentials.of(&self.reference) {
                    Ok(Some(_)) => format!("the credentials from {from} do not suffice"),
                    _ => format!("no credentials for {} in {from}", self.reference.host()),
                };
                Error::permanent(format!("{why}: {who}"))
            }
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Error::transient_after(why, after),
            _ => Error::permanent(why),
        })
    }

    /// Returns the `Authorization` that the registry requires.
    async fn authorize(&self, headers: &HeaderMap) -> Result<HeaderValue, Error> {
        let login = self.client.credentials.of(&self.reference)?;
        let host = self.reference.host();
        match Challenge::of(headers) {
            Some(Challenge::Basic) => {
                let Some(Login::Password { username, password }) = login else {
                    let from = self.client.credentials.source();
                    return Err(Error::permanent(format!(
                        "{host} wants a name and a password, and there are none for it in {from}: log in, or name a file with --registry-config"
                    )));
                };
                let mut basic = header_value(&Login::basic(username, password))?;
                basic.set_sensitive(true);
                Ok(basic)
            }
            Some(Challenge::Bearer { realm: text, service }) => {
                // The credentials of a registry with TLS go only to a realm with TLS.
                let is_plain = self.registry_uri.scheme_str() == Some("http");
                let uri = parse_realm(&text, |host| {
                    is_plain && is_insecure_host(&self.client.insecure, host)
                });
                let uri = uri.map_err(|why| Error::permanent(format!("{host}: {why}")))?;
                let scope =
                    format!("repository:{}:{}", self.reference.repository(), self.scope_actions);
                let realm = token::Realm { uri: &uri, service: service.as_deref() };
                token::fetch(&self.client.transport, &self.client.limits, realm, &scope, login)
                    .await
            }
            None => Err(Error::permanent(format!(
                "{host}: 401, and it does not say how to authenticate"
            ))),
        }
    }
}

/// Returns the first error of a registry's response, in parentheses.
async fn error_text(answer: StreamingResponse) -> String {
    let Ok(bytes) = answer.read(MAX_ERROR_BYTES).await else { return String::new() };
    let refusals: Option<ErrorResponse> = serde_json::from_slice(&bytes).ok();
    let first = refusals.and_then(|refusals| refusals.errors.into_iter().next());
    let Some(ErrorDetail { code, message }) = first else { return String::new() };
    let text = [code, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    format!(" ({})", opgate_text::one_line(&text, 200))
}

/// Returns the time of `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

/// Shortens a wait by a random part of at most a quarter, so that replicas do not retry all at once.
fn with_jitter(wait: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness, all replicas wait for the maximum.
    let _ = aws_lc_rs::rand::fill(&mut random);
    wait.mul_f64(1.0 - f64::from(random[0]) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_parsed() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("3", Some(3)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:42 GMT", Some(5)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", None),
            ("soon", None),
            ("-1", None),
        ] {
            let headers =
                HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            assert_eq!(retry_after(&headers, now).map(|time| time.as_secs()), seconds, "{text}");
        }
    }
}
