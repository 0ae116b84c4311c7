//! Answers queries about a resource: one object, or a page of those that match.

use std::sync::Arc;

use opgate_cluster::{Key, Object, Query};
use opgate_document::Meter;
use opgate_engine::reader::CacheUnavailable;

use super::ResourceCache;
use super::status::CacheState;
use crate::cluster::reservations::possible_state::{ObjectCopies, PossibleState, ResourceView};
use crate::cluster::reservations::{ChangeContent, stored};
use crate::cluster::store::listing::Listing;
use crate::cluster::store::unreadable::MissingContent;

/// One object in a possible state.
#[derive(Debug, Default)]
pub(crate) struct ObjectLookup {
    pub(crate) object: Option<Arc<Object>>,
    /// Whether it differs in another possible state.
    pub(in crate::cluster) differs_by_state: bool,
    /// Whether the possible state cannot show the object as it may be stored.
    pub(in crate::cluster) is_unsure: bool,
}

/// A page of objects in a possible state.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ResultPage {
    pub(in crate::cluster) objects: Vec<Arc<Object>>,
    /// Objects that change the result in other possible states.
    pub(in crate::cluster) pending_objects: Vec<Key>,
    /// The number of copies of its last object that were shown so far.
    pub(in crate::cluster) copies_of_last: usize,
    /// Whether the possible state cannot show an object that may match as it may be stored.
    pub(in crate::cluster) is_unsure: bool,
}

impl ResourceCache {
    /// Returns one object in a possible state. The result of a direct read is used if it is newer.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub(crate) fn get<'s>(
        &self,
        key: &Key,
        direct_read: Option<&Listing>,
        resource_view: impl Into<ResourceView<'s>>,
    ) -> Result<ObjectLookup, CacheUnavailable> {
        let resource_view = resource_view.into();
        let world = resource_view.state;
        let state = self.state.read();
        let base = self.base_listing(&state, direct_read)?;
        let object = base.objects.get(key);
        if let Some((key, why)) = base.unreadable.get(key).filter(|_| object.is_none()) {
            return Err(self.unreadable_error(key, why));
        }
        let Some(shown) = state.reservations.of(key) else {
            return Ok(ObjectLookup { object: object.cloned(), ..ObjectLookup::default() });
        };
        let shown = resource_view.visible(shown);
        let stored = stored(object, shown.direct_read);
        let touches = shown.pending(stored).next().is_some();
        let (object, is_unsure) = match world {
            PossibleState::Stored | PossibleState::UnionPreferStored => (stored, false),
            PossibleState::Pending(_) | PossibleState::UnionPreferPending => {
                let copies = ObjectCopies::of(world, object, &shown);
                let is_unsure = copies.is_ambiguous || !copies.outlines.is_empty();
                // The latest request.
                (copies.objects.last().copied(), is_unsure)
            }
        };
        Ok(ObjectLookup { object: object.cloned(), differs_by_state: touches, is_unsure })
    }

    /// Returns the matching objects in a possible state. `skip` is the number of copies that were
    /// already shown of the object after which the page starts. The work is charged to the meter.
    /// If the meter stops, the result is not used.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub(in crate::cluster) fn select<'s>(
        &self,
        query: &Query,
        skip: usize,
        direct_read: Option<&Listing>,
        resource_view: impl Into<ResourceView<'s>>,
        meter: Option<&Meter>,
    ) -> Result<ResultPage, CacheUnavailable> {
        let resource_view = resource_view.into();
        let world = resource_view.state;
        let spend = |units| meter.is_none_or(|meter| meter.spend(units));
        let state = self.state.read();
        let base = self.base_listing(&state, direct_read)?;
        let namespace = query.namespace.as_deref();
        if let Some((key, why)) = base.unreadable.first(query, meter) {
            return Err(self.unreadable_error(key, why));
        }
        if state.reservations.is_empty() {
            let objects = base.objects.select_metered(query, query.limit, meter);
            return Ok(ResultPage { objects, copies_of_last: usize::MAX, ..ResultPage::default() });
        }
        let more = match query.limit {
            0 => 0,
            limit => limit.saturating_add(state.reservations.key_count()),
        };
        let mut objects = base.objects.select_metered(query, more, meter);
        objects.retain(|object| spend(8) && state.reservations.of(object.key()).is_none());
        let (mut pending_objects, mut is_unsure) = (Vec::new(), false);
        for shown in state.reservations.within(namespace).take_while(|_| spend(8)) {
            let shown = resource_view.visible(shown);
            let object = base.objects.get(shown.key);
            let stored = stored(object, shown.direct_read);
            let holds = |object: &Arc<Object>| query.is_match_metered(object, meter);
            let may_hold = |form: &ChangeContent| {
                form.object().is_some_and(holds)
                    || form.outline().is_some_and(|outline| outline.may_match(query))
            };
            let mut pending = shown.pending(stored).peekable();
            if pending.peek().is_some() && (stored.is_some_and(holds) || pending.any(may_hold)) {
                pending_objects.push(shown.key.clone());
            }
            let copies = ObjectCopies::of(world, object, &shown);
            is_unsure |= copies.outlines.iter().any(|outline| outline.may_match(query));
            let seen = match &query.after {
                Some(after) if shown.key < after => continue,
                Some(after) if shown.key == after => skip,
                _ => 0,
            };
            let copies = copies.objects.into_iter().filter(|copy| holds(copy));
            objects.extend(copies.skip(seen).cloned());
        }
        // The copies of one object keep their order.
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        if query.limit > 0 {
            objects.truncate(query.limit);
        }
        let last = objects.last().map(|object| object.key());
        let copies_of_last = objects.iter().rev().take_while(|o| Some(o.key()) == last).count();
        let before = if last.is_some() && last == query.after.as_ref() { skip } else { 0 };
        let copies_of_last = copies_of_last.saturating_add(before);
        Ok(ResultPage { objects, pending_objects, copies_of_last, is_unsure })
    }

    /// The source of a result: the watch, or a newer direct read. A direct read does not need a
    /// current watch.
    fn base_listing<'s>(
        &self,
        state: &'s CacheState,
        direct_read: Option<&'s Listing>,
    ) -> Result<&'s Listing, CacheUnavailable> {
        if let Some(direct_read) = direct_read
            && (state.synced.is_none()
                || state.interrupted().is_some()
                || state.is_stale(&self.options)
                || !is_at_least(&state.listing.version, &direct_read.version))
        {
            return Ok(direct_read);
        }
        // The watch is ahead of the direct read, so it is current.
        let why = state.not_ready_reason(&self.options).filter(|_| direct_read.is_none());
        let Some(why) = why else { return Ok(&state.listing) };
        let why = format!("{} {why}", self.resource());
        Err(if state.is_listing() {
            CacheUnavailable::Listing(why)
        } else {
            CacheUnavailable::NotReady(why)
        })
    }

    fn unreadable_error(&self, key: &Key, why: &MissingContent) -> CacheUnavailable {
        let line = |text: &str| opgate_text::one_line(text, 253);
        let (namespace, name) = (line(&key.namespace), line(&key.name));
        let name = if name.is_empty() { "more objects" } else { &name };
        CacheUnavailable::NotReady(format!(
            "{} holds {namespace}/{name}, which cannot be read: {why}",
            self.resource()
        ))
    }
}

/// Whether a version differs or is later. Versions that are not numbers have no order.
fn is_at_least(version: &str, other: &str) -> bool {
    match (version.parse::<u64>(), other.parse::<u64>()) {
        (Ok(version), Ok(other)) => version >= other,
        _ => false,
    }
}
