//! The serving certificate, verified as API servers do it.
//!
//! ```text
//! Secret ────┐
//!            ├─▶ chain ─▶ name, time, and whether each caBundle vouches for it
//! handshake ─┘
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::Uri;
use opgate_certs::{CaBundle, CertificateChain, Validity};
use opgate_compat::go::base64;
use serde_json::{Map, Value};

use super::ExpiryDays;
use crate::facts::hooks::Hook;
use crate::facts::object::{Kind, Object, text};
use crate::facts::tls_probe::TlsProbe;
use crate::facts::workload::Workload;
use crate::facts::{DEFAULT_SECRET, Facts};
use crate::finding::{Findings, ObjectReference, join_names, shell_word};
use crate::finding_docs::Doc;
use crate::finding_docs::certificates::{
    EXPIRED, EXPIRES_SOON, NO_SECRET, NO_TLS, NOT_RELOADED, NOT_YET_VALID, UNTRUSTED, WRONG_NAME,
    WRONG_SECRET_TYPE,
};

/// Maximum number of different bundles to check.
const MAX_BUNDLES: usize = 16;

/// Fraction of the lifetime, as a divisor, in which the certificate should already have been renewed.
const RENEWAL_DIVISOR: u32 = 4;

const RENEW_REMEDIATION: &str = "opgate certs issue --out tls --service NAMESPACE/SERVICE, and store it in the Secret; if something renews it, see why it does not";

pub(super) fn check(facts: &Facts, days: ExpiryDays, found: &mut Findings) {
    let stored = secret_chain(facts, found);
    let served = match &facts.tls_probe {
        TlsProbe::NotAttempted(why) => {
            if !why.is_empty() {
                found.add_unchecked("the certificate that the servers show", why);
            }
            None
        }
        TlsProbe::Failed(address, why) => {
            let repair = "let the Service lead to the port of --listen, without a proxy in between";
            found.add(&NO_TLS, ObjectReference::other(address), "", why, repair);
            None
        }
        TlsProbe::Chain(address, chain) => Some((ObjectReference::other(address), chain.clone())),
    };
    let bundles = usable_bundles(facts, found);
    let mut chains = Vec::new();
    chains.extend(stored.map(|(at, chain)| (at, "data[tls.crt]", chain)));
    if let Some((at, chain)) = served {
        match chains.first() {
            Some((_, _, stored)) if stored.has_same_certificate(&chain) => {}
            Some((secret, _, _)) => {
                let what = format!("{at} shows another certificate");
                let repair = "wait two minutes; then look for `the old certificate is kept` in the log of the servers";
                found.add(&NOT_RELOADED, secret.clone(), "data[tls.crt]", &what, repair);
                chains.push((at, "", chain));
            }
            None => chains.push((at, "", chain)),
        }
    }
    for (at, field, chain) in &chains {
        check_chain(facts, days, at, field, chain, found);
        for (bundle, hooks) in &bundles {
            check_trust(facts, days, chain, bundle, hooks, found);
        }
    }
    if chains.is_empty() {
        for (bundle, hooks) in &bundles {
            let all: Vec<_> = bundle.validities().collect();
            check_ca_validity(facts, days, &all, hooks, found);
        }
        if !bundles.is_empty() {
            let why = "no certificate of the servers is known: neither the Secret nor a handshake; see --connect";
            found.add_unchecked("whether the caBundle vouches for the certificate", why);
        }
    }
}

/// Returns the names by which API servers call.
fn expected_names(facts: &Facts) -> Vec<String> {
    if facts.installation.url.is_none() {
        let (namespace, service) = (&facts.installation.namespace, &facts.installation.service);
        return vec![format!("{service}.{namespace}.svc")];
    }
    let host =
        |url: &str| Some(url.parse::<Uri>().ok()?.host()?.trim_matches(['[', ']']).to_owned());
    let mut all: Vec<_> = facts.own_hooks().iter().filter_map(|hook| host(hook.url()?)).collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(MAX_BUNDLES);
    all
}

fn check_chain(
    facts: &Facts,
    days: ExpiryDays,
    at: &ObjectReference,
    field: &str,
    chain: &CertificateChain,
    found: &mut Findings,
) {
    for name in expected_names(facts).iter().filter(|name| !chain.is_for(name)) {
        let what = match chain.names() {
            [] => format!("it has no subject alternative name; API servers call {name}"),
            others => {
                let others = join_names(others.iter().map(String::as_str));
                format!("it is for {others}; API servers call {name}")
            }
        };
        let service = shell_word(&facts.installation.owner());
        let repair =
            format!("opgate certs issue --out tls --service {service}, and store it in the Secret");
        found.add(&WRONG_NAME, at.clone(), field, &what, &repair);
    }
    let what = "the serving certificate";
    check_validity(facts, days.certificate, &[chain.validity()], what, &mut |doc, what| {
        found.add(doc, at.clone(), field, what, RENEW_REMEDIATION);
    });
}

/// Tells what is wrong with the times of certificates, of which one has to be valid.
fn check_validity(
    facts: &Facts,
    days: u32,
    all: &[Validity],
    name: &str,
    tell: &mut impl FnMut(&'static Doc, &str),
) {
    let now = facts.now;
    let Some(last) = all.iter().filter(|one| one.from <= now).max_by_key(|one| one.until) else {
        if let Some(first) = all.iter().min_by_key(|one| one.from) {
            let in_seconds = first.from.duration_since(now).unwrap_or_default();
            tell(&NOT_YET_VALID, &format!("{name} is valid in {} only", approximate(in_seconds)));
        }
        return;
    };
    let Ok(left) = last.until.duration_since(now) else {
        let since = now.duration_since(last.until).unwrap_or_default();
        return tell(&EXPIRED, &format!("{name} ended {} ago", approximate(since)));
    };
    let whole = last.until.duration_since(last.from).unwrap_or_default();
    let soon = Duration::from_secs(u64::from(days).saturating_mul(86_400));
    if left < soon.min(whole.checked_div(RENEWAL_DIVISOR).unwrap_or_default()) {
        tell(&EXPIRES_SOON, &format!("{name} ends in {}", approximate(left)));
    }
}

/// Formats a time approximately: the doctor runs at some moment of a day.
fn approximate(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 2 * 86_400 => format!("{} days", seconds / 86_400),
        seconds if seconds >= 2 * 3_600 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} minutes", seconds / 60),
    }
}

type Hooks<'f> = Vec<Hook<'f>>;

/// Returns the bundles of our webhooks that can be used, each once.
fn usable_bundles<'f>(facts: &'f Facts, found: &mut Findings) -> Vec<(CaBundle, Hooks<'f>)> {
    let mut texts: BTreeMap<&str, Hooks<'f>> = BTreeMap::new();
    for hook in facts.own_hooks() {
        texts.entry(text(hook.value, "/clientConfig/caBundle")).or_default().push(hook);
    }
    if texts.len() > MAX_BUNDLES {
        let why = format!("there are more than {MAX_BUNDLES} different ones");
        found.add_unchecked("some of the caBundles", &why);
    }
    let mut bundles = Vec::new();
    for (encoded, hooks) in texts.into_iter().take(MAX_BUNDLES) {
        let Some(first) = hooks.first() else { continue };
        let is_injected = first.object.annotation("cert-manager.io/inject-ca-from").is_some()
            || Workload::of(facts).is_some_and(|workload| workload.manages_certificates());
        if encoded.is_empty() && first.url().is_some() {
            found.add_unchecked(
                "the issuer of the certificate",
                "without a caBundle API servers trust those of their system",
            );
            continue;
        }
        if encoded.is_empty() && is_injected && !facts.is_cluster {
            found.add_unchecked("the caBundle", "the cluster puts it in");
            continue;
        }
        let mut pem = Vec::new();
        let bundle = match (encoded, base64::decode(encoded, &mut pem)) {
            ("", _) => Err("it is empty".to_owned()),
            (_, Err(at)) => Err(format!("it is not base64 at {at}")),
            _ => CaBundle::from_pem(&pem).map_err(|why| why.to_string()),
        };
        match bundle {
            Ok(bundle) => bundles.push((bundle, hooks)),
            Err(why) => {
                report_untrusted(&hooks, &format!("the caBundle cannot be used: {why}"), found);
            }
        }
    }
    bundles
}

fn report_untrusted(hooks: &[Hook<'_>], what: &str, found: &mut Findings) {
    let Some(first) = hooks.first() else { return };
    let all = join_names(hooks.iter().map(Hook::name));
    let what = format!("{what}; in {all}");
    let repair =
        "apply opgate manifests webhook with --ca FILE of the CA that issued the certificate";
    found.add(&UNTRUSTED, first.object, &first.field("clientConfig.caBundle"), &what, repair);
}

fn check_trust(
    facts: &Facts,
    days: ExpiryDays,
    chain: &CertificateChain,
    bundle: &CaBundle,
    hooks: &[Hook<'_>],
    found: &mut Findings,
) {
    // Trust is checked at a time of validity: an expired certificate is reported already.
    let at: SystemTime =
        facts.now.clamp(chain.validity().from, chain.validity().until.max(chain.validity().from));
    match chain.issuer_validities(bundle, at) {
        Ok(all) => check_ca_validity(facts, days, &all, hooks, found),
        Err(why) => {
            report_untrusted(hooks, &format!("the certificate is not accepted: {why}"), found);
        }
    }
}

/// Checks the validity of the CAs that the chain needs.
fn check_ca_validity(
    facts: &Facts,
    days: ExpiryDays,
    all: &[Validity],
    hooks: &[Hook<'_>],
    found: &mut Findings,
) {
    let Some(first) = hooks.first() else { return };
    let field = first.field("clientConfig.caBundle");
    check_validity(facts, days.ca, all, "the CA", &mut |doc, what| {
        let repair = "opgate certs issue --new-ca --out tls --service NAMESPACE/SERVICE; register both CAs first, then store the certificate";
        found.add(doc, first.object, &field, what, repair);
    });
}

/// Returns the chain in the Secret, if it is readable.
fn secret_chain(
    facts: &Facts,
    found: &mut Findings,
) -> Option<(ObjectReference, CertificateChain)> {
    if facts.installation.url.is_some() {
        return None;
    }
    let workload = Workload::of(facts);
    let name = match &workload {
        None => DEFAULT_SECRET,
        Some(workload) => match workload.secret() {
            Some(name) => name,
            None => return report_missing_secret_volume(workload, found),
        },
    };
    if !found.require_kind(facts, Kind::Secret, "the certificate in the Secret") {
        return None;
    }
    let namespace = &facts.installation.namespace;
    let at = ObjectReference::named(Kind::Secret, namespace, name);
    let repair = format!(
        "kubectl -n {} create secret tls {} --cert=tls/tls.crt --key=tls/tls.key",
        shell_word(namespace),
        shell_word(name)
    );
    let Some(secret) = facts.get(Kind::Secret, namespace, name) else {
        found.add(
            &NO_SECRET,
            at,
            "",
            "it does not exist: the servers have no certificate",
            &repair,
        );
        return None;
    };
    if workload.is_some_and(|workload| workload.manages_certificates()) {
        return managed_chain(facts, secret, found).map(|chain| (at, chain));
    }
    unmanaged_chain(secret, &repair, found).map(|chain| (at, chain))
}

/// Returns the chain in a Secret that the servers fill: the installation creates it empty and without a type,
/// because they may update that one Secret and create none.
fn managed_chain(facts: &Facts, secret: &Object, found: &mut Findings) -> Option<CertificateChain> {
    let is_empty = secret.at("/data").and_then(Value::as_object).is_none_or(Map::is_empty);
    if is_empty && !facts.is_cluster {
        found.add_unchecked("the certificate in the Secret", "the servers put it in");
        return None;
    }
    let namespace = shell_word(&facts.installation.namespace);
    let repair = format!(
        "kubectl -n {namespace} logs -l app.kubernetes.io/name=opgate, and look for why no server stores a certificate"
    );
    if is_empty {
        found.add(&NO_SECRET, secret, "data", "the servers have not put a certificate in", &repair);
        return None;
    }
    read_chain(secret, &repair, found)
}

fn unmanaged_chain(
    secret: &Object,
    repair: &str,
    found: &mut Findings,
) -> Option<CertificateChain> {
    let is_tls = secret.text("/type") == "kubernetes.io/tls";
    if !is_tls {
        let what = format!("its type is {:?}", secret.text("/type"));
        let repair = "delete it, and create it again with kubectl create secret tls";
        found.add(&WRONG_SECRET_TYPE, secret, "type", &what, repair);
    }
    read_chain(secret, repair, found)
}

fn read_chain(secret: &Object, repair: &str, found: &mut Findings) -> Option<CertificateChain> {
    let data = |key: &str| secret.at("/data").and_then(|data| data.get(key));
    if data("tls.key").is_none() {
        found.add(&NO_SECRET, secret, "data", "it has no tls.key", repair);
    }
    let mut pem = Vec::new();
    let chain =
        match data("tls.crt").and_then(Value::as_str).map(|text| base64::decode(text, &mut pem)) {
            None => Err("it has no tls.crt".to_owned()),
            Some(Err(_)) => Err("tls.crt is not base64".to_owned()),
            Some(Ok(())) => CertificateChain::from_pem(&pem)
                .map_err(|why| format!("tls.crt cannot be used: {why}")),
        };
    chain.map_err(|why| found.add(&NO_SECRET, secret, "data[tls.crt]", &why, repair)).ok()
}

/// Returns the servers read their certificate from something else than a Secret.
fn report_missing_secret_volume(
    workload: &Workload<'_>,
    found: &mut Findings,
) -> Option<(ObjectReference, CertificateChain)> {
    let directory = workload.flag("--tls-dir", Some("OPGATE_TLS_DIR"));
    let path = directory.or(workload.flag("--tls-cert", Some("OPGATE_TLS_CERT")));
    let what = match path {
        Some(path) if workload.volume(path).is_some() => {
            found.add_unchecked(
                "the certificate in the Secret",
                "the servers read it from another volume",
            );
            return None;
        }
        Some(path) => {
            format!("no volume is mounted at {path:?}, where the servers read their certificate")
        }
        None => "no argument says where the certificate is: the servers do not start".to_owned(),
    };
    let repair = "mount the Secret of the certificate where --tls-dir points";
    found.add(&NO_SECRET, workload.object, &workload.field("volumeMounts"), &what, repair);
    None
}
