//! Declaration of a rule, and the requests that it matches.

use crate::{ClusterRead, Level, Operation, Setting};

/// A rule, declared with [`rule!`](crate::rule!) next to the code that evaluates it.
#[derive(Debug)]
pub struct Rule {
    /// Unique in the policy: `OPG-25`.
    pub id: &'static str,
    /// Additional name in kebab case: `one-operator-group-per-namespace`; empty for none.
    pub name: &'static str,
    /// The requirement, in one sentence.
    pub title: &'static str,
    /// The level of the rule if it is on and no level is configured.
    pub level: Level,
    /// For a rule that is off by default: the settings (JSON pointers) that turn it on. If the list
    /// is empty, only a configured level does.
    pub enabled_by: Option<&'static [&'static str]>,
    /// Settings (JSON pointers) that make a rule deny that warns by default. They do so if their
    /// value is `true` or `deny`.
    pub denies_with: &'static [&'static str],
    /// The input types in which a rule of the level [`Level::Deny`] denies. In others it warns. If the
    /// list is empty, it denies everywhere.
    pub denies_in: &'static [InputType],
    /// The requests that the rule matches.
    pub on: &'static [(&'static Target, &'static [Operation])],
    /// Objects of the cluster that it needs.
    pub reads: &'static [&'static ClusterRead],
    /// Whether it reads custom resources of any kind, with [`sample`](crate::sample()).
    pub samples: bool,
    /// Whether the setting `exempt` does not apply to it.
    pub no_exemptions: bool,
    /// Whether it can be skipped for another reason than a missing cluster.
    pub may_skip: bool,
    /// Sources of the requirement.
    pub sources: &'static [&'static str],
    /// The documentation, Markdown. A component has it in a custom section, not in its memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub docs: &'static str,
}

/// The source of an object: a request to an API server, or the type of the files that hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputType {
    /// A request to an API server, live or recorded.
    Review,
    /// A manifest in a file.
    Manifest,
    /// A bundle (registry+v1 or plain+v0), and each manifest in it.
    Bundle,
    /// A file-based catalog, and what its blobs hold.
    Catalog,
    /// The files of an Operator project.
    Project,
    /// An object that a cluster stores.
    Cluster,
}

/// Names by pattern: one of `include` fits, or `include` is empty, and none of `exclude` fits. `*` in a
/// pattern stands for any characters, also for none.
#[derive(Debug, Clone, Copy)]
pub struct NamePatterns {
    /// Patterns of which one must fit; empty for all names.
    pub include: &'static [&'static str],
    /// Patterns of which none may fit.
    pub exclude: &'static [&'static str],
}

impl NamePatterns {
    /// All names.
    pub const ALL: Self = Self { include: &[], exclude: &[] };
}

/// Objects of one kind, as requests name them. Every list must match; `*` matches all.
#[derive(Debug)]
pub struct Target {
    /// API groups, the core group is empty.
    pub groups: &'static [&'static str],
    /// API versions.
    pub versions: &'static [&'static str],
    /// Plural, lower case; `bundles/status` for a sub-resource.
    pub resources: &'static [&'static str],
    /// Display name: `Bundle`.
    pub kind: &'static str,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Only in namespaces with these names. A Namespace is in itself; other cluster-scoped objects match
    /// every pattern.
    pub namespaces: NamePatterns,
    /// Selects only objects with these names. An object whose name the API server has yet to generate matches
    /// every pattern.
    pub names: NamePatterns,
    /// Whether the API server may admit these requests while the webhook is unavailable, unless the
    /// configuration sets one of their rules to deny: the policy only warns about them, or
    /// evaluates their content again before it has an effect.
    pub advisory: bool,
    /// Conditions in CEL, each with its name, under which these requests matter; for the webhook
    /// configuration only. An API server may not support them, so the policy must not rely on them. If a rule
    /// matches a kind that a cluster writes frequently, they exclude most of the requests.
    pub conditions: &'static [(&'static str, &'static str)],
    /// Label selector (JSON) of the namespaces in which these requests matter. API servers evaluate it; for
    /// files and replays the host does, if it knows the labels of a namespace. If it is empty, all.
    pub namespace_selector: &'static str,
    /// Settings (JSON pointers) for requests that a rule evaluates only if asked to: unless one of
    /// them is present and not `false`, the policy does not see these requests. If the list is empty,
    /// no setting is needed.
    pub enabled_by: &'static [&'static str],
}

impl Target {
    /// A target with empty lists, to start from.
    pub const EMPTY: Self = Self {
        groups: &[],
        versions: &[],
        resources: &[],
        kind: "",
        namespace: None,
        namespaces: NamePatterns::ALL,
        names: NamePatterns::ALL,
        advisory: false,
        conditions: &[],
        namespace_selector: "",
        enabled_by: &[],
    };

    /// Creates a kind of document that opgate makes from files, in the group `opgate.dev`.
    #[must_use]
    pub const fn for_files(kind: &'static str, resources: &'static [&'static str]) -> Self {
        Self { groups: &[FILES_GROUP], versions: &["v1alpha1"], resources, kind, ..Self::EMPTY }
    }

    pub(crate) fn is_from_file(&self) -> bool {
        self.groups == [FILES_GROUP]
    }
}

/// The group of documents that are made from files.
pub(crate) const FILES_GROUP: &str = "opgate.dev";

/// Declares a rule: its documentation, its level and the requests that it matches. The name gives the ID:
/// `OPG_25` is `OPG-25`.
///
/// The first line of the documentation is the title, one sentence without a full stop. After it
/// come the complete condition, and the sections `# Why`, `# Remediation`, `# Accepted` and `#
/// Rejected`.
///
/// `name: "kebab-case"` can precede `on`. These members can follow it, in this order: `reads: [READ, …]`, the
/// objects of the cluster that the rule needs; `samples: true` if it reads custom resources of any kind;
/// `enabled_by: ["/pointer", …]` for a rule that is off by default; `denies_with: ["/pointer", …]`;
/// `denies_in: [Bundle, …]` ([`InputType`]) for a rule that denies in these input types and warns in others;
/// `no_exemptions: true` for a rule without exemptions; `may_skip: true`.
#[macro_export]
macro_rules! rule {
    (
        #[doc = $title:literal]
        $(#[doc = $doc:literal])*
        $visibility:vis $name:ident: $level:ident {
            $(name: $rule_name:literal,)?
            on: [$($target:path: $($operation:ident)|+),+ $(,)?],
            $(reads: [$($read:path),* $(,)?],)?
            $(samples: $samples:literal,)?
            $(enabled_by: [$($off:literal),* $(,)?],)?
            $(denies_with: [$($denies:literal),* $(,)?],)?
            $(denies_in: [$($input:ident),+ $(,)?],)?
            $(no_exemptions: $no_exemptions:literal,)?
            $(may_skip: $skips:literal,)?
            source: [$($source:literal),+ $(,)?] $(,)?
        }
    ) => {
        #[doc = $title]
        $(#[doc = $doc])*
        $visibility static $name: $crate::Rule = $crate::Rule {
            id: {
                const ID: [u8; ::core::stringify!($name).len()] =
                    $crate::rule_id(::core::stringify!($name));
                $crate::text_of(&ID)
            },
            name: $crate::rule!(@name $($rule_name)?),
            title: $title.trim_ascii(),
            level: $crate::Level::$level,
            enabled_by: $crate::rule!(@some $([$($off),*])?),
            denies_with: &[$($($denies),*)?],
            denies_in: &[$($($crate::InputType::$input),+)?],
            on: &[$((&$target, &[$($crate::Operation::$operation),+])),+],
            reads: &[$($(&$read),*)?],
            samples: false $(|| $samples)?,
            no_exemptions: false $(|| $no_exemptions)?,
            may_skip: false $(|| $skips)?,
            sources: &[$($source),+],
            #[cfg(not(target_arch = "wasm32"))]
            docs: ::core::concat!(
                $($doc, "\n",)* $("\n # Level\n", $("\n * ", ::core::stringify!($input),)+ "\n")?
            ),
        };

        // The documentation is not in the memory of the component, because every call gets a copy
        // of that.
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "a custom section of the module, nothing that is ever run")]
        const _: () = {
            const TEXT: &[u8] = ::core::concat!(
                "## ", ::core::stringify!($name), "\n", $($doc, "\n",)*
                $("\n # Level\n", $("\n * ", ::core::stringify!($input),)+ "\n",)?
                "\n"
            ).as_bytes();
            // Without `used`, the section stays and the memory has no copy of it.
            #[unsafe(link_section = "opgate-docs")]
            static DOCS: [u8; TEXT.len()] = $crate::bytes_of(TEXT);
        };
    };
    (@some) => { ::core::option::Option::None };
    (@some [$($off:literal),*]) => { ::core::option::Option::Some(&[$($off),*]) };
    (@name) => { "" };
    (@name $name:literal) => { $name };
}

/// Lists the rules of a module as its constant `RULES`. List every rule that the module declares.
#[macro_export]
macro_rules! rules {
    [$($rule:ident),* $(,)?] => {
        pub(crate) const RULES: &[&$crate::Rule] = &[$(&$rule),*];
    };
}

/// Returns `OPG_25` as `OPG-25`.
#[doc(hidden)]
#[must_use]
#[expect(clippy::indexing_slicing, reason = "while the compiler runs")]
pub const fn rule_id<const N: usize>(name: &str) -> [u8; N] {
    let mut id = bytes_of(name.as_bytes());
    let mut at = 0;
    while at < N {
        if id[at] == b'_' {
            id[at] = b'-';
        }
        at += 1;
    }
    id
}

#[doc(hidden)]
#[must_use]
#[expect(clippy::panic, reason = "while the compiler runs")]
pub const fn text_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("not text"),
    }
}

#[doc(hidden)]
#[must_use]
#[expect(clippy::panic, reason = "while the compiler runs")]
pub const fn bytes_of<const N: usize>(bytes: &[u8]) -> [u8; N] {
    match bytes.first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("too short"),
    }
}
