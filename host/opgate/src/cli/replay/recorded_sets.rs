//! The policies that decide the reviews of a recording: those of `--config`, otherwise those of its headers.
//!
//! ```text
//! first item ─▶ header ─▶ configuration, platform ─▶ PolicySet
//! next header, with another configuration ─────────▶ PolicySet
//! ```

use std::sync::Arc;

use opgate_admission::cluster::Source;
use opgate_admission::policy::{Configuration, PolicySet};
use opgate_recording::RecordingHeader;

use crate::cli::args::ConfigArgs;
use crate::cli::exit::CommandError;
use crate::cli::input::ReviewItem;
use crate::cli::review_input::{recorded_configuration, recording_header, with_recorded_platform};

/// Loads the policies for one header after the other.
pub(super) struct RecordedSets {
    config: ConfigArgs,
    source: Source,
    header: Option<Arc<RecordingHeader>>,
}

impl RecordedSets {
    /// Returns the configuration for the first item, and its policies.
    ///
    /// # Errors
    /// If there is no configuration, or a policy cannot be used.
    pub(super) fn begin(
        config: ConfigArgs,
        source: Source,
        first: Option<&ReviewItem>,
    ) -> Result<(Self, Configuration, PolicySet), CommandError> {
        let header = first.and_then(recording_header).map(Arc::new);
        let sets = Self { config, source, header };
        let configuration = match &sets.header {
            Some(header) => sets.configuration(header)?,
            None => sets.config.configuration()?,
        };
        let set = sets.load(&configuration)?;
        Ok((sets, configuration, set))
    }

    /// Returns the policies of this header, if they are others than those of the last one.
    ///
    /// # Errors
    /// As for [`RecordedSets::begin`].
    pub(super) fn next(
        &mut self,
        header: &Arc<RecordingHeader>,
    ) -> Result<Option<PolicySet>, CommandError> {
        let is_known = self.header.as_ref().is_some_and(|known| {
            known.configuration == header.configuration
                && known.platform == header.platform
                && known.from_files == header.from_files
        });
        if is_known {
            return Ok(None);
        }
        self.header = Some(header.clone());
        let configuration = self.configuration(header)?;
        self.load(&configuration).map(Some)
    }

    /// Loads the policies for the same source of cluster state as that of the recording: files have resources that
    /// no API server has.
    fn load(&self, configuration: &Configuration) -> Result<PolicySet, CommandError> {
        let from_files = self.header.as_ref().is_some_and(|header| header.from_files);
        let source = if from_files { Source::Snapshot } else { self.source };
        self.config.load_all_or_fail(configuration, source)
    }

    /// Returns the configuration of the flags for the platform of a header; without one, that of the header.
    fn configuration(&self, header: &RecordingHeader) -> Result<Configuration, CommandError> {
        if self.config.config.is_some() {
            return Ok(with_recorded_platform(self.config.configuration()?, header));
        }
        let mut configuration = recorded_configuration(header).map_err(|errors| {
            CommandError::usage(anyhow::anyhow!("{errors}\nname the configuration with --config"))
        })?;
        self.config.resolve(&mut configuration)?;
        Ok(configuration)
    }
}
