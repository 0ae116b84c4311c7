//! Answers queries about a resource: one object, or a page of those that match.

use std::sync::Arc;

use opgate_cluster::{Key, Object, Query};
use opgate_document::Meter;
use opgate_engine::reader::NotCurrent;

use super::ResourceCache;
use super::status::CacheState;
use crate::cluster::reservations::{Form, stored};
use crate::cluster::unreadable::NotKept;
use crate::cluster::view::{Copies, Listing, PossibleState, Sight};

/// One object in a possible state.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) object: Option<Arc<Object>>,
    /// Whether it differs in another possible state.
    pub(in crate::cluster) touches: bool,
    /// Whether the possible state cannot show the object as it may be stored.
    pub(in crate::cluster) is_unsure: bool,
}

/// A page of objects in a possible state.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Selected {
    pub(in crate::cluster) objects: Vec<Arc<Object>>,
    /// Objects that change the result in other possible states.
    pub(in crate::cluster) touched: Vec<Key>,
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
        fresh: Option<&Listing>,
        sight: impl Into<Sight<'s>>,
    ) -> Result<Got, NotCurrent> {
        let sight = sight.into();
        let world = sight.world;
        let state = self.state.read();
        let base = self.base(&state, fresh)?;
        let object = base.objects.get(key);
        if let Some((key, why)) = base.unreadable.get(key).filter(|_| object.is_none()) {
            return Err(self.unreadable(key, why));
        }
        let Some(shown) = state.reserved.of(key) else {
            return Ok(Got { object: object.cloned(), ..Got::default() });
        };
        let shown = sight.of(shown);
        let stored = stored(object, shown.known);
        let touches = shown.pending(stored).next().is_some();
        let (object, is_unsure) = match world {
            PossibleState::Stored | PossibleState::UnionPreferStored => (stored, false),
            PossibleState::Pending(_) | PossibleState::UnionPreferPending => {
                let copies = Copies::of(world, object, &shown);
                let is_unsure = copies.is_joined || !copies.outlines.is_empty();
                // The latest request.
                (copies.objects.last().copied(), is_unsure)
            }
        };
        Ok(Got { object: object.cloned(), touches, is_unsure })
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
        fresh: Option<&Listing>,
        sight: impl Into<Sight<'s>>,
        meter: Option<&Meter>,
    ) -> Result<Selected, NotCurrent> {
        let sight = sight.into();
        let world = sight.world;
        let spend = |units| meter.is_none_or(|meter| meter.spend(units));
        let state = self.state.read();
        let base = self.base(&state, fresh)?;
        let namespace = query.namespace.as_deref();
        if let Some((key, why)) = base.unreadable.first(query, meter) {
            return Err(self.unreadable(key, why));
        }
        if state.reserved.is_empty() {
            let objects = base.objects.select_for(query, query.limit, meter);
            return Ok(Selected { objects, copies_of_last: usize::MAX, ..Selected::default() });
        }
        let more = match query.limit {
            0 => 0,
            limit => limit.saturating_add(state.reserved.keys()),
        };
        let mut objects = base.objects.select_for(query, more, meter);
        objects.retain(|object| spend(8) && state.reserved.of(object.key()).is_none());
        let (mut touched, mut is_unsure) = (Vec::new(), false);
        for shown in state.reserved.within(namespace).take_while(|_| spend(8)) {
            let shown = sight.of(shown);
            let object = base.objects.get(shown.key);
            let stored = stored(object, shown.known);
            let holds = |object: &Arc<Object>| query.holds_for(object, meter);
            let may_hold = |form: &Form| {
                form.object().is_some_and(holds)
                    || form.outline().is_some_and(|outline| outline.may_match(query))
            };
            let mut pending = shown.pending(stored).peekable();
            if pending.peek().is_some() && (stored.is_some_and(holds) || pending.any(may_hold)) {
                touched.push(shown.key.clone());
            }
            let copies = Copies::of(world, object, &shown);
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
        Ok(Selected { objects, touched, copies_of_last, is_unsure })
    }

    /// The source of a result: the watch, or a newer direct read. A direct read does not need a
    /// current watch.
    fn base<'s>(
        &self,
        state: &'s CacheState,
        fresh: Option<&'s Listing>,
    ) -> Result<&'s Listing, NotCurrent> {
        if let Some(fresh) = fresh
            && (state.synced.is_none()
                || state.interrupted().is_some()
                || state.is_too_old(&self.options)
                || !is_at_least(&state.listing.version, &fresh.version))
        {
            return Ok(fresh);
        }
        // The watch is ahead of the direct read, so it is current.
        let why = state.why_not_current(&self.options).filter(|_| fresh.is_none());
        let Some(why) = why else { return Ok(&state.listing) };
        let why = format!("{} {why}", self.resource());
        Err(if state.is_listing() { NotCurrent::Listing(why) } else { NotCurrent::Unknown(why) })
    }

    fn unreadable(&self, key: &Key, why: &NotKept) -> NotCurrent {
        let line = |text: &str| opgate_text::one_line(text, 253);
        let (namespace, name) = (line(&key.namespace), line(&key.name));
        let name = if name.is_empty() { "more objects" } else { &name };
        NotCurrent::Unknown(format!(
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
