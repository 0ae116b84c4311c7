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

use opgate_certs::{Authority, Error, Root};

use super::stored::{Leaf, Signer, Stored};
use super::{DAY, Times};

/// Maximum number of CAs of a bundle: each is 0.7 KiB in every webhook. There are two while a CA changes.
pub(super) const MOST: usize = 8;

/// The observed state of the leader.
pub(super) struct View<'a> {
    /// The calendar of the API server.
    pub(super) now: SystemTime,
    /// The contents of the Secret, if it exists.
    pub(super) stored: Option<&'a Stored>,
    /// The last good bundle and leaf that this replica has seen.
    pub(super) remembered: &'a Stored,
    /// The bundles of our webhooks.
    pub(super) trusting: &'a [Vec<u8>],
    /// For how long all of them have trusted the newest CA.
    pub(super) noticed: Option<Duration>,
    /// The CAs of the certificates that replicas serve, if known.
    pub(super) in_use: Option<&'a [String]>,
    /// The names of our Service; API servers use the first one.
    pub(super) names: &'a [String],
}

/// The next step.
pub(super) enum Step {
    /// Everything is as it should be.
    Rest,
    /// Write this to the Secret.
    Write(Box<Stored>, &'static str),
    /// Put the bundle into our webhooks.
    Trust,
    /// No step before API servers have noticed.
    Wait,
}

/// Reports whether two thirds of a life are over.
fn is_due(begin: SystemTime, end: SystemTime, now: SystemTime) -> bool {
    let life = end.duration_since(begin).unwrap_or_default();
    now.duration_since(begin).unwrap_or_default() >= life / 3 * 2
}

/// Reports whether a certificate can be served: of a CA of the bundle, for our name, now.
fn is_usable(leaf: &Leaf, bundle: &[Root], view: &View<'_>) -> bool {
    is_for(leaf, view.names) && leaf.is_valid_at(view.now) && leaf.issuer(bundle).is_some()
}

/// Reports whether a certificate has the name that API servers use.
pub(super) fn is_for(leaf: &Leaf, names: &[String]) -> bool {
    names.first().is_some_and(|name| leaf.pair.names().contains(name))
}

pub(super) fn step(view: &View<'_>, times: &Times) -> Result<Step, Error> {
    let none = Stored::default();
    let stored = view.stored.unwrap_or(&none);
    let remembered = view.remembered;
    let Some(signer) = stored.signer.as_ref().filter(|signer| signer.is_valid_at(view.now)) else {
        return Ok(Step::Write(healed(view, stored, times)?.into(), "a new CA"));
    };
    // The bundle may lack a CA that an administrator removed although a certificate needs it.
    let leaves = [&stored.leaf, &remembered.leaf].into_iter().flatten();
    for leaf in leaves.filter(|leaf| leaf.is_valid_at(view.now)) {
        if leaf.issuer(&stored.bundle).is_none()
            && let Some(issuer) = leaf.issuer(&remembered.bundle)
        {
            let mut bundle = vec![issuer.clone()];
            bundle.extend(stored.bundle.iter().cloned());
            let new = Stored { bundle, ..stored.clone() };
            return Ok(Step::Write(new.into(), "the CA of a leaf again"));
        }
    }
    let leaf = stored.leaf.as_ref().filter(|leaf| is_usable(leaf, &stored.bundle, view));
    if leaf.is_none()
        && let Some(mine) = &remembered.leaf
        && is_usable(mine, &stored.bundle, view)
    {
        let leaf = Some(mine.clone());
        let new = Stored { leaf, ..stored.clone() };
        return Ok(Step::Write(new.into(), "the leaf that is served again"));
    }
    let pem = stored.pem();
    if view.trusting.iter().any(|bundle| *bundle != pem.as_bytes()) {
        return Ok(Step::Trust);
    }
    let is_new = |leaf: &&Leaf| {
        !is_due(leaf.pair.not_before(), leaf.pair.not_after(), view.now)
            && leaf.issuer(&stored.bundle) == Some(&signer.root)
    };
    let needs_leaf = !leaf.as_ref().is_some_and(is_new);
    let needs_signer = is_due(signer.root.not_before(), signer.root.not_after(), view.now);
    if needs_leaf || needs_signer {
        // Before the first leaf there is nothing that API servers could go on to trust.
        let enough = if stored.bundle.len() > 1 { times.notice } else { Duration::ZERO };
        if view.noticed.is_none_or(|noticed| noticed < enough) {
            return Ok(Step::Wait);
        }
        let issued = signer.authority()?.issue_at(view.names, view.now, times.leaf)?;
        let leaf = Leaf::of(issued.certificate, issued.key);
        let with_leaf = Stored { leaf, ..stored.clone() };
        if needs_leaf {
            return Ok(Step::Write(with_leaf.into(), "a new leaf"));
        }
        // The old CA issues no more certificates. Its last certificate has its full lifetime left: enough
        // time to fix the distribution of the new CA.
        let new = with_authority(with_leaf, view, times)?;
        return Ok(Step::Write(new.into(), "a new CA"));
    }
    let mut kept = stored.clone();
    kept.bundle.retain(|root| !is_over(root, stored, view));
    if kept.bundle.len() < stored.bundle.len() {
        return Ok(Step::Write(kept.into(), "without the CA that has ended"));
    }
    Ok(Step::Rest)
}

/// Reports whether a CA has expired and no replica serves a certificate of it. The calendar alone is not
/// sufficient: it can jump.
fn is_over(root: &Root, stored: &Stored, view: &View<'_>) -> bool {
    view.now >= root.not_after() + DAY && !is_needed(root, stored, view)
}

/// Reports whether a replica serves, or may serve, a certificate of a CA.
fn is_needed(root: &Root, stored: &Stored, view: &View<'_>) -> bool {
    let of = |leaf: &Option<Leaf>| leaf.as_ref().is_some_and(|leaf| leaf.is_of(root));
    stored.signer.as_ref().is_some_and(|signer| signer.root == *root)
        || of(&stored.leaf)
        || of(&view.remembered.leaf)
        || view.in_use.is_none_or(|used| used.iter().any(|digest| digest == root.digest()))
}

/// Builds the contents after the loss of the Secret or of its CA, or for a new installation: all CAs that may
/// be in use, and a new one.
fn healed(view: &View<'_>, stored: &Stored, times: &Times) -> Result<Stored, Error> {
    let mut bundle = Vec::new();
    let trusted = view.trusting.iter().flat_map(|bundle| Root::all(bundle));
    let remembered = view.remembered.bundle.iter().cloned();
    for root in trusted.chain(remembered).chain(stored.bundle.iter().cloned()) {
        if !bundle.contains(&root) {
            bundle.push(root);
        }
    }
    let served = |leaf: &&Leaf| is_for(leaf, view.names) && leaf.issuer(&bundle).is_some();
    let leaves = [&stored.leaf, &view.remembered.leaf].into_iter().flatten().filter(served);
    let leaf = leaves.max_by_key(|leaf| (leaf.is_valid_at(view.now), leaf.pair.not_after()));
    let leaf = leaf.cloned();
    let mut healed = Stored { bundle, signer: None, leaf };
    let whole = healed.clone();
    healed.bundle.retain(|root| !is_over(root, &whole, view));
    with_authority(healed, view, times)
}

/// Adds a new CA to the bundle.
fn with_authority(mut stored: Stored, view: &View<'_>, times: &Times) -> Result<Stored, Error> {
    let authority = Authority::create_at(view.now, times.authority)?;
    stored.signer = None;
    while stored.bundle.len() >= MOST {
        // The oldest unused one; if all are used, the oldest.
        let unused = stored.bundle.iter().position(|root| !is_needed(root, &stored, view));
        stored.bundle.remove(unused.unwrap_or_default());
    }
    if let Some(root) = Root::all(authority.certificate().as_bytes()).into_iter().next() {
        stored.bundle.push(root.clone());
        stored.signer = Some(Signer { root, key: authority.key() });
    }
    Ok(stored)
}
