//! What API servers were told about this server: by which names of policies they call.
//!
//! ```text
//! who looks at the registration ─▶ saw ─▶ Registered ─▶ calls by names that the configuration has not
//!          ▲                                   │
//!          └────────────── asked ◀─────────────┘ a name that is not known yet
//! ```
//!
//! A replica with a new configuration is called by the names of the old one until the registration has followed.
//! A name that the registration has and the configuration has not stands for the policies of the configuration
//! that the registration does not know yet: a policy that was renamed goes on to judge, and one that was removed
//! is off.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use opgate_admission::policy::Set;
use opgate_text::one_line;

/// Maximum number of names that are kept, old ones among them.
const MOST: usize = 1_024;

/// How long a call by an unknown name waits for a look.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum bytes of the line for people.
const LONGEST: usize = 1 << 10;

/// What is known of the registration.
#[derive(Debug)]
pub struct Registered {
    names: Mutex<Names>,
    /// Wakes who looks.
    ask: Notify,
    /// How many looks there were.
    looks: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Names {
    /// For which the registration stands; none if it is not known, or nobody's.
    policies: Option<BTreeSet<String>>,
    /// Those, and all that were ever seen.
    known: BTreeSet<String>,
    line: String,
}

impl Default for Registered {
    fn default() -> Self {
        Self { names: Mutex::default(), ask: Notify::new(), looks: watch::Sender::new(0) }
    }
}

impl Registered {
    /// Somebody has looked: the policies for which the registration stands, and all names by which API servers
    /// may call.
    pub fn saw(&self, policies: BTreeSet<String>, known: &BTreeSet<String>) {
        let mut names = self.names.lock();
        names.policies = Some(policies);
        for name in known {
            if names.known.len() >= MOST {
                break;
            }
            names.known.insert(name.clone());
        }
        drop(names);
        self.looks.send_modify(|looks| *looks = looks.wrapping_add(1));
    }

    /// Somebody has looked and found nothing out.
    pub fn saw_nothing(&self) {
        self.looks.send_modify(|looks| *looks = looks.wrapping_add(1));
    }

    /// Notes how the registration is, for people: one line, with a mark in front.
    pub fn shows(&self, line: &str) {
        self.names.lock().line = one_line(line, LONGEST);
    }

    /// Waits until somebody wants to know more.
    pub async fn asked(&self) {
        self.ask.notified().await;
    }

    /// The line for people.
    #[must_use]
    pub fn line(&self) -> String {
        self.names.lock().line.clone()
    }

    /// The policies of a set that a call by these names is for, if some of the names do not serve; none if all
    /// of them serve.
    ///
    /// # Errors
    /// The first name that nobody knows.
    pub(super) async fn meant<'s>(
        &self,
        set: &'s Set,
        names: &'s str,
        deadline: Instant,
    ) -> Result<Option<BTreeSet<&'s str>>, &'s str> {
        let serving = |name: &&str| set.serves(name);
        if names.split('/').all(|name| serving(&name)) {
            return Ok(None);
        }
        let mut looks = self.looks.subscribe();
        if self.unknown(set, names).is_some() {
            self.ask.notify_one();
            let until = deadline.min(Instant::now() + PATIENCE);
            // The look that is under way may have begun before the name was registered.
            for _ in 0..2 {
                if tokio::time::timeout_at(until.into(), looks.changed()).await.is_err()
                    || self.unknown(set, names).is_none()
                {
                    break;
                }
            }
        }
        if let Some(unknown) = self.unknown(set, names) {
            return Err(unknown);
        }
        let registered = self.names.lock().policies.clone();
        let anew = set.policies().iter().map(|policy| policy.name.as_str());
        let is_new = |name: &&str| registered.as_ref().is_some_and(|all| !all.contains(*name));
        let anew = anew.filter(is_new);
        Ok(Some(names.split('/').filter(serving).chain(anew).collect()))
    }

    /// The first name that neither the set nor the registration has.
    fn unknown<'n>(&self, set: &Set, names: &'n str) -> Option<&'n str> {
        let known = self.names.lock();
        names.split('/').find(|name| !set.knows(name) && !known.known.contains(*name))
    }
}
