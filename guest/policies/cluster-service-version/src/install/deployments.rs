//! The deployments of a CSV, as the meaning of a missing or wrong name.

use opgate_sdk::{Document, Fix, corrections};

use crate::entries::Entries;

/// The deployments that OLM creates.
pub(super) const DEPLOYMENTS: &str = "/spec/install/spec/deployments";

/// Maximum number of deployments: among more, a name cannot be guessed.
const MAX_COMPARED: u32 = 256;

/// The deployment that a wrong name can mean: the most similar one, or the only one.
pub(crate) fn propose_deployment(csv: &Document, pointer: String, name: &str) -> Option<Fix> {
    if csv.length(DEPLOYMENTS)? > MAX_COMPARED {
        return None;
    }
    let deployments = Entries::read_first(csv, DEPLOYMENTS, &["/name"]);
    let names: Vec<&str> = deployments.iter().filter_map(|(_, entry)| entry.text(0)).collect();
    let meant = match names[..] {
        [only] => Some(only),
        _ => corrections::nearest(name, &names),
    };
    let meant = meant.filter(|name| !name.is_empty())?;
    // Without a name, only one deployment can serve it.
    let fix = if name.is_empty() { corrections::write } else { corrections::propose };
    (!name.is_empty() || names.len() == 1).then(|| fix(pointer, meant))
}
