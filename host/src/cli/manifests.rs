//! `opgate manifests`: what a cluster has to know about opgate, from what the policies say about
//! themselves.
//!
//! `webhook` prints the configuration of validating webhooks that sends the policies what they want
//! to see with their settings, and nothing else.
//!
//! ```text
//! group, resource and operation ─▶ one class per API group, ─┬─ certain ─▶ one webhook, /validate
//! of each policy                   failure policy and        └─ otherwise ─▶ one webhook a policy,
//!                                  namespaces                               /validate/{policy}
//! ```
//!
//! `/validate` asks every policy that matches, and API servers call every webhook that matches: two
//! webhooks with that path for one request would ask each policy twice. Several policies therefore
//! share a webhook only where it is certain that
//!
//! * no other webhook can match the same request, whatever its failure policy and namespaces;
//! * they want the same versions of what they both want. API servers convert a request to a version
//!   of the rules (`matchPolicy: Equivalent`) only where none of the webhook's rules has the version
//!   of the request. A policy for `v1` would not be asked about `v2` any more once it shares a
//!   webhook with one for `v1` and `v2`.
//!
//! In all other cases each policy has a webhook of its own, with a path that asks nobody else. What
//! is left: a policy that wants a resource both by its name and by `*`, in different namespaces or
//! groups, may be asked twice. It gives the same verdict both times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value};

use super::{ConfigArgs, Failure, Outcome};
use crate::cluster;
use crate::policy::{MatchRule, Policy, Requests};
use crate::review::Operation;

/// Group and resource whose webhook has the name that the documentation of RukPak prints,
/// `vbundles.core.rukpak.io`, also where other resources are in it.
const DOCUMENTED: (&str, &str) = ("core.rukpak.io", "bundles");

/// End of the names of webhooks for groups that make no name with three segments themselves.
const DOMAIN: &str = "opgate.dev";

/// The label by which API servers select namespaces by name; they set it themselves.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Must work whatever opgate does: without it nothing in the cluster recovers.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Port of a Service that names none.
const HTTPS: u16 = 443;

/// From the end of a policy's time to the API server's patience: for the way, the wait for a turn
/// and opgate's own margin, so that opgate answers first and names the slow policy.
const MARGIN: Duration = Duration::from_secs(1);

/// Of `timeoutSeconds`: less helps nobody, more is not allowed.
const LEAST_SECONDS: i32 = 5;
const MOST_SECONDS: i32 = 30;

/// Arguments of `opgate manifests`.
#[derive(Debug, Args)]
pub(super) struct Manifests {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the webhook configuration that follows from the configured policies
    ///
    /// Apply it with `kubectl apply -f -`. Print it anew when the configuration changes: levels and
    /// settings decide which requests policies want to see, modes and `onError` what happens
    /// without opgate.
    Webhook(Webhook),
}

#[derive(Debug, Args)]
struct Webhook {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
    /// CA bundle that vouches for the serving certificate, PEM; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    ca: Vec<PathBuf>,
    /// Namespace of the server, which is exempt, where --service does not tell
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, conflicts_with = "service")]
    namespace: Option<String>,
    /// Name of the webhook configuration
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "opgate")]
    name: String,
    /// Form of the output
    #[arg(long, value_name = "FORM", default_value = "yaml")]
    output: Format,
}

/// Where API servers find opgate: one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ServerArgs {
    /// Service in front of the server; port 443 unless it names one
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = service)]
    service: Option<Service>,
    /// URL of a server without a Service; the paths are appended
    #[arg(long, value_name = "URL", value_parser = base_url)]
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For kubectl and people
    Yaml,
    /// For programs
    Json,
}

/// A Service, as `--service` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    namespace: String,
    name: String,
    port: u16,
}

/// Where API servers find opgate.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Service(Service),
    /// Without a slash at the end.
    Url(String),
}

impl ServerArgs {
    fn target(self) -> anyhow::Result<Target> {
        match (self.service, self.url) {
            (Some(service), _) => Ok(Target::Service(service)),
            (None, Some(url)) => Ok(Target::Url(url)),
            (None, None) => anyhow::bail!("no server: give --service or --url"),
        }
    }
}

impl Manifests {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::Webhook(webhook) => webhook.run(),
        }
    }
}

impl Webhook {
    fn run(self) -> Result<Outcome, Failure> {
        let Self { config, server, ca, namespace, name, output } = self;
        let server = server.target()?;
        let own = match &server {
            Target::Service(service) => Some(service.namespace.clone()),
            Target::Url(_) => namespace,
        };
        let exempt = [SYSTEM_NAMESPACE.to_owned()].into_iter().chain(own).collect();
        let registration = Registration { name, server, exempt, ca: bundle(&ca)? };
        let set = config.complete_set(cluster::Source::Absent)?;
        let policies: Vec<_> = set.policies().iter().map(|policy| Facts::of(policy)).collect();
        let printed = registration.of(&policies);
        let printed = printed.map_err(|why| Failure::engine(anyhow::anyhow!(why)))?;
        if printed.webhooks.as_ref().is_none_or(Vec::is_empty) {
            tracing::warn!("no policy wants to see any request: API servers will ask nothing");
        }
        let printed = serde_json::to_value(&printed).map_err(Failure::engine)?;
        let mut out = anstream::stdout();
        match output {
            Format::Yaml => writeln!(out, "{}", yaml(&printed).join("\n"))?,
            Format::Json => writeln!(out, "{printed:#}")?,
        }
        Ok(Outcome::Ok)
    }
}

/// What counts of a policy here.
#[derive(Debug, Clone, Copy)]
struct Facts<'p> {
    name: &'p str,
    requests: &'p [Requests],
    /// Whether requests shall rather fail than pass without the policy.
    blocks: bool,
    time: Duration,
    excluded: &'p [String],
}

impl<'p> Facts<'p> {
    fn of(policy: &'p Policy) -> Self {
        Self {
            name: &policy.name,
            requests: &policy.requests,
            blocks: policy.can_block(),
            time: policy.limits.time,
            excluded: policy.excluded_namespaces(),
        }
    }

    /// What the policy wants to see, each resource and operation once.
    ///
    /// # Errors
    /// Where it asks for something that an API server would not take into its configuration.
    fn wants(&'p self) -> Result<Vec<Want<'p>>, String> {
        let mut wants: Vec<Want<'p>> = Vec::new();
        for Requests { rule, namespace, can_deny } in self.requests {
            check(rule).map_err(|why| format!("policy {}: {why}", self.name))?;
            // No version matches no request.
            if rule.versions.is_empty() {
                continue;
            }
            // Documents for files never come from an API server.
            for group in rule.groups.iter().filter(|group| *group != crate::files::subject::GROUP) {
                for resource in &rule.resources {
                    for &operation in &rule.operations {
                        let more = Want {
                            policy: self,
                            blocks: self.blocks && *can_deny,
                            group,
                            resource,
                            operation,
                            versions: rule.versions.iter().map(String::as_str).collect(),
                            namespaces: namespace.as_deref().map(|name| BTreeSet::from([name])),
                        };
                        match wants.iter_mut().find(|known| known.is_about(&more)) {
                            Some(known) => known.merge(more),
                            None => wants.push(more),
                        }
                    }
                }
            }
        }
        Ok(wants)
    }
}

/// A resource and an operation that a policy wants to see.
#[derive(Debug)]
struct Want<'p> {
    policy: &'p Facts<'p>,
    /// Whether these requests shall rather fail than pass without the policy.
    blocks: bool,
    group: &'p str,
    resource: &'p str,
    operation: Operation,
    versions: BTreeSet<&'p str>,
    /// Only in these; `None` for everywhere.
    namespaces: Option<BTreeSet<&'p str>>,
}

impl Want<'_> {
    fn is_about(&self, other: &Self) -> bool {
        self.group == other.group
            && self.resource == other.resource
            && self.operation == other.operation
    }

    /// Versions of one rule and namespaces of another may be too much together; the policy is not
    /// asked about what is too much.
    fn merge(&mut self, more: Self) {
        self.blocks |= more.blocks;
        self.versions.extend(more.versions);
        match (&mut self.namespaces, more.namespaces) {
            (Some(known), Some(more)) => known.extend(more),
            (namespaces, _) => *namespaces = None,
        }
    }
}

/// Whether one webhook can stand for both.
fn is_alike(a: &Want<'_>, b: &Want<'_>) -> bool {
    a.group == b.group && a.blocks == b.blocks && a.namespaces == b.namespaces
}

fn is_of_one_policy(a: &Want<'_>, b: &Want<'_>) -> bool {
    a.policy.name == b.policy.name
}

/// Whether there may be a request that is among both.
fn overlap(a: &Want<'_>, b: &Want<'_>) -> bool {
    let either = |a: &str, b: &str| a == b || a == "*" || b == "*";
    let (resource, sub) = parts(a.resource);
    let (other, other_sub) = parts(b.resource);
    let apart = match (&a.namespaces, &b.namespaces) {
        (Some(a), Some(b)) => a.is_disjoint(b),
        _ => false,
    };
    a.operation == b.operation
        && either(a.group, b.group)
        && either(resource, other)
        && either(sub, other_sub)
        && !apart
}

/// Resource and sub-resource, as API servers and [`MatchRule::matches`] read them: `pods/*` stands
/// for `pods` as well.
fn parts(resource: &str) -> (&str, &str) {
    resource.split_once('/').unwrap_or((resource, ""))
}

/// Whether every request for `inner` is one for `outer`.
fn covers(outer: &str, inner: &str) -> bool {
    let ((resource, sub), (other, other_sub)) = (parts(outer), parts(inner));
    (resource == "*" || resource == other) && (sub == "*" || sub == other_sub)
}

/// Whether it is certain that nobody is asked twice, or not at all, when the policies of a class
/// share a webhook.
fn can_share(class: &[&Want<'_>], wants: &[Want<'_>]) -> bool {
    let agree = |a: &Want<'_>, b: &Want<'_>| {
        is_alike(a, b) && (is_of_one_policy(a, b) || a.versions == b.versions)
    };
    class.iter().all(|a| wants.iter().all(|b| !overlap(a, b) || agree(a, b)))
}

/// A webhook to be.
#[derive(Debug)]
struct Planned<'w> {
    /// At least one, all alike.
    wants: Vec<&'w Want<'w>>,
    policies: Vec<&'w Facts<'w>>,
}

/// The webhooks for what is wanted.
fn plan<'w>(wants: &'w [Want<'w>]) -> Vec<Planned<'w>> {
    let mut planned = Vec::new();
    for class in grouped(wants, is_alike) {
        if can_share(&class, wants) {
            planned.push(class);
        } else {
            planned.extend(grouped(class, is_of_one_policy));
        }
    }
    let mut planned: Vec<_> = planned.into_iter().map(Planned::of).collect();
    // Where two would have the same name, the one that guards has it.
    planned.sort_by_key(|webhook| !webhook.blocks());
    planned
}

/// Puts together what is alike, in the order in which it comes.
fn grouped<'w>(
    wants: impl IntoIterator<Item = &'w Want<'w>>,
    alike: impl Fn(&Want<'_>, &Want<'_>) -> bool,
) -> Vec<Vec<&'w Want<'w>>> {
    let mut groups: Vec<Vec<&'w Want<'w>>> = Vec::new();
    for want in wants {
        let found = groups.iter_mut().find(|g| g.first().is_some_and(|first| alike(first, want)));
        match found {
            Some(group) => group.push(want),
            None => groups.push(vec![want]),
        }
    }
    groups
}

impl<'w> Planned<'w> {
    fn of(wants: Vec<&'w Want<'w>>) -> Self {
        let mut policies: Vec<&'w Facts<'w>> = Vec::new();
        for want in &wants {
            if !policies.iter().any(|known| known.name == want.policy.name) {
                policies.push(want.policy);
            }
        }
        Self { wants, policies }
    }

    fn blocks(&self) -> bool {
        self.wants.iter().any(|want| want.blocks)
    }

    fn group(&self) -> &'w str {
        self.wants.first().map_or("", |want| want.group)
    }

    fn path(&self) -> String {
        match self.policies.as_slice() {
            [only] => format!("/validate/{}", only.name),
            _ => "/validate".to_owned(),
        }
    }

    /// `v`, the first resource and the group, as the documented name is made. It stands in denials
    /// and in front of audit annotations.
    fn name(&self, others: &[ValidatingWebhook]) -> String {
        let documented = |want: &&Want<'_>| (want.group, want.resource) == DOCUMENTED;
        let first = self.wants.iter().copied().find(documented).or(self.wants.first().copied());
        let resource = first.map_or("", |want| want.resource);
        let label = format!("v{}", resource.replace('/', "-").replace('*', "all"));
        let domain = match self.group() {
            "" => format!("core.{DOMAIN}"),
            "*" => format!("all.{DOMAIN}"),
            group if group.contains('.') => group.to_owned(),
            group => format!("{group}.{DOMAIN}"),
        };
        let suffix = match self.policies.as_slice() {
            [only] => only.name,
            _ if self.blocks() => "fail",
            _ => "ignore",
        };
        let mut name = format!("{label}.{domain}");
        let mut number = 1;
        while others.iter().any(|other| other.name == name) {
            name = match number {
                1 => format!("{label}-{suffix}.{domain}"),
                _ => format!("{label}-{suffix}-{number}.{domain}"),
            };
            number += 1;
        }
        name
    }

    /// What has the same versions and operations goes into one rule.
    fn rules(&self) -> Vec<RuleWithOperations> {
        let mut operations: BTreeMap<_, BTreeSet<Operation>> = BTreeMap::new();
        for want in &self.wants {
            let key = (want.resource, &want.versions);
            operations.entry(key).or_default().insert(want.operation);
        }
        let mut rules: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for ((resource, versions), operations) in operations {
            rules.entry((versions, operations)).or_default().insert(resource);
        }
        let rules = rules.into_iter().map(|((versions, operations), resources)| {
            // API servers refuse a wildcard beside what it stands for.
            let every = versions.contains("*");
            let versions = versions.iter().copied().filter(|version| !every || *version == "*");
            let is_left = |inner: &&str| {
                !resources.iter().any(|outer| outer != inner && covers(outer, inner))
            };
            RuleWithOperations {
                api_groups: Some(owned([self.group()])),
                api_versions: Some(owned(versions)),
                operations: Some(owned(operations.iter().map(|operation| operation.as_str()))),
                resources: Some(owned(resources.iter().copied().filter(is_left))),
                scope: Some("*".to_owned()),
            }
        });
        rules.collect()
    }

    /// Which namespaces are looked at. API servers heed it for objects in namespaces and for
    /// namespaces themselves; all other cluster-scoped objects are sent whatever it says.
    ///
    /// What is only wanted in some namespaces is exempt in all others already. A namespace that is
    /// wanted and exempt is exempt: then both conditions are there, for people to see.
    fn namespaces(&self, exempt: &[String]) -> LabelSelector {
        let by_all = |name: &&String| self.policies.iter().all(|p| p.excluded.contains(name));
        let excluded = self.policies.first().map(|policy| policy.excluded).unwrap_or_default();
        let mut without: Vec<&str> = Vec::new();
        for name in exempt.iter().chain(excluded.iter().filter(by_all)) {
            if !without.contains(&name.as_str()) {
                without.push(name);
            }
        }
        let only = self.wants.first().and_then(|want| want.namespaces.as_ref());
        let mut conditions = Vec::new();
        if let Some(only) = only {
            conditions.push(condition("In", only.iter().copied()));
            if only.iter().all(|name| without.contains(name)) {
                let (group, namespaces) = (self.group(), only);
                tracing::warn!(
                    group,
                    ?namespaces,
                    "policies want requests in exempt namespaces only: they will not see them"
                );
            }
        }
        if only.is_none_or(|only| only.iter().any(|name| without.contains(name))) {
            conditions.push(condition("NotIn", without));
        }
        LabelSelector { match_expressions: Some(conditions), match_labels: None }
    }

    /// Long calls of several policies run side by side, so that the slowest counts.
    fn timeout_seconds(&self) -> i32 {
        let slowest = self.policies.iter().map(|policy| policy.time).max();
        timeout_seconds(slowest.unwrap_or_default()).clamp(LEAST_SECONDS, MOST_SECONDS)
    }
}

/// Whole seconds after which a policy with so much time has answered for certain.
fn timeout_seconds(time: Duration) -> i32 {
    let needed = time.saturating_add(MARGIN);
    let seconds = needed.as_secs().saturating_add(u64::from(needed.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn condition<'t>(
    operator: &str,
    names: impl IntoIterator<Item = &'t str>,
) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: NAMESPACE_NAME.to_owned(),
        operator: operator.to_owned(),
        values: Some(owned(names)),
    }
}

fn owned<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

/// What does not come from the policies.
#[derive(Debug)]
struct Registration {
    name: String,
    server: Target,
    /// Namespaces that no webhook looks at.
    exempt: Vec<String>,
    /// PEM.
    ca: Vec<u8>,
}

impl Registration {
    /// The webhook configuration.
    ///
    /// # Errors
    /// Where a policy asks for something that an API server would not take.
    fn of(&self, policies: &[Facts<'_>]) -> Result<ValidatingWebhookConfiguration, String> {
        let mut wants = Vec::new();
        for policy in policies {
            if timeout_seconds(policy.time) > MOST_SECONDS {
                let (policy, time) = (policy.name, policy.time);
                tracing::warn!(
                    policy,
                    ?time,
                    "limits.time is too long for a webhook: an API server waits {MOST_SECONDS}s at the most and may give up before opgate answers"
                );
            }
            wants.extend(policy.wants()?);
        }
        let mut webhooks: Vec<ValidatingWebhook> = Vec::new();
        for planned in plan(&wants) {
            // Where opgate blocks nothing, its absence must not either.
            let failure_policy = if planned.blocks() { "Fail" } else { "Ignore" };
            let webhook = ValidatingWebhook {
                name: planned.name(&webhooks),
                admission_review_versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
                client_config: self.client_config(planned.path()),
                failure_policy: Some(failure_policy.to_owned()),
                match_policy: Some("Equivalent".to_owned()),
                namespace_selector: Some(planned.namespaces(&self.exempt)),
                rules: Some(planned.rules()),
                // Nothing is changed anywhere, so that dry runs are checked as well.
                side_effects: "None".to_owned(),
                timeout_seconds: Some(planned.timeout_seconds()),
                ..ValidatingWebhook::default()
            };
            webhooks.push(webhook);
        }
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        Ok(ValidatingWebhookConfiguration { metadata, webhooks: Some(webhooks) })
    }

    fn client_config(&self, path: String) -> WebhookClientConfig {
        let (service, url) = match &self.server {
            Target::Service(Service { namespace, name, port }) => {
                let service = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path),
                    port: Some(i32::from(*port)),
                };
                (Some(service), None)
            }
            Target::Url(base) => (None, Some(format!("{base}{path}"))),
        };
        WebhookClientConfig { ca_bundle: Some(ByteString(self.ca.clone())), service, url }
    }
}

/// Whether an API server would take what a policy asks for: it comes out of the sandbox, and one
/// word that it refuses would cost all other policies their webhooks.
fn check(rule: &MatchRule) -> Result<(), String> {
    let group = |text: &str| text.is_empty() || text == "*" || is_domain(text);
    let version = |text: &str| text == "*" || is_label(text);
    let resource = |text: &str| match text.split_once('/') {
        Some((name, sub)) => version(name) && version(sub),
        None => version(text),
    };
    let wrong = |what: &str, texts: &[String], is_right: &dyn Fn(&str) -> bool| {
        let wrong = texts.iter().find(|text| !is_right(text))?;
        let wrong = crate::text::one_line(wrong, 64);
        Some(format!("asks for requests of the {what} {wrong:?}, which cannot exist"))
    };
    let wrong = wrong("group", &rule.groups, &group)
        .or_else(|| wrong("version", &rule.versions, &version))
        .or_else(|| wrong("resource", &rule.resources, &resource));
    wrong.map_or(Ok(()), Err)
}

/// A label of DNS, as namespaces, Services, versions and resources have them.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels with points between them.
fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not the name of a namespace: use lower case letters, digits and hyphens"
    ))
}

fn object_name(text: &str) -> Result<String, String> {
    if is_domain(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a name: use lower case letters, digits, hyphens and points"))
}

fn service(text: &str) -> Result<Service, String> {
    let wrong = || format!("{text:?} is not of the form NAMESPACE/NAME or NAMESPACE/NAME:PORT");
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => {
            let port: Option<u16> = port.parse().ok();
            (name, port.filter(|port| *port > 0).ok_or_else(wrong)?)
        }
        None => (rest, HTTPS),
    };
    if is_label(namespace) && is_label(name) {
        Ok(Service { namespace: namespace.to_owned(), name: name.to_owned(), port })
    } else {
        Err(wrong())
    }
}

/// The part of the webhooks' URLs in front of `/validate`.
fn base_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("{text:?} {why}: write https://HOST[:PORT][/PREFIX]");
    let url = text.parse::<Uri>();
    let url = url.map_err(|error| wrong(&format!("is not a URL ({error})")))?;
    if url.scheme_str() != Some("https") {
        return Err(wrong("is not an https URL, and API servers call no other"));
    }
    let authority = url.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or_else(|| wrong("names no host"))?;
    // The parser drops fragments.
    if authority.as_str().contains('@') || url.query().is_some() || text.contains('#') {
        return Err(wrong("has a user, a query or a fragment, which API servers refuse"));
    }
    Ok(format!("https://{authority}{}", url.path().trim_end_matches('/')))
}

/// What is in the files, which must be certificates: API servers find out at the first call only.
fn bundle(files: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    let mut bundle = Vec::new();
    for path in files {
        let named = || path.display().to_string();
        let pem = std::fs::read(path).with_context(named)?;
        check_certificates(&pem).with_context(named)?;
        bundle.extend_from_slice(&pem);
        if !pem.ends_with(b"\n") {
            bundle.push(b'\n');
        }
    }
    Ok(bundle)
}

fn check_certificates(pem: &[u8]) -> anyhow::Result<()> {
    // Webhook configurations are read by many.
    anyhow::ensure!(
        !String::from_utf8_lossy(pem).contains("PRIVATE KEY-----"),
        "holds a private key: name a file with nothing but certificates"
    );
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| anyhow::anyhow!("not PEM: {error}"))?;
        let added = roots.add(certificate);
        added.map_err(|error| anyhow::anyhow!("not an X.509 certificate: {error}"))?;
    }
    anyhow::ensure!(
        !roots.is_empty(),
        "no certificate: put a block `BEGIN CERTIFICATE` in it (`opgate certs issue` makes a CA)"
    );
    Ok(())
}

/// The lines of a value as YAML: lists of words in one line, `name` before what belongs to it. Only
/// for values like webhook configurations, which need little of YAML.
fn yaml(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) if !members.is_empty() => object(members),
        other => vec![inline(other)],
    }
}

fn object(members: &Map<String, Value>) -> Vec<String> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name != "name");
    let mut lines = Vec::new();
    for (name, value) in members {
        let name = word(name);
        let nested = match value {
            Value::Object(inner) if !inner.is_empty() => object(inner),
            Value::Array(items) if items.iter().any(Value::is_object) => {
                items.iter().flat_map(item).collect()
            }
            other => {
                lines.push(format!("{name}: {}", inline(other)));
                continue;
            }
        };
        lines.push(format!("{name}:"));
        lines.extend(nested.into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// An element of a list that has a line, or more, for each.
fn item(value: &Value) -> Vec<String> {
    let lines = yaml(value).into_iter().enumerate();
    lines.map(|(n, line)| format!("{}{line}", if n == 0 { "- " } else { "  " })).collect()
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// A text, in quotes (JSON's are YAML's) unless every reader of YAML takes it for a text without.
fn word(text: &str) -> String {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'/');
    let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.-_+=".contains(&b));
    let others = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    if first && rest && !others.iter().any(|other| text.eq_ignore_ascii_case(other)) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use opgate_certs::Authority;
    use serde_json::json;

    use super::*;

    const RUKPAK: &str = "core.rukpak.io";
    const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn requests(
        group: &str,
        versions: &[&str],
        resources: &[&str],
        operations: &[Operation],
    ) -> Requests {
        let rule = MatchRule {
            groups: texts(&[group]),
            versions: texts(versions),
            resources: texts(resources),
            operations: operations.to_vec(),
            namespace: None,
            rules: Vec::new(),
            advisory: false,
        };
        Requests { rule, namespace: None, can_deny: true }
    }

    fn within(namespace: &str, requests: Requests) -> Requests {
        Requests { namespace: Some(namespace.to_owned()), ..requests }
    }

    fn policy<'p>(name: &'p str, requests: &'p [Requests]) -> Facts<'p> {
        let time = Duration::from_millis(100);
        Facts { name, requests, blocks: true, time, excluded: &[] }
    }

    /// One that can keep nothing from passing.
    fn warns<'p>(name: &'p str, requests: &'p [Requests]) -> Facts<'p> {
        Facts { blocks: false, ..policy(name, requests) }
    }

    fn printed(policies: &[Facts<'_>]) -> Value {
        let registration = Registration {
            name: "opgate".to_owned(),
            server: Target::Url("https://opgate.test".to_owned()),
            exempt: texts(&["kube-system", "opgate-system"]),
            ca: b"CA".to_vec(),
        };
        serde_json::to_value(registration.of(policies).unwrap()).unwrap()
    }

    fn webhooks(policies: &[Facts<'_>]) -> Vec<Value> {
        printed(policies)["webhooks"].as_array().unwrap().clone()
    }

    /// `name path failurePolicy` of each.
    fn shown(policies: &[Facts<'_>]) -> Vec<String> {
        let show = |webhook: Value| {
            let url = webhook["clientConfig"]["url"].as_str().unwrap().to_owned();
            let path = url.strip_prefix("https://opgate.test").unwrap();
            let text = |member: &str| webhook[member].as_str().unwrap().to_owned();
            format!("{} {path} {}", text("name"), text("failurePolicy"))
        };
        webhooks(policies).into_iter().map(show).collect()
    }

    #[test]
    fn a_policy_has_a_webhook_for_each_of_its_groups() {
        let wanted = [
            requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES),
            requests(
                RUKPAK,
                &["v1alpha1", "v1alpha2"],
                &["bundledeployments"],
                &[Operation::Delete, Operation::Create, Operation::Update],
            ),
            within("rukpak-system", requests("", &["v1"], &["configmaps"], WRITES)),
            requests("apps", &["v1"], &["deployments/scale"], &[Operation::Update]),
            requests("*", &["*"], &["*/*"], &[Operation::Connect]),
        ];
        let policies = [policy("a", &wanted)];
        let expected = [
            "vbundles.core.rukpak.io /validate/a Fail",
            "vconfigmaps.core.opgate.dev /validate/a Fail",
            "vdeployments-scale.apps.opgate.dev /validate/a Fail",
            "vall-all.all.opgate.dev /validate/a Fail",
        ];
        assert_eq!(shown(&policies), expected);
        let webhooks = webhooks(&policies);
        let expected = json!({
            "name": "vbundles.core.rukpak.io",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"caBundle": "Q0E=", "url": "https://opgate.test/validate/a"},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "opgate-system"],
            }]},
            "rules": [
                {
                    "apiGroups": ["core.rukpak.io"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["bundles"],
                    "scope": "*",
                },
                {
                    "apiGroups": ["core.rukpak.io"],
                    "apiVersions": ["v1alpha1", "v1alpha2"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["bundledeployments"],
                    "scope": "*",
                },
            ],
            "sideEffects": "None",
            "timeoutSeconds": 5,
        });
        assert_eq!(webhooks[0], expected);
        assert_eq!(webhooks[1]["rules"][0]["apiGroups"], json!([""]));
        assert_eq!(webhooks[2]["rules"][0]["resources"], json!(["deployments/scale"]));
        assert_eq!(webhooks[3]["rules"][0]["apiGroups"], json!(["*"]));
    }

    #[test]
    fn requests_that_belong_together_make_one_rule() {
        let wanted = [
            requests("g.io", &["v1"], &["things"], &[Operation::Update]),
            requests("g.io", &["v1"], &["others", "things"], &[Operation::Create]),
            requests("g.io", &["v1"], &["others"], &[Operation::Update]),
            requests("g.io", &["v2", "*"], &["*", "wild", "wild/status"], &[Operation::Delete]),
            requests("g.io", &[], &["never"], WRITES),
        ];
        let rule = |versions: &[&str], operations: &[&str], resources: &[&str]| {
            json!({
                "apiGroups": ["g.io"],
                "apiVersions": versions,
                "operations": operations,
                "resources": resources,
                "scope": "*",
            })
        };
        let expected = json!([
            rule(&["*"], &["DELETE"], &["*", "wild/status"]),
            rule(&["v1"], &["CREATE", "UPDATE"], &["others", "things"]),
        ]);
        assert_eq!(webhooks(&[policy("a", &wanted)])[0]["rules"], expected);
        assert!(webhooks(&[policy("a", &[])]).is_empty());
    }

    #[test]
    fn policies_share_a_webhook_where_nobody_is_asked_twice_or_not_at_all() {
        let bundles = [requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES)];
        let deployments = [requests(RUKPAK, &["v1alpha1"], &["bundledeployments"], WRITES)];
        let newer = [requests(RUKPAK, &["v1alpha1", "v1alpha2"], &["bundles"], WRITES)];
        let deletions = [requests(RUKPAK, &["v1"], &["bundles"], &[Operation::Delete])];
        let somewhere = [within("x", bundles[0].clone())];
        let elsewhere = [within("y", bundles[0].clone())];
        let all = [requests("*", &["*"], &["*"], WRITES)];
        let shared = "vbundles.core.rukpak.io /validate Fail";
        let a = "vbundles.core.rukpak.io /validate/a Fail";
        let b = "vbundles-b.core.rukpak.io /validate/b Fail";
        let cases = [
            // The same, and different resources.
            (vec![policy("a", &bundles), policy("b", &bundles)], vec![shared]),
            (vec![policy("b", &deployments), policy("a", &bundles)], vec![shared]),
            (vec![policy("a", &bundles), policy("b", &deletions)], vec![shared]),
            // `v1alpha2` would be sent as it is, and `a` would not be asked.
            (vec![policy("a", &bundles), policy("b", &newer)], vec![a, b]),
            // Two failure policies for one request, and for two.
            (
                vec![warns("b", &bundles), policy("a", &bundles)],
                vec![a, "vbundles-b.core.rukpak.io /validate/b Ignore"],
            ),
            (
                vec![policy("a", &bundles), policy("b", &bundles), warns("c", &bundles)],
                vec![a, b, "vbundles-c.core.rukpak.io /validate/c Ignore"],
            ),
            (
                vec![
                    policy("a", &bundles),
                    policy("b", &bundles),
                    warns("c", &deletions),
                    warns("d", &deletions),
                ],
                vec![shared, "vbundles-ignore.core.rukpak.io /validate Ignore"],
            ),
            (
                vec![policy("a", &bundles), policy("b", &bundles), warns("c", &deployments)],
                vec![shared, "vbundledeployments.core.rukpak.io /validate/c Ignore"],
            ),
            // Everywhere and somewhere.
            (
                vec![policy("a", &bundles), policy("b", &bundles), policy("c", &somewhere)],
                vec![a, b, "vbundles-c.core.rukpak.io /validate/c Fail"],
            ),
            (
                vec![policy("a", &somewhere), policy("b", &somewhere), policy("c", &elsewhere)],
                vec![shared, "vbundles-c.core.rukpak.io /validate/c Fail"],
            ),
            // By name and by wildcard.
            (
                vec![policy("a", &bundles), policy("b", &bundles), policy("c", &all)],
                vec![a, b, "vall.all.opgate.dev /validate/c Fail"],
            ),
        ];
        for (policies, expected) in cases {
            assert_eq!(shown(&policies), expected);
        }
        let ab = [policy("a", &bundles), policy("b", &bundles)];
        assert_eq!(webhooks(&ab)[0]["rules"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn names_are_unique() {
        let here = within("x", requests("g.io", &["v1"], &["things"], &[Operation::Create]));
        let there = within("y", requests("g.io", &["v1"], &["things"], &[Operation::Update]));
        let where_ever = requests("g.io", &["v1"], &["things"], &[Operation::Delete]);
        let wanted = [here, there, where_ever];
        let expected = [
            "vthings.g.io /validate/a Fail",
            "vthings-a.g.io /validate/a Fail",
            "vthings-a-2.g.io /validate/a Fail",
        ];
        assert_eq!(shown(&[policy("a", &wanted)]), expected);
    }

    #[test]
    fn namespaces_are_selected_and_exempt() {
        let bundles = requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES);
        let condition = |operator: &str, values: &[&str]| {
            let key = "kubernetes.io/metadata.name";
            json!({"key": key, "operator": operator, "values": values})
        };
        let selected = |policies: &[Facts<'_>]| {
            webhooks(policies)[0]["namespaceSelector"]["matchExpressions"].clone()
        };
        let exempt = condition("NotIn", &["kube-system", "opgate-system"]);
        let cases = [
            (vec![bundles.clone()], json!([exempt])),
            (vec![within("x", bundles.clone())], json!([condition("In", &["x"])])),
            (
                vec![within("y", bundles.clone()), within("x", bundles.clone())],
                json!([condition("In", &["x", "y"])]),
            ),
            (vec![within("x", bundles.clone()), bundles.clone()], json!([exempt])),
            (
                vec![within("kube-system", bundles.clone())],
                json!([condition("In", &["kube-system"]), exempt]),
            ),
        ];
        for (wanted, expected) in cases {
            assert_eq!(selected(&[policy("a", &wanted)]), expected);
        }
        // What a policy excludes is exempt where no other policy of the webhook wants it.
        let wanted = [bundles];
        let (few, many) = (texts(&["b", "kube-system"]), texts(&["a", "b"]));
        let few = Facts { excluded: &few, ..policy("few", &wanted) };
        let many = Facts { excluded: &many, ..policy("many", &wanted) };
        let none = policy("none", &wanted);
        let more = condition("NotIn", &["kube-system", "opgate-system", "a", "b"]);
        assert_eq!(selected(&[many]), json!([more]));
        let more = condition("NotIn", &["kube-system", "opgate-system", "b"]);
        assert_eq!(selected(&[few, many]), json!([more]));
        assert_eq!(selected(&[many, none]), json!([exempt]));
    }

    #[test]
    fn timeouts_are_longer_than_the_limits() {
        let wanted = [requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES)];
        let seconds = |times: &[u64]| {
            let names = ["a", "b"];
            let policies: Vec<_> = times
                .iter()
                .zip(names)
                .map(|(&time, name)| Facts {
                    time: Duration::from_millis(time),
                    ..policy(name, &wanted)
                })
                .collect();
            webhooks(&policies)[0]["timeoutSeconds"].as_i64().unwrap()
        };
        for (times, expected) in [
            (vec![100], 5),
            (vec![4_000], 5),
            (vec![4_001], 6),
            (vec![20_000], 21),
            (vec![29_000], 30),
            (vec![30_000], 30),
            (vec![100, 10_500], 12),
        ] {
            assert_eq!(seconds(&times), expected, "{times:?}");
        }
    }

    #[test]
    fn what_cannot_exist_is_refused() {
        let cases = [
            (requests("Core", &["v1"], &["x"], WRITES), "group \"Core\""),
            (requests("g.io", &["v 1"], &["x"], WRITES), "version \"v 1\""),
            (requests("g.io", &["v1"], &["x", "X"], WRITES), "resource \"X\""),
            (requests("g.io", &["v1"], &["a/b/c"], WRITES), "resource \"a/b/c\""),
            (requests("g.io", &["v1"], &["a/"], WRITES), "resource \"a/\""),
        ];
        for (wanted, expected) in cases {
            let wanted = [wanted];
            let error = policy("a", &wanted).wants().unwrap_err();
            let expected =
                format!("policy a: asks for requests of the {expected}, which cannot exist");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn servers_are_named_by_service_or_url() {
        let right = |namespace: &str, name: &str, port| Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        };
        assert_eq!(service("opgate-system/opgate"), Ok(right("opgate-system", "opgate", 443)));
        assert_eq!(service("a/b:9443"), Ok(right("a", "b", 9443)));
        for wrong in ["", "opgate", "a/", "/b", "a/b/c", "a/b:", "a/b:0", "a/b:65536", "A/b"] {
            assert!(service(wrong).unwrap_err().contains("NAMESPACE/NAME:PORT"), "{wrong}");
        }
        for (url, base) in [
            ("https://127.0.0.1:9443", "https://127.0.0.1:9443"),
            ("https://opgate.example.com/", "https://opgate.example.com"),
            ("https://[::1]/a/b/", "https://[::1]/a/b"),
        ] {
            assert_eq!(base_url(url), Ok(base.to_owned()));
        }
        for (wrong, why) in [
            ("", "is not a URL"),
            ("https://a b", "is not a URL"),
            ("http://a", "is not an https URL"),
            ("a:9443", "is not an https URL"),
            ("/validate", "is not an https URL"),
            ("https://:9443", "names no host"),
            ("https://a/?", "a query"),
            ("https://a?b=c", "a query"),
            ("https://a/#b", "a fragment"),
            ("https://u:p@a", "a user"),
        ] {
            let error = base_url(wrong).unwrap_err();
            assert!(error.contains(why) && error.contains("write https://HOST"), "{error}");
        }
    }

    #[test]
    fn a_bundle_holds_certificates_and_no_keys() {
        let authority = Authority::create(1).unwrap();
        let certificate = authority.certificate();
        assert!(check_certificates(certificate.as_bytes()).is_ok());
        assert!(check_certificates(format!("{certificate}\n{certificate}").as_bytes()).is_ok());
        let cut = certificate.get(..certificate.len() / 2).unwrap();
        let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (pem, why) in [
            (String::new(), "no certificate"),
            ("words".to_owned(), "no certificate"),
            (cut.to_owned(), "not PEM"),
            (wrong.to_owned(), "not an X.509 certificate"),
            (authority.key(), "holds a private key"),
            (format!("{certificate}{}", authority.key()), "holds a private key"),
        ] {
            let error = check_certificates(pem.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn what_is_printed_reads_as_what_was_meant() {
        let wanted = [
            requests(RUKPAK, &["v1alpha1"], &["bundles"], WRITES),
            within("on", requests("", &["v1"], &["configmaps"], WRITES)),
            requests("*", &["*"], &["*/*"], &[Operation::Delete]),
        ];
        let odd = json!({
            "name": "n",
            "texts": ["", "null", "No", "1e3", ".5", "-", "a b", "a: b", "# c", "é\n\t\"\\", "a"],
            "y": {},
            "list": [{"b": [], "name": true}, "x", {}, {"a": {"b": [{"c": -1}]}}],
            "nothing": null,
        });
        for value in [printed(&[policy("a", &wanted)]), printed(&[]), odd, json!({})] {
            let text = yaml(&value).join("\n");
            let read = crate::yaml::Located::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read.value, value, "{text}");
        }
    }
}
