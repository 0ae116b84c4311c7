//! Detects the platform of a server's cluster for `profile: auto`.
//!
//! ```text
//! start ─▶ first: read until it is known; the webhook port is closed until then
//! reload ─▶ look: read again once in a while ─┬▶ another version, other accounts: another configuration
//!                                             └▶ no answer, or no OpenShift any more: what was known stays
//! ```
//!
//! The detected platform is fixed while a server runs. Otherwise, any user with permission to create the API
//! `clusterversions`, for example with the CRD of an Operator, could choose the profile.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use opgate_admission::cluster::Connection;
use opgate_admission::policy::{Configuration, Platform, Wanted};
use opgate_server::Starting;
use opgate_text::one_line;

/// Time limit of one look, which is some ten small reads.
const TIME: Duration = Duration::from_secs(10);

/// Delay after a failed detection at startup.
const RETRY: Duration = Duration::from_secs(1);

/// Number of file checks for each detection: with the default of 5 s, opgate detects the platform every 30 s.
const LOOKS: u32 = 6;

/// Maximum bytes of an error.
const LONGEST: usize = 1 << 10;

/// Cached facts about the cluster.
pub(super) struct Discovery {
    /// Interval of detections.
    interval: Duration,
    known: Mutex<Option<Known>>,
}

struct Known {
    wanted: Wanted,
    platform: Platform,
    at: Instant,
    /// Why the last look did not confirm it.
    trouble: Option<String>,
    /// Whether a detection is due independently of the interval.
    is_due: bool,
}

impl Discovery {
    /// Creates it with the interval of file checks.
    pub(super) fn new(reload: Duration) -> Self {
        Self { interval: reload.saturating_mul(LOOKS), known: Mutex::default() }
    }

    /// Detects the platform until all facts that the configuration leaves open are known.
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
                        tracing::error!(error = why, "platform detection failed; retrying");
                        told = why;
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Resets the time of the last detection.
    pub(super) async fn forget(&self) {
        if let Some(known) = &mut *self.known.lock().await {
            known.is_due = true;
        }
    }

    /// Returns the detected platform, and the reason if it is not confirmed.
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

/// Merges the cached facts with the result of a detection.
fn merge(
    before: Option<&Known>,
    found: Result<Platform, String>,
    wanted: Wanted,
) -> Result<Known, String> {
    let known =
        |platform, trouble| Known { wanted, platform, at: Instant::now(), trouble, is_due: false };
    let Some(before) = before else {
        let found = found?;
        tracing::info!(cluster = ?found, "platform detected");
        return Ok(known(found, None));
    };
    let why = match found {
        Ok(found) if before.platform.is_same_kind(&found) => {
            if before.platform != found {
                tracing::warn!(before = ?before.platform, cluster = ?found, "platform changed");
            }
            return Ok(known(found, None));
        }
        Ok(_) => "the ClusterVersion `version` was created or deleted; restart the servers to apply the change"
            .to_owned(),
        Err(why) => why,
    };
    // Facts for other parameters do not apply here.
    if before.wanted != wanted {
        return Err(why);
    }
    if before.trouble.as_ref() != Some(&why) {
        tracing::warn!(error = why, "platform detection failed; keeping last known platform");
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
    fn failed_discovery_keeps_the_known_platform() {
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

    /// Facts for narrower parameters do not cover wider ones.
    #[test]
    fn narrower_platform_facts_do_not_cover_wider_ones() {
        let before = platform(Profile::Upstream, None, &[]);
        let narrow = Wanted { olm: false, rukpak: false };
        let before = Known { wanted: narrow, ..known(before) };
        let refused = merge(Some(&before), Err("forbidden".to_owned()), Wanted::ALL);
        assert_eq!(refused.err().as_deref(), Some("forbidden"));
    }
}
