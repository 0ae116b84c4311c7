//! The page *Try it*: the input fields, and the result below them.

use std::sync::LazyLock;

use clap::ValueEnum as _;
use maud::{Markup, html};
use opgate_admission::policy::Profile;
use opgate_ui::{NavLink, Page, content_security_policy};

use super::evaluation::TryResult;
use super::request_guard::Token;
use super::upload::Upload;

/// Accepts dropped files, and shows the result without a new page.
const SCRIPT: &str = include_str!("script.js");

/// Maximum bytes of a text that a page repeats.
const MAX_REPEATED_BYTES: usize = 1 << 20;

/// The restrictions of all pages.
pub(super) static SECURITY_POLICY: LazyLock<String> =
    LazyLock::new(|| content_security_policy(SCRIPT));

/// The outcome of an input that was sent.
pub(super) enum Outcome {
    Result(TryResult),
    /// Why there is no result.
    Error(String),
}

/// Renders a page around the content of its `main`. `root` is the path from the page to *Try it*.
pub(super) fn render_page(root: &str, title: &str, is_form: bool, content: &Markup) -> Markup {
    let rules = format!("{root}rules");
    let links = [
        NavLink { href: root, text: "Try it", is_current: is_form },
        NavLink { href: &rules, text: "Rules", is_current: title == "Rules" },
    ];
    let controls = html! { div.controls { span #state role="status" {} } };
    let page = Page {
        title,
        links: &links,
        controls: is_form.then_some(controls),
        script: is_form.then_some(SCRIPT),
    };
    page.render(content)
}

/// Renders the input fields with the values that were sent, and the outcome.
pub(super) fn render_form_page(
    token: &Token,
    sent: &Upload<'_>,
    outcome: Option<&Outcome>,
) -> Markup {
    html! {
        h1 { "Try it" }
        p {
            "Evaluates manifests, bundles, catalogs and recorded AdmissionReviews as " code { "opgate check" }
            " does, on this machine. Nothing is kept or sent elsewhere."
        }
        form #try action="./" method="post" enctype="multipart/form-data" {
            input type="hidden" name="token" value=(token.as_str());
            div.wide {
                label for="text" { "Manifest or AdmissionReview, in YAML or JSON" }
                // A browser removes the first line break.
                textarea #text name="text" rows="12" spellcheck="false" autocomplete="off" { "\n" (repeated(sent.text)) }
                (render_omission(sent.text))
            }
            div.wide.drop #drop {
                (render_file_inputs())
            }
            (render_profiles(sent.profile))
            details.wide open[!sent.cluster_state.is_empty()] {
                summary { "Cluster state" }
                label for="cluster-state" {
                    "Objects of the cluster, as " code { "kubectl get -A -o yaml" } " prints them"
                }
                textarea #cluster-state name="state" rows="8" spellcheck="false" autocomplete="off" {
                    "\n" (repeated(sent.cluster_state))
                }
                (render_omission(sent.cluster_state))
            }
            button type="submit" { "Evaluate" }
        }
        section #result aria-labelledby="outcome" {
            @if let Some(outcome) = outcome { (render_outcome(outcome)) }
        }
    }
}

/// Returns a text that was sent, if it is small enough to be part of the page.
fn repeated(text: &str) -> &str {
    if text.len() > MAX_REPEATED_BYTES { "" } else { text }
}

fn render_omission(text: &str) -> Markup {
    html! {
        @if repeated(text).len() < text.len() {
            p.muted { "The text that you sent is too large to be repeated here." }
        }
    }
}

fn render_file_inputs() -> Markup {
    html! {
        div {
            label for="files" { "Files" }
            input #files type="file" name="files" multiple;
        }
        div {
            label for="directory" { "Directory, such as a bundle" }
            input #directory type="file" name="files" webkitdirectory;
        }
        p #dropped role="status" {}
        button #remove type="button" hidden { "Remove files" }
    }
}

fn render_profiles(selected: Option<Profile>) -> Markup {
    html! {
        div {
            label for="profile" { "Profile" }
            select #profile name="profile" {
                option value="" { "Of the configuration" }
                @for profile in Profile::value_variants() {
                    option value=(profile.as_str()) selected[Some(*profile) == selected] { (profile.as_str()) }
                }
            }
        }
    }
}

/// Renders the outcome.
pub(super) fn render_outcome(outcome: &Outcome) -> Markup {
    html! {
        @match outcome {
            Outcome::Result(result) => {
                h2 #outcome tabindex="-1" { "Result: " (result.headline) }
                (result.content)
            },
            Outcome::Error(error) => {
                h2 #outcome tabindex="-1" { "Not evaluated" }
                p.deny.message role="alert" { (opgate_text::html::visible(error)) }
            },
        }
    }
}
