//! One port in front of several servers: what a Service does, as far as a test needs it, and a network
//! that stands still while a test wants it to.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The record with which a client of TLS 1.3 closes: header, alert, type, tag.
const CLOSE_NOTIFY_BYTES: usize = 5 + 2 + 1 + 16;

/// Maximum time for which the forwarder waits for a held connection.
const MAX_HOLD_TIME: Duration = Duration::from_secs(10);

/// Hands connections to its targets in turn; one whose target is not there is closed. All end when
/// it is dropped.
pub struct Forwarder {
    /// Where it listens.
    pub address: SocketAddr,
    targets: Arc<Mutex<Vec<SocketAddr>>>,
    held: watch::Sender<bool>,
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
        let (held, is_held) = watch::channel(false);
        let known = targets.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { continue };
                let target = {
                    let known = known.lock().unwrap();
                    known.get(number % known.len().max(1)).copied()
                };
                let Some(target) = target else { continue };
                connections.spawn(forward(client, target, is_held.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, targets, held, task }
    }

    /// Where connections go from now on; those that are open stay.
    pub fn set_targets(&self, targets: impl IntoIterator<Item = SocketAddr>) {
        *self.targets.lock().unwrap() = targets.into_iter().collect();
    }

    /// Holds back what clients send, or releases it. A server is not notified when a client has
    /// meanwhile closed a connection.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

/// Forwards until the server closes, or the client does without having been held.
async fn forward(
    client: TcpStream,
    target: SocketAddr,
    mut held: watch::Receiver<bool>,
) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let forth = async {
        let mut buffer = Vec::with_capacity(64 << 10);
        loop {
            let read = from_client.read_buf(&mut buffer).await?;
            if *held.borrow() {
                let released = async { held.wait_for(|held| !held).await.map(drop) };
                let rest = from_client.read_to_end(&mut buffer);
                // The bytes until the client closes, without the record that closes the connection.
                let (released, closed) = tokio::join!(released, async {
                    tokio::time::timeout(MAX_HOLD_TIME, rest).await.is_ok()
                });
                released.map_err(io::Error::other)?;
                if closed {
                    buffer.truncate(buffer.len().saturating_sub(CLOSE_NOTIFY_BYTES));
                    to_server.write_all(&buffer).await?;
                    std::future::pending::<()>().await;
                }
            } else if read == 0 {
                return io::Result::Ok(());
            }
            to_server.write_all(&buffer).await?;
            buffer.clear();
        }
    };
    let back = async { copy(&mut from_server, &mut to_client).await.map(drop) };
    tokio::select! {
        ended = forth => ended,
        ended = back => ended,
    }
}
