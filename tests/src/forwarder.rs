//! One port in front of several servers: what a Service does, as far as a test needs it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Hands connections to its targets in turn; one whose target is not there is closed. All end when
/// it is dropped.
pub struct Forwarder {
    /// Where it listens.
    pub address: SocketAddr,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forwarder {
    /// Listens, without targets.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let targets = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let known = targets.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let Ok((mut client, _)) = listener.accept().await else { continue };
                let target = {
                    let known = known.lock().unwrap();
                    known.get(number % known.len().max(1)).copied()
                };
                let Some(target) = target else { continue };
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(target).await {
                        let _ = client.set_nodelay(true).and(server.set_nodelay(true));
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, targets, task }
    }

    /// Where connections go from now on; those that are open stay.
    pub fn set(&self, targets: impl IntoIterator<Item = SocketAddr>) {
        *self.targets.lock().unwrap() = targets.into_iter().collect();
    }
}
