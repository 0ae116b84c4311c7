//! Who may do what, as far as Operator groups care: OPG-32, OPG-33 and OPG-36 to OPG-38.
//!
//! ```text
//! account ─ bindings that apply to it ─ their roles ─┬─ Rights  what they let it do to a few resources
//!                                                    └─ Grants  everything, to compare with what is wanted
//! ```
//!
//! Rules of roles are read as the API server's authorizer reads them (Kubernetes,
//! `pkg/apis/rbac/v1/evaluation_helpers.go`), and compared as it compares them before it lets somebody
//! grant them (`component-helpers/auth/rbac/validation/policy_comparator.go`).
//!
//! Every question has a fixed amount of [`Work`]: roles and bindings have whatever size their authors
//! like, and a call has a fixed time.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{ClusterRead, Document, Kind};

use crate::findings::MOST;

/// What is read of the cluster.
pub(crate) struct Reads {
    /// Fields `/rules`, `/aggregationRule`.
    pub(crate) cluster_roles: ClusterRead,
    /// Fields `/subjects`, `/roleRef`; indexes `subject` (`/subjects/*/name`) and `role`
    /// (`/roleRef/name`).
    pub(crate) cluster_role_bindings: ClusterRead,
    /// Field `/rules`.
    pub(crate) roles: ClusterRead,
    /// Fields `/subjects`, `/roleRef`; index `subject` (`/subjects/*/name`).
    pub(crate) role_bindings: ClusterRead,
    /// Field and index `account` (`/spec/serviceAccountName`).
    pub(crate) groups: ClusterRead,
    /// Fields `/status/reason`, `/spec/install/spec/deployments/*/spec/template/spec/imagePullSecrets`.
    pub(crate) csvs: ClusterRead,
}

/// Why a question has no answer: its rule is left out, and said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There is no cluster to ask.
    Absent,
    /// Roles, bindings or the object itself are too large.
    TooLarge,
}

impl From<ReadError> for Unanswered {
    fn from(_: ReadError) -> Self {
        // The only selectors asked for here are those of roles, and a wrong one is passed over there.
        Self::Absent
    }
}

/// What one question may cost: a comparison is one, which is about a tenth of a microsecond.
struct Work(usize);

const WORK: usize = 500_000;
/// One call of the host.
const CALL: usize = 10;
/// Asking the cluster for one object.
const OBJECT: usize = 50;
/// Asking the cluster for all that have some labels.
const SELECTION: usize = 20_000;

impl Work {
    const fn new() -> Self {
        Self(WORK)
    }

    fn spend(&mut self, amount: usize) -> Result<(), Unanswered> {
        self.0 = self.0.checked_sub(amount).ok_or(Unanswered::TooLarge)?;
        Ok(())
    }
}

/// Names that one message lists.
const LISTED: usize = 10;

// Questions.

/// OPG-32: through which roles the account may write what only OLM should, for the message.
pub(crate) fn widened_account(
    reads: &Reads,
    namespace: &str,
    account: &str,
) -> Result<Option<String>, Unanswered> {
    let mut work = Work::new();
    let account = Account::new(namespace, account);
    let mut through = Vec::new();
    for (role, binding) in cluster_roles_of(reads, &account, &mut work)? {
        work.spend(OBJECT)?;
        let Some(found) = reads.cluster_roles.get("", &role)? else { continue };
        if Rights::of(&found, &EXTENSIONS, &mut work)?.exceed(&Rights::default()) {
            through.push(format!(
                "ClusterRole {} through ClusterRoleBinding {}",
                quote(&role),
                quote(&binding)
            ));
        }
    }
    Ok(listed(&through))
}

/// OPG-33 for a `ClusterRoleBinding`: which accounts of Operator groups may then write what only OLM
/// should, for the message. `old` is what an UPDATE starts from; without it everything counts.
pub(crate) fn widening_binding(
    reads: &Reads,
    object: &Document,
    old: Option<&Document>,
) -> Result<Option<String>, Unanswered> {
    let mut work = Work::new();
    let role = object.text_or_empty("/roleRef/name");
    if object.text_or_empty("/roleRef/kind") != "ClusterRole" || role.is_empty() {
        return Ok(None);
    }
    // The role of a binding never changes; where it does, as in files, all of it is new.
    let old = old.filter(|old| old.equal("/roleRef", object, "/roleRef"));
    let (mut before, mut after) = (Subjects::default(), Subjects::default());
    after.add(object, &mut work)?;
    if let Some(old) = old {
        before.add(old, &mut work)?;
    }
    if after.are_none() {
        return Ok(None);
    }
    let Some(found) = reads.cluster_roles.get("", &role)? else { return Ok(None) };
    if !Rights::of(&found, &EXTENSIONS, &mut work)?.exceed(&Rights::default()) {
        return Ok(None);
    }
    accounts_among(reads, &after, &before, &role, &mut work)
}

/// OPG-33 for a `ClusterRole`: which accounts of Operator groups may then write what only OLM should,
/// for the message. `old` is what an UPDATE starts from; without it everything counts.
pub(crate) fn widening_role(
    reads: &Reads,
    object: &Document,
    old: Option<&Document>,
) -> Result<Option<String>, Unanswered> {
    let mut work = Work::new();
    let mut after = Rights::of(object, &EXTENSIONS, &mut work)?;
    let aggregates_anew =
        old.is_none_or(|old| !old.equal("/aggregationRule", object, "/aggregationRule"));
    if aggregates_anew {
        add_aggregated(reads, object, &mut after, &mut work)?;
    }
    let before = match old {
        Some(old) => Rights::of(old, &EXTENSIONS, &mut work)?,
        None => Rights::default(),
    };
    let role = object.text_or_empty("/metadata/name");
    if role.is_empty() || !after.exceed(&before) {
        return Ok(None);
    }
    let mut subjects = Subjects::default();
    let values = [role.clone()];
    let matches = [Match { index: "role", values: &values, absent: false }];
    let query = Query { matches: &matches, ..Query::default() };
    each(&reads.cluster_role_bindings, query, &mut work, |binding, work| {
        if binding.text_or_empty("/roleRef/kind") == "ClusterRole" {
            subjects.add(&binding, work)?;
        }
        Ok(())
    })?;
    if subjects.are_none() {
        return Ok(None);
    }
    accounts_among(reads, &subjects, &Subjects::default(), &role, &mut work)
}

/// OPG-36: whether a Role or `ClusterRole` lets its subjects write Operator groups. `old` is what an
/// UPDATE starts from; without it everything counts.
pub(crate) fn opens_groups(object: &Document, old: Option<&Document>) -> Result<bool, Unanswered> {
    let mut work = Work::new();
    let after = Rights::of(object, &GROUPS, &mut work)?;
    let before = match old {
        Some(old) => Rights::of(old, &GROUPS, &mut work)?,
        None => Rights::default(),
    };
    Ok(after.exceed(&before))
}

/// The account that the only Operator group of a namespace names; none where there are several,
/// because OLM installs nothing there.
pub(crate) fn group_account(reads: &Reads, namespace: &str) -> Result<Option<String>, Unanswered> {
    let mut accounts = Vec::new();
    reads.groups.each(Query { namespace: Some(namespace), ..Query::default() }, |group| {
        if !is_leaving(&group) {
            accounts.push(group.text_or_empty("/spec/serviceAccountName"));
        }
        accounts.len() < 2
    })?;
    let only = accounts.pop().filter(|_| accounts.is_empty());
    Ok(only.filter(|account| !account.is_empty()))
}

/// A rule of a CSV that an account does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Where the CSV asks for it.
    pub(crate) field: String,
    /// The first thing that is missing, for the message.
    pub(crate) permission: String,
}

const PERMISSIONS: &str = "/spec/install/spec/permissions";
const CLUSTER_PERMISSIONS: &str = "/spec/install/spec/clusterPermissions";

/// Whether a CSV asks for anything that an account could lack.
pub(crate) fn asks_for_permissions(csv: &Document) -> bool {
    [PERMISSIONS, CLUSTER_PERMISSIONS].iter().any(|list| length(csv, list) > 0)
}

/// OPG-37: what a CSV asks for and the account of its namespace's Operator group does not have.
/// `permissions` are granted in that namespace, `clusterPermissions` everywhere.
pub(crate) fn missing_permissions(
    reads: &Reads,
    namespace: &str,
    account: &str,
    csv: &Document,
) -> Result<Vec<Missing>, Unanswered> {
    let mut work = Work::new();
    let asked = [
        (PERMISSIONS, format!(" in namespace {namespace}")),
        (CLUSTER_PERMISSIONS, " at the cluster scope".to_owned()),
    ];
    let mut missing = Vec::new();
    if !asks_for_permissions(csv) {
        return Ok(missing);
    }
    let grants = Grants::of(reads, &Account::new(namespace, account), &mut work)?;
    for (list, scope) in &asked {
        let everywhere = grants.everywhere.iter();
        let inside = grants.inside.iter().filter(|_| *list == PERMISSIONS);
        let held = Held {
            resources: everywhere.clone().chain(inside).collect(),
            urls: everywhere.collect(),
        };
        for permission in 0..length(csv, list) {
            work.spend(CALL)?;
            let rules = format!("{list}/{permission}/rules");
            for rule in 0..length(csv, &rules) {
                let wanted = Grant::read(csv, &format!("{rules}/{rule}"), &mut work)?;
                if let Some(lacking) = held.lack(&wanted, scope, &mut work)? {
                    let member = list.trim_start_matches('/').replace('/', ".");
                    let field = format!("{member}[{permission}].rules[{rule}]");
                    missing.push(Missing { field, permission: lacking });
                    if missing.len() == MOST {
                        return Ok(missing);
                    }
                }
            }
        }
    }
    Ok(missing)
}

/// OPG-38: whether an Operator of the namespace needs a pull secret that the account cannot fetch
/// from OLM's namespace, or cannot write in its own.
pub(crate) fn lacks_pull_secrets(
    reads: &Reads,
    namespace: &str,
    account: &str,
) -> Result<bool, Unanswered> {
    let mut work = Work::new();
    let mut secrets = BTreeSet::new();
    let query = Query { namespace: Some(namespace), ..Query::default() };
    each(&reads.csvs, query, &mut work, |csv, work| pull_secrets(&csv, &mut secrets, work))?;
    if secrets.is_empty() {
        return Ok(false);
    }
    let grants = Grants::of(reads, &Account::new(namespace, account), &mut work)?;
    let wanted = |verbs: &[&str], names: BTreeSet<String>| Grant {
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        groups: [String::new()].into(),
        resources: ["secrets".to_owned()].into(),
        names,
        urls: BTreeSet::new(),
    };
    let everywhere = || grants.everywhere.iter();
    let fetching = Held { resources: everywhere().collect(), urls: Vec::new() };
    let all = everywhere().chain(&grants.inside).collect();
    let writing = Held { resources: all, urls: Vec::new() };
    Ok(fetching.lack(&wanted(&["get"], secrets.clone()), "", &mut work)?.is_some()
        || writing.lack(&wanted(&["create"], BTreeSet::new()), "", &mut work)?.is_some()
        || writing.lack(&wanted(&["update", "patch"], secrets), "", &mut work)?.is_some())
}

// Reading.

/// Calls `visit` with each object that matches, as long as there is work left.
fn each(
    read: &ClusterRead,
    query: Query<'_>,
    work: &mut Work,
    mut visit: impl FnMut(Document, &mut Work) -> Result<(), Unanswered>,
) -> Result<(), Unanswered> {
    let mut outcome = Ok(());
    read.each(query, |document| {
        outcome = work.spend(OBJECT).and_then(|()| visit(document, work));
        outcome.is_ok()
    })?;
    outcome
}

/// What is being deleted does not count.
fn is_leaving(object: &Document) -> bool {
    object.has("/metadata/deletionTimestamp")
}

/// Elements of a list, none for anything else.
fn length(document: &Document, pointer: &str) -> u32 {
    let is_list = document.kind(pointer) == Kind::List;
    document.length(pointer).filter(|_| is_list).unwrap_or_default()
}

/// Calls `visit` with each text of a list. Each costs `price`.
fn scan(
    document: &Document,
    pointer: &str,
    price: usize,
    work: &mut Work,
    mut visit: impl FnMut(&str),
) -> Result<(), Unanswered> {
    work.spend(CALL)?;
    let raw = document.raw(pointer).and_then(|raw| String::from_utf8(raw).ok());
    let Some(list) = raw.as_deref().and_then(|raw| raw.strip_prefix('[')) else { return Ok(()) };
    // As the API server writes it, a list of names has no escapes: one call of the host for all of
    // it, however long it is.
    if !list.contains(['\\', '[', '{']) {
        work.spend(list.matches('"').count() / 2 * price)?;
        list.split('"').skip(1).step_by(2).for_each(visit);
        return Ok(());
    }
    for index in 0..length(document, pointer) {
        work.spend(CALL + price)?;
        if let Some(text) = document.text(&format!("{pointer}/{index}")) {
            visit(&text);
        }
    }
    Ok(())
}

/// What a comma-separated list in a message says; nothing where it is empty.
fn listed(texts: &[String]) -> Option<String> {
    let mut shown: Vec<&str> = texts.iter().take(LISTED).map(String::as_str).collect();
    let more = format!("and {} more", texts.len().saturating_sub(LISTED));
    if texts.len() > LISTED {
        shown.push(&more);
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

// Subjects.

const ALL_ACCOUNTS: &str = "system:serviceaccounts";
const ALL_USERS: &str = "system:authenticated";
const ACCOUNTS_OF: &str = "system:serviceaccounts:";
const ACCOUNT_USER: &str = "system:serviceaccount:";

/// A service account, with the names under which bindings reach it.
struct Account<'a> {
    namespace: &'a str,
    name: &'a str,
    names: [String; 5],
}

impl<'a> Account<'a> {
    fn new(namespace: &'a str, name: &'a str) -> Self {
        let names = [
            name.to_owned(),
            format!("{ACCOUNT_USER}{namespace}:{name}"),
            format!("{ACCOUNTS_OF}{namespace}"),
            ALL_ACCOUNTS.to_owned(),
            ALL_USERS.to_owned(),
        ];
        Self { namespace, name, names }
    }

    /// Whether a binding applies to the account.
    fn is_subject_of(&self, binding: &Document, work: &mut Work) -> Result<bool, Unanswered> {
        for index in 0..length(binding, "/subjects") {
            work.spend(CALL)?;
            let subject = format!("/subjects/{index}");
            let name = binding.text_or_empty(&format!("{subject}/name"));
            // Most subjects are somebody else, and one call of the host tells.
            if self.names.contains(&name) && subject_of(binding, &subject, name).reaches(self) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One subject of a binding, as far as it can be a service account.
enum Subject {
    Account { namespace: String, name: String },
    AccountsOf(String),
    AllAccounts,
    Other,
}

impl Subject {
    fn reaches(&self, account: &Account<'_>) -> bool {
        match self {
            Self::Account { namespace, name } => {
                namespace == account.namespace && name == account.name
            }
            Self::AccountsOf(namespace) => namespace == account.namespace,
            Self::AllAccounts => true,
            Self::Other => false,
        }
    }
}

fn subject_of(binding: &Document, subject: &str, name: String) -> Subject {
    match binding.text_or_empty(&format!("{subject}/kind")).as_str() {
        "ServiceAccount" => {
            let namespace = binding.text_or_empty(&format!("{subject}/namespace"));
            // An account without a namespace is one of the binding's.
            let namespace = if namespace.is_empty() {
                binding.text_or_empty("/metadata/namespace")
            } else {
                namespace
            };
            if namespace.is_empty() { Subject::Other } else { Subject::Account { namespace, name } }
        }
        "User" => match name.strip_prefix(ACCOUNT_USER).and_then(|user| user.split_once(':')) {
            Some((namespace, name)) => {
                Subject::Account { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Subject::Other,
        },
        "Group" => match name.as_str() {
            ALL_ACCOUNTS | ALL_USERS => Subject::AllAccounts,
            _ => match name.strip_prefix(ACCOUNTS_OF) {
                Some(namespace) => Subject::AccountsOf(namespace.to_owned()),
                None => Subject::Other,
            },
        },
        _ => Subject::Other,
    }
}

/// The service accounts that bindings apply to.
#[derive(Default)]
struct Subjects {
    /// Namespaces by name of the account.
    accounts: BTreeMap<String, BTreeSet<String>>,
    namespaces: BTreeSet<String>,
    all: bool,
}

impl Subjects {
    fn add(&mut self, binding: &Document, work: &mut Work) -> Result<(), Unanswered> {
        for index in 0..length(binding, "/subjects") {
            work.spend(CALL)?;
            let subject = format!("/subjects/{index}");
            let name = binding.text_or_empty(&format!("{subject}/name"));
            match subject_of(binding, &subject, name) {
                Subject::Account { namespace, name } => {
                    self.accounts.entry(name).or_default().insert(namespace);
                }
                Subject::AccountsOf(namespace) => {
                    self.namespaces.insert(namespace);
                }
                Subject::AllAccounts => self.all = true,
                Subject::Other => {}
            }
        }
        Ok(())
    }

    fn are_none(&self) -> bool {
        !self.all && self.namespaces.is_empty() && self.accounts.is_empty()
    }

    fn contain(&self, namespace: &str, account: &str) -> bool {
        self.all
            || self.namespaces.contains(namespace)
            || self.accounts.get(account).is_some_and(|found| found.contains(namespace))
    }
}

/// The accounts of Operator groups that are among the subjects and were not before.
fn accounts_among(
    reads: &Reads,
    after: &Subjects,
    before: &Subjects,
    role: &str,
    work: &mut Work,
) -> Result<Option<String>, Unanswered> {
    let values: Vec<String> = after.accounts.keys().cloned().collect();
    let by_account = [Match { index: "account", values: &values, absent: false }];
    // Whoever names all accounts means every group that names one.
    let singly = !after.all && after.namespaces.is_empty();
    let matches: &[Match<'_>] = if singly { &by_account } else { &[] };
    let mut found = BTreeSet::new();
    each(&reads.groups, Query { matches, ..Query::default() }, work, |group, _| {
        let account = group.text_or_empty("/spec/serviceAccountName");
        let namespace = group.text_or_empty("/metadata/namespace");
        let is_new = after.contain(&namespace, &account) && !before.contain(&namespace, &account);
        if !account.is_empty() && is_new && !is_leaving(&group) {
            found.insert(format!("ServiceAccount {namespace}/{account}"));
        }
        Ok(())
    })?;
    let accounts: Vec<String> = found.into_iter().collect();
    Ok(listed(&accounts).map(|names| format!("{names} through ClusterRole {}", quote(role))))
}

/// The `ClusterRoles` that apply to the account everywhere, each with a binding that says so.
fn cluster_roles_of(
    reads: &Reads,
    account: &Account<'_>,
    work: &mut Work,
) -> Result<BTreeMap<String, String>, Unanswered> {
    let mut roles = BTreeMap::new();
    let matches = [Match { index: "subject", values: &account.names, absent: false }];
    let query = Query { matches: &matches, ..Query::default() };
    each(&reads.cluster_role_bindings, query, work, |binding, work| {
        let role = binding.text_or_empty("/roleRef/name");
        if !roles.contains_key(&role)
            && binding.text_or_empty("/roleRef/kind") == "ClusterRole"
            && account.is_subject_of(&binding, work)?
        {
            roles.insert(role, binding.text_or_empty("/metadata/name"));
        }
        Ok(())
    })?;
    Ok(roles)
}

// Rights: what a role lets its subjects do to a few resources.

/// Resources that a rule cares about, and what is done to them.
struct Watched {
    verbs: &'static [&'static str],
    /// Group and resource.
    resources: &'static [(&'static str, &'static str)],
}

/// What only OLM should write (OCP 4.12 L7946).
const EXTENSIONS: Watched = Watched {
    verbs: &["create", "update", "patch", "delete", "deletecollection"],
    resources: &[
        ("apiregistration.k8s.io", "apiservices"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ],
};

/// What lets somebody install Operators (OCP 4.12 L7939).
const GROUPS: Watched = Watched {
    verbs: &["create", "update", "patch"],
    resources: &[("operators.coreos.com", "operatorgroups")],
};

/// Requests that name no object, so that a rule with `resourceNames` does not allow them, unless the
/// empty name is one of those.
const NAMELESS: [&str; 2] = ["create", "deletecollection"];

/// Pairs of a watched resource and a verb, as bits, by the name of the object; those for all objects
/// are under no name.
#[derive(Debug, Default)]
struct Rights(BTreeMap<Option<String>, u32>);

impl Rights {
    fn of(role: &Document, watched: &Watched, work: &mut Work) -> Result<Self, Unanswered> {
        let mut rights = Self::default();
        rights.add(role, watched, work)?;
        Ok(rights)
    }

    fn add(
        &mut self,
        role: &Document,
        watched: &Watched,
        work: &mut Work,
    ) -> Result<(), Unanswered> {
        for index in 0..length(role, "/rules") {
            let at = format!("/rules/{index}");
            let bits = watched.bits(role, &at, work)?;
            if bits == 0 {
                continue;
            }
            let mut names = BTreeSet::new();
            scan(role, &format!("{at}/resourceNames"), CALL, work, |name| {
                names.insert(name.to_owned());
            })?;
            if names.is_empty() {
                *self.0.entry(None).or_default() |= bits;
            }
            // What names no object has the empty name.
            let nameless = watched.nameless();
            for name in names {
                let bits = bits & if name.is_empty() { nameless } else { !nameless };
                if bits != 0 {
                    *self.0.entry(Some(name)).or_default() |= bits;
                }
            }
        }
        Ok(())
    }

    /// Whether these let somebody do what those do not.
    fn exceed(&self, those: &Self) -> bool {
        let for_all = those.0.get(&None).copied().unwrap_or_default();
        self.0.iter().any(|(name, bits)| {
            let for_one = those.0.get(name).copied().unwrap_or_default();
            bits & !(for_all | for_one) != 0
        })
    }
}

impl Watched {
    /// One bit for each pair of a resource and a verb that `wanted` wants.
    fn pairs(&self, wanted: impl Fn(usize, usize) -> bool) -> u32 {
        let all =
            (0..self.resources.len()).flat_map(|r| (0..self.verbs.len()).map(move |v| (r, v)));
        all.zip(0..).filter(|&((r, v), _)| wanted(r, v)).fold(0, |bits, (_, bit)| bits | 1 << bit)
    }

    fn nameless(&self) -> u32 {
        self.pairs(|_, verb| self.verbs.get(verb).is_some_and(|verb| NAMELESS.contains(verb)))
    }

    /// What a rule of a role is about.
    fn bits(&self, role: &Document, at: &str, work: &mut Work) -> Result<u32, Unanswered> {
        let groups: Vec<&str> = self.resources.iter().map(|(group, _)| *group).collect();
        let resources: Vec<&str> = self.resources.iter().map(|(_, resource)| *resource).collect();
        let resources = named(role, &format!("{at}/resources"), &resources, work)?;
        if !resources.contains(&true) {
            return Ok(0);
        }
        let groups = named(role, &format!("{at}/apiGroups"), &groups, work)?;
        let verbs = named(role, &format!("{at}/verbs"), self.verbs, work)?;
        let has = |found: &[bool], index: usize| found.get(index) == Some(&true);
        Ok(self.pairs(|r, v| has(&groups, r) && has(&resources, r) && has(&verbs, v)))
    }
}

/// Which of these a list names, by itself or with `*`.
fn named(
    role: &Document,
    pointer: &str,
    these: &[&str],
    work: &mut Work,
) -> Result<Vec<bool>, Unanswered> {
    let mut found = vec![false; these.len()];
    scan(role, pointer, 1, work, |text| {
        for (found, this) in found.iter_mut().zip(these) {
            *found |= text == "*" || text == *this;
        }
    })?;
    Ok(found)
}

/// What the controller will write into a `ClusterRole` that gathers the rules of others.
fn add_aggregated(
    reads: &Reads,
    role: &Document,
    rights: &mut Rights,
    work: &mut Work,
) -> Result<(), Unanswered> {
    let selectors = "/aggregationRule/clusterRoleSelectors";
    for index in 0..length(role, selectors) {
        work.spend(SELECTION)?;
        let raw = role.raw(&format!("{selectors}/{index}"));
        let Some(selector) = raw.and_then(|raw| String::from_utf8(raw).ok()) else { continue };
        let mut outcome = Ok(());
        let query = Query { labels: Some(&selector), ..Query::default() };
        let read = reads.cluster_roles.each(query, |found| {
            outcome = work.spend(OBJECT).and_then(|()| rights.add(&found, &EXTENSIONS, work));
            outcome.is_ok()
        });
        match read {
            // The API server refuses such a role.
            Err(ReadError::Invalid(_)) => {}
            read => read?,
        }
        outcome?;
    }
    Ok(())
}

// Grants: everything that roles allow.

/// One rule of a role.
#[derive(Debug)]
struct Grant {
    verbs: BTreeSet<String>,
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    names: BTreeSet<String>,
    urls: BTreeSet<String>,
}

fn has(set: &BTreeSet<String>, text: &str) -> bool {
    set.contains("*") || set.contains(text)
}

impl Grant {
    fn read(role: &Document, at: &str, work: &mut Work) -> Result<Self, Unanswered> {
        let mut set = |member: &str| -> Result<_, Unanswered> {
            let mut texts = BTreeSet::new();
            scan(role, &format!("{at}/{member}"), CALL, work, |text| {
                texts.insert(text.to_owned());
            })?;
            Ok(texts)
        };
        Ok(Self {
            verbs: set("verbs")?,
            groups: set("apiGroups")?,
            resources: set("resources")?,
            names: set("resourceNames")?,
            urls: set("nonResourceURLs")?,
        })
    }

    fn has_resource(&self, resource: &str) -> bool {
        // `*/scale` is that sub-resource of everything.
        let of_all = resource.split_once('/').map(|(_, sub_resource)| format!("*/{sub_resource}"));
        has(&self.resources, resource)
            || of_all.is_some_and(|of_all| self.resources.contains(&of_all))
    }

    fn has_names(&self, names: &BTreeSet<String>) -> bool {
        self.names.is_empty() || (!names.is_empty() && names.is_subset(&self.names))
    }

    fn has_url(&self, url: &str) -> bool {
        let covers =
            |own: &String| own.strip_suffix('*').is_some_and(|start| url.starts_with(start));
        self.urls.contains(url) || self.urls.iter().any(covers)
    }

    fn has_all(&self, verbs: &BTreeSet<String>, names: &BTreeSet<String>) -> bool {
        verbs.iter().all(|verb| has(&self.verbs, verb)) && self.has_names(names)
    }
}

/// What an account may do.
struct Grants {
    everywhere: Vec<Grant>,
    /// In its own namespace only.
    inside: Vec<Grant>,
}

impl Grants {
    fn of(reads: &Reads, account: &Account<'_>, work: &mut Work) -> Result<Self, Unanswered> {
        let mut everywhere = Vec::new();
        for role in cluster_roles_of(reads, account, work)?.into_keys() {
            work.spend(OBJECT)?;
            add_rules(reads.cluster_roles.get("", &role)?, &mut everywhere, work)?;
        }
        let mut bound = BTreeSet::new();
        let matches = [Match { index: "subject", values: &account.names, absent: false }];
        let query =
            Query { namespace: Some(account.namespace), matches: &matches, ..Query::default() };
        each(&reads.role_bindings, query, work, |binding, work| {
            if account.is_subject_of(&binding, work)? {
                let text = |pointer| binding.text_or_empty(pointer);
                bound.insert((text("/roleRef/kind"), text("/roleRef/name")));
            }
            Ok(())
        })?;
        let mut inside = Vec::new();
        for (kind, role) in bound {
            work.spend(OBJECT)?;
            let role = match kind.as_str() {
                "Role" => reads.roles.get(account.namespace, &role)?,
                "ClusterRole" => reads.cluster_roles.get("", &role)?,
                _ => None,
            };
            add_rules(role, &mut inside, work)?;
        }
        Ok(Self { everywhere, inside })
    }
}

fn add_rules(
    role: Option<Document>,
    grants: &mut Vec<Grant>,
    work: &mut Work,
) -> Result<(), Unanswered> {
    let Some(role) = role else { return Ok(()) };
    for index in 0..length(&role, "/rules") {
        grants.push(Grant::read(&role, &format!("/rules/{index}"), work)?);
    }
    Ok(())
}

/// What is held where something is wanted.
struct Held<'g> {
    resources: Vec<&'g Grant>,
    /// Paths such as `/metrics` belong to no namespace.
    urls: Vec<&'g Grant>,
}

/// Those of the grants that have something, at the cost of one look at each.
fn with<'g>(
    grants: &[&'g Grant],
    work: &mut Work,
    has_it: impl Fn(&Grant) -> bool,
) -> Result<Vec<&'g Grant>, Unanswered> {
    work.spend(grants.len() + 1)?;
    Ok(grants.iter().filter(|grant| has_it(grant)).copied().collect())
}

impl Held<'_> {
    /// The first part of a wanted rule that is not held.
    fn lack(
        &self,
        wanted: &Grant,
        scope: &str,
        work: &mut Work,
    ) -> Result<Option<String>, Unanswered> {
        // Mostly one grant has all of it, and no pairs of this and that need be looked at.
        let own = wanted.groups.len() + wanted.resources.len();
        let parts = wanted.verbs.len() + wanted.names.len() + 1;
        work.spend((own + parts).saturating_mul(self.resources.len()))?;
        let is_within = |grant: &&Grant| {
            wanted.groups.iter().all(|group| has(&grant.groups, group))
                && wanted.resources.iter().all(|resource| grant.has_resource(resource))
                && grant.has_all(&wanted.verbs, &wanted.names)
        };
        let groups = if self.resources.iter().any(is_within) { None } else { Some(&wanted.groups) };
        for group in groups.into_iter().flatten() {
            let grants = with(&self.resources, work, |grant| has(&grant.groups, group))?;
            for resource in &wanted.resources {
                let grants = with(&grants, work, |grant| grant.has_resource(resource))?;
                work.spend(parts.saturating_mul(grants.len()))?;
                if grants.iter().any(|grant| grant.has_all(&wanted.verbs, &wanted.names)) {
                    continue;
                }
                let lacking = lacking_pair(&grants, wanted, work)?;
                if let Some((verb, name)) = lacking {
                    return Ok(Some(permission(verb, group, resource, name, scope)));
                }
            }
        }
        for url in &wanted.urls {
            let listed: usize = self.urls.iter().map(|grant| grant.urls.len()).sum();
            work.spend(listed)?;
            let grants = with(&self.urls, work, |grant| grant.has_url(url))?;
            for verb in &wanted.verbs {
                if with(&grants, work, |grant| has(&grant.verbs, verb))?.is_empty() {
                    return Ok(Some(format!("{verb} {url}")));
                }
            }
        }
        Ok(None)
    }
}

/// The first pair of a verb and a name that none of the grants has; no name where all are wanted.
fn lacking_pair<'w>(
    grants: &[&Grant],
    wanted: &'w Grant,
    work: &mut Work,
) -> Result<Option<(&'w str, Option<&'w str>)>, Unanswered> {
    for verb in &wanted.verbs {
        let grants = with(grants, work, |grant| has(&grant.verbs, verb))?;
        if wanted.names.is_empty() && !grants.iter().any(|grant| grant.names.is_empty()) {
            return Ok(Some((verb, None)));
        }
        for name in &wanted.names {
            let has_it = |grant: &Grant| grant.names.is_empty() || grant.names.contains(name);
            if with(&grants, work, has_it)?.is_empty() {
                return Ok(Some((verb, Some(name))));
            }
        }
    }
    Ok(None)
}

/// `update configmaps "settings" in namespace scoped`, `create deployments.apps at the cluster scope`.
fn permission(verb: &str, group: &str, resource: &str, name: Option<&str>, scope: &str) -> String {
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let name = name.map(|name| format!(" {}", quote(name))).unwrap_or_default();
    format!("{verb} {resource}{group}{name}{scope}")
}

/// The pull secrets that an Operator's deployments name. Copies of a CSV, and those that are being
/// deleted, install nothing.
fn pull_secrets(
    csv: &Document,
    secrets: &mut BTreeSet<String>,
    work: &mut Work,
) -> Result<(), Unanswered> {
    let is_copied = csv.has("/metadata/labels/olm.copiedFrom")
        || csv.text_or_empty("/status/reason") == "Copied";
    if is_copied || is_leaving(csv) {
        return Ok(());
    }
    let deployments = "/spec/install/spec/deployments";
    for deployment in 0..length(csv, deployments) {
        work.spend(CALL)?;
        let list = format!("{deployments}/{deployment}/spec/template/spec/imagePullSecrets");
        for index in 0..length(csv, &list) {
            work.spend(CALL)?;
            secrets.extend(csv.text(&format!("{list}/{index}/name")).filter(|n| !n.is_empty()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use opgate_sdk::Index;
    use opgate_sdk::cluster::Cluster;

    use super::*;

    const RBAC: ClusterRead =
        ClusterRead { group: "rbac.authorization.k8s.io", version: "v1", ..ClusterRead::EMPTY };
    const SUBJECT: Index = Index { name: "subject", field: "/subjects/*/name", separator: "" };
    const ROLE: Index = Index { name: "role", field: "/roleRef/name", separator: "" };
    const READS: Reads = Reads {
        cluster_roles: ClusterRead {
            resource: "clusterroles",
            fields: &["/rules", "/aggregationRule"],
            ..RBAC
        },
        cluster_role_bindings: ClusterRead {
            resource: "clusterrolebindings",
            fields: &["/subjects", "/roleRef"],
            indexes: &[SUBJECT, ROLE],
            ..RBAC
        },
        roles: ClusterRead { resource: "roles", fields: &["/rules"], ..RBAC },
        role_bindings: ClusterRead {
            resource: "rolebindings",
            fields: &["/subjects", "/roleRef"],
            indexes: &[SUBJECT],
            ..RBAC
        },
        groups: ClusterRead {
            group: "operators.coreos.com",
            version: "v1",
            resource: "operatorgroups",
            fields: &["/spec/serviceAccountName"],
            indexes: &[Index { name: "account", field: "/spec/serviceAccountName", separator: "" }],
            ..ClusterRead::EMPTY
        },
        csvs: ClusterRead {
            group: "operators.coreos.com",
            version: "v1alpha1",
            resource: "clusterserviceversions",
            fields: &[
                "/status/reason",
                "/spec/install/spec/deployments/*/spec/template/spec/imagePullSecrets",
            ],
            ..ClusterRead::EMPTY
        },
    };

    const ALL: &str = r#"{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}"#;
    const CREATE_CRDS: &str = r#"{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["create"]}"#;
    const READ_CRDS: &str = r#"{"apiGroups":["apiextensions.k8s.io"],"resources":["customresourcedefinitions"],"verbs":["get","list","watch"]}"#;
    const SCOPED: &str = r#"{"kind":"ServiceAccount","name":"scoped","namespace":"scoped"}"#;

    fn parsed(json: &str) -> Document {
        Document::parse(json).unwrap_or_else(|e| panic!("{json}: {e}"))
    }

    /// A role, of a namespace unless that is empty.
    fn role(namespace: &str, name: &str, rules: &str) -> String {
        let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}"}}"#);
        format!(r#"{{"metadata":{metadata},"rules":[{rules}]}}"#)
    }

    fn binding(namespace: &str, name: &str, kind: &str, role: &str, subjects: &str) -> String {
        let metadata = format!(r#"{{"name":"{name}","namespace":"{namespace}"}}"#);
        let role = format!(
            r#"{{"apiGroup":"rbac.authorization.k8s.io","kind":"{kind}","name":"{role}"}}"#
        );
        format!(r#"{{"metadata":{metadata},"roleRef":{role},"subjects":[{subjects}]}}"#)
    }

    fn group(namespace: &str, account: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"g","namespace":"{namespace}"}},"spec":{{"serviceAccountName":"{account}"}}}}"#
        )
    }

    fn within<T>(objects: &[(&str, String)], test: impl FnOnce() -> T) -> T {
        let Reads { cluster_roles, cluster_role_bindings, roles, role_bindings, groups, csvs } =
            READS;
        let reads = [cluster_roles, cluster_role_bindings, roles, role_bindings, groups, csvs];
        let mut cluster = Cluster::new(&reads, &parsed("{}"));
        for (resource, object) in objects {
            cluster.insert(resource, &parsed(object));
        }
        cluster.during(test)
    }

    fn account(objects: &[(&str, String)]) -> Result<Option<String>, Unanswered> {
        within(objects, || widened_account(&READS, "scoped", "scoped"))
    }

    const THROUGH_B: &str = r#"ClusterRole "r" through ClusterRoleBinding "b""#;

    // OPG-32.

    #[test]
    fn an_account_with_a_role_in_its_namespace_is_fine() {
        let objects = [
            ("roles", role("scoped", "scoped", ALL)),
            ("rolebindings", binding("scoped", "scoped-bindings", "Role", "scoped", SCOPED)),
            ("clusterroles", role("", "r", ALL)),
            ("rolebindings", binding("scoped", "b", "ClusterRole", "r", SCOPED)),
        ];
        assert_eq!(account(&objects), Ok(None));
    }

    #[test]
    fn an_account_that_writes_what_only_olm_should() {
        let rule = |group: &str, resource: &str, verb: &str| {
            format!(
                r#"{{"apiGroups":["x","{group}"],"resources":["y","{resource}"],"verbs":["get","{verb}"]}}"#
            )
        };
        let (crds, services) = ("customresourcedefinitions", "apiservices");
        let (extensions, registration) = ("apiextensions.k8s.io", "apiregistration.k8s.io");
        let named = |verb: &str| {
            rule(extensions, crds, verb).replacen('{', r#"{"resourceNames":["a.example.com"],"#, 1)
        };
        for (rules, is_wide) in [
            (CREATE_CRDS.to_owned(), true),
            (READ_CRDS.to_owned(), false),
            (ALL.to_owned(), true),
            (format!("{READ_CRDS},{CREATE_CRDS}"), true),
            (String::new(), false),
            (rule(extensions, crds, "update"), true),
            (rule(extensions, crds, "patch"), true),
            (rule(extensions, crds, "delete"), true),
            (rule(extensions, crds, "deletecollection"), true),
            (rule(extensions, crds, "*"), true),
            (rule(registration, services, "create"), true),
            (rule("*", services, "create"), true),
            (rule(registration, "*", "create"), true),
            (rule(registration, "*", "list"), false),
            // Group and resource belong together.
            (rule(extensions, services, "create"), false),
            (rule(registration, crds, "create"), false),
            (rule(extensions, "customresourcedefinitions/status", "update"), false),
            (rule(extensions, "*/*", "update"), false),
            (named("update"), true),
            // Who creates names nothing.
            (named("create"), false),
            (named("deletecollection"), false),
        ] {
            let objects = [
                ("clusterroles", role("", "r", &rules)),
                ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ];
            let expected = is_wide.then(|| THROUGH_B.to_owned());
            assert_eq!(account(&objects), Ok(expected), "{rules}");
        }
    }

    #[test]
    fn whom_a_binding_reaches() {
        for (subject, reaches) in [
            (SCOPED, true),
            (r#"{"kind":"Group","name":"system:serviceaccounts"}"#, true),
            (r#"{"kind":"Group","name":"system:serviceaccounts:scoped"}"#, true),
            (r#"{"kind":"Group","name":"system:authenticated"}"#, true),
            (r#"{"kind":"User","name":"system:serviceaccount:scoped:scoped"}"#, true),
            (r#"{"kind":"ServiceAccount","name":"scoped","namespace":"other"}"#, false),
            (r#"{"kind":"ServiceAccount","name":"other","namespace":"scoped"}"#, false),
            (r#"{"kind":"ServiceAccount","name":"scoped"}"#, false),
            (r#"{"kind":"User","name":"scoped"}"#, false),
            (r#"{"kind":"Group","name":"scoped"}"#, false),
            (r#"{"kind":"Group","name":"system:serviceaccounts:other"}"#, false),
            (r#"{"kind":"User","name":"system:serviceaccounts"}"#, false),
            (r#"{"kind":1,"name":["scoped"]},null,"scoped""#, false),
        ] {
            let binding = binding("", "b", "ClusterRole", "r", &format!("null,{subject}"));
            let role = ("clusterroles", role("", "r", CREATE_CRDS));
            let stored = [role.clone(), ("clusterrolebindings", binding.clone())];
            let expected = reaches.then(|| THROUGH_B.to_owned());
            assert_eq!(account(&stored), Ok(expected), "{subject}");
            // The same, seen from the binding.
            let reviewed = [role, ("operatorgroups", group("scoped", "scoped"))];
            let found = within(&reviewed, || widening_binding(&READS, &parsed(&binding), None));
            let text = r#"ServiceAccount scoped/scoped through ClusterRole "r""#;
            assert_eq!(found, Ok(reaches.then(|| text.to_owned())), "{subject}");
        }
    }

    #[test]
    fn without_a_cluster_there_is_no_answer() {
        assert_eq!(widened_account(&READS, "scoped", "scoped"), Err(Unanswered::Absent));
        let reviewed = parsed(&binding("", "b", "ClusterRole", "r", SCOPED));
        assert_eq!(widening_binding(&READS, &reviewed, None), Err(Unanswered::Absent));
        let reviewed = parsed(&role("", "r", CREATE_CRDS));
        assert_eq!(widening_role(&READS, &reviewed, None), Err(Unanswered::Absent));
        assert_eq!(lacks_pull_secrets(&READS, "scoped", "scoped"), Err(Unanswered::Absent));
        // What asks for nothing needs none.
        let reviewed = parsed(&role("", "r", READ_CRDS));
        assert_eq!(widening_role(&READS, &reviewed, None), Ok(None));
        assert_eq!(missing_permissions(&READS, "scoped", "scoped", &parsed("{}")), Ok(vec![]));
    }

    // OPG-33.

    fn to_scoped(role: &str) -> String {
        format!("ServiceAccount scoped/scoped through ClusterRole {role:?}")
    }

    #[test]
    fn a_binding_to_what_only_olm_should_write() {
        let objects = [
            ("clusterroles", role("", "cluster-admin", ALL)),
            ("clusterroles", role("", "reader", READ_CRDS)),
            ("operatorgroups", group("scoped", "scoped")),
            ("operatorgroups", group("unscoped", "")),
        ];
        within(&objects, || {
            let reviewed = |role, subjects: &str, old: Option<&str>| {
                let new = parsed(&binding("", "b", "ClusterRole", role, subjects));
                let old = old.map(|old| parsed(&binding("", "b", "ClusterRole", role, old)));
                widening_binding(&READS, &new, old.as_ref()).unwrap()
            };
            assert_eq!(reviewed("cluster-admin", SCOPED, None), Some(to_scoped("cluster-admin")));
            assert_eq!(reviewed("reader", SCOPED, None), None);
            assert_eq!(reviewed("missing", SCOPED, None), None);
            let other = r#"{"kind":"ServiceAccount","name":"default","namespace":"scoped"}"#;
            assert_eq!(reviewed("cluster-admin", other, None), None);
            assert_eq!(reviewed("cluster-admin", "", None), None);
            // What was granted before is not said again, under whatever name.
            let both = format!("{other},{SCOPED}");
            assert_eq!(reviewed("cluster-admin", &both, Some(SCOPED)), None);
            assert_eq!(
                reviewed("cluster-admin", &both, Some(other)),
                Some(to_scoped("cluster-admin"))
            );
            let everybody = r#"{"kind":"Group","name":"system:authenticated"}"#;
            assert_eq!(reviewed("cluster-admin", SCOPED, Some(everybody)), None);
            assert_eq!(reviewed("cluster-admin", everybody, Some(SCOPED)), None);
            assert_eq!(reviewed("cluster-admin", other, Some(SCOPED)), None);
        });
    }

    #[test]
    fn a_role_that_grows_to_what_only_olm_should_write() {
        let objects = [
            // What is stored does not count, what is reviewed does.
            ("clusterroles", role("", "r", ALL)),
            ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ("operatorgroups", group("scoped", "scoped")),
        ];
        let named = |names: &str| {
            format!(
                r#"{{"apiGroups":["*"],"resources":["apiservices"],"verbs":["update"],"resourceNames":[{names}]}}"#
            )
        };
        let (a, ab) = (named(r#""a""#), named(r#""a","b""#));
        within(&objects, || {
            for (before, after, widens) in [
                (None, CREATE_CRDS, true),
                (None, READ_CRDS, false),
                (Some(READ_CRDS), CREATE_CRDS, true),
                (Some(CREATE_CRDS), CREATE_CRDS, false),
                (Some(CREATE_CRDS), ALL, true),
                (Some(ALL), CREATE_CRDS, false),
                (Some(ALL), &ab, false),
                (Some(a.as_str()), &ab, true),
                (Some(ab.as_str()), &a, false),
                (Some(a.as_str()), ALL, true),
            ] {
                let old = before.map(|rules| parsed(&role("", "r", rules)));
                let new = parsed(&role("", "r", after));
                let expected = widens.then(|| to_scoped("r"));
                let found = widening_role(&READS, &new, old.as_ref());
                assert_eq!(found, Ok(expected), "{before:?} to {after}");
            }
            let unbound = parsed(&role("", "unbound", CREATE_CRDS));
            assert_eq!(widening_role(&READS, &unbound, None), Ok(None));
        });
    }

    #[test]
    fn a_role_that_gathers_the_rules_of_others() {
        let part = |name: &str, label: &str, rules: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{"part":"{label}"}}}},"rules":[{rules}]}}"#
            )
        };
        let objects = [
            ("clusterroles", part("wide", "wide", CREATE_CRDS)),
            ("clusterroles", part("narrow", "narrow", READ_CRDS)),
            ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ("operatorgroups", group("scoped", "scoped")),
        ];
        let gathers = |part: &str| {
            let selector = format!(r#"{{"matchLabels":{{"part":"{part}"}}}}"#);
            let wrong = r#"{"matchExpressions":[{"key":"a","operator":"is"}]}"#;
            parsed(&format!(
                r#"{{"metadata":{{"name":"r"}},"aggregationRule":{{"clusterRoleSelectors":[{wrong},{selector}]}}}}"#
            ))
        };
        within(&objects, || {
            assert_eq!(widening_role(&READS, &gathers("wide"), None), Ok(Some(to_scoped("r"))));
            assert_eq!(widening_role(&READS, &gathers("narrow"), None), Ok(None));
            let (wide, narrow) = (gathers("wide"), gathers("narrow"));
            assert_eq!(widening_role(&READS, &wide, Some(&narrow)), Ok(Some(to_scoped("r"))));
            assert_eq!(widening_role(&READS, &wide, Some(&wide)), Ok(None));
        });
    }

    #[test]
    fn many_accounts_are_counted() {
        let mut objects = vec![("clusterroles", role("", "r", ALL))];
        objects.extend((10..30).map(|n| ("operatorgroups", group(&format!("n{n}"), "a"))));
        let all = r#"{"kind":"Group","name":"system:serviceaccounts"}"#;
        let new = parsed(&binding("", "b", "ClusterRole", "r", all));
        let found = within(&objects, || widening_binding(&READS, &new, None)).unwrap().unwrap();
        assert!(found.starts_with("ServiceAccount n10/a, ServiceAccount n11/a, "), "{found}");
        assert!(found.ends_with(", and 10 more through ClusterRole \"r\""), "{found}");
    }

    // OPG-36.

    #[test]
    fn roles_that_open_operator_groups() {
        let rule = |verbs: &str| {
            format!(
                r#"{{"apiGroups":["operators.coreos.com"],"resources":["operatorgroups"],"verbs":[{verbs}]}}"#
            )
        };
        let read = rule(r#""get","list","watch""#);
        let create = rule(r#""get","create""#);
        for (rules, opens) in [
            (read.as_str(), false),
            (create.as_str(), true),
            (&rule(r#""update""#), true),
            (&rule(r#""patch""#), true),
            (&rule(r#""*""#), true),
            (&rule(r#""delete""#), false),
            (ALL, true),
            (&create.replace("operators.coreos.com", "*"), true),
            (&create.replace("operators.coreos.com", "example.com"), false),
            (&create.replace("operatorgroups", "subscriptions"), false),
            // Escaped, and with values of other kinds in between.
            (&rule(r#""get",["create"],{"create":"create"}"#), false),
            (&rule(r#"1,null,"\u0063reate""#), true),
        ] {
            let new = parsed(&role("ns", "r", rules));
            assert_eq!(opens_groups(&new, None), Ok(opens), "{rules}");
            assert_eq!(opens_groups(&new, Some(&new)), Ok(false), "{rules}");
            let old = parsed(&role("ns", "r", &read));
            assert_eq!(opens_groups(&new, Some(&old)), Ok(opens), "{rules}");
        }
        for odd in ["{}", r#"{"rules":{}}"#, r#"{"rules":[null,1,{"verbs":"create"}]}"#] {
            assert_eq!(opens_groups(&parsed(odd), None), Ok(false), "{odd}");
        }
    }

    // OPG-37.

    fn csv(permissions: &str, cluster_permissions: &str) -> Document {
        let list = |rules: &str| {
            if rules.is_empty() {
                "[]".to_owned()
            } else {
                format!(r#"[{{"serviceAccountName":"op","rules":[{rules}]}}]"#)
            }
        };
        parsed(&format!(
            r#"{{"spec":{{"install":{{"spec":{{"permissions":{},"clusterPermissions":{}}}}}}}}}"#,
            list(permissions),
            list(cluster_permissions)
        ))
    }

    const PODS: &str =
        r#"{"apiGroups":["","apps"],"resources":["pods","deployments"],"verbs":["get","create"]}"#;

    fn missing(held: &[(&str, String)], csv: &Document) -> Vec<(String, String)> {
        let found = within(held, || missing_permissions(&READS, "scoped", "scoped", csv)).unwrap();
        found.into_iter().map(|missing| (missing.field, missing.permission)).collect()
    }

    fn in_namespace(rules: &str) -> Vec<(&'static str, String)> {
        vec![
            ("roles", role("scoped", "scoped", rules)),
            ("rolebindings", binding("scoped", "b", "Role", "scoped", SCOPED)),
        ]
    }

    fn in_cluster(rules: &str) -> Vec<(&'static str, String)> {
        vec![
            ("clusterroles", role("", "r", rules)),
            ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
        ]
    }

    #[test]
    fn a_csv_that_asks_for_what_the_account_has() {
        assert_eq!(missing(&in_namespace(ALL), &csv(PODS, "")), []);
        assert_eq!(missing(&in_namespace(PODS), &csv(PODS, "")), []);
        assert_eq!(missing(&in_cluster(PODS), &csv(PODS, PODS)), []);
        assert_eq!(missing(&[], &csv("", "")), []);
        let through_cluster_role = [
            ("clusterroles", role("", "r", PODS)),
            ("rolebindings", binding("scoped", "b", "ClusterRole", "r", SCOPED)),
        ];
        assert_eq!(missing(&through_cluster_role, &csv(PODS, "")), []);
        // Piece by piece, from several rules.
        let piece = |group: &str, resource: &str, verb: &str| {
            format!(r#"{{"apiGroups":["{group}"],"resources":["{resource}"],"verbs":["{verb}"]}}"#)
        };
        let pieces = [
            piece("", "*", "get"),
            piece("", "*", "create"),
            piece("apps", "pods", "*"),
            piece("*", "deployments", "get"),
            piece("apps", "deployments", "create"),
        ];
        assert_eq!(missing(&in_namespace(&pieces.join(",")), &csv(PODS, "")), []);
        let without_last = pieces[..4].join(",");
        assert_eq!(
            missing(&in_namespace(&without_last), &csv(PODS, "")),
            [(
                "spec.install.spec.permissions[0].rules[0]".to_owned(),
                "create deployments.apps in namespace scoped".to_owned()
            )]
        );
    }

    #[test]
    fn a_csv_that_asks_for_more_than_a_role_in_the_namespace() {
        let rules = format!("{PODS},{CREATE_CRDS}");
        let at = |index| format!("spec.install.spec.clusterPermissions[0].rules[{index}]");
        let create = "create customresourcedefinitions.apiextensions.k8s.io at the cluster scope";
        assert_eq!(
            missing(&in_namespace(ALL), &csv(PODS, &rules)),
            [(at(0), "create deployments at the cluster scope".to_owned()), (at(1), create.into())]
        );
        assert_eq!(missing(&in_cluster(PODS), &csv(PODS, &rules)), [(at(1), create.to_owned())]);
        // Roles of other namespaces do not help.
        let elsewhere = [
            ("roles", role("other", "r", ALL)),
            ("rolebindings", binding("other", "b", "Role", "r", SCOPED)),
            ("rolebindings", binding("scoped", "b", "Role", "r", SCOPED)),
        ];
        assert_eq!(missing(&elsewhere, &csv(PODS, "")).len(), 1);
    }

    #[test]
    fn wildcards_names_sub_resources_and_paths() {
        let rule = |resources: &str, verbs: &str, names: &str| {
            format!(
                r#"{{"apiGroups":[""],"resources":[{resources}],"verbs":[{verbs}],"resourceNames":[{names}]}}"#
            )
        };
        let pods = |verbs: &str| rule(r#""pods""#, verbs, "");
        let named = |names: &str| rule(r#""pods""#, r#""get""#, names);
        let scale = |resources: &str| rule(resources, r#""get""#, "");
        let url = |url: &str| format!(r#"{{"nonResourceURLs":["{url}"],"verbs":["get"]}}"#);
        for (held, wanted, lacking) in [
            (pods(r#""get""#), pods(r#""*""#), Some("* pods at the cluster scope")),
            (pods(r#""*""#), pods(r#""*""#), None),
            (pods(r#""*""#), pods(r#""get","use""#), None),
            (pods(r#""get""#), rule(r#""*""#, r#""get""#, ""), Some("get * at the cluster scope")),
            (named(r#""a""#), pods(r#""get""#), Some("get pods at the cluster scope")),
            (pods(r#""get""#), named(r#""a""#), None),
            (named(r#""a","b""#), named(r#""a""#), None),
            (named(r#""a""#), named(r#""a","b""#), Some(r#"get pods "b" at the cluster scope"#)),
            (format!("{},{}", named(r#""a""#), named(r#""b""#)), named(r#""a","b""#), None),
            (scale(r#""*/scale""#), scale(r#""pods/scale""#), None),
            (
                scale(r#""pods""#),
                scale(r#""pods/scale""#),
                Some("get pods/scale at the cluster scope"),
            ),
            (scale(r#""*""#), scale(r#""pods/scale""#), None),
            (
                scale(r#""*/*""#),
                scale(r#""pods/scale""#),
                Some("get pods/scale at the cluster scope"),
            ),
            (url("/metrics"), url("/metrics"), None),
            (url("/metrics"), url("/metrics/a"), Some("get /metrics/a")),
            (url("/metrics/*"), url("/metrics/a"), None),
            (url("*"), url("/metrics"), None),
            (ALL.to_owned(), url("/metrics"), Some("get /metrics")),
        ] {
            let found = missing(&in_cluster(&held), &csv("", &wanted));
            let found = found.first().map(|(_, permission)| permission.as_str());
            assert_eq!(found, lacking, "{held} for {wanted}");
        }
    }

    #[test]
    fn the_account_of_a_namespace() {
        let second = group("twice", "b").replace("\"g\"", "\"h\"");
        let objects = [
            ("operatorgroups", group("scoped", "a")),
            ("operatorgroups", group("unscoped", "")),
            ("operatorgroups", group("twice", "a")),
            ("operatorgroups", second),
        ];
        within(&objects, || {
            assert_eq!(group_account(&READS, "scoped"), Ok(Some("a".to_owned())));
            for namespace in ["unscoped", "twice", "none"] {
                assert_eq!(group_account(&READS, namespace), Ok(None), "{namespace}");
            }
        });
        assert_eq!(group_account(&READS, "scoped"), Err(Unanswered::Absent));
    }

    // OPG-38.

    #[test]
    fn pull_secrets_can_be_fetched_and_written() {
        let secrets = |verbs: &str| {
            format!(r#"{{"apiGroups":[""],"resources":["secrets"],"verbs":[{verbs}]}}"#)
        };
        let csv = |labels: &str, pull: &str| {
            let pod = format!(r#"{{"template":{{"spec":{{"imagePullSecrets":[{pull}]}}}}}}"#);
            let spec = format!(r#"{{"deployments":[{{"name":"d","spec":{pod}}}]}}"#);
            let metadata = format!(r#"{{"name":"c","namespace":"scoped","labels":{{{labels}}}}}"#);
            let csv =
                format!(r#"{{"metadata":{metadata},"spec":{{"install":{{"spec":{spec}}}}}}}"#);
            ("clusterserviceversions", csv)
        };
        let fetch = in_cluster(&secrets(r#""get""#));
        let write = in_namespace(&secrets(r#""create","update","patch""#));
        let pull = r#"{"name":"p"}"#;
        let lacks = |objects: &[&[(&'static str, String)]]| {
            let objects = objects.concat();
            within(&objects, || lacks_pull_secrets(&READS, "scoped", "scoped").unwrap())
        };
        let uses = [csv("", pull)];
        assert!(!lacks(&[&uses, &fetch, &write]), "as documented");
        assert!(lacks(&[&uses]), "without any permission");
        assert!(lacks(&[&uses, &fetch]), "cannot write");
        assert!(lacks(&[&uses, &write]), "cannot fetch");
        assert!(lacks(&[&uses, &in_namespace(ALL)]), "a Role does not reach OLM's namespace");
        assert!(!lacks(&[&uses, &in_cluster(ALL)]), "everything");
        let only = |name: &str| {
            in_cluster(&secrets(r#""get""#).replacen(
                '{',
                &format!(r#"{{"resourceNames":["{name}"],"#),
                1,
            ))
        };
        assert!(!lacks(&[&uses, &only("p"), &write]), "the one that is used");
        assert!(lacks(&[&uses, &only("q"), &write]), "another one");
        for unused in [csv("", ""), csv("", "null,1,{}"), csv(r#""olm.copiedFrom":"x""#, pull)] {
            assert!(!lacks(&[&[unused]]), "nobody pulls");
        }
    }

    // Limits.

    const MANY: usize = 60_000;

    fn numbered(count: usize) -> String {
        (0..count).map(|n| format!("\"n{n}\"")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_long_role_is_read_to_its_end() {
        let verbs = format!(
            r#"{{"apiGroups":["operators.coreos.com"],"resources":["operatorgroups"],"verbs":[{},"create"]}}"#,
            numbered(MANY)
        );
        assert_eq!(opens_groups(&parsed(&role("ns", "r", &verbs)), None), Ok(true));
    }

    #[test]
    fn what_is_too_large_has_no_answer() {
        let nothing = vec!["{}"; MANY].join(",");
        assert_eq!(
            opens_groups(&parsed(&role("ns", "r", &nothing)), None),
            Err(Unanswered::TooLarge)
        );
        let nobody = vec![r#"{"kind":"User","name":"a"}"#; MANY].join(",");
        let objects = [
            ("clusterroles", role("", "r", ALL)),
            (
                "clusterrolebindings",
                binding("", "b", "ClusterRole", "r", &format!("{nobody},{SCOPED}")),
            ),
        ];
        assert_eq!(account(&objects), Err(Unanswered::TooLarge));
        // Every pair of what is wanted, against many that have nearly all of it.
        let some = numbered(100);
        let wanted = format!(
            r#"{{"apiGroups":[{some}],"resources":[{some}],"verbs":[{some}],"resourceNames":[{some}]}}"#
        );
        let held = format!(
            r#"{{"apiGroups":["*"],"resources":["*"],"verbs":["*"],"resourceNames":[{}]}}"#,
            numbered(99)
        );
        let held = format!("{held},{}", held.replace("\"n0\"", "\"n99\""));
        let found = within(&in_cluster(&held), || {
            missing_permissions(&READS, "scoped", "scoped", &csv("", &wanted))
        });
        assert_eq!(found, Err(Unanswered::TooLarge));
        // One that has all of it is found at once.
        assert_eq!(missing(&in_cluster(&wanted), &csv("", &wanted)), []);
    }
}
