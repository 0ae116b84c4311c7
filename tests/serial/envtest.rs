//! Verdicts and permissions against a real kube-apiserver and etcd, where `KUBEBUILDER_ASSETS`
//! names a directory with them.

use futures_util::future::join_all;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{csv, csvs, denial_message, group, groups, namespace, resource};
use testkit::otlp_collector::OtlpCollector;
use testkit::{Server, create_bundle, good_spec, polls};

use crate::{BINARY, wait_for_idle_machine};

/// A configuration that names what `profile: auto` detects: a server without permissions would wait for it.
fn configuration(policies: &[Value]) -> String {
    json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "profile": "ocp-4.15",
        "identities": {
            "olm": ["system:serviceaccount:olm:olm-operator"],
            "rukpak": ["system:serviceaccount:rukpak:core"],
        },
        "policies": policies,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_gets_the_same_verdicts() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    let (groups, csvs) = (groups(), csvs());
    let in_namespace = |namespace: &str, resource: &ApiResource| {
        Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, resource)
    };
    let namespaces =
        Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"));
    for name in ["a", "b", "c", "d", "e", "shared"] {
        namespaces.create(&PostParams::default(), &namespace(name)).await.unwrap();
    }

    // Without permissions, the server starts, is not ready, and reports what it lacks.
    let patient = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    let configuration = configuration(&[patient("bundle-immutability"), patient("operator-group")]);
    let kubeconfig = plane.kubeconfig("opgate");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let server = Server::start(BINARY, Some(&configuration), &["--kubeconfig", kubeconfig]);
    let unready = eventually("what is missing", || async {
        let (code, text) = server.get("/readyz").await;
        (code == 503 && text.matches("forbidden").count() >= 2).then_some(text)
    })
    .await;
    assert!(unready.contains("operators.coreos.com/v1/operatorgroups"), "{unready}");
    plane.grant().await;
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;

    // The webhook configuration is the one that opgate prints.
    let servers = [server];
    plane.register(BINARY, &configuration, servers[0].address, &servers).await;
    // Only the webhook refuses a duplicate: when the duplicate is refused, the API server uses the
    // webhook.
    let of_a = in_namespace("a", &groups);
    let goose = "Goose.v1alpha1.birds.com";
    let post = PostParams::default();
    of_a.create(&post, &group("a", "first", &json!({"targetNamespaces": ["shared"]}), goose))
        .await
        .unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let second = group("a", "second", &json!({}), "");
    let message = eventually("the webhook", || async {
        match of_a.create(&dry, &second).await {
            Err(kube::Error::Api(status)) => Some(status.message),
            _ => None,
        }
    })
    .await;
    assert!(message.contains("Multiple OperatorGroup found in the same namespace"), "{message}");
    assert!(message.contains("admission webhook \"v"), "{message}");

    // Intersection: the same API for an intersecting namespace is refused, elsewhere it is not.
    let of_b = in_namespace("b", &groups);
    let same = group("b", "g", &json!({"targetNamespaces": ["shared", "b"]}), goose);
    let message = denial_message(of_b.create(&post, &same).await);
    assert!(message.contains("intersecting operatorgroups provide the same apis"), "{message}");
    assert!(message.contains("a/first") && message.contains(goose), "{message}");
    let selected = json!({"selector": {"matchLabels": {"team": "shared"}}});
    denial_message(of_b.create(&post, &group("b", "g", &selected, goose)).await);
    let apart = group("b", "g", &json!({"targetNamespaces": ["b"]}), goose);
    of_b.create(&post, &apart).await.unwrap();
    // The hijack by an update of the targets.
    let hijack = json!({"spec": {"targetNamespaces": ["shared"]}});
    let patch = PatchParams::default();
    let message = denial_message(of_b.patch("g", &patch, &Patch::Merge(&hijack)).await);
    assert!(message.contains("intersecting operatorgroups"), "{message}");
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    of_b.patch("g", &patch, &Patch::Merge(&label)).await.unwrap();

    // Members: no group, wrong install mode, a conflict, and one that is fine.
    let goose_crd = "geese.birds.com";
    let own = ["OwnNamespace"];
    let of_c = in_namespace("c", &csvs);
    let message = denial_message(of_c.create(&post, &csv("c", "lonely.v1", &own, goose_crd)).await);
    assert!(message.contains("csv in namespace with no operatorgroups"), "{message}");
    let groups_of_c = in_namespace("c", &groups);
    let spec = json!({"targetNamespaces": ["c"]});
    groups_of_c.create(&post, &group("c", "g", &spec, "")).await.unwrap();
    let message = denial_message(
        of_c.create(&post, &csv("c", "all.v1", &["AllNamespaces"], goose_crd)).await,
    );
    assert!(message.contains("OwnNamespace InstallModeType not supported"), "{message}");
    of_c.create(&post, &csv("c", "fine.v1", &own, goose_crd)).await.unwrap();
    let of_d = in_namespace("d", &csvs);
    let groups_of_d = in_namespace("d", &groups);
    groups_of_d
        .create(&post, &group("d", "g", &json!({"targetNamespaces": ["shared"]}), ""))
        .await
        .unwrap();
    let single = ["SingleNamespace"];
    let message =
        denial_message(of_d.create(&post, &csv("d", "goose.v1", &single, goose_crd)).await);
    assert!(message.contains("intersecting operatorgroups provide the same apis"), "{message}");

    // A deleted group blocks no request.
    of_a.delete("first", &DeleteParams::default()).await.unwrap();
    eventually("the end of the old group", || async {
        of_d.create(&post, &csv("d", "goose.v1", &single, goose_crd)).await.ok()
    })
    .await;

    // Many at once: one wins.
    let of_e = in_namespace("e", &groups);
    let racing = (0..100).map(|number| {
        let spec = json!({"targetNamespaces": ["e"]});
        let (of_e, name) = (of_e.clone(), format!("racer-{number}"));
        async move {
            let racer = group("e", &name, &spec, "Duck.v1.birds.com");
            of_e.create(&PostParams::default(), &racer).await.is_ok()
        }
    });
    let won = join_all(racing).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

/// Names go to API servers as CEL, labels as a selector. Both must mean there what they mean to
/// opgate.
#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_applies_the_scope_of_a_policy() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    plane.grant().await;
    let admin = plane.client("admin").await;
    let namespaces =
        Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"));
    let places = [
        ("team-a", "yes", true),
        ("team-b", "no", false),
        ("team-c-x", "yes", true),
        ("team-d-sandbox-1", "yes", false),
        ("other", "yes", false),
    ];
    for (name, watched, _) in places {
        let mut object = namespace(name);
        object.metadata.labels.get_or_insert_default().insert("watched".into(), watched.into());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
    }
    let scope = json!({
        "namespaceSelector": {"matchLabels": {"watched": "yes"}},
        "namespaces": {"include": ["team-*"], "exclude": ["*-sand*x-*"]},
        "names": {"exclude": ["legacy-*", "*-old"]},
    });
    let policy = json!({"name": "operator-group", "limits": {"time": "20s"}, "match": scope});
    let configuration = configuration(&[policy]);
    let kubeconfig = plane.kubeconfig("opgate");
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let server = Server::start(BINARY, Some(&configuration), &arguments);
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;
    let servers = [server];
    plane.register(BINARY, &configuration, servers[0].address, &servers).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let groups = groups();
    for (name, _, _) in places {
        let of_it = Api::<DynamicObject>::namespaced_with(admin.clone(), name, &groups);
        let own = json!({"targetNamespaces": [name]});
        of_it.create(&PostParams::default(), &group(name, "first", &own, "")).await.unwrap();
    }
    let of_a = Api::<DynamicObject>::namespaced_with(admin.clone(), "team-a", &groups);
    eventually("the webhook", || async {
        of_a.create(&dry, &group("team-a", "second", &json!({}), "")).await.is_err().then_some(())
    })
    .await;
    for (name, watched, expected) in places {
        let of_it = Api::<DynamicObject>::namespaced_with(admin.clone(), name, &groups);
        for (second, is_named) in [("second", true), ("legacy-2", false), ("an-old", false)] {
            let refused = of_it.create(&dry, &group(name, second, &json!({}), "")).await.is_err();
            assert_eq!(refused, expected && is_named, "{name}/{second}, watched: {watched}");
        }
    }
}

/// A real API server answers requests for resources that it does not watch, for an API whose server
/// is absent, and for its version. The user has only the permissions that these requests need.
#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_unwatchable_resources_are_polled() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane
        .grant_only(&json!([
            {"apiGroups": [""], "resources": ["componentstatuses"], "verbs": ["list"]},
            {
                "apiGroups": ["packages.operators.coreos.com"],
                "resources": ["packagemanifests"],
                "verbs": ["list"],
            },
            {
                "apiGroups": ["config.openshift.io"],
                "resources": ["clusterversions", "featuregates"],
                "verbs": ["list", "watch"],
            },
        ]))
        .await;
    let admin = plane.client_without_retries("admin").await;
    let resource = resource("apiregistration.k8s.io", "v1", "APIService");
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.packages.operators.coreos.com"},
        "spec": {
            "group": "packages.operators.coreos.com",
            "version": "v1",
            "service": {"namespace": "olm", "name": "packageserver-service"},
            "groupPriorityMinimum": 2000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": true,
        },
    });
    let apis = Api::<DynamicObject>::all_with(admin.clone(), &resource);
    apis.create(&PostParams::default(), &serde_json::from_value(api).unwrap()).await.unwrap();
    let path = "/apis/packages.operators.coreos.com/v1/packagemanifests";
    eventually("the absence of the server", || async {
        let request = hyper::Request::get(path).body(Vec::new()).unwrap();
        let text = admin.request_text(request).await.err()?.to_string();
        text.contains("service unavailable").then_some(())
    })
    .await;
    // A new API server grants it some time after it is ready.
    let user = plane.client_without_retries("opgate").await;
    eventually("the permission to read /version", || async {
        user.request_text(hyper::Request::get("/version").body(Vec::new()).unwrap()).await.ok()
    })
    .await;
    let kubeconfig = plane.kubeconfig("opgate");
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--sync-timeout", "1h"];
    let server = Server::start(BINARY, Some(&configuration(&[polls()])), &arguments);
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;
    eventually("all lines", || async {
        let (_, text) = server.get("/readyz?verbose").await;
        println!("{text}");
        let lines = [
            "[+]opgate.dev/v1alpha1/serverversions current, 1 objects, polled ",
            "[-]packages.operators.coreos.com/v1/packagemanifests is not synced yet: 503: ",
            "[+]config.openshift.io/v1/clusterversions not installed\n",
            "[+]v1/componentstatuses current, ",
        ];
        let polled = text.lines().filter(|line| line.contains(", polled ")).count();
        (lines.iter().all(|line| text.contains(line)) && polled == 2).then_some(())
    })
    .await;
    let review = create_bundle("1", "serverversions", &good_spec()).to_string();
    let said = server.connect().await.review(review).await.unwrap().message();
    assert!(said.starts_with("serverversions: [\"v1."), "{said}");
    let log = server.log();
    let forbidden = log.iter().map(ToString::to_string).find(|line| line.contains("forbidden"));
    assert_eq!(forbidden, None);
}

/// With `--tracing-config-file`, an API server sends `traceparent` to webhooks.
#[tokio::test(flavor = "multi_thread")]
async fn review_continues_the_trace_of_a_real_api_server() {
    let _turn = wait_for_idle_machine().await;
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("tracing.yaml");
    // No collector listens there: the spans of the API server itself are of no interest.
    let tracing = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": "127.0.0.1:1",
        "samplingRatePerMillion": 1_000_000,
    });
    std::fs::write(&file, tracing.to_string()).unwrap();
    let argument = format!("--tracing-config-file={}", file.display());
    let arguments = ["--disable-admission-plugins=ServiceAccount", argument.as_str()];
    let Some(plane) = ControlPlane::start_with(&arguments).await else { return };
    plane.install().await;
    plane.grant().await;
    let collector = OtlpCollector::start().await;
    let (kubeconfig, endpoint) = (plane.kubeconfig("opgate"), collector.endpoint());
    let configuration = ControlPlane::operator_group("20s");
    // Only the API server has requests traced.
    let kubeconfig = kubeconfig.to_str().unwrap();
    let arguments =
        ["--kubeconfig", kubeconfig, "--otlp-endpoint", &endpoint, "--trace-sample", "0"];
    let servers = [Server::start(BINARY, Some(&configuration), &arguments)];
    plane.enforce(BINARY, &configuration, servers[0].address, &servers).await;
    let root = eventually("a span", || async {
        collector.spans().into_iter().find(|span| span.name.starts_with("POST /validate"))
    })
    .await;
    assert_eq!((root.trace_id.len(), root.parent_span_id.len()), (16, 8));
    let calls = collector.spans().into_iter().filter(|span| span.trace_id == root.trace_id);
    assert!(calls.filter(|span| span.name == "evaluate operator-group").count() >= 1);
}
