//! Requests that exclude each other, sent at once to a real API server, where `KUBEBUILDER_ASSETS`
//! names a directory with one. Each table prints a line with the figures of `docs/reliability.md`:
//!
//! `cargo test --release --workspace --test serial -- races --nocapture`
//!
//! `OPGATE_RACE_CREATES` (200) and `OPGATE_RACE_ROUNDS` (5) set how many requests are sent. What
//! counts as admitted is what is stored in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::json;
use testkit::control_plane::{ControlPlane, eventually};
use testkit::forwarder::Forwarder;
use testkit::objects::{group, groups, object, subscriptions};
use testkit::{Server, configuration, reviews};

use crate::{BINARY, wait_for_idle_machine};

const GROUPS: &str = "operators.coreos.com/v1/operatorgroups";
const SUBSCRIPTIONS: &str = "operators.coreos.com/v1alpha1/subscriptions";

/// Groups that are stored beforehand in the large tables.
const STORED_GROUPS: usize = 2_000;
/// Creates without any conflict.
const CONFLICT_FREE_CREATES: usize = 100;
/// What an evaluation may take in an unoptimised build.
const EVALUATION_TIME: &str = "20s";
/// For this long, the test repeats a create that failed because a server was away.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Which objects exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaceRule {
    /// All groups in one namespace.
    Opg01,
    /// Groups, each in its own namespace, with the same API for the same namespace.
    Opg18,
    /// All Subscriptions in one namespace, for the same package.
    Sub07,
    /// None: groups, each in its own namespace, with its own API for itself.
    NoConflict,
}

impl RaceRule {
    fn resource(self) -> ApiResource {
        if self == Self::Sub07 { subscriptions() } else { groups() }
    }

    fn object(self, number: usize) -> DynamicObject {
        let own = format!("race-{number}");
        let goose = "Goose.v1alpha1.birds.com";
        let mut object = match self {
            Self::Opg01 => group("race-0", &own, &json!({"targetNamespaces": ["race-0"]}), ""),
            Self::Opg18 => group(&own, "g", &json!({"targetNamespaces": ["shared"]}), goose),
            Self::Sub07 => object(reviews::subscription("race-0", &own, "goose")),
            Self::NoConflict => {
                let api = format!("Bird{number}.v1.birds.com");
                group(&own, "g", &json!({"targetNamespaces": [own]}), &api)
            }
        };
        // The API server gives its own.
        object.metadata.uid = None;
        object.metadata.labels = Some([("race".to_owned(), "yes".to_owned())].into());
        object
    }

    fn denial_text(self) -> Option<&'static str> {
        match self {
            Self::Opg01 => Some("Multiple OperatorGroup found in the same namespace"),
            Self::Opg18 => Some("intersecting operatorgroups provide the same apis"),
            Self::Sub07 => Some("no two Operators may come from the same package"),
            Self::NoConflict => None,
        }
    }

    /// The policy `operator-group`, which the probe needs, and that of the rule. Catalogs and groups for
    /// Subscriptions would be in the way of the other tables.
    fn configuration(self) -> String {
        if self != Self::Sub07 {
            return ControlPlane::operator_group(EVALUATION_TIME);
        }
        let mut subscription =
            json!({"name": "subscription", "rules": {"SUB-01": "off", "SUB-04": "off"}});
        let mut group = json!({"name": "operator-group"});
        if cfg!(debug_assertions) {
            for policy in [&mut subscription, &mut group] {
                policy["limits"] = json!({"time": EVALUATION_TIME});
            }
        }
        configuration(&[group, subscription])
    }

    /// How many objects opgate sees of what, where none of the race is stored, besides the groups that
    /// are stored beforehand.
    fn expected_counts(self, groups: usize) -> Vec<(&'static str, usize)> {
        // One more is the probe's.
        let mut seen = vec![(GROUPS, groups + 1)];
        if self == Self::Sub07 {
            seen.push((SUBSCRIPTIONS, 0));
        }
        seen
    }
}

/// What happens in the middle of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    Nothing,
    /// opgate gets SIGKILL and is started again.
    OpgateKilled,
    /// The API server gets SIGKILL and is started again.
    ApiServerKilled,
}

#[derive(Clone, Copy, Debug)]
struct RaceTable {
    rule: RaceRule,
    replicas: usize,
    consistent: bool,
    disruption: Disruption,
}

impl RaceTable {
    fn name(&self, stored: usize) -> String {
        let mut name = format!("{:?}, {} replicas", self.rule, self.replicas).to_uppercase();
        name = name.replace("REPLICAS", if self.replicas == 1 { "replica" } else { "replicas" });
        if self.consistent {
            name += ", consistent reads";
        }
        if stored > 0 {
            let _ = write!(name, ", {stored} groups");
        }
        match self.disruption {
            Disruption::Nothing => {}
            Disruption::OpgateKilled => name += ", opgate killed",
            Disruption::ApiServerKilled => name += ", API server killed",
        }
        name
    }
}

/// What came of the creates of one table.
#[derive(Debug, Default)]
struct RaceResult {
    /// Of each round.
    admitted: Vec<usize>,
    denied: usize,
    /// Reasons that are no denials, with how often there were.
    failed: BTreeMap<String, usize>,
    retried: usize,
    times: Vec<Duration>,
}

impl RaceResult {
    fn format_row(&mut self, name: &str, creates: usize) -> String {
        self.times.sort_unstable();
        let at = |percent: usize| {
            let index = self.times.len().saturating_sub(1) * percent / 100;
            self.times.get(index).map_or(0, Duration::as_millis)
        };
        let admitted: Vec<_> = self.admitted.iter().map(ToString::to_string).collect();
        let mut line = format!(
            "{name}: {} rounds of {creates}, admitted {}, denied {}, failed {}, repeated {}, p50 {} ms, p99 {} ms",
            self.admitted.len(),
            admitted.join(" "),
            self.denied,
            self.failed.values().sum::<usize>(),
            self.retried,
            at(50),
            at(99),
        );
        for (reason, count) in self.failed.iter().take(4) {
            let _ = write!(line, "\n    {count} times: {reason}");
        }
        line
    }
}

/// How a create ended.
enum CreateResult {
    /// Stored, as far as the client knows.
    Created,
    Denied,
    Failed(String),
}

async fn create(client: &Client, rule: RaceRule, number: usize) -> CreateResult {
    let object = rule.object(number);
    let namespace = object.metadata.namespace.clone().unwrap();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &rule.resource());
    let is_denial =
        |message: &str| rule.denial_text().is_some_and(|denial| message.contains(denial));
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => CreateResult::Created,
        // Stored by an earlier try, whose answer was lost.
        Err(kube::Error::Api(status)) if status.code == 409 => CreateResult::Created,
        Err(kube::Error::Api(status)) if status.code == 403 && is_denial(&status.message) => {
            CreateResult::Denied
        }
        Err(kube::Error::Api(status)) => {
            CreateResult::Failed(format!("{} {}", status.code, normalized_reason(&status.message)))
        }
        Err(error) => CreateResult::Failed(normalized_reason(&error.to_string())),
    }
}

/// The same reason, whatever the object and the port.
fn normalized_reason(text: &str) -> String {
    let digits = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
    let mut reason: String = digits.take(300).collect();
    while reason.contains("00") {
        reason = reason.replace("00", "0");
    }
    reason
}

/// A control plane with namespaces and, beforehand, some groups.
struct RaceTest {
    plane: ControlPlane,
    admin: Client,
    forwarder: Forwarder,
    creates: usize,
    rounds: usize,
    stored: usize,
    failures: Vec<String>,
}

impl RaceTest {
    async fn prepare(stored: usize) -> Option<Self> {
        let plane = ControlPlane::start().await?;
        plane.install().await;
        plane.grant_installation().await;
        let admin = plane.client("admin").await;
        let creates = setting("OPGATE_RACE_CREATES", 200);
        let race = (0..creates.max(CONFLICT_FREE_CREATES)).map(|number| format!("race-{number}"));
        let beforehand = (0..stored).map(|number| format!("stored-{number}"));
        plane.namespaces(race.chain(beforehand).chain(["shared".to_owned()])).await;
        let beforehand = (0..stored).map(|number| {
            let own = format!("stored-{number}");
            let api = format!("Stored{number}.v1.birds.com");
            group(&own, "g", &json!({"targetNamespaces": [own]}), &api)
        });
        plane.groups(beforehand).await;
        Some(Self {
            plane,
            admin,
            forwarder: Forwarder::start().await,
            creates,
            rounds: setting("OPGATE_RACE_ROUNDS", 5),
            stored,
            failures: Vec::new(),
        })
    }

    async fn start(&self, table: &RaceTable) -> Vec<Server> {
        let kubeconfig = self.plane.kubeconfig("opgate");
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        if table.consistent {
            arguments.push("--consistent-reads");
        }
        let configuration = table.rule.configuration();
        let start = |number: usize| {
            let pod = format!("r{number}");
            let mut all = arguments.clone();
            if table.replicas > 1 {
                all.extend(["--installation", "opgate-system/opgate", "--pod-name", &pod]);
            }
            Server::start(BINARY, Some(&configuration), &all)
        };
        let servers: Vec<_> = (0..table.replicas).map(start).collect();
        self.forwarder.set_targets(servers.iter().map(|server| server.address));
        let address = self.forwarder.address;
        self.plane.enforce(BINARY, &configuration, address, &servers).await;
        self.wait_current(table.rule, &servers).await;
        servers
    }

    /// Waits until all servers are ready and have seen what is stored, and nothing else.
    async fn wait_current(&self, rule: RaceRule, servers: &[Server]) {
        for server in servers {
            eventually("readiness", || async {
                (server.get("/readyz").await.0 == 200).then_some(())
            })
            .await;
            for (resource, count) in rule.expected_counts(self.stored) {
                let count = u32::try_from(count).unwrap().into();
                let metric = format!("opgate_cluster_cache_objects{{resource=\"{resource}\"}}");
                eventually("a current view", || async {
                    (server.metric(&metric).await == Some(count)).then_some(())
                })
                .await;
            }
        }
    }

    /// What is stored of the race.
    async fn list_admitted(&self, rule: RaceRule) -> Vec<DynamicObject> {
        let all = Api::<DynamicObject>::all_with(self.admin.clone(), &rule.resource());
        let of_the_race = ListParams::default().labels("race=yes");
        eventually("a list", || async { Some(all.list(&of_the_race).await.ok()?.items) }).await
    }

    /// Takes away what is stored of the race.
    async fn delete_admitted(&self, rule: RaceRule, servers: &[Server]) {
        for object in self.list_admitted(rule).await {
            let namespace = object.metadata.namespace.unwrap();
            let of = rule.resource();
            let api = Api::<DynamicObject>::namespaced_with(self.admin.clone(), &namespace, &of);
            let name = object.metadata.name.unwrap();
            eventually("a deletion", || async {
                api.delete(&name, &DeleteParams::default()).await.ok()
            })
            .await;
        }
        self.wait_current(rule, servers).await;
    }

    async fn run(&mut self, table: RaceTable) {
        let mut servers = self.start(&table).await;
        let creates =
            if table.rule == RaceRule::NoConflict { CONFLICT_FREE_CREATES } else { self.creates };
        let mut figures = RaceResult::default();
        for round in 0..self.rounds {
            // Earlier and later, from before the first answer to half of them.
            let before_trouble = creates * round / (2 * self.rounds);
            self.run_round(&table, creates, before_trouble, &mut servers, &mut figures).await;
            figures.admitted.push(self.list_admitted(table.rule).await.len());
            self.delete_admitted(table.rule, &servers).await;
        }
        if table.disruption == Disruption::Nothing {
            for server in &servers {
                let answered = server.metric("opgate_requests_total").await;
                assert!(answered > Some(0.0), "a replica was not asked");
            }
        }
        let name = table.name(self.stored);
        println!("{}", figures.format_row(&name, creates));
        let expected = if table.rule == RaceRule::NoConflict { creates } else { 1 };
        if figures.admitted.iter().any(|admitted| *admitted != expected) {
            self.failures.push(format!("{name}: admitted {:?}", figures.admitted));
        }
        if !figures.failed.is_empty() {
            self.failures
                .push(format!("{name}: {} failed", figures.failed.values().sum::<usize>()));
        }
    }

    /// Sends all at once. Where there is trouble, what failed is sent again, as clients do.
    async fn run_round(
        &mut self,
        table: &RaceTable,
        creates: usize,
        before_trouble: usize,
        servers: &mut [Server],
        figures: &mut RaceResult,
    ) {
        let rule = table.rule;
        let patience =
            if table.disruption == Disruption::Nothing { Duration::ZERO } else { RETRY_TIMEOUT };
        let mut running: FuturesUnordered<_> = (0..creates)
            .map(|number| {
                let client = self.admin.clone();
                tokio::spawn(async move {
                    let started = Instant::now();
                    let mut tries = 1;
                    loop {
                        let end = create(&client, rule, number).await;
                        if !matches!(end, CreateResult::Failed(_)) || started.elapsed() >= patience
                        {
                            return (end, started.elapsed(), tries);
                        }
                        tries += 1;
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                })
            })
            .collect();
        for ended in 0..=creates {
            if ended == before_trouble {
                self.disrupt(table.disruption, servers);
            }
            let Some(ended) = running.next().await else { break };
            let (end, time, tries) = ended.unwrap();
            figures.times.push(time);
            figures.retried += usize::from(tries > 1);
            match end {
                CreateResult::Created => {}
                CreateResult::Denied => figures.denied += 1,
                CreateResult::Failed(text) => *figures.failed.entry(text).or_default() += 1,
            }
        }
    }

    fn disrupt(&mut self, trouble: Disruption, servers: &mut [Server]) {
        match trouble {
            Disruption::Nothing => {}
            Disruption::OpgateKilled => {
                servers.iter_mut().for_each(Server::restart);
                self.forwarder.set_targets(servers.iter().map(|server| server.address));
            }
            Disruption::ApiServerKilled => self.plane.restart_apiserver(),
        }
    }

    fn assert_no_failures(self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

/// Runs a table for each rule, with and without `--consistent-reads`.
async fn run_tables(rules: &[RaceRule], replicas: usize, stored: usize, trouble: Disruption) {
    let Some(mut race_test) = RaceTest::prepare(stored).await else { return };
    for rule in rules {
        for consistent in [false, true] {
            race_test
                .run(RaceTable { rule: *rule, replicas, consistent, disruption: trouble })
                .await;
        }
    }
    race_test.assert_no_failures();
}

const CONFLICTING_RULES: [RaceRule; 3] = [RaceRule::Opg01, RaceRule::Opg18, RaceRule::Sub07];

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_admits_one() {
    let _turn = wait_for_idle_machine().await;
    run_tables(&CONFLICTING_RULES, 1, 0, Disruption::Nothing).await;
}

/// Several replicas share their reservations.
#[tokio::test(flavor = "multi_thread")]
async fn two_three_and_five_replicas_admit_one() {
    let _turn = wait_for_idle_machine().await;
    for replicas in [2, 3, 5] {
        run_tables(&CONFLICTING_RULES, replicas, 0, Disruption::Nothing).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_admits_one_with_many_other_groups() {
    let _turn = wait_for_idle_machine().await;
    run_tables(&CONFLICTING_RULES, 1, STORED_GROUPS, Disruption::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_admits_one_although_it_is_killed() {
    let _turn = wait_for_idle_machine().await;
    run_tables(&CONFLICTING_RULES, 1, 0, Disruption::OpgateKilled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_admits_one_although_the_api_server_is_killed() {
    let _turn = wait_for_idle_machine().await;
    run_tables(&CONFLICTING_RULES, 1, 0, Disruption::ApiServerKilled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_free_creates_all_pass_with_many_groups() {
    let _turn = wait_for_idle_machine().await;
    for replicas in [1, 2, 3] {
        run_tables(&[RaceRule::NoConflict], replicas, STORED_GROUPS, Disruption::Nothing).await;
    }
}
