//! What features know of the rules: ids, pages and schemas.

use std::collections::HashMap;
use std::path::Path;

use opgate_admission::cluster::{ClusterOptions, Source};
use opgate_admission::policy::{Configuration, LoadProgress, PolicySet, Profile};
use opgate_builtin_policies::BUILTINS;
use opgate_lsp::completion::{RuleEntry, Vocabulary};
use opgate_server::DefaultLimits;

use super::client::ClientOptions;
use super::messages::Knowledge;
use super::settings::{LoadedPolicies, configuration_file};
use crate::cli::args::ConfigArgs;
use crate::cli::report::page::RulePages;

impl Knowledge {
    /// Collects rules, pages and schemas: of the loaded policies, and of all built-in ones.
    pub(super) fn of(options: &ClientOptions, loaded: &LoadedPolicies, pages: &RulePages) -> Self {
        let mut knowledge = Self { vocabulary: Vocabulary::default(), pages: HashMap::new() };
        knowledge.vocabulary.case_schema =
            serde_json::from_str(opgate_casefile::SCHEMA).unwrap_or_default();
        knowledge.add(&loaded.set, pages);
        let all = Configuration::builtin(Profile::default(), BUILTINS);
        let config = ConfigArgs { cache_dir: options.cache_dir.clone(), ..ConfigArgs::default() };
        let (state, limits) =
            (ClusterOptions::of(Source::Absent), DefaultLimits::of(Path::new("/")));
        let is_default = configuration_file(options).is_none();
        let set = if is_default {
            None
        } else {
            config.load_set_of(&all, usize::MAX, state, limits, &LoadProgress::default()).ok()
        };
        let set = set.as_ref().unwrap_or(&loaded.set);
        if !is_default {
            knowledge.add(set, &RulePages::of(&all, set, true));
        }
        let descriptors = set.policies().iter().map(|policy| &policy.descriptor);
        knowledge.vocabulary.schema = Configuration::schema(descriptors);
        knowledge
    }

    /// Adds rules that are not known yet.
    fn add(&mut self, set: &PolicySet, pages: &RulePages) {
        for policy in set.policies() {
            for rule in &policy.descriptor.rules {
                if self.pages.contains_key(&rule.id) {
                    continue;
                }
                let page = pages.page(&policy.name, &rule.id).unwrap_or_default().to_owned();
                self.pages.insert(rule.id.clone(), page);
                self.vocabulary.rules.push(RuleEntry {
                    id: rule.id.clone(),
                    policy: policy.descriptor.name.clone(),
                    title: rule.title.clone(),
                });
            }
        }
    }
}
