//! What a Deployment needs to run: its controller, a kubelet, and the controller of `EndpointSlices`, as far as
//! an installation can tell them from the real ones.
//!
//! ```text
//! Deployment ─▶ pods: a new one when one is missing, an old one ends when there is one too many
//!                 │ volumes of ConfigMaps and Secrets, renewed as a kubelet does; a token; the environment
//!                 ▼
//!               opgate serve ◀─ /readyz ─▶ EndpointSlices
//! ```
//!
//! A pod is a process. Paths of its mounts lead to directories of this pod, and it listens on ports
//! of the system's choice; everything else follows the pod template. The image chooses the binary.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::api::PostParams;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::objects::object;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cluster::{NAMESPACE, TestCluster, decoded, object_reference};

/// Interval between two checks; a real kubelet needs seconds for most of this.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// One pod.
struct Pod {
    name: String,
    uid: String,
    /// The pod template that it was made of.
    template: Value,
    directory: TempDir,
    process: Option<Child>,
    /// How often it was started.
    starts: usize,
    log: Arc<Mutex<LogState>>,
    is_ready: bool,
    next_probe: Instant,
    /// Probes that failed since the last that succeeded.
    failed_probes: u64,
    is_terminating: bool,
}

/// What its log says.
#[derive(Debug, Default)]
struct LogState {
    address: Option<SocketAddr>,
    ops: Option<SocketAddr>,
    lines: Vec<String>,
}

/// What a test sees of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodStatus {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) ops: Option<SocketAddr>,
    pub(crate) is_ready: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) starts: usize,
}

/// All nodes of a cluster.
pub(crate) struct Kubelet {
    statuses: Arc<Mutex<Vec<PodStatus>>>,
    logs: Arc<Mutex<BTreeMap<String, Arc<Mutex<LogState>>>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
        if std::thread::panicking() {
            for (pod, log_state) in &*self.logs.lock().unwrap() {
                let lines = &log_state.lock().unwrap().lines;
                let last = &lines[lines.len().saturating_sub(12)..];
                eprintln!("{pod}:\n    {}", last.join("\n    "));
            }
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Kubelet {
    /// Runs what the Deployment `opgate` says, from now on. `binaries` has one for each image.
    pub(crate) fn start(cluster: &Arc<TestCluster>, binaries: BTreeMap<String, PathBuf>) -> Self {
        let seen = Arc::<Mutex<Vec<PodStatus>>>::default();
        let logs = Arc::<Mutex<BTreeMap<String, Arc<Mutex<LogState>>>>>::default();
        let mut node = Node {
            cluster: cluster.clone(),
            binaries,
            pods: Vec::new(),
            number: 0,
            deleted_pods: Vec::new(),
        };
        let (told, kept) = (seen.clone(), logs.clone());
        let task = tokio::spawn(async move {
            loop {
                node.tick().await;
                for pod in &node.pods {
                    kept.lock().unwrap().entry(pod.name.clone()).or_insert(pod.log.clone());
                }
                *told.lock().unwrap() = node.pods.iter().map(Pod::status).collect();
                tokio::time::sleep(TICK_INTERVAL).await;
            }
        });
        Self { statuses: seen, logs, task }
    }

    /// The pods that are to serve.
    pub(crate) fn pods(&self) -> Vec<PodStatus> {
        self.statuses.lock().unwrap().clone()
    }
}

struct Node {
    cluster: Arc<TestCluster>,
    binaries: BTreeMap<String, PathBuf>,
    pods: Vec<Pod>,
    number: usize,
    /// Pods whose slices are to go.
    deleted_pods: Vec<String>,
}

impl Node {
    async fn tick(&mut self) {
        let deployment = object_reference(("apps/v1", "Deployment"), Some(NAMESPACE), "opgate");
        // While the API server is away, everything stays.
        let Ok(found) = self.cluster.api(&deployment).get_opt("opgate").await else { return };
        let spec = found.map(|found| found.data["spec"].clone()).unwrap_or_default();
        let template = &spec["template"];
        let wanted = usize::try_from(spec["replicas"].as_u64().unwrap_or_default()).unwrap();
        for pod in &mut self.pods {
            pod.probe_readiness().await;
            pod.update_volumes(&self.cluster).await;
            pod.restart(&self.cluster, &self.binaries).await;
        }
        let staying = |pod: &&Pod| !pod.is_terminating;
        let is_new = |pod: &&Pod| staying(pod) && pod.template == *template;
        let new = self.pods.iter().filter(is_new).count();
        let all = self.pods.iter().filter(staying).count();
        let ready = self.pods.iter().filter(staying).filter(|pod| pod.is_ready).count();
        // `maxSurge: 1`, `maxUnavailable: 0`.
        if new < wanted && all <= wanted {
            self.number += 1;
            let name = format!("opgate-{}", self.number);
            let pod = Pod::new(&self.cluster, name, template.clone()).await;
            self.pods.extend(pod);
        } else if all > wanted && (ready > wanted || wanted == 0) {
            let old = self.pods.iter_mut().filter(|pod| !pod.is_terminating);
            // One of another template goes first.
            if let Some(pod) = old.min_by_key(|pod| pod.template == *template) {
                pod.terminate();
                self.deleted_pods.push(pod.name.clone());
            }
        }
        let ready: Vec<_> = self
            .pods
            .iter()
            .filter(|pod| pod.is_ready && !pod.is_terminating)
            .filter_map(|pod| Some((pod.name.clone(), pod.log.lock().unwrap().address?)))
            .collect();
        let unready = self.pods.iter().filter(|pod| !pod.is_ready).map(|pod| pod.name.clone());
        let gone: Vec<_> = self.deleted_pods.drain(..).chain(unready).collect();
        self.cluster.publish_endpoints(&ready, &gone).await;
        let mut ended = Vec::new();
        for (index, pod) in self.pods.iter_mut().enumerate() {
            if pod.is_terminating && pod.has_ended() {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            let pod = self.pods.remove(index);
            self.cluster.delete(&object_reference(("v1", "Pod"), Some(NAMESPACE), &pod.name)).await;
        }
    }
}

impl Pod {
    /// Creates the object, so that the API server validates the template, and a directory for its
    /// volumes.
    async fn new(cluster: &TestCluster, name: String, template: Value) -> Option<Self> {
        let mut of = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]});
        of["metadata"] = template["metadata"].clone();
        of["metadata"]["name"] = name.clone().into();
        of["metadata"]["namespace"] = NAMESPACE.into();
        let created = cluster.api(&of).create(&PostParams::default(), &object(of.clone())).await;
        let created = match created {
            Ok(created) => created,
            Err(kube::Error::Api(status)) => panic!("pod {name}: {}", status.message),
            Err(_) => return None,
        };
        let uid = created.metadata.uid.unwrap_or_default();
        Some(Self {
            name,
            uid,
            template,
            directory: tempfile::tempdir().unwrap(),
            process: None,
            starts: 0,
            log: Arc::default(),
            is_ready: false,
            next_probe: Instant::now(),
            failed_probes: 0,
            is_terminating: false,
        })
    }

    fn container(&self) -> &Value {
        &self.template["spec"]["containers"][0]
    }

    fn status(&self) -> PodStatus {
        let log_state = self.log.lock().unwrap();
        let image = self.container()["image"].as_str().unwrap().to_owned();
        let pid = self.process.as_ref().map(Child::id);
        let (name, is_ready) = (self.name.clone(), self.is_ready && !self.is_terminating);
        PodStatus { name, image, ops: log_state.ops, is_ready, pid, starts: self.starts }
    }

    /// Probes its readiness as often as the template says.
    async fn probe_readiness(&mut self) {
        let ops = self.log.lock().unwrap().ops;
        let Some(ops) = ops.filter(|_| !self.is_terminating && !self.has_ended()) else {
            self.is_ready = false;
            return;
        };
        if Instant::now() < self.next_probe {
            return;
        }
        let probe = &self.container()["readinessProbe"];
        let number = |name: &str, default| probe[name].as_u64().unwrap_or(default);
        let (period, threshold) = (number("periodSeconds", 10), number("failureThreshold", 3));
        self.next_probe = Instant::now() + Duration::from_secs(period);
        if get(ops, "/readyz").await.is_some_and(|(code, _)| code == 200) {
            (self.is_ready, self.failed_probes) = (true, 0);
        } else {
            self.failed_probes += 1;
            self.is_ready &= self.failed_probes < threshold;
        }
    }

    /// Starts its process, if there is none and what its volumes need is there.
    async fn restart(&mut self, cluster: &TestCluster, binaries: &BTreeMap<String, PathBuf>) {
        if self.is_terminating || (self.process.is_some() && !self.has_ended()) {
            return;
        }
        if !self.has_volumes() {
            return;
        }
        let container = self.container();
        let image = container["image"].as_str().unwrap();
        let binary = binaries.get(image).unwrap_or_else(|| panic!("no image {image}"));
        let mut command = Command::new(binary);
        for argument in container["args"].as_array().unwrap() {
            command.arg(self.host_path(argument.as_str().unwrap()));
        }
        let account = self.template["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let kubeconfig = cluster.credentials(account, self.directory.path()).await;
        command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", kubeconfig);
        command.env("OPGATE_LISTEN", cluster.pod_address().to_string());
        command.env("OPGATE_OPS_LISTEN", "127.0.0.1:0");
        for variable in container["env"].as_array().into_iter().flatten() {
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                None => variable["value"].as_str().unwrap_or_default().to_owned(),
                Some("metadata.name") => self.name.clone(),
                Some("metadata.uid") => self.uid.clone(),
                Some("metadata.namespace") => NAMESPACE.to_owned(),
                Some("status.podIP") => cluster.pod_address().ip().to_string(),
                Some(other) => panic!("the test does not know {other}"),
            };
            command.env(variable["name"].as_str().unwrap(), value);
        }
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = process.stderr.take().unwrap();
        let log_state = self.log.clone();
        {
            let mut log_state = log_state.lock().unwrap();
            (log_state.address, log_state.ops) = (None, None);
        }
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log_state = log_state.lock().unwrap();
                let entry: Value = serde_json::from_str(&line).unwrap_or_default();
                if entry["message"] == "serving" {
                    let address = |name: &str| entry[name].as_str()?.parse().ok();
                    (log_state.address, log_state.ops) = (address("address"), address("ops"));
                }
                log_state.lines.push(line);
            }
        });
        self.process = Some(process);
        self.starts += 1;
    }

    /// A path in its container is one in its directory.
    fn host_path(&self, argument: &str) -> String {
        let mounts = self.container()["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find_map(|mount| {
            let path = mount["mountPath"].as_str()?;
            let rest =
                argument.strip_prefix(path).filter(|r| r.is_empty() || r.starts_with('/'))?;
            Some((mount["name"].as_str()?, rest))
        });
        match mount {
            Some((volume, rest)) => format!("{}{rest}", self.volume(volume).display()),
            None => argument.to_owned(),
        }
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.directory.path().join("volumes").join(name)
    }

    fn has_volumes(&self) -> bool {
        let volumes = self.template["spec"]["volumes"].as_array().unwrap();
        volumes.iter().all(|volume| self.volume(volume["name"].as_str().unwrap()).exists())
    }

    /// Brings its volumes up to date.
    async fn update_volumes(&self, cluster: &TestCluster) {
        for volume in self.template["spec"]["volumes"].as_array().unwrap() {
            let directory = self.volume(volume["name"].as_str().unwrap());
            let secret = volume["secret"]["secretName"].as_str();
            let source = match (volume["configMap"]["name"].as_str(), secret) {
                (Some(name), _) => object_reference(("v1", "ConfigMap"), Some(NAMESPACE), name),
                (None, Some(name)) => object_reference(("v1", "Secret"), Some(NAMESPACE), name),
                (None, None) => {
                    std::fs::create_dir_all(&directory).unwrap();
                    restrict_to_owner(&directory);
                    continue;
                }
            };
            let Some(found) = cluster.get(&source).await else { continue };
            let files = found["data"].as_object().into_iter().flatten();
            let bytes = |text: &Value| match secret {
                Some(_) => decoded(text.as_str().unwrap()),
                None => text.as_str().unwrap().as_bytes().to_vec(),
            };
            let files: BTreeMap<_, _> =
                files.map(|(name, text)| (name.clone(), bytes(text))).collect();
            swap(&directory, &files);
        }
    }

    /// SIGTERM.
    fn terminate(&mut self) {
        self.is_terminating = true;
        self.is_ready = false;
        if let Some(process) = &self.process {
            let _ = kill_process(Pid::from_child(process), Signal::TERM);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| process.try_wait().unwrap().is_some())
    }
}

fn restrict_to_owner(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// Writes a new generation of files, and lets `..data` point to it, if anything is different.
fn swap(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let now = |name: &String| std::fs::read(directory.join("..data").join(name)).ok();
    let is_current = directory.exists()
        && files.iter().all(|(name, bytes)| now(name).as_ref() == Some(bytes))
        && std::fs::read_dir(directory.join("..data"))
            .is_ok_and(|found| found.count() == files.len());
    if is_current {
        return;
    }
    std::fs::create_dir_all(directory).unwrap();
    let old = std::fs::canonicalize(directory.join("..data")).ok();
    let new = tempfile::Builder::new().prefix("..").tempdir_in(directory).unwrap().keep();
    for (name, bytes) in files {
        std::fs::write(new.join(name), bytes).unwrap();
        let link = directory.join(name);
        if link.symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), link).unwrap();
        }
    }
    symlink(new.file_name().unwrap(), directory.join("..data_tmp")).unwrap();
    std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    if let Some(old) = old {
        std::fs::remove_dir_all(old).unwrap();
    }
}

/// `GET` on an ops port.
pub(crate) async fn get(ops: SocketAddr, path: &str) -> Option<(u16, String)> {
    let asked = async {
        let mut stream = TcpStream::connect(ops).await.ok()?;
        let ask = format!("GET {path} HTTP/1.1\r\nhost: opgate\r\nconnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let code = text.split(' ').nth(1)?.parse().ok()?;
        Some((code, text.split_once("\r\n\r\n")?.1.to_owned()))
    };
    tokio::time::timeout(PROBE_TIMEOUT, asked).await.ok().flatten()
}
