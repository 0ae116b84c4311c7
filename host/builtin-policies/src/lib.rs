//! The policies that opgate carries; the build script embeds them.

use std::collections::{BTreeMap, BTreeSet};

use opgate_admission::policy::{Builtin, Configuration, ModuleSource, Profile};

/// Every policy that the host carries, in the order in which they serve.
pub static BUILTINS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

#[cfg(test)]
mod tests;

/// Returns the ids of the rules that the built-in policies document. Loads no policy.
#[must_use]
pub fn rule_ids() -> BTreeSet<String> {
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let modules = BUILTINS.iter().map(|builtin| ModuleSource::Builtin(builtin.name.to_owned()));
    let docs = modules.filter_map(|module| configuration.docs_of(&module).ok());
    docs.flat_map(BTreeMap::into_keys).collect()
}
