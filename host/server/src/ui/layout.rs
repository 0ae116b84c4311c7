//! The frame of all pages: head, navigation, and the headers that restrict the page in a browser.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Replaces the content of the page while it is visible.
const SCRIPT: &str = include_str!("script.js");

/// A browser loads nothing, and applies only the style and the script of the page.
static SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let source = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        source(STYLE),
        source(SCRIPT)
    )
});

/// A page and its place in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// `/ui/`, whose content is replaced each second.
    Overview,
    /// `/ui/rules`.
    Rules,
    /// `/ui/rules/ID`.
    Rule,
}

impl PageKind {
    /// The path from this page to `/ui/`. Links are relative, so that a proxy can add a prefix.
    fn root(self) -> &'static str {
        match self {
            Self::Overview | Self::Rules => "./",
            Self::Rule => "../",
        }
    }
}

/// Renders a page around the content of its `main`.
pub(super) fn render_page(kind: PageKind, title: &str, content: &Markup) -> Markup {
    let root = kind.root();
    let current = |page| (kind == page).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – opgate" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    p.brand { "opgate" }
                    nav aria-label="Pages" {
                        a href=(root) aria-current=[current(PageKind::Overview)] { "Overview" }
                        a href={ (root) "rules" } aria-current=[current(PageKind::Rules)] { "Rules" }
                    }
                    @if kind == PageKind::Overview {
                        div.refresh {
                            span #state role="status" {}
                            button #pause type="button" hidden { "Pause updates" }
                        }
                    }
                }
                main #main tabindex="-1" { (content) }
                footer { p { "opgate " (env!("CARGO_PKG_VERSION")) } }
                @if kind == PageKind::Overview { script { (PreEscaped(SCRIPT)) } }
            }
        }
    }
}

/// Sets the headers of a page.
pub(super) fn set_headers(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Base64 has only characters that a header can have.
    if let Ok(policy) = HeaderValue::from_str(&SECURITY_POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
}
