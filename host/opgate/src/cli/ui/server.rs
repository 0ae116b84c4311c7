//! The HTTP server of `opgate ui`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use bytes::Bytes;
use http_body_util::LengthLimitError;
use maud::{Markup, html};
use opgate_admission::policy::PolicySet;
use opgate_ui::{RuleFilter, render_list, render_rule, set_headers};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use super::evaluation::TryEvaluator;
use super::form::{Outcome, SECURITY_POLICY, render_form_page, render_outcome, render_page};
use super::request_guard::{Token, check_host, check_origin};
use super::upload::{MAX_BODY_BYTES, Upload};

/// Time limit of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum bytes of a page.
const MAX_PAGE_BYTES: usize = 8 << 20;

/// Stack of the thread of an evaluation: the parsers of documents recurse.
const STACK_BYTES: usize = 32 << 20;

/// The state of all requests.
pub(super) struct LocalPage {
    set: PolicySet,
    token: Token,
    evaluator: Arc<Mutex<TryEvaluator>>,
    /// One body and one evaluation at a time.
    permit: Arc<Semaphore>,
}

impl LocalPage {
    /// Creates the page.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(set: PolicySet, evaluator: TryEvaluator) -> Result<Arc<Self>, Unspecified> {
        let (evaluator, permit) = (Arc::new(Mutex::new(evaluator)), Arc::new(Semaphore::new(1)));
        Ok(Arc::new(Self { set, token: Token::create()?, evaluator, permit }))
    }

    /// Returns the routes.
    pub(super) fn router(self: &Arc<Self>) -> Router {
        let form = |State(page): State<Arc<Self>>, request: Request| async move {
            answer(request.headers(), || {
                let content = render_form_page(&page.token, &Upload::default(), None);
                (StatusCode::OK, render_page("./", "Try it", true, &content))
            })
        };
        let evaluate = |State(page): State<Arc<Self>>, request: Request| async move {
            page.evaluate(request).await
        };
        let rules = |State(page): State<Arc<Self>>, request: Request| async move {
            answer(request.headers(), || {
                let content = render_list(&page.set, &RuleFilter::of(request.uri().query()));
                (StatusCode::OK, render_page("./", "Rules", false, &content))
            })
        };
        let rule = |State(page): State<Arc<Self>>, Path(id): Path<String>, request: Request| async move {
            answer(request.headers(), || page.rule(&id))
        };
        let elsewhere = |request: Request| async move {
            answer(request.headers(), || (StatusCode::NOT_FOUND, no_such_page()))
        };
        Router::new()
            .route("/", get(form).post(evaluate))
            .route("/rules", get(rules))
            .route("/rules/{id}", get(rule))
            .fallback(elsewhere)
            .with_state(self.clone())
    }

    fn rule(&self, id: &str) -> (StatusCode, Markup) {
        let page =
            |code, title: &str, content: &Markup| (code, render_page("../", title, false, content));
        match render_rule(&self.set, id) {
            Some(content) => page(StatusCode::OK, id, &content),
            None => (StatusCode::NOT_FOUND, no_such_page()),
        }
    }

    /// Evaluates the input of a request. The query `fragment` asks for the outcome without the page around it.
    async fn evaluate(self: &Arc<Self>, request: Request) -> Response<Body> {
        let headers = request.headers().clone();
        let is_fragment = request.uri().query() == Some("fragment");
        if let Err(error) = check_host(&headers).and_then(|()| check_origin(&headers)) {
            // Without the input fields: the token is for this page only.
            let page = if is_fragment {
                render_outcome(&Outcome::Error(error.to_string()))
            } else {
                html! { p { (error) } }
            };
            return respond(StatusCode::FORBIDDEN, page);
        }
        let Ok(permit) = self.permit.clone().try_acquire_owned() else {
            let error = "another input is being evaluated: try again when it is done".to_owned();
            let code = StatusCode::SERVICE_UNAVAILABLE;
            return self.respond(code, is_fragment, &Upload::default(), &Outcome::Error(error));
        };
        let body = match read_body(request.into_body()).await {
            Ok(body) => body,
            Err((code, error)) => {
                return self.respond(code, is_fragment, &Upload::default(), &Outcome::Error(error));
            }
        };
        let (sender, response) = oneshot::channel();
        let page = self.clone();
        let work = move || {
            let response = page.evaluate_body(&headers, &body, is_fragment);
            // The client can send the next input as soon as it has the response.
            drop(permit);
            // The receiver is gone if the client is.
            let _ = sender.send(response);
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
        if let (Ok(_), Ok(response)) = (thread, response.await) {
            return response;
        }
        let error = "the evaluation failed: see the output of the command".to_owned();
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        self.respond(code, is_fragment, &Upload::default(), &Outcome::Error(error))
    }

    fn evaluate_body(&self, headers: &HeaderMap, body: &[u8], is_fragment: bool) -> Response<Body> {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let upload = Upload::parse(kind.unwrap_or_default(), body, |token| self.token.is(token));
        let upload = match upload {
            Ok(upload) => upload,
            Err(error) => {
                let outcome = Outcome::Error(error.to_string());
                let code = StatusCode::BAD_REQUEST;
                return self.respond(code, is_fragment, &Upload::default(), &outcome);
            }
        };
        match self.evaluator.lock().evaluate(&upload) {
            Ok(result) => {
                self.respond(StatusCode::OK, is_fragment, &upload, &Outcome::Result(result))
            }
            Err(error) => {
                let outcome = Outcome::Error(format!("{error:#}"));
                self.respond(StatusCode::UNPROCESSABLE_ENTITY, is_fragment, &upload, &outcome)
            }
        }
    }

    fn respond(
        &self,
        code: StatusCode,
        is_fragment: bool,
        sent: &Upload<'_>,
        outcome: &Outcome,
    ) -> Response<Body> {
        if is_fragment {
            return respond(code, render_outcome(outcome));
        }
        let content = render_form_page(&self.token, sent, Some(outcome));
        respond(code, render_page("./", "Try it", true, &content))
    }
}

/// Responds with a page, if the request names this host.
fn answer(headers: &HeaderMap, render: impl FnOnce() -> (StatusCode, Markup)) -> Response<Body> {
    match check_host(headers) {
        Ok(()) => {
            let (code, page) = render();
            respond(code, page)
        }
        Err(error) => respond(StatusCode::MISDIRECTED_REQUEST, html! { p { (error) } }),
    }
}

/// Reads a body of limited size in limited time.
async fn read_body(body: Body) -> Result<Bytes, (StatusCode, String)> {
    let read = axum::body::to_bytes(body, MAX_BODY_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if !is_limit(&error) => {
            let text = format!("the input did not arrive completely: send it again: {error}");
            Err((StatusCode::BAD_REQUEST, text))
        }
        Ok(Err(_)) => {
            let limit = opgate_text::units::bytes(MAX_BODY_BYTES);
            let text = format!("the input has more than {limit}: use `opgate check` for it");
            Err((StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Err(_) => {
            Err((StatusCode::REQUEST_TIMEOUT, "the input took too long: send it again".to_owned()))
        }
    }
}

/// Whether a body has too many bytes.
fn is_limit(error: &axum::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<LengthLimitError>)
}

fn no_such_page() -> Markup {
    html! { p { "There is no such page. " a href="/" { "Try it" } " or " a href="/rules" { "browse the rules" } "." } }
}

fn respond(code: StatusCode, page: Markup) -> Response<Body> {
    let mut text = page.into_string();
    let mut code = code;
    if text.len() > MAX_PAGE_BYTES {
        let limit = "the result is too large for a page: use `opgate check`".to_owned();
        let page = render_outcome(&Outcome::Error(limit));
        (code, text) = (StatusCode::INSUFFICIENT_STORAGE, page.into_string());
    }
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    // The inputs of this page have an Origin header, which `no-referrer` would remove.
    set_headers(response.headers_mut(), &SECURITY_POLICY, "same-origin");
    response
}
