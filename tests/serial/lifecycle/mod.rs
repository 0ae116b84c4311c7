//! From nothing to a protected cluster and out again in one run, with a client that writes all the while:
//! install, protect, reload, rotate, break, heal, upgrade, uninstall.
//!
//! ```text
//! install.rs: objects ─▶ cluster.rs: API server ◀─ writer.rs: the client
//!                              ▲   │ webhooks
//!                              │   ▼
//!                        kubelet.rs: pods
//! ```
//!
//! With `KUBEBUILDER_ASSETS` against a real kube-apiserver, otherwise against the fake one only. `OPGATE_PREVIOUS`
//! names the binary that the upgrade begins with; without it the same one stands in under another tag.
//!
//! No write may fail, with two exceptions, which the test counts separately: writes that a killed
//! replica was about to answer or that went to its address before its end was known, and writes
//! that a killed API server could not accept.

mod cluster;
mod install;
mod kubelet;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::objects::group;

use self::cluster::{NAMESPACE, TestCluster, object_reference};
use self::install::{
    Build, InstallMethod, InstallPlan, binaries_by_image, policies, previous_build,
};
use self::kubelet::{Kubelet, PodStatus, get};
use self::writer::{Writer, bundle};
use crate::{BINARY, wait_for_idle_machine};

/// Leases, terms and caches take their time; nothing takes this long.
const STEP_TIMEOUT: Duration = Duration::from_secs(240);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Writes that must have succeeded after each step before the next one begins.
const WRITES_PER_STEP: usize = 20;

/// A pod that was started this many times does not work.
const MAX_POD_STARTS: usize = 10;

const FIRST_POLICIES: [&str; 1] = ["bundle-immutability"];
const SECOND_POLICIES: [&str; 2] = ["bundle-immutability", "operator-group"];

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_requests_never_fail() {
    let _turn = wait_for_idle_machine().await;
    let Some(cluster) = TestCluster::real().await else { return };
    LifecycleTest::start(cluster, InstallMethod::Generated).run().await;
}

/// Two clusters at once: leases and grace periods are most of the time.
#[tokio::test(flavor = "multi_thread")]
async fn fake_api_server_requests_never_fail() {
    let _turn = wait_for_idle_machine().await;
    let generated = LifecycleTest::start(TestCluster::fake().await, InstallMethod::Generated);
    let manual = LifecycleTest::start(TestCluster::fake().await, InstallMethod::Manual);
    tokio::join!(generated.run(), manual.run());
}

/// As docs/operate has it, for administrators who write every object manually.
#[tokio::test(flavor = "multi_thread")]
async fn manual_setup_real_api_server_requests_never_fail() {
    let _turn = wait_for_idle_machine().await;
    let Some(cluster) = TestCluster::real().await else { return };
    LifecycleTest::start(cluster, InstallMethod::Manual).run().await;
}

/// One run.
struct LifecycleTest {
    cluster: Arc<TestCluster>,
    kubelet: Kubelet,
    writer: Writer,
    plan: InstallPlan,
    previous: Build,
    current: Build,
}

impl LifecycleTest {
    fn start(cluster: TestCluster, way: InstallMethod) -> Self {
        let name =
            format!("{way:?}, {} API server", if cluster.is_real() { "real" } else { "fake" });
        let cluster = Arc::new(cluster);
        let (previous, current) =
            (previous_build(Path::new(BINARY)), Build::new(BINARY, "current"));
        let kubelet = Kubelet::start(&cluster, binaries_by_image(&[&previous, &current]));
        let writer = Writer::start(name, &cluster);
        Self { cluster, kubelet, writer, plan: InstallPlan::new(way), previous, current }
    }

    async fn run(self) {
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        self.cluster.apply(&own).await.unwrap();
        self.install().await;
        self.protect().await;
        self.reload().await;
        self.rotate_certificates().await;
        self.apply_invalid_configuration().await;
        self.change_webhooks_manually().await;
        self.kill_a_replica().await;
        self.kill_the_api_server().await;
        self.upgrade().await;
        self.uninstall().await;
        let failed = self.writer.end().await;
        assert!(
            failed.is_empty(),
            "{} writes failed: {:#?}",
            failed.len(),
            &failed[..failed.len().min(5)]
        );
    }

    /// Waits until it is so, while no write fails.
    async fn wait_until(&self, what: &str, look: impl AsyncFn() -> bool) {
        let end = Instant::now() + STEP_TIMEOUT;
        while !look().await {
            let failed = self.writer.failures();
            assert!(failed.is_empty(), "{what}: {:#?}", &failed[..failed.len().min(5)]);
            let starts = self.kubelet.pods().iter().map(|pod| pod.starts).max();
            assert!(starts < Some(MAX_POD_STARTS), "{what}: a pod ends again and again");
            assert!(Instant::now() < end, "{what}: not within {STEP_TIMEOUT:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the client has written some more.
    async fn wait_for_writes(&self) {
        let before = self.writer.written();
        self.wait_until("more writes", async || self.writer.written() >= before + WRITES_PER_STEP)
            .await;
    }

    /// Applies what is printed. A role in a namespace that does not exist cannot be applied, and
    /// need not be. An administrator who registers webhooks manually does so when the servers have
    /// the configuration.
    async fn apply(&self, build: &Build, names: &[&str]) {
        for object in self.plan.objects(build, &policies(names)) {
            if self.plan.method == InstallMethod::Manual
                && object["kind"] == "ValidatingWebhookConfiguration"
            {
                self.wait_until("servers for the webhooks", async || {
                    self.is_serving(build) && self.all_serve(names).await
                })
                .await;
            }
            let applied = self.cluster.apply(&object).await;
            let is_elsewhere =
                object["metadata"]["namespace"].as_str().is_some_and(|n| n != NAMESPACE);
            match applied {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if is_elsewhere && status.code == 404 => {}
                Err(error) => panic!("{}: {error}", object["metadata"]),
            }
        }
    }

    fn is_serving(&self, build: &Build) -> bool {
        let pods = self.kubelet.pods();
        pods.len() == 2 && pods.iter().all(|pod| pod.is_ready && pod.image == build.image)
    }

    /// Whether all pods serve exactly these policies.
    async fn all_serve(&self, names: &[&str]) -> bool {
        let pods = self.kubelet.pods();
        for PodStatus { ops, is_ready, .. } in &pods {
            let Some(ops) = ops.filter(|_| *is_ready) else { return false };
            let Some((200, text)) = get(ops, "/policies").await else { return false };
            let policies: Value = serde_json::from_str(&text).unwrap_or_default();
            // With what a reload adds, they are a member of an object.
            let policies = policies.get("policies").unwrap_or(&policies).clone();
            let has = |name: &&str| text.contains(&format!("\"name\":\"{name}\""));
            let count = policies.as_array().map_or(0, Vec::len);
            if count != names.len() || !names.iter().all(has) {
                return false;
            }
        }
        pods.len() == 2
    }

    /// Whether a write is refused by a webhook for this reason.
    async fn is_denied(&self, operation: &str, object: &Value, reason: &str) -> bool {
        if let Err(why) = self.cluster.write(operation, object).await {
            return why.contains(reason);
        }
        if operation == "CREATE" {
            let _ = self.cluster.write("DELETE", object).await;
        }
        false
    }

    async fn is_protected(&self) -> bool {
        let mut guarded = bundle("guarded", "");
        guarded["spec"]["source"]["image"]["ref"] = "my-bundle@sha256:other".into();
        self.is_denied("UPDATE", &guarded, "bundle.spec is immutable").await
    }

    async fn install(&self) {
        self.writer.set_step("install");
        let guarded = bundle("guarded", "");
        self.cluster.write("CREATE", &guarded).await.unwrap();
        self.apply(&self.previous, &FIRST_POLICIES).await;
        self.wait_until("two replicas", async || self.is_serving(&self.previous)).await;
        self.wait_for_writes().await;
    }

    async fn protect(&self) {
        self.writer.set_step("protect");
        self.wait_until("webhooks", async || {
            let webhooks = self.cluster.webhook_configuration().await.unwrap_or_default();
            webhooks["webhooks"].as_array().is_some_and(|webhooks| !webhooks.is_empty())
        })
        .await;
        // Until an API server has noticed the webhooks, it allows everything, including a change of
        // the spec.
        self.wait_until("protection", async || {
            if self.is_protected().await {
                return true;
            }
            let _ = self.cluster.write("DELETE", &bundle("guarded", "")).await;
            let _ = self.cluster.write("CREATE", &bundle("guarded", "")).await;
            false
        })
        .await;
        self.wait_for_writes().await;
    }

    async fn reload(&self) {
        self.writer.set_step("reload");
        let first = group_of("first");
        self.cluster.write("CREATE", &first).await.unwrap();
        let before: Vec<_> = self.kubelet.pods().into_iter().map(|pod| pod.name).collect();
        self.apply(&self.previous, &SECOND_POLICIES).await;
        self.wait_until("both policies", async || self.all_serve(&SECOND_POLICIES).await).await;
        if self.plan.method == InstallMethod::Generated {
            let after: Vec<_> = self.kubelet.pods().into_iter().map(|pod| pod.name).collect();
            assert_eq!(before, after, "the same pods");
        }
        self.wait_until("protection by the new policy", async || {
            let reason = "Multiple OperatorGroup found in the same namespace";
            self.is_denied("CREATE", &group_of("second"), reason).await
        })
        .await;
        assert!(self.is_protected().await);
        self.wait_for_writes().await;
    }

    async fn rotate_certificates(&self) {
        self.writer.set_step("rotate: a new certificate");
        let secret = object_reference(("v1", "Secret"), Some(NAMESPACE), "opgate-tls");
        let before = self.cluster.get(&secret).await.expect("a Secret")["data"]["tls.crt"].clone();
        let expiry = async || {
            let mut ends = Vec::new();
            for pod in self.kubelet.pods() {
                let text = match pod.ops {
                    Some(ops) => get(ops, "/metrics").await.unwrap_or_default().1,
                    None => String::new(),
                };
                let name = "opgate_certificate_reloads_total{result=\"replaced\"}";
                let line = text.lines().find(|line| line.starts_with(name));
                ends.push(line.unwrap_or_default().to_owned());
            }
            ends
        };
        let counted = expiry().await;
        match self.plan.method {
            // The leader issues a certificate of a new CA.
            InstallMethod::Generated => {
                let empty = json!({"ca.crt": "", "ca.key": "", "tls.crt": "", "tls.key": ""});
                self.cluster.merge(&secret, &json!({"data": empty})).await.unwrap();
            }
            InstallMethod::Manual => self.cluster.apply(&self.plan.secret()).await.unwrap(),
        }
        self.wait_until("a new certificate", async || {
            let now = self.cluster.get(&secret).await.unwrap_or_default();
            let now = now["data"]["tls.crt"].as_str().unwrap_or_default();
            !now.is_empty() && before != now
        })
        .await;
        self.wait_until("that all replicas have it", async || {
            let now = expiry().await;
            now.len() == 2 && now.iter().zip(&counted).all(|(now, before)| now != before)
        })
        .await;
        self.wait_for_writes().await;
        assert!(self.is_protected().await);
    }

    async fn apply_invalid_configuration(&self) {
        if self.plan.method == InstallMethod::Manual {
            return;
        }
        self.writer.set_step("break and heal: a configuration that cannot be read");
        let map = object_reference(("v1", "ConfigMap"), Some(NAMESPACE), "opgate");
        let set = async |text: &str| {
            let data = json!({"data": {"opgate.yaml": text}});
            self.cluster.merge(&map, &data).await.unwrap();
        };
        set("policies: [").await;
        let tells = async || {
            for pod in self.kubelet.pods() {
                let Some(ops) = pod.ops else { return false };
                let text = get(ops, "/metrics").await.unwrap_or_default().1;
                let name = "opgate_configuration_stale";
                if !text.lines().any(|line| line.starts_with(name) && line.ends_with(" 1")) {
                    return false;
                }
            }
            true
        };
        self.wait_until("that all replicas say so", tells).await;
        assert!(self.is_protected().await && self.all_serve(&SECOND_POLICIES).await);
        self.wait_for_writes().await;
        set(&policies(&SECOND_POLICIES)).await;
        self.wait_until("that it is good again", async || !tells().await).await;
        assert!(self.is_protected().await);
    }

    async fn change_webhooks_manually(&self) {
        if self.plan.method == InstallMethod::Manual {
            return;
        }
        self.writer.set_step("break and heal: a webhook is taken away");
        let good = self.cluster.webhook_configuration().await.unwrap();
        self.cluster.merge(&good, &json!({"webhooks": []})).await.unwrap();
        self.wait_until("the webhooks", async || {
            let now = self.cluster.webhook_configuration().await.unwrap_or_default();
            now["webhooks"] == good["webhooks"]
        })
        .await;
        self.wait_until("protection", async || self.is_protected().await).await;
        self.wait_for_writes().await;
    }

    async fn kill_a_replica(&self) {
        self.writer.set_step("break and heal: kill -9");
        let killed = self.kubelet.pods().into_iter().find_map(|pod| pod.pid).unwrap();
        self.writer.set_tolerates_failures(true);
        let pid = Pid::from_raw(i32::try_from(killed).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.wait_until("a replica in its place", async || {
            let pods = self.kubelet.pods();
            self.is_serving(&self.previous) && pods.iter().all(|pod| pod.pid != Some(killed))
        })
        .await;
        self.wait_settled().await;
        self.writer.set_tolerates_failures(false);
        assert!(self.is_protected().await);
        self.wait_for_writes().await;
    }

    async fn kill_the_api_server(&self) {
        self.writer.set_step("break and heal: kill -9 of the API server");
        self.writer.set_tolerates_failures(true);
        self.cluster.restart();
        self.wait_until("the API server", async || {
            self.cluster.webhook_configuration().await.is_some()
        })
        .await;
        self.wait_until("protection", async || self.is_protected().await).await;
        self.wait_until("two replicas", async || self.is_serving(&self.previous)).await;
        self.wait_settled().await;
        self.writer.set_tolerates_failures(false);
        self.wait_for_writes().await;
    }

    /// Waits until the client writes without a failure, whatever it was forgiven.
    async fn wait_settled(&self) {
        self.wait_for_writes().await;
    }

    async fn upgrade(&self) {
        self.writer.set_step("upgrade");
        self.apply(&self.current, &SECOND_POLICIES).await;
        self.wait_until("two new replicas", async || self.is_serving(&self.current)).await;
        assert!(self.is_protected().await);
        self.wait_for_writes().await;
    }

    async fn uninstall(&self) {
        self.writer.set_step("uninstall");
        let printed = self.plan.objects(&self.current, &policies(&SECOND_POLICIES));
        // The webhooks go first, whatever the order of the rest.
        let (first, rest): (Vec<_>, Vec<_>) =
            printed.iter().partition(|object| object["kind"] == "ValidatingWebhookConfiguration");
        for object in &first {
            assert!(self.cluster.delete(object).await, "{}", object["metadata"]);
        }
        self.wait_for_writes().await;
        for object in &rest {
            self.cluster.delete(object).await;
        }
        self.wait_until("the end of all pods", async || self.kubelet.pods().is_empty()).await;
        // The fake API server has no roles, so that a server that still ran could create its Secret again.
        for object in rest.iter().filter(|object| object["kind"] == "Secret") {
            self.cluster.delete(object).await;
        }
        self.wait_for_writes().await;
        for object in &printed {
            let is_namespace = object["kind"] == "Namespace";
            let left = self.cluster.get(object).await;
            let is_going = left.is_none_or(|left| {
                // No controller of namespaces takes away what is in it.
                is_namespace && left["metadata"]["deletionTimestamp"].is_string()
            });
            assert!(is_going, "{} {}", object["kind"], object["metadata"]);
        }
        let changed = bundle("guarded", "unprotected");
        self.cluster.write("UPDATE", &changed).await.unwrap();
    }
}

/// A group for its own namespace.
fn group_of(name: &str) -> Value {
    let group = group("a", name, &json!({"targetNamespaces": ["a"]}), "");
    serde_json::to_value(group).unwrap()
}
