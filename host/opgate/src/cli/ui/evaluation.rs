//! Evaluates an input as `opgate check` does, and renders the result.
//!
//! ```text
//! Upload ─▶ InputFiles (temporary) ─▶ policy set with the cluster state ─▶ CollectedResults ─▶ HTML
//! ```
//!
//! Every evaluation has its own policy set: the objects of one input are unknown to the next.

use std::path::PathBuf;
use std::sync::Arc;

use maud::{Markup, html};
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Configuration, PolicySet, Profile, RuleDocs};
use opgate_files::parallel;
use opgate_input::read::Reader;
use opgate_text::html::visible_line;

use super::input_directory::InputDirectory;
use super::marked_text::render_marked_texts;
use super::upload::Upload;
use crate::cli::args::ConfigArgs;
use crate::cli::check::DEFAULT_CALL_TIMEOUT;
use crate::cli::check::collected::CollectedResults;
use crate::cli::exit::CommandError;
use crate::cli::input;
use crate::cli::report::html::{EvaluationCommand, Page};
use crate::cli::report::page::RulePages;

/// Maximum number of notes on a page, and bytes of one.
const MAX_NOTES: usize = 20;
const MAX_NOTE_BYTES: usize = 1_024;

/// Evaluates inputs one after another.
pub(super) struct TryEvaluator {
    config: ConfigArgs,
    configuration: Configuration,
    /// The profile of the configuration, and whether it is set.
    profile: (Profile, bool),
    cluster_state: Vec<PathBuf>,
    pages: RulePages,
    inputs: Arc<InputDirectory>,
}

/// The result of an input.
pub(super) struct TryResult {
    /// Numbers of objects by outcome, in one line.
    pub(super) headline: String,
    pub(super) content: Markup,
}

impl TryEvaluator {
    /// Reads the configuration and its policies. Returns the set for the rule browser as well.
    pub(super) fn start(
        config: ConfigArgs,
        cluster_state: Vec<PathBuf>,
        inputs: Arc<InputDirectory>,
    ) -> Result<(Self, PolicySet), CommandError> {
        let mut configuration = config.configuration()?;
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
        let mut set = config.load_all_or_fail(&configuration, Source::PartialSnapshot)?;
        // An error in these files ends the command instead of each evaluation.
        input::load_cluster_state(set.cluster(), &cluster_state, &Reader::default())?;
        set.keep_rule_docs(RuleDocs::of(&configuration));
        let mut pages = RulePages::of(&configuration, &set, true);
        pages.set_urls(|rule| format!("rules/{rule}"));
        let profile = (configuration.profile, configuration.is_profile_set);
        Ok((Self { config, configuration, profile, cluster_state, pages, inputs }, set))
    }

    /// Evaluates an input.
    ///
    /// # Errors
    /// If it cannot be written or its cluster state cannot be read, or the policies cannot be loaded.
    pub(super) fn evaluate(&mut self, upload: &Upload<'_>) -> anyhow::Result<TryResult> {
        let inputs = self.inputs.clone();
        let files = upload.write(&inputs)?;
        let (profile, is_set) = upload.profile.map_or(self.profile, |profile| (profile, true));
        (self.configuration.profile, self.configuration.is_profile_set) = (profile, is_set);
        let set = self.config.load_all_or_fail(&self.configuration, Source::PartialSnapshot);
        let set = set.map_err(|error| error.error)?;
        let mut cluster_state = self.cluster_state.clone();
        cluster_state.extend(files.cluster_state.clone());
        input::load_cluster_state(set.cluster(), &cluster_state, &Reader::default())
            .map_err(|error| anyhow::Error::msg(files.without_directory(&format!("{error:#}"))))?;
        let results = CollectedResults::of(
            &files.input,
            files.file.as_deref(),
            &self.configuration,
            &set,
            &Reader::default(),
        );
        Ok(self.render(upload, &results, !cluster_state.is_empty()))
    }

    fn render(
        &self,
        upload: &Upload<'_>,
        results: &CollectedResults,
        has_cluster_state: bool,
    ) -> TryResult {
        let items = results.items();
        let page = Page {
            command: EvaluationCommand::Check,
            subject: "",
            items: &items,
            unreadable: &results.unreadable,
            hidden: None,
            pages: &self.pages,
        };
        let content = html! {
            (render_notes(results, has_cluster_state))
            (render_marked_texts(&items, |name| upload.text_of(name)))
            (page.render_sections())
        };
        TryResult { headline: page.headline(), content }
    }
}

fn render_notes(results: &CollectedResults, has_cluster_state: bool) -> Markup {
    let notes = &results.notes;
    html! {
        @if results.has_skipped_rules && !has_cluster_state {
            p { "Some rules were not evaluated: they need other objects of a cluster. Add them as cluster state." }
        }
        @if !notes.is_empty() {
            ul {
                @for note in notes.iter().take(MAX_NOTES) { li { (visible_line(note, MAX_NOTE_BYTES)) } }
                @if notes.len() > MAX_NOTES { li { (notes.len() - MAX_NOTES) " more notes" } }
            }
        }
    }
}
