//! Signals that end the process, or have it read its files again.

use std::io;

pub use super::shared::SignalFuture;
use super::system;

/// Returns a future that ends when the process is asked to end: SIGTERM or SIGINT, or Ctrl-C. To be called
/// in a runtime.
///
/// # Errors
/// If the system does not allow to handle the signal.
pub fn termination() -> io::Result<SignalFuture> {
    system::termination()
}

/// The signal SIGHUP. Systems without it never send one.
#[derive(Debug)]
pub struct Hangup(system::Hangup);

impl Hangup {
    /// Handles the signal from now on. To be called in a runtime.
    ///
    /// # Errors
    /// If the system does not allow to handle the signal.
    pub fn new() -> io::Result<Self> {
        system::Hangup::new().map(Self)
    }

    /// Waits for the next one.
    pub async fn recv(&mut self) {
        self.0.recv().await;
    }
}
