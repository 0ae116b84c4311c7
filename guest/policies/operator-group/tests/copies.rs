//! An object that only claims to be a copy never bypasses a rule, in any number of steps.
//!
//! A tenant writes one ClusterServiceVersion repeatedly, with and without each mark of OLM's copies
//! and with valid and invalid content. The tenant writes the status without a review. The test
//! visits all reachable states.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

#[allow(dead_code, reason = "shared with other tests")]
mod shorthand;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use opgate_operator_group::POLICY;
use opgate_sdk::cluster::Cluster;
use opgate_sdk::{
    Level, Operation, Request, RequestParts, Route, UNLISTED_IDENTITY_KEY, Verdict, log,
};
use opgate_sdk_testing::native::verdict;
use serde_json::{Value, json};
use shorthand::{create, csv, group, nothing, parsed};

const OLM: &str =
    "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount";
const TENANT: &str = "mallory";

/// The route of versions.
static ROUTE: LazyLock<u64> = LazyLock::new(|| {
    let is_theirs = |route: &Route| route.on.kind == "ClusterServiceVersion";
    1 << POLICY.routes.iter().position(is_theirs).expect("a route")
});

/// The version under review. `O` suits the group of its namespace, `S` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    label: Option<&'static str>,
    annotation: Option<&'static str>,
    reason: bool,
    modes: &'static str,
    terminating: bool,
}

impl State {
    const PLAIN: Self =
        Self { label: None, annotation: None, reason: false, modes: "O", terminating: false };
    /// As OLM writes it.
    const COPY: Self = Self {
        label: Some("there"),
        annotation: Some("there"),
        reason: true,
        modes: "S",
        terminating: false,
    };

    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for label in [None, Some("there"), Some("here"), Some("gone"), Some("")] {
            for annotation in [None, Some("here"), Some("there"), Some("gone")] {
                for (reason, terminating) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    let modes = ["O", "S"];
                    all.extend(modes.map(|modes| Self {
                        label,
                        annotation,
                        reason,
                        modes,
                        terminating,
                    }));
                }
            }
        }
        all
    }

    fn object(&self, namespace: &str) -> Value {
        let mut version = csv(&format!("{namespace}/c"), self.modes, "");
        if let Some(label) = self.label {
            version["metadata"]["labels"] = json!({"olm.copiedFrom": label});
        }
        if let Some(annotation) = self.annotation {
            version["metadata"]["annotations"] = json!({"olm.operatorNamespace": annotation});
        }
        if self.reason {
            version["status"]["reason"] = json!("Copied");
        }
        if self.terminating {
            version["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        version
    }

    /// OLM installs it.
    fn works(&self) -> bool {
        let elsewhere = self.annotation.is_some_and(|namespace| namespace != "here");
        self.label.is_none() && !self.reason && !elsewhere
    }
}

/// The versions `c` of the namespace `there`.
fn originals() -> [Option<State>; 5] {
    let sound = State::PLAIN;
    let unsound = State { modes: "S", ..sound };
    let copied = State { reason: true, ..unsound };
    let elsewhere = State { annotation: Some("gone"), ..unsound };
    [None, Some(sound), Some(unsound), Some(copied), Some(elsewhere)]
}

struct Place {
    original: Option<State>,
    settings: Value,
}

impl Place {
    /// Runs a test with the stored objects, including the version under review.
    fn within<T>(&self, old: Option<&State>, test: impl FnOnce() -> T) -> T {
        let mut cluster = Cluster::new(&POLICY.reads(), &parsed(&json!({})));
        cluster.insert("operatorgroups", &parsed(&group("here/g:[here]{}")));
        let stored = [(&self.original, "there"), (&old.copied(), "here")];
        for (state, namespace) in stored {
            if let Some(state) = state {
                cluster.insert("clusterserviceversions", &parsed(&state.object(namespace)));
            }
        }
        cluster.run(test)
    }

    fn evaluate(&self, user: &str, object: &State, old: Option<&State>) -> Verdict {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let (name, namespace) = ("c".to_owned(), "here".to_owned());
        let mut parts = RequestParts { operation, name, namespace, ..RequestParts::default() };
        user.clone_into(&mut parts.user.username);
        let (object, old) =
            (parsed(&object.object("here")), old.map(|o| parsed(&o.object("here"))));
        let settings = parsed(&self.settings);
        POLICY.validate(&Request::from(parts), *ROUTE, Some(&object), old.as_ref(), &settings)
    }

    fn ask(&self, user: &str, object: &State, old: Option<&State>) -> Verdict {
        self.within(old, || self.evaluate(user, object, old))
    }

    /// The states that a tenant can write.
    fn allowed(&self, states: impl Iterator<Item = State>, old: Option<&State>) -> Vec<State> {
        let allows = |object: &State| {
            let found = self.evaluate(TENANT, object, old).violations;
            found.iter().all(|v| v.level != Level::Deny)
        };
        self.within(old, || states.filter(allows).collect())
    }

    /// All states that a tenant can reach, from the stored objects and from nothing.
    fn reachable(&self, from: &[State]) -> BTreeSet<State> {
        let all = State::all();
        let mut reached: BTreeSet<State> = from.iter().copied().collect();
        // An API server ignores the status and the deletion timestamp in a CREATE.
        let fresh = all.iter().filter(|s| !s.reason && !s.terminating);
        reached.extend(self.allowed(fresh.copied(), None));
        let mut todo: Vec<State> = reached.iter().copied().collect();
        while let Some(old) = todo.pop() {
            let mut next =
                vec![State { reason: !old.reason, ..old }, State { terminating: true, ..old }];
            let updates = all.iter().copied();
            // An UPDATE does not change them either.
            let updates = updates
                .filter(|new| (new.reason, new.terminating) == (old.reason, old.terminating));
            next.extend(self.allowed(updates, Some(&old)));
            for state in next {
                if reached.insert(state) {
                    todo.push(state);
                }
            }
        }
        reached
    }
}

#[test]
fn tenants_cannot_reach_an_unsound_working_csv() {
    for original in originals() {
        for settings in [json!({}), json!({"ratcheting": false})] {
            let place = Place { original, settings };
            let reached = place.reachable(&[State::COPY]);
            let works: Vec<_> = reached.iter().filter(|s| s.works()).collect();
            assert!(works.iter().all(|s| s.modes == "O"), "{original:?} {works:?}");
            assert!(works.iter().any(|s| s.modes == "O"), "a sound one can be written");
        }
    }
}

#[test]
fn copied_csv_is_trusted_from_olm_or_with_its_original() {
    let unsound = State { modes: "S", ..State::PLAIN };
    let by_label = State { label: Some("there"), ..unsound };
    let by_annotation = State { annotation: Some("there"), ..unsound };
    let by_reason = State { reason: true, ..unsound };
    let place = |original| Place { original, settings: json!({}) };
    for copy in [by_label, by_annotation, by_reason, State::COPY] {
        for original in originals() {
            let place = place(original);
            let told = |user: &str| {
                let verdict = place.ask(user, &copy, None);
                let denied = verdict.violations.iter().any(|v| v.level == Level::Deny);
                let noted =
                    verdict.audit_annotations.iter().any(|note| note.key == UNLISTED_IDENTITY_KEY);
                (denied, noted, log::take_lines().len())
            };
            assert_eq!(told(OLM), (false, false, 0), "{copy:?} {original:?}");
            let named = copy != by_reason && original == Some(unsound);
            assert_eq!(told(TENANT), (!named, true, 1), "{copy:?} {original:?}");
        }
    }
}

#[test]
fn without_a_cluster_a_copy_is_believed_from_olm_only() {
    let object = State { label: Some("there"), ..State::PLAIN }.object("here");
    let mut case = create(&object, &[]);
    case.cluster = None;
    for (user, noted) in [(OLM, false), (TENANT, true)] {
        case.request.user = Some(user.to_owned());
        let verdict = verdict(&POLICY, &case);
        let keys: Vec<_> = verdict.audit_annotations.iter().map(|note| note.key.as_str()).collect();
        assert_eq!(keys, if noted { vec![UNLISTED_IDENTITY_KEY] } else { vec![] }, "{user}");
        assert_eq!((verdict.skipped.is_empty(), verdict.violations.len()), (!noted, 0), "{user}");
    }
}

/// A finalizer of a copy whose original is gone, or is now a different one.
#[test]
fn unchanged_update_is_allowed_for_any_copy() {
    for original in originals() {
        let place = Place { original, settings: json!({}) };
        let copies = State::all().into_iter().filter(|state| !state.works());
        for copy in copies {
            let verdict = place.ask(TENANT, &copy, Some(&copy));
            assert_eq!(verdict, nothing(), "{copy:?} {original:?}");
        }
    }
}
