//! What the cluster of a server is, under `profile: auto`.
//!
//! ```text
//! start ─▶ first: read until it is known; the webhook port is closed until then
//! reload ─▶ look: read again once in a while ─┬▶ another version, other accounts: another configuration
//!                                             └▶ no answer, or no OpenShift any more: what was known stays
//! ```
//!
//! A cluster does not become OpenShift, or cease to be it, while a server runs. Whoever can create the API
//! `clusterversions`, such as an Operator with its CRD, could otherwise choose the edition.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use opgate_admission::cluster::Connection;
use opgate_admission::policy::{Configuration, Platform, Wanted};
use opgate_server::Starting;
use opgate_text::one_line;

/// Time limit of one look, which is some ten small reads.
const TIME: Duration = Duration::from_secs(10);

/// How long to wait after a failed look at the start.
const RETRY: Duration = Duration::from_secs(1);

/// Looks at the files for each look at the cluster: with the usual 5 s, the cluster is looked at every 30 s.
const LOOKS: u32 = 6;

/// Maximum bytes of an error.
const LONGEST: usize = 1 << 10;

/// What is known of the cluster.
pub(super) struct Discovery {
    /// How often to look.
    interval: Duration,
    known: Mutex<Option<Known>>,
}

struct Known {
    wanted: Wanted,
    platform: Platform,
    at: Instant,
    /// Why the last look did not confirm it.
    trouble: Option<String>,
    /// Whether to look whatever the time.
    is_due: bool,
}

impl Discovery {
    /// By the time between two looks at the files.
    pub(super) fn new(reload: Duration) -> Self {
        Self { interval: reload.saturating_mul(LOOKS), known: Mutex::default() }
    }

    /// Looks at the cluster until everything is known that the configuration leaves to it.
    pub(super) async fn first(
        &self,
        connection: &Connection,
        configuration: &mut Configuration,
        starting: &Starting,
    ) {
        let Some(wanted) = configuration.wanted() else { return };
        let mut told = String::new();
        loop {
            match self.look(connection, wanted).await {
                Ok((platform, _)) => {
                    starting.waits_for(None);
                    configuration.set_platform(platform);
                    return;
                }
                Err(why) => {
                    let line = format!(
                        "profile auto: {why}; `opgate manifests rbac` prints the role, and `profile` and `identities` in the configuration make it unnecessary"
                    );
                    starting.waits_for(Some(line));
                    if told != why {
                        tracing::error!(error = why, "the cluster is not known yet; retrying");
                        told = why;
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Forgets when it was looked at last.
    pub(super) async fn forget(&self) {
        if let Some(known) = &mut *self.known.lock().await {
            known.is_due = true;
        }
    }

    /// What the cluster is, and why that is not confirmed if it is not.
    ///
    /// # Errors
    /// Why nothing is known.
    pub(super) async fn look(
        &self,
        connection: &Connection,
        wanted: Wanted,
    ) -> Result<(Platform, Option<String>), String> {
        let mut known = self.known.lock().await;
        if let Some(known) = &*known
            && known.wanted == wanted
            && !known.is_due
            && known.at.elapsed() < self.interval
        {
            return Ok((known.platform.clone(), known.trouble.clone()));
        }
        let found = tokio::time::timeout(TIME, Platform::find(connection, wanted)).await;
        let found = match found {
            Ok(found) => found.map_err(|refused| one_line(&refused.why, LONGEST)),
            Err(_) => Err(format!("the API server does not answer within {} s", TIME.as_secs())),
        };
        let now = merge(known.as_ref(), found, wanted)?;
        let answer = (now.platform.clone(), now.trouble.clone());
        *known = Some(now);
        Ok(answer)
    }
}

/// What is known after a look.
fn merge(
    before: Option<&Known>,
    found: Result<Platform, String>,
    wanted: Wanted,
) -> Result<Known, String> {
    let known =
        |platform, trouble| Known { wanted, platform, at: Instant::now(), trouble, is_due: false };
    let Some(before) = before else {
        let found = found?;
        tracing::info!(cluster = ?found, "the cluster is known");
        return Ok(known(found, None));
    };
    let why = match found {
        Ok(found) if before.platform.is_same_kind(&found) => {
            if before.platform != found {
                tracing::warn!(before = ?before.platform, cluster = ?found, "the cluster has changed");
            }
            return Ok(known(found, None));
        }
        Ok(_) => "ClusterVersion version has come or gone; restart the servers to take that over"
            .to_owned(),
        Err(why) => why,
    };
    // What was known for another question is no answer to this one.
    if before.wanted != wanted {
        return Err(why);
    }
    if before.trouble.as_ref() != Some(&why) {
        tracing::warn!(error = why, "the cluster is taken for what it was");
    }
    Ok(known(before.platform.clone(), Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::policy::Profile;

    const USER: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";

    fn platform(profile: Profile, version: Option<&str>, olm: &[&str]) -> Platform {
        Platform {
            profile,
            version: version.map(str::to_owned),
            olm: olm.iter().map(|user| (*user).to_owned()).collect(),
            rukpak: Vec::new(),
        }
    }

    fn known(platform: Platform) -> Known {
        let at = Instant::now();
        Known { wanted: Wanted::ALL, platform, at, trouble: None, is_due: false }
    }

    #[test]
    fn unanswered_look_keeps_what_was_known() {
        let before = platform(Profile::Ocp412, Some("4.14.1"), &[USER]);
        let refused = Err("forbidden".to_owned());
        let Ok(now) = merge(Some(&known(before.clone())), refused, Wanted::ALL) else {
            panic!("it was known");
        };
        assert_eq!((now.platform, now.trouble.as_deref()), (before, Some("forbidden")));
        assert!(merge(None, Err("forbidden".to_owned()), Wanted::ALL).is_err());
    }

    #[test]
    fn update_and_other_accounts_are_taken_over() {
        let before = platform(Profile::Ocp412, Some("4.14.1"), &[USER]);
        for after in [
            platform(Profile::Ocp415, Some("4.15.0"), &[USER]),
            platform(Profile::Ocp412, Some("4.14.1"), &[]),
        ] {
            let Ok(now) = merge(Some(&known(before.clone())), Ok(after.clone()), Wanted::ALL)
            else {
                panic!("it is known");
            };
            assert_eq!((now.platform, now.trouble), (after, None));
        }
    }

    #[test]
    fn running_server_stays_on_its_kind_of_platform() {
        let upstream = platform(Profile::Upstream, None, &[USER]);
        let openshift = platform(Profile::Ocp415, Some("4.16.0"), &[]);
        for (before, after) in [(&upstream, &openshift), (&openshift, &upstream)] {
            let Ok(now) = merge(Some(&known(before.clone())), Ok(after.clone()), Wanted::ALL)
            else {
                panic!("it is known");
            };
            assert_eq!(&now.platform, before);
            assert!(now.trouble.unwrap().contains("restart"));
        }
    }

    /// What was known for a narrower question answers no wider one.
    #[test]
    fn other_question_needs_an_answer_of_its_own() {
        let before = platform(Profile::Upstream, None, &[]);
        let narrow = Wanted { olm: false, rukpak: false };
        let before = Known { wanted: narrow, ..known(before) };
        let refused = merge(Some(&before), Err("forbidden".to_owned()), Wanted::ALL);
        assert_eq!(refused.err().as_deref(), Some("forbidden"));
    }
}
