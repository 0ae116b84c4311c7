//! A ClusterServiceVersion, the OperatorGroup of its namespace, and other owners of its APIs.
//!
//! ```text
//! groups of the namespace (group) ─┬─ none or several
//!                                  └─ one ─▶ targets ─▶ install_modes, annotations
//!                                              └─ reach ─▶ rivals ─▶ Outcome ─▶ provided_apis
//! ```

pub(crate) mod annotations;
mod copies;
pub(crate) mod group_count;
pub(crate) mod install_modes;
pub(crate) mod owners;
pub(crate) mod provided_apis;

use opgate_sdk::copies::CopyMarks;
use opgate_sdk::{Document, Report, Review, Rule, Shape};

use crate::apis::ApiSet;
use crate::grants;
use crate::install_modes::InstallModes;
use annotations::{GROUP_ANNOTATIONS, OPG_30};
use group_count::{OPG_20, OPG_21};
use install_modes::{OPG_22, OPG_23, OPG_24};
use provided_apis::{OPG_25, OPG_26, OPG_27};

const MODES: Shape =
    Shape::List(&Shape::Struct(&[("type", Shape::Scalar), ("supported", Shape::Scalar)]));

/// Maximum number of group names, and of APIs, in a message.
const MAX_SHOWN: usize = 5;

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let marks = CopyMarks::of(object, review.namespace());
    if marks.are_explicit() {
        annotations::check_copy(review, object, report);
    }
    let claim = copies::COPIES.check_copy(review, object, &marks, report);
    let review = Review { old: claim.old, ..*review };
    if !claim.is_exempt {
        MemberCsv::of(&review, object).check(report);
        owners::check(&review, object, report);
    }
    if !claim.may_be_olm {
        grants::check_csv(&review, object, report);
    }
}

/// The ClusterServiceVersion under review, and the parts of it to evaluate.
struct MemberCsv<'r> {
    review: &'r Review<'r>,
    /// Its install modes, unless they are unchanged.
    modes: Option<InstallModes>,
    /// The APIs that it provides; empty if they are unchanged.
    apis: ApiSet,
    /// Annotations that name the group, if they changed.
    annotations: Vec<(&'static str, String)>,
}

impl<'r> MemberCsv<'r> {
    fn of(review: &'r Review<'r>, object: &Document) -> Self {
        let modes = review.touches(object, "/spec/installModes", &MODES);
        let owned = ["/spec/customresourcedefinitions/owned", "/spec/apiservicedefinitions/owned"];
        let mut apis = ApiSet::default();
        if owned.iter().any(|pointer| review.touches_json(object, pointer)) {
            apis = ApiSet::of_csv(object);
            if review.ratchet_base().is_some_and(|old| ApiSet::of_csv(old) == apis) {
                apis = ApiSet::default();
            }
        }
        let note = |key: &'static str| {
            let pointer = format!("/metadata/annotations/{key}");
            let text = object.text(&pointer)?;
            review.touches_json(object, &pointer).then_some((key, text))
        };
        Self {
            review,
            modes: modes.then(|| InstallModes::of(object)),
            apis,
            annotations: GROUP_ANNOTATIONS.into_iter().filter_map(note).collect(),
        }
    }

    /// The rules that apply. Without cluster state they are skipped.
    fn applicable_rules(&self, report: &Report<'_>) -> Vec<&'static Rule> {
        let mut rules: Vec<&'static Rule> = Vec::new();
        if !self.review.is_update() {
            rules.extend([&OPG_20, &OPG_21, &OPG_24]);
        }
        match &self.modes {
            Some(modes) if modes.is_empty() => rules.push(&OPG_23),
            Some(_) => rules.push(&OPG_22),
            None => {}
        }
        if !self.apis.is_empty() {
            rules.extend([&OPG_25, &OPG_26, &OPG_27]);
        }
        if !self.annotations.is_empty() {
            rules.push(&OPG_30);
        }
        rules.retain(|rule| report.is_on(rule));
        rules
    }
}
