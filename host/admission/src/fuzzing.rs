//! Parts of private modules for the fuzz targets (`fuzz/`). Nothing else uses them.
//!
//! ```text
//! pages, lines of a watch ─▶ PolicyView: the objects that a policy would see
//! ```

use opgate_cluster::{Declaration, Key, Resource, Selector};

use crate::cluster::watch::decode::{self, Event, Page, PageReader};
use crate::cluster::{
    ClusterOptions, ClusterState, Listing, PossibleState, ResolvedRead, ResourceCache, Source,
};

/// The reason why a message of an API server is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ViewError(String);

/// The objects of one resource as an API server has reported them, without the connection. The
/// field `spec.a` of objects is stored.
#[derive(Debug)]
pub struct View {
    cluster: ClusterState,
    listing: Listing,
    version: String,
}

/// An object for a policy.
#[derive(Debug)]
pub struct Seen {
    /// Its `resourceVersion`.
    pub version: String,
    /// The stored JSON.
    pub kept: String,
}

impl View {
    /// A view before the first message of the API server.
    ///
    /// # Errors
    /// Does not fail, because the declaration is valid.
    pub fn new() -> Result<Self, ViewError> {
        let reading = ResolvedRead {
            resource: Resource { group: String::new(), version: "v1".into(), resource: "r".into() },
            declaration: Declaration::new(&["/spec/a".to_owned()], &[], &[])
                .map_err(|why| ViewError(why.to_string()))?,
            labels: Selector::default(),
            namespace: None,
            optional: false,
        };
        let cluster = ClusterState::new(&[reading], ClusterOptions::of(Source::Live));
        Ok(Self { cluster, listing: Listing::default(), version: String::new() })
    }

    fn kind(&self) -> Result<&ResourceCache, ViewError> {
        let kind = self.cluster.caches().first();
        kind.map(|kind| &**kind).ok_or_else(|| ViewError("no resource is read".to_owned()))
    }

    /// Reads a page of a list: the number of its objects, and the token to continue. After the
    /// last page, the list replaces all objects.
    ///
    /// # Errors
    /// If it is not a page.
    pub fn page(&mut self, json: &[u8]) -> Result<(usize, String), ViewError> {
        let mut listing = std::mem::take(&mut self.listing);
        let (mut text, mut rest) = (PageReader::default(), json);
        while let Some(item) = text.next(&mut rest).map_err(|error| ViewError(error.to_string()))? {
            let kind = self.kind()?;
            let change = decode::read_item(kind.resolved_read(), item, "")
                .map_err(|why| ViewError(why.to_string()))?;
            if let Some(change) = change {
                kind.add(&mut listing, change);
            }
        }
        let Page { count, next, version } =
            text.finish().map_err(|error| ViewError(error.to_string()))?;
        if next.is_empty() {
            version.clone_into(&mut self.version);
            listing.version = version;
            self.kind()?.replace(listing, tokio::time::Instant::now());
        } else {
            self.listing = listing;
        }
        Ok((count, next))
    }

    /// Reads a line of a watch.
    ///
    /// # Errors
    /// If it is not an event, or is an error, or has an earlier version.
    pub fn event(&mut self, line: &[u8]) -> Result<(), ViewError> {
        let mut version = std::mem::take(&mut self.version);
        let kind = self.kind()?;
        let read = Event::read(kind.resolved_read(), line.to_vec());
        let read = read.and_then(|event| event.apply_to(kind, &mut version));
        self.version = version;
        read.map_err(|error| ViewError(error.to_string()))
    }

    /// The version up to which the view is complete.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The number of objects, including unreadable ones.
    ///
    /// # Errors
    /// Does not fail.
    pub fn objects(&self) -> Result<usize, ViewError> {
        let status = self.kind()?.status();
        Ok(status.objects + status.unreadable)
    }

    /// One object.
    ///
    /// # Errors
    /// If there is no result.
    pub fn object(&self, namespace: &str, name: &str) -> Result<Option<Seen>, ViewError> {
        let got = self.kind()?.get(&Key::new(namespace, name), None, PossibleState::Stored);
        let seen = got.map_err(|why| ViewError(format!("{why:?}")))?.object.map(|object| Seen {
            version: object.resource_version().to_owned(),
            kept: object.document().root().raw().into_owned(),
        });
        Ok(seen)
    }
}
