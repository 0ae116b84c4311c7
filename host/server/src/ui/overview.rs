//! `/ui/`: what the server does now.
//!
//! All texts of clients, policies and the cluster are bounded, so that each row has a limited size, and each
//! table has a limit of its rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};
use opgate_admission::policy::{BrokenPolicy, Effect, Policy, PolicySet};
use opgate_text::html::{docs_section, visible_line};
use opgate_ui::Table;

use super::audit::render_audit;
use super::cells::{duration, rule_link, time};
use super::installation::{InstallationSource, ReplicaOverview, ReplicaSummary};
use super::reported_review::{Outcome, ReportedReview, ReportedViolation};
use super::review_log::{LogTenant, TenantReviews, order_fairly};
use super::table_limits;
use crate::active_set::ActivePolicySet;
use crate::metrics::RequestTotals;
use crate::state::{ClusterStatus, ResourceCacheStatus, ResourceState};

/// Maximum number of reviews on the page.
const MAX_SHOWN_REVIEWS: usize = 200;

/// Maximum number of reasons why the server is not ready.
const MAX_REASONS: usize = 8;

/// Maximum bytes of a text.
const MAX_TEXT_BYTES: usize = 1 << 10;

/// Maximum bytes of the remediation next to a violation.
const MAX_FIX_BYTES: usize = 256;

/// The server, as the page shows it.
pub(crate) struct ServerStatus<'s> {
    pub(crate) serving: &'s ActivePolicySet,
    /// The reasons why the server is not ready.
    pub(crate) not_ready: Vec<String>,
    /// The state of the webhook registration, if the server reads it.
    pub(crate) registration: Option<String>,
    pub(crate) totals: RequestTotals,
    /// Used bytes of the memory for requests, and their limit.
    pub(crate) request_memory: (usize, usize),
}

/// The median of the response times, and the time of 99 %.
pub(super) type Quantiles = [Option<Duration>; 2];

/// Renders the content of the page.
pub(super) fn render_overview(
    status: &ServerStatus<'_>,
    quantiles: Quantiles,
    reported: &[TenantReviews],
    installation: Option<&dyn InstallationSource>,
) -> Markup {
    let active = status.serving.current();
    let set = &active.set;
    let replicas = installation.map(InstallationSource::replicas);
    html! {
        h1 { "What the server does now" }
        (render_server(status, set, replicas.as_ref()))
        (render_reviews(reported, set))
        (render_counts(reported))
        (render_policies(set))
        @if let Some(installation) = installation { (render_audit(&installation.audit())) }
        (render_requests(status, quantiles, set))
        (render_policy_errors(&status.totals))
        (render_cluster(set))
        @if let Some(replicas) = &replicas { (render_replicas(replicas)) }
    }
}

fn render_server(
    status: &ServerStatus<'_>,
    set: &PolicySet,
    replicas: Option<&ReplicaOverview>,
) -> Markup {
    let active = status.serving.current();
    let broken = set.broken().len();
    html! {
        section aria-labelledby="server" {
            h2 #server { "Server" }
            dl {
                dt { "State" }
                dd {
                    @if status.not_ready.is_empty() {
                        span.good { "ready" }
                    } @else {
                        span.deny { "not ready" }
                        ul {
                            @for reason in status.not_ready.iter().take(MAX_REASONS) {
                                li { (visible_line(reason, MAX_TEXT_BYTES)) }
                            }
                            @if status.not_ready.len() > MAX_REASONS { li { "and others" } }
                        }
                    }
                }
                dt { "Policies" }
                dd {
                    (set.policies().len()) " active"
                    @if broken > 0 { ", " span.deny { (broken) " broken" } }
                }
                dt { "Configuration" }
                dd { code { (short_digest(&active.configuration)) } " since " (time(active.since)) }
                @if let Some(error) = status.serving.last_error() {
                    dt { "Last reload" }
                    dd {
                        span.deny { "failed; the last good configuration is active: " }
                        (visible_line(&error, MAX_TEXT_BYTES))
                    }
                }
                dt { "Platform" }
                dd { (visible_line(&set.trust().to_string(), MAX_TEXT_BYTES)) }
                @if let Some(registration) = &status.registration {
                    dt { "Webhooks" }
                    dd { (visible_line(registration, MAX_TEXT_BYTES)) }
                }
                @if let Some(replicas) = replicas {
                    dt { "This replica" }
                    dd #this-replica {
                        (visible_line(&replicas.this, MAX_TEXT_BYTES))
                        @if replicas.is_leader { ", the leader" }
                    }
                    dt { "Leader" }
                    dd #leader {
                        @match &replicas.leader {
                            Some(leader) => (visible_line(leader, MAX_TEXT_BYTES)),
                            None => span.muted { "not known" },
                        }
                    }
                }
            }
        }
    }
}

fn render_reviews(reported: &[TenantReviews], set: &PolicySet) -> Markup {
    let rows = select_rows(reported, set);
    let all: usize = reported.iter().map(|tenant| tenant.reviews.len()).sum();
    let shown = rows.len();
    let table = Table {
        id: "reviews",
        caption: "Reviews with violations or policy errors in the last hour, newest first",
        headings: &["Time", "Decision", "Request", "Object", "User", "Violations", "Read"],
        empty: "No policy has reported a violation or failed in the last hour.",
        max_bytes: table_limits::REVIEWS,
    };
    html! {
        section aria-labelledby="denials" {
            h2 #denials { "Denials and warnings" }
            (table.render(rows))
            @if all > shown {
                p { (shown) " of " (all) " reviews are shown: the newest of each namespace." }
            }
        }
    }
}

/// Renders the reviews that fit, and returns them newest first. Namespaces take turns, so that the
/// reviews of one fill no page.
fn select_rows(reported: &[TenantReviews], set: &PolicySet) -> Vec<Markup> {
    let (mut bytes, mut rows) = (0, Vec::new());
    let mut remediations = Remediations { set, known: BTreeMap::new() };
    for (number, review) in order_fairly(reported).into_iter().take(MAX_SHOWN_REVIEWS) {
        let row = render_review(review, &mut remediations);
        if bytes + row.0.len() <= table_limits::REVIEWS {
            bytes += row.0.len();
            rows.push((number, row));
        }
    }
    rows.sort_by_key(|(number, _)| Reverse(*number));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn render_review(review: &ReportedReview, remediations: &mut Remediations<'_>) -> Markup {
    let class = if review.outcome == Outcome::Allowed { "good" } else { "deny" };
    html! { tr {
        th scope="row" { (time(review.at)) }
        td { span.(class) { (review.outcome.as_str()) } @if review.is_dry_run { " (dry run)" } }
        td { (review.operation) " " (review.resource.trim_start_matches('/')) }
        td.text {
            @if !review.namespace.is_empty() { (review.namespace) "/" }
            (if review.name.is_empty() { "(no name)" } else { &review.name })
        }
        td.text { (review.user) }
        td { ul {
            @for violation in &review.violations {
                li {
                    (render_violation(violation))
                    @if let Some(fix) = remediations.get(violation) { p.fix { "Fix: " (fix) } }
                }
            }
            @if review.omitted > 0 { li { (review.omitted) " more" } }
        } }
        td { @if review.reads.is_empty() { "–" } @else {
            ul { @for read in &review.reads {
                li {
                    (read.objects) " of " (read.resource)
                    @if read.failed > 0 { ", " span.warn { (read.failed) " without result" } }
                }
            } }
        } }
    } }
}

/// The first paragraphs of the remediations of rules, each read once for a page.
struct Remediations<'s> {
    set: &'s PolicySet,
    known: BTreeMap<(String, String), Option<String>>,
}

impl Remediations<'_> {
    fn get(&mut self, violation: &ReportedViolation) -> Option<&str> {
        let key = (violation.policy.clone(), violation.rule.clone());
        let docs = self.set.rule_docs();
        let read = || {
            let docs = docs.text(&violation.policy, &violation.rule)?;
            let section = docs_section(docs, "# Remediation")?;
            let paragraph = section.split("\n\n").next().unwrap_or_default().replace('`', "");
            Some(visible_line(&paragraph, MAX_FIX_BYTES)).filter(|text| !text.is_empty())
        };
        self.known.entry(key).or_insert_with(read).as_deref()
    }
}

fn render_violation(violation: &ReportedViolation) -> Markup {
    let ReportedViolation { policy, rule, effect, field, message } = violation;
    let (label, class) = match effect {
        None => ("policy error", "deny"),
        Some(effect @ Effect::Deny) => (effect.as_str(), "deny"),
        Some(effect @ Effect::Warn) => (effect.as_str(), "warn"),
        Some(effect @ Effect::Audit) => (effect.as_str(), "audit"),
    };
    html! {
        span.badge.(class) { (label) } " "
        @if rule.is_empty() { (policy) } @else { (rule_link(rule)) } ": "
        span.text { (message) }
        @if !field.is_empty() { " " code.muted { (field) } }
    }
}

fn render_counts(reported: &[TenantReviews]) -> Markup {
    if reported.is_empty() {
        return html! {};
    }
    let mut rules = BTreeMap::<(&str, &str), usize>::new();
    let reviews = reported.iter().flat_map(|tenant| &tenant.reviews);
    for violation in reviews.flat_map(|(_, review)| &review.violations) {
        *rules.entry((&violation.policy, &violation.rule)).or_default() += 1;
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, count)| Reverse(*count));
    let by_rule = Table {
        id: "by-rule",
        caption: "Violations of these reviews by rule",
        headings: &["Rule", "Policy", "Violations"],
        empty: "None.",
        max_bytes: table_limits::REVIEWS_BY_RULE,
    };
    let rule_rows = rules.into_iter().map(|((policy, rule), count)| {
        html! { tr {
            th scope="row" { @if rule.is_empty() { "(policy error)" } @else { (rule_link(rule)) } }
            td { (policy) }
            td.number { (count) }
        } }
    });
    let mut tenants: Vec<_> = reported.iter().collect();
    tenants.sort_by_key(|tenant| Reverse(tenant.total()));
    let by_namespace = Table {
        id: "by-namespace",
        caption: "Reviews by namespace, or by user if there is none",
        headings: &["Namespace", "Reviews", "Of these not kept"],
        empty: "None.",
        max_bytes: table_limits::REVIEWS_BY_NAMESPACE,
    };
    let tenant_rows = tenants.into_iter().map(|tenant| {
        html! { tr {
            th scope="row" { @match &tenant.tenant {
                LogTenant::Namespace(namespace) => span.text { (namespace) },
                LogTenant::User(user) => { "user " span.text { (user) } },
            } }
            td.number { (tenant.total()) }
            td.number { (tenant.dropped) }
        } }
    });
    html! {
        section aria-labelledby="counts" {
            h2 #counts { "Counts" }
            (by_rule.render(rule_rows))
            (by_namespace.render(tenant_rows))
        }
    }
}

fn render_policies(set: &PolicySet) -> Markup {
    let table = Table {
        id: "policy-table",
        caption: "Configured policies, broken ones first",
        headings: &[
            "Policy",
            "State",
            "Version",
            "Digest",
            "Source",
            "Mode",
            "onError",
            "Loaded",
            "Last error",
        ],
        empty: "No policy is configured.",
        max_bytes: table_limits::POLICIES,
    };
    let (failing, others): (Vec<_>, Vec<_>) =
        set.policies().iter().partition(|policy| policy.last_error().is_some());
    let broken = set.broken().iter().map(render_broken_policy);
    let policies = failing.into_iter().chain(others).map(|policy| render_policy(policy));
    html! {
        section aria-labelledby="policies" {
            h2 #policies { "Policies" }
            (table.render(broken.chain(policies)))
        }
    }
}

fn render_broken_policy(policy: &BrokenPolicy) -> Markup {
    html! { tr {
        th scope="row" { (policy.name) }
        td { span.deny { "broken" } }
        td { "–" }
        td { "–" }
        td { (visible_line(&policy.source, MAX_TEXT_BYTES)) }
        td { (policy.mode.as_str()) }
        td { (policy.on_error.as_str()) }
        td { "–" }
        td { (visible_line(&policy.error.to_string(), MAX_TEXT_BYTES)) }
    } }
}

fn render_policy(policy: &Policy) -> Markup {
    html! { tr {
        th scope="row" { (policy.name) }
        td { span.good { "active" } }
        td { (visible_line(&policy.descriptor.version, MAX_TEXT_BYTES)) }
        td.nowrap { code { (short_digest(policy.module.digest())) } }
        td { (visible_line(&policy.source.to_string(), MAX_TEXT_BYTES)) }
        td { (policy.mode.as_str()) }
        td { (policy.on_error.as_str()) }
        td { (time(policy.loaded_at)) }
        td { (visible_line(&policy.last_error().unwrap_or_default(), MAX_TEXT_BYTES)) }
    } }
}

fn render_requests(status: &ServerStatus<'_>, quantiles: Quantiles, set: &PolicySet) -> Markup {
    let RequestTotals { responses, in_flight, shed, panics, .. } = &status.totals;
    let [median, p99] = quantiles;
    let (used, limit) = status.request_memory;
    let (objects, objects_limit) = set.cluster().memory();
    html! {
        section aria-labelledby="requests" {
            h2 #requests { "Requests" }
            dl {
                dt { "Since the start" }
                dd {
                    @if responses.is_empty() { "no responses" }
                    @for (index, (code, count)) in responses.iter().enumerate() {
                        @if index > 0 { ", " }
                        (count) " with status " (code)
                    }
                }
                dt { "In progress" } dd { (in_flight) }
                dt { "Shed" } dd { (shed) }
                @if *panics > 0 { dt { "Panics" } dd.deny { (panics) } }
                dt { "Response time" }
                dd {
                    @if let Some(median) = median { "half within " (duration(median)) }
                    @if let Some(p99) = p99 { ", 99 % within " (duration(p99)) }
                    @if median.is_none() { "–" }
                }
                dt { "Memory of requests" } dd { (size(used)) " of " (size(limit)) }
                dt { "Memory of objects" }
                dd {
                    (size(objects))
                    @if objects_limit < usize::MAX { " of " (size(objects_limit)) }
                }
            }
        }
    }
}

fn render_policy_errors(totals: &RequestTotals) -> Markup {
    let table = Table {
        id: "policy-errors",
        caption: "Policy errors since the start",
        headings: &["Policy", "Cause", "Errors"],
        empty: "No policy error since the start.",
        max_bytes: table_limits::POLICY_ERRORS,
    };
    table.render(totals.policy_errors.iter().map(|error| {
        html! { tr {
            th scope="row" { (error.policy) }
            td { (error.cause) }
            td.number { (error.count) }
        } }
    }))
}

fn render_cluster(set: &PolicySet) -> Markup {
    let status = ClusterStatus::of(set);
    let caches = Table {
        id: "caches",
        caption: "Resources that policies read, and their caches",
        headings: &["Resource", "State", "Objects", "Last contact", "Reservations", "Policies"],
        empty: "The server watches no resource.",
        max_bytes: table_limits::CACHES,
    };
    let resources = status.resources.iter().zip(set.cluster().caches()).map(|(resource, cache)| {
        let status = cache.status();
        let age = status.since_contact.map_or_else(|| "–".to_owned(), contact_age);
        html! { tr {
            th scope="row" { (resource.resource.trim_start_matches('/')) }
            td { (render_cache_state(resource)) }
            td.number { (status.objects) }
            td { (age) }
            td.number { (status.reservations) }
            td { (visible_line(&resource.needed_by.join(", "), MAX_TEXT_BYTES)) }
        } }
    });
    let reservations = Table {
        id: "reservation-table",
        caption: "Namespaces and users with the most reservations",
        headings: &["Resource", "Namespace or user", "Share of the limit"],
        empty: "No reservations.",
        max_bytes: table_limits::RESERVATIONS,
    };
    let tenants = status.reservations.iter().map(|reservation| {
        html! { tr {
            th scope="row" { (reservation.resource.trim_start_matches('/')) }
            td.text { (visible_line(&reservation.tenant, MAX_TEXT_BYTES)) }
            td.number { (reservation.percent) " %" }
        } }
    });
    html! {
        section aria-labelledby="cluster" {
            h2 #cluster { "Cluster" }
            (caches.render(resources))
            (reservations.render(tenants))
            @if let Some(problem) = &status.ledger_problem {
                p { span.deny { "Ledger of shared reservations: " } (visible_line(problem, MAX_TEXT_BYTES)) }
            }
        }
    }
}

fn render_replicas(replicas: &ReplicaOverview) -> Markup {
    let table = Table {
        id: "replica-table",
        caption: "Replicas of the installation",
        headings: &["Replica", "Version", "Configuration"],
        empty: "Only the leader knows all replicas.",
        max_bytes: table_limits::REPLICAS,
    };
    let rows = replicas.all.iter().map(|replica| {
        let ReplicaSummary { name, version, configuration } = replica;
        html! { tr {
            th scope="row" {
                (visible_line(name, MAX_TEXT_BYTES))
                @if *name == replicas.this { " (this one)" }
            }
            td { (visible_line(version, MAX_TEXT_BYTES)) }
            td.nowrap { code { (short_digest(&visible_line(configuration, MAX_TEXT_BYTES))) } }
        } }
    });
    html! {
        section aria-labelledby="replicas" {
            h2 #replicas { "Replicas" }
            (table.render(rows))
        }
    }
}

fn render_cache_state(resource: &ResourceState) -> Markup {
    let (label, class) = match resource.state {
        ResourceCacheStatus::Current => ("ready", "good"),
        ResourceCacheStatus::Interrupted => ("ready, watch failing", "warn"),
        ResourceCacheStatus::NotInstalled => ("not installed", "muted"),
        ResourceCacheStatus::LeftOut => ("not readable, optional", "muted"),
        ResourceCacheStatus::Listing => ("listing", "warn"),
        ResourceCacheStatus::Unseen => ("never listed", "deny"),
        ResourceCacheStatus::Stale => ("stale", "deny"),
        ResourceCacheStatus::Other => ("unknown", "muted"),
    };
    html! {
        span.(class) { (label) }
        @if resource.unauthorized { ", " span.deny { "token rejected" } }
        @if let Some(error) = &resource.error { ": " (visible_line(error, MAX_TEXT_BYTES)) }
    }
}

/// The time since the last contact. Single seconds would change the page each second.
fn contact_age(age: Duration) -> String {
    match age.as_secs() {
        0..10 => "less than 10 seconds ago".to_owned(),
        10..60 => "less than a minute ago".to_owned(),
        60..120 => "1 minute ago".to_owned(),
        seconds => format!("{} minutes ago", seconds / 60),
    }
}

/// The beginning of `sha256:…`.
fn short_digest(digest: &str) -> String {
    digest.trim_start_matches("sha256:").chars().take(12).collect()
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes >> 20)
    }
}
