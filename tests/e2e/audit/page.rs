//! The page of `opgate serve --ui` in an installation: leader, replicas, results of the audit.

use serde_json::json;
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{Certificates, Server, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{POLICY_REPORT, cluster as audited_objects};
use crate::BINARY;

fn serve(cluster: &FakeCluster, name: &str) -> Server {
    let policy = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    let policies = [policy("operator-group"), policy("bundle-immutability")];
    let kubeconfig = cluster.kubeconfig();
    let arguments = [
        "--ui",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--drain-delay",
        "0s",
        "--installation",
        "opgate-system/opgate",
        "--pod-name",
        name,
        "--audit-interval",
        "100ms",
    ];
    let configuration = testkit::configuration(&policies);
    Server::start_with(BINARY, Some(&configuration), &arguments, Certificates::new())
}

/// The content of the page. A server limits pages in a second.
async fn page(server: &Server) -> String {
    let mut text = String::new();
    wait_until("a page", async || {
        let mut stream = TcpStream::connect(server.ops).await.unwrap();
        let request = "GET /ui/?fragment HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        text.clear();
        stream.read_to_string(&mut text).await.unwrap();
        !text.starts_with("HTTP/1.1 503")
    })
    .await;
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn page_shows_leader_replicas_and_results_of_the_audit() {
    let cluster = audited_objects();
    POLICY_REPORT.install(&cluster);
    cluster.install_ledger("opgate-system");
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.install("events.k8s.io", "v1", "events", "Event", Scope::Namespaced);
    let (mut leader, mut other) = (serve(&cluster, "pod-a"), serve(&cluster, "pod-b"));
    let leads = async |server: &Server| server.metric("opgate_leader").await == Some(1.0);
    wait_until("a leader", async || leads(&leader).await || leads(&other).await).await;
    let mut names = ["pod-a", "pod-b"];
    if leads(&other).await {
        std::mem::swap(&mut leader, &mut other);
        names.reverse();
    }
    let group = "<a href=\"rules/OPG-01\">OPG-01</a></th><td>operator-group</td><td class=\"text\">one</td><td><span class=\"badge deny\">deny</span></td><td class=\"number\">2</td>";
    let bundle = "<td>bundle-immutability</td><td class=\"text\"><span class=\"muted\">(cluster)</span></td>";
    wait_until("the results of the audit", async || page(&leader).await.contains(group)).await;
    let text = page(&leader).await;
    for expected in [
        bundle,
        "<dd id=\"audit-objects\">5</dd>",
        &format!("<dd id=\"this-replica\">{}, the leader</dd>", names[0]),
        &format!("<dd id=\"leader\">{}</dd>", names[0]),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // The leader lists the leases of replicas at an interval.
    let replicas = names.map(|name| format!("<th scope=\"row\">{name}"));
    wait_until("both replicas", async || {
        let text = page(&leader).await;
        replicas.iter().all(|name| text.contains(name))
    })
    .await;
    let leader_of_other = format!("<dd id=\"leader\">{}</dd>", names[0]);
    wait_until("the leader", async || page(&other).await.contains(&leader_of_other)).await;
    let text = page(&other).await;
    for expected in [
        &*format!("<dd id=\"this-replica\">{}</dd>", names[1]),
        "The leader has the results of the audit.",
        "Only the leader knows all replicas.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains(group), "{text}");
}
