//! Facts in files: manifests, or what `kubectl get -A -o yaml` prints.
//!
//! Files are read three times, so that a dump of a large cluster needs no memory for irrelevant objects: once
//! for the webhooks, which identify the installation, once for its namespace, and once for the objects that
//! both of them name.

use std::path::PathBuf;

use opgate_files::dump::{Dump, open};
use opgate_input::read::Reader;
use serde_json::Value;

use super::lease;
use super::object::{Kind, Object};
use super::related_objects::{self, MAX_OBJECTS, is_slice_of};
use super::{Facts, Installation, installations};

/// Contents of files.
pub struct DumpedCluster {
    dumps: Vec<Dump>,
    /// Kinds that are in them.
    kinds: Vec<Kind>,
    /// Whether a cluster has written them.
    is_cluster: bool,
    webhooks: Vec<Object>,
}

impl DumpedCluster {
    /// Opens files and directories.
    ///
    /// # Errors
    /// Fails for unreadable input and for input without objects.
    pub fn open(paths: &[PathBuf], reader: &Reader) -> anyhow::Result<Self> {
        let (mut dumps, mut errors) = (Vec::new(), Vec::new());
        for path in paths {
            match open(path, reader) {
                Ok(more) => dumps.extend(more),
                Err(why) => errors.push(why.to_string()),
            }
        }
        anyhow::ensure!(errors.is_empty(), errors.join("\n"));
        for dump in &mut dumps {
            let parts = dump.slots().iter().map(|slot| dump.read(slot, reader).unreadable_list());
            let mut lists: Vec<_> = parts.flatten().collect();
            lists.dedup();
            dump.keep_whole(&lists);
        }
        let mut dumped = Self { dumps, kinds: Vec::new(), is_cluster: false, webhooks: Vec::new() };
        let (mut kinds, mut is_cluster, mut webhooks) = (Vec::new(), false, Vec::new());
        let mut count = 0_usize;
        dumped.for_each_object(reader, true, &mut |kind, object| {
            count = count.saturating_add(1);
            is_cluster |= object.at("/metadata/uid").is_some();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            if kind == Kind::ValidatingWebhookConfiguration && webhooks.len() < MAX_OBJECTS {
                webhooks.push(object);
            }
        })?;
        anyhow::ensure!(
            count > 0,
            "no object in it that the doctor knows: give it what `opgate manifests all` or `kubectl get -A -o yaml` prints"
        );
        (dumped.kinds, dumped.is_cluster, dumped.webhooks) = (kinds, is_cluster, webhooks);
        Ok(dumped)
    }

    /// Returns the installations that the webhooks call.
    pub fn installations(&self) -> Vec<Installation> {
        installations(self.webhooks.iter())
    }

    /// Returns the facts about one of them.
    ///
    /// # Errors
    /// If the files have changed meanwhile.
    pub fn facts(self, installation: Installation, reader: &Reader) -> anyhow::Result<Facts> {
        let mut facts = Facts::new(installation, self.is_cluster);
        for object in &self.webhooks {
            facts.insert(object.clone());
        }
        let namespace = facts.installation.namespace.clone();
        let mut too_many = Vec::new();
        let mut keep = |facts: &mut Facts, object: Object| {
            if facts.count(object.kind) < MAX_OBJECTS {
                facts.insert(object);
            } else if !too_many.contains(&object.kind) {
                too_many.push(object.kind);
            }
        };
        let mut newest = None;
        self.for_each_object(reader, false, &mut |kind, object| {
            if kind == Kind::Lease {
                // Leases of nodes are renewed every ten seconds.
                newest = newest.max(lease::renew_time(&object));
            }
            facts.olm_accounts.extend(related_objects::olm_accounts(&object));
            let counts = match kind {
                Kind::ClusterRoleBinding | Kind::RoleBinding => {
                    related_objects::binds_account(&object, &namespace)
                }
                Kind::Namespace | Kind::Node | Kind::MutatingWebhookConfiguration => true,
                Kind::ValidatingWebhookConfiguration | Kind::ClusterRole | Kind::Role => false,
                _ => object.namespace == namespace,
            };
            if counts {
                keep(&mut facts, object);
            }
        })?;
        facts.dump_time = newest;
        let (roles, services) =
            (related_objects::bound_roles(&facts), related_objects::third_party_services(&facts));
        self.for_each_object(reader, false, &mut |kind, object| {
            let of = |object: &Object| (object.namespace.clone(), object.name.clone());
            let counts = match kind {
                Kind::ClusterRole | Kind::Role => {
                    roles.contains(&(kind, object.namespace.clone(), object.name.clone()))
                }
                Kind::Service => services.contains(&of(&object)),
                Kind::EndpointSlice => {
                    let mut services = services.iter().filter(|(of, _)| *of == object.namespace);
                    services.any(|(_, name)| is_slice_of(&object, name))
                }
                _ => false,
            };
            if counts {
                keep(&mut facts, object);
            }
        })?;
        for kind in too_many {
            facts.set_unread(
                kind,
                format!("more than {MAX_OBJECTS} of them: the others are left out"),
            );
        }
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_created_by_cluster()) {
            // A dump of webhooks has those that there are; other kinds have to be requested.
            let is_known = kind == Kind::MutatingWebhookConfiguration && self.is_cluster;
            if !self.kinds.contains(&kind) && !is_known {
                facts.set_unread(kind, format!("no {kind} is in the files"));
            }
        }
        Ok(facts)
    }

    /// Visits all objects of known kinds. With `strict`, unreadable input is an error.
    fn for_each_object(
        &self,
        reader: &Reader,
        strict: bool,
        visit: &mut impl FnMut(Kind, Object),
    ) -> anyhow::Result<()> {
        let mut errors = Vec::new();
        for dump in &self.dumps {
            for slot in dump.slots() {
                let part = dump.read(slot, reader);
                if strict && let Some(why) = part.error_line() {
                    errors.push(why);
                }
                part.for_each_object(&mut |found| {
                    let (group, _) = found.group_version();
                    let Some(kind) = Kind::of(group, found.kind) else { return };
                    let value: Result<Value, _> = serde_json::from_str(&found.value.raw());
                    match value.map(|value| Object::of(kind, value)) {
                        Ok(Some(object)) => visit(kind, object),
                        Ok(None) if strict => {
                            errors.push(format!("{}: a {kind} without a name", dump.name()));
                        }
                        Err(error) if strict => {
                            errors.push(format!("{}: a {kind}: {error}", dump.name()));
                        }
                        _ => {}
                    }
                });
            }
        }
        errors.truncate(20);
        anyhow::ensure!(errors.is_empty(), errors.join("\n"));
        Ok(())
    }
}
