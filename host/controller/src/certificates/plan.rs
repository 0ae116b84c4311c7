//! Computes the next step of the leader. Each step leaves a state in which every certificate that a replica
//! serves is trusted, so that a leader can stop after any step and another one can continue.
//!
//! | state | step |
//! |---|---|
//! | no CA that can sign now | add a new one to the bundle; the serving certificate stays |
//! | the CA of a serving certificate is not in the bundle | restore it |
//! | no usable serving certificate, but this replica serves one | restore that one |
//! | a webhook of ours does not have the bundle | set it |
//! | a serving certificate is due, or of an older CA | issue one, after the propagation delay of the CA |
//! | the CA is due | issue a last certificate of it, and add a new CA to the bundle: as above |
//! | a CA has expired, and no replica uses it | remove it |

use std::time::{Duration, SystemTime};

use opgate_certs::{CertificateAuthority, Error, Root};

use super::stored::{CaSigner, MAX_CAS, SecretContents, StoredCertificate};
use super::{CertificateLifetimes, DAY};

/// The observed state of the leader.
pub(super) struct LeaderState<'a> {
    /// The calendar of the API server.
    pub(super) now: SystemTime,
    /// The contents of the Secret, if it exists.
    pub(super) stored: Option<&'a SecretContents>,
    /// The last good bundle and leaf that this replica has seen.
    pub(super) last_good: &'a SecretContents,
    /// The bundles of our webhooks.
    pub(super) webhook_bundles: &'a [Vec<u8>],
    /// For how long all of them have trusted the newest CA.
    pub(super) trusted_for: Option<Duration>,
    /// The CAs of the certificates that replicas serve, if known.
    pub(super) served_cas: Option<&'a [String]>,
    /// The names of our Service; API servers use the first one.
    pub(super) names: &'a [String],
}

/// The next step.
pub(super) enum Step {
    /// Everything is as it should be.
    Done,
    /// Write this to the Secret.
    Write(Box<SecretContents>, &'static str),
    /// Put the bundle into our webhooks.
    UpdateWebhooks,
    /// No step before API servers have noticed.
    Wait,
}

/// Reports whether two thirds of a life are over.
fn is_renewal_due(begin: SystemTime, end: SystemTime, now: SystemTime) -> bool {
    let life = end.duration_since(begin).unwrap_or_default();
    now.duration_since(begin).unwrap_or_default() >= life / 3 * 2
}

/// Reports whether a certificate can be served: of a CA of the bundle, for our name, now.
fn is_usable(leaf: &StoredCertificate, bundle: &[Root], state: &LeaderState<'_>) -> bool {
    is_for_service(leaf, state.names)
        && leaf.is_valid_at(state.now)
        && leaf.issuer(bundle).is_some()
}

/// Reports whether a certificate has the name that API servers use.
pub(super) fn is_for_service(leaf: &StoredCertificate, names: &[String]) -> bool {
    names.first().is_some_and(|name| leaf.pair.names().contains(name))
}

pub(super) fn next_step(
    state: &LeaderState<'_>,
    lifetimes: &CertificateLifetimes,
) -> Result<Step, Error> {
    let none = SecretContents::default();
    let stored = state.stored.unwrap_or(&none);
    let remembered = state.last_good;
    let Some(signer) = stored.signer.as_ref().filter(|signer| signer.is_valid_at(state.now)) else {
        return Ok(Step::Write(rebuild(state, stored, lifetimes)?.into(), "a new CA"));
    };
    // The bundle may lack a CA that an administrator removed although a certificate needs it.
    let leaves = [&stored.certificate, &remembered.certificate].into_iter().flatten();
    for leaf in leaves.filter(|leaf| leaf.is_valid_at(state.now)) {
        if leaf.issuer(&stored.bundle).is_none()
            && let Some(issuer) = leaf.issuer(&remembered.bundle)
        {
            let mut bundle = vec![issuer.clone()];
            bundle.extend(stored.bundle.iter().cloned());
            let new = SecretContents { bundle, ..stored.clone() };
            return Ok(Step::Write(new.into(), "the CA of a leaf again"));
        }
    }
    let leaf = stored.certificate.as_ref().filter(|leaf| is_usable(leaf, &stored.bundle, state));
    if leaf.is_none()
        && let Some(mine) = &remembered.certificate
        && is_usable(mine, &stored.bundle, state)
    {
        let leaf = Some(mine.clone());
        let new = SecretContents { certificate: leaf, ..stored.clone() };
        return Ok(Step::Write(new.into(), "the leaf that is served again"));
    }
    let pem = stored.pem();
    if state.webhook_bundles.iter().any(|bundle| *bundle != pem.as_bytes()) {
        return Ok(Step::UpdateWebhooks);
    }
    let is_new = |leaf: &&StoredCertificate| {
        !is_renewal_due(leaf.pair.not_before(), leaf.pair.not_after(), state.now)
            && leaf.issuer(&stored.bundle) == Some(&signer.root)
    };
    let needs_leaf = !leaf.as_ref().is_some_and(is_new);
    let needs_signer = is_renewal_due(signer.root.not_before(), signer.root.not_after(), state.now);
    if needs_leaf || needs_signer {
        // Before the first leaf there is nothing that API servers could go on to trust.
        let enough =
            if stored.bundle.len() > 1 { lifetimes.ca_propagation_delay } else { Duration::ZERO };
        if state.trusted_for.is_none_or(|noticed| noticed < enough) {
            return Ok(Step::Wait);
        }
        let issued = signer.certificate_authority()?.issue_at(
            state.names,
            state.now,
            lifetimes.serving_certificate,
        )?;
        let leaf = StoredCertificate::of(issued.certificate, issued.key);
        let with_leaf = SecretContents { certificate: leaf, ..stored.clone() };
        if needs_leaf {
            return Ok(Step::Write(with_leaf.into(), "a new leaf"));
        }
        // The old CA issues no more certificates. Its last certificate has its full lifetime left: enough
        // time to fix the distribution of the new CA.
        let new = with_new_ca(with_leaf, state, lifetimes)?;
        return Ok(Step::Write(new.into(), "a new CA"));
    }
    let mut kept = stored.clone();
    kept.bundle.retain(|root| !is_expired(root, stored, state));
    if kept.bundle.len() < stored.bundle.len() {
        return Ok(Step::Write(kept.into(), "without the CA that has ended"));
    }
    Ok(Step::Done)
}

/// Reports whether a CA has expired and no replica serves a certificate of it. The calendar alone is not
/// sufficient: it can jump.
fn is_expired(root: &Root, stored: &SecretContents, state: &LeaderState<'_>) -> bool {
    state.now >= root.not_after() + DAY && !is_needed(root, stored, state)
}

/// Reports whether a replica serves, or may serve, a certificate of a CA.
fn is_needed(root: &Root, stored: &SecretContents, state: &LeaderState<'_>) -> bool {
    let of = |leaf: &Option<StoredCertificate>| {
        leaf.as_ref().is_some_and(|leaf| leaf.is_issued_by(root))
    };
    stored.signer.as_ref().is_some_and(|signer| signer.root == *root)
        || of(&stored.certificate)
        || of(&state.last_good.certificate)
        || state.served_cas.is_none_or(|used| used.iter().any(|digest| digest == root.digest()))
}

/// Builds the contents after the loss of the Secret or of its CA, or for a new installation: all CAs that may
/// be in use, and a new one.
fn rebuild(
    state: &LeaderState<'_>,
    stored: &SecretContents,
    lifetimes: &CertificateLifetimes,
) -> Result<SecretContents, Error> {
    let mut bundle = Vec::new();
    let trusted = state.webhook_bundles.iter().flat_map(|bundle| Root::from_pem(bundle));
    let remembered = state.last_good.bundle.iter().cloned();
    for root in trusted.chain(remembered).chain(stored.bundle.iter().cloned()) {
        if !bundle.contains(&root) {
            bundle.push(root);
        }
    }
    let served = |leaf: &&StoredCertificate| {
        is_for_service(leaf, state.names) && leaf.issuer(&bundle).is_some()
    };
    let leaves =
        [&stored.certificate, &state.last_good.certificate].into_iter().flatten().filter(served);
    let leaf = leaves.max_by_key(|leaf| (leaf.is_valid_at(state.now), leaf.pair.not_after()));
    let leaf = leaf.cloned();
    let mut rebuilt = SecretContents { bundle, signer: None, certificate: leaf };
    let whole = rebuilt.clone();
    rebuilt.bundle.retain(|root| !is_expired(root, &whole, state));
    with_new_ca(rebuilt, state, lifetimes)
}

/// Adds a new CA to the bundle.
fn with_new_ca(
    mut stored: SecretContents,
    state: &LeaderState<'_>,
    lifetimes: &CertificateLifetimes,
) -> Result<SecretContents, Error> {
    let authority = CertificateAuthority::create_at(state.now, lifetimes.ca)?;
    stored.signer = None;
    while stored.bundle.len() >= MAX_CAS {
        // The oldest unused one; if all are used, the oldest.
        let unused = stored.bundle.iter().position(|root| !is_needed(root, &stored, state));
        stored.bundle.remove(unused.unwrap_or_default());
    }
    if let Some(root) = Root::from_pem(authority.certificate().as_bytes()).into_iter().next() {
        stored.bundle.push(root.clone());
        stored.signer = Some(CaSigner { root, key: authority.key() });
    }
    Ok(stored)
}
