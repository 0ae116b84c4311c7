//! What a policy declares: its rules, the requests that they look at, and who judges them.
//!
//! ```text
//! rule! { docs, level, on, reads, … } ─┐
//!                                      ├─▶ policy! ─▶ POLICY ─▶ descriptor, matches, reads, settings
//! target (kind of object) ─▶ judge ────┘
//! ```
//!
//! Everything that the host learns of a policy follows from here, see [`crate::describe`].

use crate::{ClusterRead, Document, Level, Operation, Report, Review, Setting, SettingsError};

/// A rule, declared with [`rule!`](crate::rule!) next to the code that judges it.
#[derive(Debug)]
pub struct Rule {
    /// Unique in the policy: `OPG-25`.
    pub id: &'static str,
    /// One sentence: what must hold.
    pub title: &'static str,
    /// What the rule does where it is on and no level is configured.
    pub level: Level,
    /// For a rule that is off by default: the settings (JSON pointers) that turn it on. Where there is
    /// none of them, only a configured level does.
    pub off_until: Option<&'static [&'static str]>,
    /// Settings (JSON pointers) that make a rule deny that warns by default: they do where they are
    /// `true` or `deny`.
    pub denies_with: &'static [&'static str],
    /// The requests that the rule looks at.
    pub on: &'static [(&'static Target, &'static [Operation])],
    /// Objects of the cluster that it needs.
    pub reads: &'static [&'static ClusterRead],
    /// Whether the setting `exempt` counts for it.
    pub exempts: bool,
    /// Whether it may be left out for another reason than a cluster that is not there to ask.
    pub may_skip: bool,
    /// Where the rule is documented.
    pub source: &'static str,
    /// The documentation, Markdown. A component has it in a section of its own, beside its memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub docs: &'static str,
}

/// Objects of one kind, as requests name them. Every list must match, `*` matches all.
#[derive(Debug)]
pub struct Target {
    /// API groups, the core group is empty.
    pub groups: &'static [&'static str],
    /// API versions.
    pub versions: &'static [&'static str],
    /// Plural, lower case; `bundles/status` for a sub-resource.
    pub resources: &'static [&'static str],
    /// For people: `Bundle`.
    pub kind: &'static str,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// These requests need not wait for a server that is away, unless the configuration sets one of
    /// their rules to deny: the policy only warns about them, or what they bring is judged again before
    /// it does anything.
    pub advisory: bool,
}

impl Target {
    /// Nothing but empty lists, to start from.
    pub const EMPTY: Self = Self {
        groups: &[],
        versions: &[],
        resources: &[],
        kind: "",
        namespace: None,
        advisory: false,
    };

    /// A kind of document that opgate makes of files, of the group `opgate.dev`.
    #[must_use]
    pub const fn of_files(kind: &'static str, resources: &'static [&'static str]) -> Self {
        Self { groups: &[FILES], versions: &["v1alpha1"], resources, kind, ..Self::EMPTY }
    }

    pub(crate) fn is_of_files(&self) -> bool {
        self.groups == [FILES]
    }
}

/// The group of documents that are made of files.
const FILES: &str = "opgate.dev";

/// Who judges requests for one kind of object.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The kind. Which operations are asked for follows from the rules that look at it.
    pub on: &'static Target,
    /// Adds what is wrong to the report.
    pub judge: fn(&Review<'_>, &mut Report<'_>),
}

/// A policy, declared with [`policy!`](crate::policy!).
#[derive(Debug)]
pub struct Policy {
    /// Lower case letters, digits and `-`.
    pub name: &'static str,
    /// For people.
    pub version: &'static str,
    /// One sentence about the policy.
    pub title: &'static str,
    /// Its rules, module by module.
    pub rules: &'static [&'static [&'static Rule]],
    /// Who judges what. At most 64.
    pub routes: &'static [Route],
    /// JSON object with the schemas of its own settings, by name; empty for none. Those that all
    /// policies have in common are added.
    pub settings: &'static str,
    /// Checks what the schema cannot say. Called once, when the policy is loaded.
    pub check_settings: fn(&Document) -> Result<(), Vec<SettingsError>>,
}

/// Declares a rule: documentation, level, what it looks at. The name makes the id: `OPG_25` is
/// `OPG-25`.
///
/// The first line of the documentation is the title, one sentence without a full stop. After it come
/// what must hold in full, and the sections `# Why`, `# Repair`, `# Accepted` and `# Rejected`.
///
/// After `on` may follow, in this order and each if it is needed: `reads: [READ, …]`, the objects of the
/// cluster that the rule needs; `off_until: ["/pointer", …]` for a rule that is off by default;
/// `denies_with: ["/pointer", …]`; `exempt: never` for a rule that nobody is exempt from;
/// `may_skip: true`.
#[macro_export]
macro_rules! rule {
    (
        #[doc = $title:literal]
        $(#[doc = $doc:literal])*
        $visibility:vis $name:ident: $level:ident {
            on: [$($target:path: $($operation:ident)|+),+ $(,)?],
            $(reads: [$($read:path),* $(,)?],)?
            $(off_until: [$($off:literal),* $(,)?],)?
            $(denies_with: [$($denies:literal),* $(,)?],)?
            $(exempt: $never:ident,)?
            $(may_skip: $skips:literal,)?
            source: $source:literal $(,)?
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
            title: $title.trim_ascii(),
            level: $crate::Level::$level,
            off_until: $crate::rule!(@some $([$($off),*])?),
            denies_with: &[$($($denies),*)?],
            on: &[$((&$target, &[$($crate::Operation::$operation),+])),+],
            reads: &[$($(&$read),*)?],
            exempts: $crate::rule!(@exempts $($never)?),
            may_skip: false $(|| $skips)?,
            source: $source,
            #[cfg(not(target_arch = "wasm32"))]
            docs: ::core::concat!($($doc, "\n"),*),
        };

        // The documentation: not in the memory of the component, of which every call gets a copy.
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "a custom section of the module, nothing that is ever run")]
        const _: () = {
            const TEXT: &[u8] = ::core::concat!(
                "## ", ::core::stringify!($name), "\n", $($doc, "\n",)* "\n"
            ).as_bytes();
            // Without `used`: the section stays, and the memory has no copy of it.
            #[unsafe(link_section = "opgate-docs")]
            static DOCS: [u8; TEXT.len()] = $crate::bytes_of(TEXT);
        };
    };
    (@some) => { ::core::option::Option::None };
    (@some [$($off:literal),*]) => { ::core::option::Option::Some(&[$($off),*]) };
    (@exempts) => { true };
    (@exempts never) => { false };
}

/// Lists the rules of a module, as its constant `RULES`: every rule that is declared there.
#[macro_export]
macro_rules! rules {
    [$($rule:ident),* $(,)?] => {
        pub(crate) const RULES: &[&$crate::Rule] = &[$(&$rule),*];
    };
}

/// Declares the policy of this crate as `POLICY`, and makes the exports of the component of it.
///
/// `rules` are the `RULES` of the modules; a route `KIND => judge` says which function judges requests
/// for a kind. `settings` and `check_settings` may follow.
#[macro_export]
macro_rules! policy {
    {
        name: $name:literal,
        title: $title:literal,
        rules: [$($rules:expr),+ $(,)?],
        routes: [$($target:path => $judge:path),+ $(,)?]
        $(, settings: $settings:expr)?
        $(, check_settings: $check:path)? $(,)?
    } => {
        /// The policy.
        pub static POLICY: $crate::Policy = $crate::Policy {
            name: $name,
            version: env!("CARGO_PKG_VERSION"),
            title: $title,
            rules: &[$($rules),+],
            routes: &[$($crate::Route { on: &$target, judge: $judge }),+],
            settings: $crate::policy!(@or "" $(, $settings)?),
            check_settings: $crate::policy!(@or $crate::any_settings $(, $check)?),
        };

        #[cfg(target_arch = "wasm32")]
        struct OpgateExported;
        #[cfg(target_arch = "wasm32")]
        impl $crate::shell::Exported for OpgateExported {
            const POLICY: &'static $crate::Policy = &POLICY;
        }
        #[cfg(target_arch = "wasm32")]
        type OpgateExportedPolicy = $crate::shell::Shell<OpgateExported>;
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export!(OpgateExportedPolicy with_types_in $crate::bindings);
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}

/// Settings that the schema accepts are good.
///
/// # Errors
/// Never.
#[doc(hidden)]
pub fn any_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
    Ok(())
}

/// `OPG_25` as `OPG-25`.
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
