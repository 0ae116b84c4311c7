//! The webhook registration of this server: the names by which API servers call policies.
//!
//! ```text
//! reader of the registration ─▶ saw ─▶ RegistrationNames ─▶ calls by names that the configuration does not have
//!         ▲                                  │
//!         └────────────── asked ◀────────────┘ a name that is not known yet
//! ```
//!
//! API servers call a replica with a new configuration by the names of the old one until the
//! registration is updated. A name that is in the registration but not in the configuration
//! represents the policies of the configuration that are not in the registration yet: a renamed
//! policy continues to evaluate requests, and a removed policy is off.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use opgate_admission::policy::PolicySet;
use opgate_text::one_line;

/// Maximum number of names that are kept, old ones among them.
const MAX_NAMES: usize = 1_024;

/// Maximum wait of a call by an unknown name for a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum bytes of the line for users.
const MAX_LINE_BYTES: usize = 1 << 10;

/// The known state of the registration.
#[derive(Debug)]
pub struct RegistrationNames {
    names: Mutex<Names>,
    /// Wakes the reader of the registration.
    refresh_requested: Notify,
    /// The number of reads of the registration.
    refreshes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Names {
    /// The policies in the registration; none if it is not known, or belongs to no installation.
    policies: Option<BTreeSet<String>>,
    /// The names in the registration, and all that were ever in it.
    known: BTreeSet<String>,
    status_line: String,
}

impl Default for RegistrationNames {
    fn default() -> Self {
        Self {
            names: Mutex::default(),
            refresh_requested: Notify::new(),
            refreshes: watch::Sender::new(0),
        }
    }
}

impl RegistrationNames {
    /// Records a read of the registration: the policies in it, and all names by which API servers
    /// may call.
    pub fn update(&self, policies: BTreeSet<String>, known: &BTreeSet<String>) {
        let mut names = self.names.lock();
        names.policies = Some(policies);
        for name in known {
            if names.known.len() >= MAX_NAMES {
                break;
            }
            names.known.insert(name.clone());
        }
        drop(names);
        self.refreshes.send_modify(|refreshes| *refreshes = refreshes.wrapping_add(1));
    }

    /// Records a read of the registration without a result.
    pub fn mark_refreshed(&self) {
        self.refreshes.send_modify(|refreshes| *refreshes = refreshes.wrapping_add(1));
    }

    /// Records the state of the registration, for users: one line that begins with a mark.
    pub fn set_status_line(&self, line: &str) {
        self.names.lock().status_line = one_line(line, MAX_LINE_BYTES);
    }

    /// Waits until a call needs a new read of the registration.
    pub async fn wait_refresh_request(&self) {
        self.refresh_requested.notified().await;
    }

    /// The line for users.
    #[must_use]
    pub fn status_line(&self) -> String {
        self.names.lock().status_line.clone()
    }

    /// The policies of a set that a call by these names addresses, if some of the names do not
    /// serve; none if all of them serve.
    ///
    /// # Errors
    /// The first unknown name.
    pub(super) async fn resolve<'s>(
        &self,
        set: &'s PolicySet,
        names: &'s str,
        deadline: Instant,
    ) -> Result<Option<BTreeSet<&'s str>>, &'s str> {
        let serving = |name: &&str| set.serves(name);
        if names.split('/').all(|name| serving(&name)) {
            return Ok(None);
        }
        let mut refreshes = self.refreshes.subscribe();
        if self.first_unknown(set, names).is_some() {
            self.refresh_requested.notify_one();
            let refresh_deadline = deadline.min(Instant::now() + REFRESH_TIMEOUT);
            // A read in progress may have begun before the name was registered.
            for _ in 0..2 {
                if tokio::time::timeout_at(refresh_deadline.into(), refreshes.changed())
                    .await
                    .is_err()
                    || self.first_unknown(set, names).is_none()
                {
                    break;
                }
            }
        }
        if let Some(unknown_name) = self.first_unknown(set, names) {
            return Err(unknown_name);
        }
        let registered = self.names.lock().policies.clone();
        let new_names = set.policies().iter().map(|policy| policy.name.as_str());
        let is_new = |name: &&str| registered.as_ref().is_some_and(|all| !all.contains(*name));
        let new_names = new_names.filter(is_new);
        Ok(Some(names.split('/').filter(serving).chain(new_names).collect()))
    }

    /// The first name that neither the set nor the registration has.
    fn first_unknown<'n>(&self, set: &PolicySet, names: &'n str) -> Option<&'n str> {
        let known = self.names.lock();
        names.split('/').find(|name| !set.knows(name) && !known.known.contains(*name))
    }
}
