//! The way of a document through the modules.

use opgate_sdk::{Report, Review, catalog};

use crate::catalog::Catalog;
use crate::settings::Settings;
use crate::{baseline, files};

/// Judges a document, and on UPDATE also what became of the published one.
pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(document) = review.object else { return };
    report.explain_with(catalog::about);
    let settings = Settings::of(review.settings);
    let catalog = Catalog::read(document, &settings, report);
    catalog.judge(&settings, report);
    files::judge(document, report);
    if let Some(published) = review.updates_from() {
        baseline::judge(&catalog, document, published, report);
    }
}
