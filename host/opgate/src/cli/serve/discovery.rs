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
use opgate_admission::policy::{Configuration, Platform, PlatformQuery};
use opgate_server::StartupServer;
use opgate_text::one_line;

/// The reason why the platform is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct DiscoveryError(pub(super) String);

/// Time limit of one look, which is some ten small reads.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay after a failed detection at startup.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Number of file checks for each detection: with the default of 5 s, opgate detects the platform every 30 s.
const FILE_CHECKS_PER_DISCOVERY: u32 = 6;

/// Maximum bytes of an error.
const MAX_ERROR_BYTES: usize = 1 << 10;

/// Cached facts about the cluster.
pub(super) struct Discovery {
    /// Interval of detections.
    interval: Duration,
    known: Mutex<Option<KnownPlatform>>,
}

struct KnownPlatform {
    wanted: PlatformQuery,
    platform: Platform,
    checked_at: Instant,
    /// Why the last look did not confirm it.
    last_error: Option<DiscoveryError>,
    /// Whether a detection is due independently of the interval.
    is_due: bool,
}

impl Discovery {
    /// Creates it with the interval of file checks.
    pub(super) fn new(reload: Duration) -> Self {
        Self { interval: reload.saturating_mul(FILE_CHECKS_PER_DISCOVERY), known: Mutex::default() }
    }

    /// Detects the platform until all facts that the configuration leaves open are known.
    pub(super) async fn wait_complete(
        &self,
        connection: &Connection,
        configuration: &mut Configuration,
        starting: &StartupServer,
    ) {
        let Some(wanted) = configuration.platform_query() else { return };
        let mut told = None;
        loop {
            match self.discover(connection, wanted).await {
                Ok((platform, _)) => {
                    starting.set_wait_reason(None);
                    configuration.set_platform(platform);
                    return;
                }
                Err(why) => {
                    let line = format!(
                        "profile auto: {why}; `opgate manifests rbac` prints the role, and `profile` and `identities` in the configuration make it unnecessary"
                    );
                    starting.set_wait_reason(Some(line));
                    if told.as_ref() != Some(&why) {
                        tracing::error!(
                            error = why.to_string(),
                            "platform detection failed; retrying"
                        );
                        told = Some(why);
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Resets the time of the last detection.
    pub(super) async fn force_discovery(&self) {
        if let Some(known) = &mut *self.known.lock().await {
            known.is_due = true;
        }
    }

    /// Returns the detected platform, and the reason if it is not confirmed.
    ///
    /// # Errors
    /// Why nothing is known.
    pub(super) async fn discover(
        &self,
        connection: &Connection,
        wanted: PlatformQuery,
    ) -> Result<(Platform, Option<DiscoveryError>), DiscoveryError> {
        let mut known = self.known.lock().await;
        if let Some(known) = &*known
            && known.wanted == wanted
            && !known.is_due
            && known.checked_at.elapsed() < self.interval
        {
            return Ok((known.platform.clone(), known.last_error.clone()));
        }
        let found =
            tokio::time::timeout(DISCOVERY_TIMEOUT, Platform::read(connection, wanted)).await;
        let found = match found {
            Ok(found) => {
                found.map_err(|refused| DiscoveryError(one_line(&refused.reason, MAX_ERROR_BYTES)))
            }
            Err(_) => Err(DiscoveryError(format!(
                "the API server does not answer within {} s",
                DISCOVERY_TIMEOUT.as_secs()
            ))),
        };
        let now = merge(known.as_ref(), found, wanted)?;
        let answer = (now.platform.clone(), now.last_error.clone());
        *known = Some(now);
        Ok(answer)
    }
}

/// Merges the cached facts with the result of a detection.
fn merge(
    before: Option<&KnownPlatform>,
    found: Result<Platform, DiscoveryError>,
    wanted: PlatformQuery,
) -> Result<KnownPlatform, DiscoveryError> {
    let known = |platform, trouble| KnownPlatform {
        wanted,
        platform,
        checked_at: Instant::now(),
        last_error: trouble,
        is_due: false,
    };
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
        Ok(_) => DiscoveryError("the ClusterVersion `version` was created or deleted; restart the servers to apply the change"
            .to_owned()),
        Err(why) => why,
    };
    // Facts for other parameters do not apply here.
    if before.wanted != wanted {
        return Err(why);
    }
    if before.last_error.as_ref() != Some(&why) {
        tracing::warn!(
            error = why.to_string(),
            "platform detection failed; keeping last known platform"
        );
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

    fn known(platform: Platform) -> KnownPlatform {
        let at = Instant::now();
        KnownPlatform {
            wanted: PlatformQuery::ALL,
            platform,
            checked_at: at,
            last_error: None,
            is_due: false,
        }
    }

    #[test]
    fn failed_discovery_keeps_the_known_platform() {
        let before = platform(Profile::Ocp412, Some("4.14.1"), &[USER]);
        let refused = DiscoveryError("forbidden".to_owned());
        let Ok(now) = merge(Some(&known(before.clone())), Err(refused.clone()), PlatformQuery::ALL)
        else {
            panic!("it was known");
        };
        assert_eq!((now.platform, now.last_error), (before, Some(refused.clone())));
        assert!(merge(None, Err(refused), PlatformQuery::ALL).is_err());
    }

    #[test]
    fn changed_version_and_accounts_are_adopted() {
        let before = platform(Profile::Ocp412, Some("4.14.1"), &[USER]);
        for after in [
            platform(Profile::Ocp415, Some("4.15.0"), &[USER]),
            platform(Profile::Ocp412, Some("4.14.1"), &[]),
        ] {
            let Ok(now) =
                merge(Some(&known(before.clone())), Ok(after.clone()), PlatformQuery::ALL)
            else {
                panic!("it is known");
            };
            assert_eq!((now.platform, now.last_error), (after, None));
        }
    }

    #[test]
    fn running_server_stays_on_its_kind_of_platform() {
        let upstream = platform(Profile::Upstream, None, &[USER]);
        let openshift = platform(Profile::Ocp415, Some("4.16.0"), &[]);
        for (before, after) in [(&upstream, &openshift), (&openshift, &upstream)] {
            let Ok(now) =
                merge(Some(&known(before.clone())), Ok(after.clone()), PlatformQuery::ALL)
            else {
                panic!("it is known");
            };
            assert_eq!(&now.platform, before);
            assert!(now.last_error.unwrap().to_string().contains("restart"));
        }
    }

    /// Facts for narrower parameters do not cover wider ones.
    #[test]
    fn narrower_platform_facts_do_not_cover_wider_ones() {
        let before = platform(Profile::Upstream, None, &[]);
        let narrow = PlatformQuery { olm: false, rukpak: false };
        let before = KnownPlatform { wanted: narrow, ..known(before) };
        let refused = DiscoveryError("forbidden".to_owned());
        let merged = merge(Some(&before), Err(refused.clone()), PlatformQuery::ALL);
        assert_eq!(merged.err(), Some(refused));
    }
}
