//! The evaluation of a document by the modules.

use opgate_sdk::{Report, Review, catalog};

use crate::catalog::Catalog;
use crate::settings::Settings;
use crate::{baseline, files};

/// Evaluates a document, and on UPDATE also its differences to the published one.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(document) = review.object else { return };
    report.locate_with(catalog::set_logical_locations);
    let settings = Settings::of(review.settings);
    let catalog = Catalog::read(document, &settings, report);
    catalog.check(document, &settings, report);
    files::check(document, report);
    if let Some(published) = review.old_of_update() {
        baseline::check(&catalog, document, published, report);
    }
}
