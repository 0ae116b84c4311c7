//! The evaluation of a document by the modules.

use opgate_sdk::{Report, Review, catalog};

use crate::catalog::Catalog;
use crate::settings::Settings;
use crate::{baseline, files};

/// Evaluates a document, and on UPDATE also its differences to the published one.
pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(document) = review.object else { return };
    report.explain_with(catalog::about);
    let settings = Settings::of(review.settings);
    let catalog = Catalog::read(document, &settings, report);
    catalog.judge(&settings, report);
    files::judge(document, report);
    if let Some(published) = review.old_of_update() {
        baseline::judge(&catalog, document, published, report);
    }
}
