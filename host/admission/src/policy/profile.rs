//! The editions of the documentation.

use serde::{Deserialize, Serialize};

/// The edition of the documentation that applies if editions contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
pub enum Profile {
    /// OpenShift 4.5.
    #[serde(rename = "ocp-4.5")]
    #[value(name = "ocp-4.5")]
    Ocp45,
    /// OpenShift 4.12.
    #[serde(rename = "ocp-4.12")]
    #[value(name = "ocp-4.12")]
    Ocp412,
    /// OpenShift 4.15.
    #[default]
    #[serde(rename = "ocp-4.15")]
    #[value(name = "ocp-4.15")]
    Ocp415,
    /// As the upstream projects behave.
    #[serde(rename = "upstream")]
    #[value(name = "upstream")]
    Upstream,
}

impl Profile {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ocp45 => "ocp-4.5",
            Self::Ocp412 => "ocp-4.12",
            Self::Ocp415 => "ocp-4.15",
            Self::Upstream => "upstream",
        }
    }
}
