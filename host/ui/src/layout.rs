//! The frame of all pages: head, navigation, and the headers that restrict a page in a browser.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style that pages and HTML reports share: colors, texts, tables.
pub const BASE_STYLE: &str = include_str!("base.css");

/// The style of pages.
const PAGE_STYLE: &str = concat!(include_str!("base.css"), include_str!("page.css"));

/// A link of the navigation.
#[derive(Debug, Clone, Copy)]
pub struct NavLink<'l> {
    /// The address. Links are relative, so that a proxy can add a prefix.
    pub href: &'l str,
    /// The text.
    pub text: &'l str,
    /// Whether it leads to this page.
    pub is_current: bool,
}

/// A page around its content.
#[derive(Debug)]
pub struct Page<'p> {
    /// The title, without the name of the program.
    pub title: &'p str,
    /// The navigation.
    pub links: &'p [NavLink<'p>],
    /// Elements at the end of the header.
    pub controls: Option<Markup>,
    /// The script of the page.
    pub script: Option<&'p str>,
}

impl Page<'_> {
    /// Renders the page around the content of its `main`.
    #[must_use]
    pub fn render(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    // A browser requests an icon otherwise.
                    link rel="icon" href="data:,";
                    title { (self.title) " – opgate" }
                    style { (PreEscaped(PAGE_STYLE)) }
                }
                body {
                    a.skip href="#main" { "Skip to content" }
                    header {
                        p.brand { "opgate" }
                        nav aria-label="Pages" {
                            @for link in self.links {
                                a href=(link.href) aria-current=[link.is_current.then_some("page")] { (link.text) }
                            }
                        }
                        @if let Some(controls) = &self.controls { (controls) }
                    }
                    main #main tabindex="-1" { (content) }
                    footer { p { "opgate " (env!("CARGO_PKG_VERSION")) } }
                    @if let Some(script) = self.script { script { (PreEscaped(script)) } }
                }
            }
        }
    }
}

/// Returns a policy by which a browser loads nothing but an empty icon, and applies only the style of pages and this
/// script.
#[must_use]
pub fn content_security_policy(script: &str) -> String {
    let source = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        source(PAGE_STYLE),
        source(script)
    )
}

/// Sets the headers of a page: its [`content_security_policy`], and the origins that learn its address.
pub fn set_headers(headers: &mut HeaderMap, security_policy: &str, referrer: &'static str) {
    let fixed = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, referrer),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Base64 has only characters that a header can have.
    if let Ok(policy) = HeaderValue::from_str(security_policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
}
