//! The reports that a cluster has, by their metadata.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use opgate_admission::cluster::{Connection, ListFilter, PageBackoff, ReadFailure};
use opgate_document::{Document, Value};

use super::{DIGEST_ANNOTATION, FIELD_MANAGER, ReportApi, ReportKey, ReportOwner, group_of};

/// Maximum number of reports. Each takes some hundred bytes of memory.
const MAX_REPORTS: usize = 1_000_000;

/// Maximum bytes of a group or kind, as an API server limits them. Other clients can write anything into a reference.
const MAX_NAME_BYTES: usize = 253;

/// Members of a report that only opgate writes.
const CONTENT_FIELDS: [&str; 4] = ["f:results", "f:scope", "f:source", "f:summary"];

/// A report that the cluster has.
#[derive(Debug)]
pub(super) struct StoredReport {
    /// UID of the report itself.
    pub(super) uid: String,
    /// The version that was listed. Only this one is deleted.
    pub(super) resource_version: String,
    /// Group and kind of its object.
    pub(super) owner_group: String,
    pub(super) owner_kind: String,
    /// The digest of its content, unless another client has changed that.
    pub(super) digest: Option<String>,
    /// Whether it stays although no result was added for it.
    pub(super) is_kept: bool,
}

/// All reports of opgate.
#[derive(Debug, Default)]
pub(super) struct StoredReports(BTreeMap<ReportKey, StoredReport>);

impl StoredReports {
    /// Lists them, or those of one namespace.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub(super) async fn read(
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
        owner: &ReportOwner,
    ) -> Result<Self, ReadFailure> {
        let (mut found, mut backoff) = (BTreeMap::new(), PageBackoff::default());
        let (label, prefix) = (owner.selector(), owner.name_prefix());
        let selected = ListFilter { namespace, labels: Some(&label) };
        for is_namespaced in [true, false] {
            if namespace.is_some() && !is_namespaced {
                continue;
            }
            let resource = api.listed_resource(is_namespaced);
            let visit = |document: Document| {
                if found.len() >= MAX_REPORTS {
                    return ControlFlow::Break(());
                }
                found.extend(stored_report(document.root(), &prefix));
                ControlFlow::Continue(())
            };
            let listed =
                connection.for_each_metadata(&resource, selected, &mut backoff, visit).await;
            listed.map_err(|ReadFailure { is_forbidden, reason }| ReadFailure {
                is_forbidden,
                reason: format!("{resource}: {reason}"),
            })?;
        }
        if found.len() >= MAX_REPORTS {
            let reason = format!("{}: more than {MAX_REPORTS} reports", api.group());
            return Err(ReadFailure { is_forbidden: false, reason });
        }
        Ok(Self(found))
    }

    pub(super) fn get_mut(&mut self, key: &ReportKey) -> Option<&mut StoredReport> {
        self.0.get_mut(key)
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (ReportKey, StoredReport)> {
        self.0.into_iter()
    }

    #[cfg(test)]
    pub(super) fn of(objects: &[Document]) -> Self {
        let prefix = ReportOwner::default().name_prefix();
        Self(objects.iter().filter_map(|object| stored_report(object.root(), &prefix)).collect())
    }
}

/// Reads the metadata of a report; none if its name is not that of an object that it names as its owner: then
/// another client created it.
fn stored_report(object: Value<'_>, prefix: &str) -> Option<(ReportKey, StoredReport)> {
    let metadata = object.get("/metadata")?;
    let name = text(metadata, "/name");
    let uid = name.strip_prefix(prefix)?;
    let mut owners = metadata.get("/ownerReferences")?.items();
    let owner = owners.find(|owner| text(*owner, "/uid") == uid)?;
    let (group, kind) = (group_of(text(owner, "/apiVersion")), text(owner, "/kind"));
    if group.len() > MAX_NAME_BYTES || kind.len() > MAX_NAME_BYTES {
        return None;
    }
    let annotations = metadata.get("/annotations");
    let mut annotations = annotations.into_iter().flat_map(|all| all.members());
    let digest = annotations.find(|(key, _)| *key == DIGEST_ANNOTATION);
    let digest = digest.and_then(|(_, value)| value.text()).filter(|text| is_digest(text));
    let report = StoredReport {
        uid: text(metadata, "/uid").to_owned(),
        resource_version: text(metadata, "/resourceVersion").to_owned(),
        owner_group: group.to_owned(),
        owner_kind: kind.to_owned(),
        digest: digest.filter(|_| is_unchanged(metadata)).map(str::to_owned),
        is_kept: false,
    };
    let namespace = text(metadata, "/namespace").to_owned();
    Some((ReportKey { namespace, name: name.to_owned() }, report))
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reports whether only opgate has written the content, as far as the API server records it.
fn is_unchanged(metadata: Value<'_>) -> bool {
    let (mut is_own, mut is_foreign) = (false, false);
    for manager in metadata.get("/managedFields").into_iter().flat_map(|all| all.items()) {
        let fields = manager.get("/fieldsV1").into_iter().flat_map(|fields| fields.members());
        let has_content = fields.into_iter().any(|(name, _)| CONTENT_FIELDS.contains(&name));
        let is_opgate =
            text(manager, "/manager") == FIELD_MANAGER && text(manager, "/operation") == "Apply";
        is_own |= has_content && is_opgate;
        is_foreign |= has_content && !is_opgate;
    }
    is_own && !is_foreign
}

fn text<'d>(value: Value<'d>, pointer: &str) -> &'d str {
    value.get(pointer).and_then(|value| value.text()).unwrap_or_default()
}
