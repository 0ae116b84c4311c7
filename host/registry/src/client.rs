//! Requests to the API of a registry: who asks, and when to try again.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;

use crate::challenge::{Challenge, realm};
use crate::credentials::Login;
use crate::redirect::{is_named, is_redirect, is_same, next};
use crate::transport::{Answer, Transport, value};
use crate::{Credentials, Error, Limits, Reference, token};

/// How often an answer may lead elsewhere.
const MAX_REDIRECTS: usize = 5;
/// Bytes of an error of a registry.
const MAX_ERROR: usize = 16 << 10;

/// Registries, and who asks.
#[derive(Debug)]
pub(crate) struct Client {
    transport: Transport,
    credentials: Credentials,
    insecure: BTreeSet<String>,
    limits: Limits,
}

/// A conversation about one repository.
pub(crate) struct Session<'c> {
    client: &'c Client,
    reference: Reference,
    /// `pull`, or `pull,push`.
    access: &'static str,
    /// Scheme and authority of the registry.
    home: Uri,
    authorization: Option<HeaderValue>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) accept: Option<&'static str>,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    /// Bytes of the answer.
    pub(crate) most: usize,
}

/// What is answered: a success.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Where it came from.
    pub(crate) uri: Uri,
}

#[derive(Deserialize)]
struct Refusals {
    errors: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
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
        let host = reference.api();
        let scheme = if is_named(&self.insecure, host) { "http" } else { "https" };
        let home = format!("{scheme}://{host}").parse();
        let home = home.map_err(|_| Error::lasting(format!("{host}: not a host")))?;
        Ok(Session {
            client: self,
            reference: reference.clone(),
            access,
            home,
            authorization: None,
        })
    }
}

impl Session<'_> {
    /// An address in the repository.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        let host = self.home.to_string();
        let text =
            format!("{}/v2/{}/{path}", host.trim_end_matches('/'), self.reference.repository());
        text.parse().map_err(|_| Error::lasting(format!("{text}: not an address")))
    }

    /// An address that an answer names.
    pub(crate) fn named(&self, reply: &Reply) -> Result<Uri, Error> {
        next(&reply.uri, reply.headers.get(LOCATION), &self.client.insecure)
    }

    /// GET of a path in the repository.
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
            most,
        })
        .await
    }

    /// Asks until there is an answer that lasts, within bounds.
    pub(crate) async fn call(&mut self, call: &Call) -> Result<Reply, Error> {
        let limits = self.client.limits;
        let mut wait = limits.backoff;
        let mut attempt = 1;
        loop {
            let error = match self.once(call).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !error.is_passing() {
                return Err(error);
            }
            let after = error.after();
            if attempt >= limits.attempts {
                return Err(error.about(&format!("{attempt} attempts")));
            }
            if after.is_some_and(|after| after > limits.longest_wait) {
                return Err(error);
            }
            tracing::debug!(registry = self.reference.host(), %error, "trying again");
            tokio::time::sleep(after.unwrap_or(Duration::ZERO).max(less(wait))).await;
            wait = wait.saturating_mul(2);
            attempt += 1;
        }
    }

    /// Asks once, wherever that leads.
    async fn once(&mut self, call: &Call) -> Result<Reply, Error> {
        let limits = self.client.limits;
        // What is sent takes its time; the time for all of it is a bound as well.
        let patience = if call.body.is_empty() { limits.progress } else { limits.total };
        let mut uri = call.uri.clone();
        let (mut redirects, mut is_asked) = (0, false);
        loop {
            let is_home = is_same(&uri, &self.home);
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
            let request = request.map_err(|error| Error::lasting(error.to_string()))?;
            let answer = self.client.transport.send(request, patience).await?;
            if answer.status == StatusCode::UNAUTHORIZED && is_home && !is_asked {
                is_asked = true;
                self.authorization = Some(self.authorize(&answer.headers).await?);
                continue;
            }
            if is_redirect(answer.status) {
                if call.method != Method::GET && call.method != Method::HEAD {
                    let (status, method) = (answer.status, &call.method);
                    return Err(Error::lasting(format!(
                        "the registry answers {status} to {method}: no upload is redirected"
                    )));
                }
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(Error::lasting(format!("more than {MAX_REDIRECTS} redirects")));
                }
                uri = next(&uri, answer.headers.get(LOCATION), &self.client.insecure)?;
                continue;
            }
            return self.reply(answer, call, uri, is_home).await;
        }
    }

    async fn reply(
        &self,
        answer: Answer,
        call: &Call,
        uri: Uri,
        is_home: bool,
    ) -> Result<Reply, Error> {
        let status = answer.status;
        if status.is_success() {
            let headers = answer.headers.clone();
            // The answer to HEAD states the length of what it does not have.
            let is_head = call.method == Method::HEAD;
            let body = if is_head { Vec::new() } else { answer.read(call.most).await? };
            return Ok(Reply { headers, body, uri });
        }
        let after = retry_after(&answer.headers, SystemTime::now());
        // Only the registry itself is quoted: other hosts were chosen by it.
        let said = if is_home { said(answer).await } else { String::new() };
        let host = uri.host().unwrap_or_default();
        let why = format!("{host}: {status}{said}");
        Err(match status.as_u16() {
            404 => Error::missing(format!(
                "{why}: it has no such thing, or does not show it to who asks"
            )),
            401 | 403 => {
                let from = self.client.credentials.named();
                let who = match self.client.credentials.of(&self.reference) {
                    Ok(Some(_)) => format!("the credentials from {from} do not suffice"),
                    _ => format!("no credentials for {} in {from}", self.reference.host()),
                };
                Error::lasting(format!("{why}: {who}"))
            }
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Error::passing_after(why, after),
            _ => Error::lasting(why),
        })
    }

    /// What the registry wants to see.
    async fn authorize(&self, headers: &HeaderMap) -> Result<HeaderValue, Error> {
        let login = self.client.credentials.of(&self.reference)?;
        let host = self.reference.host();
        match Challenge::of(headers) {
            Some(Challenge::Basic) => {
                let Some(Login::Password { username, password }) = login else {
                    let from = self.client.credentials.named();
                    return Err(Error::lasting(format!(
                        "{host} wants a name and a password, and there are none for it in {from}: log in, or name a file with --registry-config"
                    )));
                };
                let mut basic = value(&Login::basic(username, password))?;
                basic.set_sensitive(true);
                Ok(basic)
            }
            Some(Challenge::Bearer { realm: text, service }) => {
                // Credentials of a registry with TLS stay with it.
                let is_plain = self.home.scheme_str() == Some("http");
                let uri = realm(&text, |host| is_plain && is_named(&self.client.insecure, host));
                let uri = uri.map_err(|why| Error::lasting(format!("{host}: {why}")))?;
                let scope = format!("repository:{}:{}", self.reference.repository(), self.access);
                let whom = (&uri, service.as_deref());
                token::fetch(&self.client.transport, &self.client.limits, whom, &scope, login).await
            }
            None => {
                Err(Error::lasting(format!("{host}: 401, and it does not say how to authenticate")))
            }
        }
    }
}

/// What a registry says of a refusal, in parentheses.
async fn said(answer: Answer) -> String {
    let Ok(bytes) = answer.read(MAX_ERROR).await else { return String::new() };
    let refusals: Option<Refusals> = serde_json::from_slice(&bytes).ok();
    let first = refusals.and_then(|refusals| refusals.errors.into_iter().next());
    let Some(Refusal { code, message }) = first else { return String::new() };
    let text = [code, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    format!(" ({})", opgate_text::one_line(&text, 200))
}

/// The time that a registry asks for: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

/// A wait without a random part of at most a quarter, so that replicas do not return all at once.
fn less(wait: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness, all wait for the maximum.
    let _ = aws_lc_rs::rand::fill(&mut random);
    wait.mul_f64(1.0 - f64::from(random[0]) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_read() {
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
