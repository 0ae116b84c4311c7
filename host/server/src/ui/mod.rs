//! `/ui/` of the ops port: a read-only page for administrators, off by default.
//!
//! ```text
//! Review, Decision ─▶ ReportedReview ─▶ ReviewLog (1 MiB, one hour) ─┐ copy
//! response time ───▶ ResponseTimes ──────────────────────────────────┤
//! InstallationSource: replicas, audit ───────────────────────────────┤
//! ServerStatus of the app ───────────────────────────────────────────┴▶ overview, rules ─▶ opgate-ui ─▶ response
//! ```
//!
//! A page is rendered for each request, without locks and in limited time: pages are limited in a second, and in
//! the bytes that wait for their clients.

mod audit;
mod cells;
mod installation;
mod overview;
mod reported_review;
mod response_times;
mod review_log;
mod review_reads;
mod table_limits;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use opgate_admission::policy::{Decision, PolicySet};
use opgate_admission::review::Review;
use opgate_document::{Account, Charge};
use opgate_ui::{
    HostError, NavLink, Page, RuleFilter, content_security_policy, parameter, render_list,
    render_rule, set_headers,
};

pub use self::installation::{
    AuditCount, AuditState, AuditSummary, InstallationSource, ReplicaOverview, ReplicaSummary,
    UiOptions,
};
pub(super) use self::overview::ServerStatus;
use self::reported_review::ReportedReview;
use self::response_times::ResponseTimes;
use self::review_log::ReviewLog;
pub(super) use self::review_reads::ReviewReads;
use super::bucket::TokenBucket;
use super::request_memory::ResponseCharge;

/// Maximum bytes of a page, and of all pages whose clients have not received them.
const MAX_PAGE_BYTES: usize = 512 << 10;
const MAX_UNSENT_BYTES: usize = 4 << 20;

/// Maximum number of pages that are rendered at once, and in a second. A browser requests one a second.
const MAX_PAGES_AT_ONCE: u64 = 30;
const MAX_PAGES_PER_SECOND: u64 = 15;

/// Replaces the content of the overview while it is visible.
const SCRIPT: &str = include_str!("script.js");

static SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| content_security_policy(SCRIPT));

/// A page and its position in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageKind {
    /// `/ui/`, whose content is replaced each second.
    Overview,
    /// `/ui/rules`.
    Rules,
    /// `/ui/rules/ID`.
    Rule,
}

/// What the pages show in addition to the state of the server.
#[derive(Debug)]
pub(super) struct Ui {
    reviews: ReviewLog,
    times: ResponseTimes,
    options: UiOptions,
    pages: TokenBucket,
    unsent: Arc<Account>,
}

impl Ui {
    pub(super) fn new(options: UiOptions) -> Self {
        Self {
            reviews: ReviewLog::default(),
            times: ResponseTimes::default(),
            options,
            pages: TokenBucket::new(MAX_PAGES_AT_ONCE, MAX_PAGES_PER_SECOND),
            unsent: Account::new(MAX_UNSENT_BYTES),
        }
    }

    /// Rejects a request that names another host than those of the page.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        self.options.hosts.check(headers).map_err(|error| {
            let text = match error {
                HostError::Missing => html! { p { "The request needs one Host header." } },
                HostError::Unknown(host) => html! {
                    p { "This page is not known by the name " code { (host) } "." }
                    p {
                        "Open it by " code { "localhost" } " or an IP address, or start the server with "
                        code { "--ui-host NAME" } "."
                    }
                },
            };
            Box::new(page_response(StatusCode::MISDIRECTED_REQUEST, text.into_string()))
        })
    }

    /// Records a decision and the objects that it depends on, if a policy has reported a violation or failed.
    pub(super) fn record_decision(
        &self,
        review: &Review<'_>,
        decision: &Decision,
        reads: &ReviewReads,
    ) {
        let now = SystemTime::now();
        if let Some(reported) = ReportedReview::of(review, decision, reads, now) {
            self.reviews.record(reported, now);
        }
    }

    /// Records the time of a response of the webhook port.
    pub(super) fn record_response(&self, time: Duration) {
        self.times.record(time);
    }

    /// Responds with `/ui/`; for the query `fragment`, with the content of its `main`.
    pub(super) fn overview(&self, status: &ServerStatus<'_>, query: Option<&str>) -> Response {
        self.respond(|| {
            let quantiles = [50, 99].map(|percent| self.times.quantile(percent));
            let reported = self.reviews.by_tenant(SystemTime::now());
            let installation = self.options.installation.as_deref();
            let content = overview::render_overview(status, quantiles, &reported, installation);
            if parameter(query, "fragment").is_some() {
                return (StatusCode::OK, content);
            }
            (StatusCode::OK, render_page(PageKind::Overview, "Overview", &content))
        })
    }

    /// Responds with the rules that a query selects.
    pub(super) fn rules(&self, set: &PolicySet, query: Option<&str>) -> Response {
        self.respond(|| {
            let content = render_list(set, &RuleFilter::of(query));
            (StatusCode::OK, render_page(PageKind::Rules, "Rules", &content))
        })
    }

    /// Responds with one rule.
    pub(super) fn rule(&self, set: &PolicySet, id: &str) -> Response {
        self.respond(|| {
            if let Some(content) = render_rule(set, id) {
                return (StatusCode::OK, render_page(PageKind::Rule, id, &content));
            }
            let content = html! {
                h1 { "No such rule" }
                p { "No active policy has a rule with this id. " a href="../rules" { "All rules" } }
            };
            (StatusCode::NOT_FOUND, render_page(PageKind::Rule, "No such rule", &content))
        })
    }

    /// Responds with a page, unless there are too many.
    fn respond(&self, render: impl FnOnce() -> (StatusCode, Markup)) -> Response {
        let charge = Charge::on(&self.unsent);
        if !charge.try_grow(MAX_PAGE_BYTES) || !self.pages.try_take(1, Instant::now()) {
            let text = html! { p { "Too many requests for pages: try again in a second." } };
            let mut response = page_response(StatusCode::SERVICE_UNAVAILABLE, text.into_string());
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
        let (code, page) = render();
        let text = page.into_string();
        if text.len() > MAX_PAGE_BYTES {
            let text = html! { p { "The page is too large." } };
            return page_response(StatusCode::INTERNAL_SERVER_ERROR, text.into_string());
        }
        charge.shrink(MAX_PAGE_BYTES - text.len());
        let mut response = page_response(code, text);
        response.extensions_mut().insert(ResponseCharge::for_charge(Some(Arc::new(charge))));
        response
    }
}

fn page_response(code: StatusCode, text: String) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = code;
    set_headers(response.headers_mut(), &SECURITY_POLICY, "no-referrer");
    response
}

/// Renders a page around the content of its `main`.
fn render_page(kind: PageKind, title: &str, content: &Markup) -> Markup {
    let is_overview = kind == PageKind::Overview;
    let (root, rules) =
        if kind == PageKind::Rule { ("../", "../rules") } else { ("./", "./rules") };
    let links = [
        NavLink { href: root, text: "Overview", is_current: is_overview },
        NavLink { href: rules, text: "Rules", is_current: kind == PageKind::Rules },
    ];
    let controls = html! {
        div.controls {
            span #state role="status" {}
            button #pause type="button" hidden { "Pause updates" }
        }
    };
    let page = Page {
        title,
        links: &links,
        controls: is_overview.then_some(controls),
        script: is_overview.then_some(SCRIPT),
    };
    page.render(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_are_limited_until_they_are_sent() {
        let ui = Ui::new(UiOptions::default());
        let render =
            |bytes: usize| ui.respond(|| (StatusCode::OK, maud::PreEscaped("x".repeat(bytes))));
        assert_eq!(render(MAX_PAGE_BYTES + 1).status(), StatusCode::INTERNAL_SERVER_ERROR);
        let mut unsent: Vec<_> = (0..8).map(|_| render(MAX_PAGE_BYTES)).collect();
        assert!(unsent.iter().all(|response| response.status() == StatusCode::OK));
        assert_eq!(render(1).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(unsent.pop());
        assert_eq!(render(1).status(), StatusCode::OK);
        drop(unsent);
        let responses: Vec<_> = (0..MAX_PAGES_AT_ONCE).map(|_| render(1).status()).collect();
        assert!(responses.contains(&StatusCode::SERVICE_UNAVAILABLE), "{responses:?}");
    }
}
