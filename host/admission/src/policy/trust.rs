//! The edition that applies and the controllers that are trusted, with the origin of both: for
//! users, and for comparisons.

use std::fmt;

use opgate_compat::controllers::{self, Controller, ServiceAccount};
use serde::Serialize;

use super::{Configuration, Profile};

/// The origin of an edition or of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueOrigin {
    /// Set by the configuration.
    Configuration,
    /// Read from the cluster.
    Cluster,
    /// Part of the profile.
    Profile,
    /// Not set.
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "configured",
            Self::Cluster => "of the cluster",
            Self::Profile => "of the profile",
            Self::Default => "default",
        })
    }
}

/// Users, and the origin of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustedUsers {
    /// Exact names.
    pub users: Vec<String>,
    /// Their origin.
    pub origin: ValueOrigin,
}

impl fmt::Display for TrustedUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.users.as_slice() {
            [] => write!(f, "none ({})", self.origin),
            users => write!(f, "{} ({})", users.join(", "), self.origin),
        }
    }
}

/// The information about the cluster and its controllers that policies receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// The edition.
    pub profile: &'static str,
    /// Its origin.
    pub origin: ValueOrigin,
    /// The version of OpenShift, if it was read.
    pub version: Option<String>,
    /// The identities of OLM.
    pub olm: TrustedUsers,
    /// The identities of RukPak.
    pub rukpak: TrustedUsers,
}

impl Trust {
    /// Returns the trust of a configuration.
    #[must_use]
    pub fn of(configuration: &Configuration) -> Self {
        let platform = configuration.platform();
        let origin = match platform {
            Some(_) => ValueOrigin::Cluster,
            None if configuration.platform_query().is_some() => ValueOrigin::Default,
            None => ValueOrigin::Configuration,
        };
        let users = |controller, configured: &Option<Vec<String>>, found: Option<&Vec<String>>| {
            if let Some(users) = configured {
                TrustedUsers { users: users.clone(), origin: ValueOrigin::Configuration }
            } else if let Some(users) = found {
                TrustedUsers { users: users.clone(), origin: ValueOrigin::Cluster }
            } else {
                let accounts =
                    controllers::accounts(controller, platform_of(configuration.profile));
                TrustedUsers {
                    users: accounts.map(ServiceAccount::user).collect(),
                    origin: ValueOrigin::Profile,
                }
            }
        };
        let identities = &configuration.identities;
        let olm = platform.map(|found| &found.olm);
        let rukpak = platform.map(|found| &found.rukpak);
        Self {
            profile: configuration.profile.as_str(),
            origin,
            version: platform.and_then(|found| found.version.clone()),
            olm: users(Controller::Olm, &identities.olm, olm),
            rukpak: users(Controller::Rukpak, &identities.rukpak, rukpak),
        }
    }
}

fn platform_of(profile: Profile) -> controllers::Platform {
    match profile {
        Profile::Upstream => controllers::Platform::Upstream,
        _ => controllers::Platform::OpenShift,
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, origin, version, olm, rukpak } = self;
        write!(f, "profile {profile} ({origin}")?;
        if let Some(version) = version {
            write!(f, ", OpenShift {version}")?;
        }
        write!(f, "); OLM: {olm}; RukPak: {rukpak}")
    }
}
