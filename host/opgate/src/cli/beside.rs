//! What stands beside an object in the files of a check: other objects that are about to be applied with it.
//!
//! Rules that look for an object by its name find it there: the Namespace of a Pod, for example. A file does
//! not say which other objects a cluster has, so a rule that asks for all of a kind still needs `--context`.

use opgate_admission::cluster::{Cluster, Listings};
use opgate_files::Subject;
use opgate_text::one_line;

use super::paths::Loaded;
use super::review::kinds::misspelt;
use super::voice::note;

/// Lines about what files were taken for.
const LINES: usize = 20;

/// Shows the objects that are judged to each other.
pub(super) fn show(subjects: &[(Subject, Option<usize>)], cluster: &Cluster) {
    let mut listings = Listings::of(cluster);
    for (subject, _) in subjects {
        for request in &subject.requests {
            request.each_new(&mut |object, namespace| {
                listings.take_new(object, namespace, &request.group, &request.resource);
            });
        }
    }
    listings.merge_some();
}

/// Says of kinds that Kubernetes does not have what was probably meant.
pub(super) fn misspelt_kinds(loaded: &Loaded) {
    let mut said = 0_usize;
    for (subject, _) in &loaded.subjects {
        for request in subject.requests.iter().filter(|request| !request.stands_for_files()) {
            if said < LINES
                && let Some(why) = misspelt(&request.group, &request.kind)
            {
                said += 1;
                tracing::warn!("{}: {why}", loaded.named(&subject.source));
            }
        }
    }
}

/// Says what files were taken for: reviews always, everything with `all`.
pub(super) fn say(loaded: &Loaded, all: bool) {
    let mut said = 0_usize;
    for (subject, _) in &loaded.subjects {
        let Some(line) = subject.said(all) else { continue };
        if !all && said == LINES {
            note("and more AdmissionReviews; --verbose names all");
            return;
        }
        said += 1;
        note(one_line(&loaded.named(&line), 1_024));
    }
}
