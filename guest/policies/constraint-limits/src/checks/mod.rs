//! The rules that the crate `opgate-constraint` checks, and the rule of each problem that it
//! reports.
//!
//! ```text
//! Check ─▶ rule_of ─┬─▶ shape, types          of a constraint as a whole
//!                   ├─▶ apis, packages        of what it names
//!                   ├─▶ expressions           in CEL
//!                   ├─▶ required              of older properties
//!                   └─▶ limits, advice
//! ```

pub(crate) mod advice;
pub(crate) mod apis;
pub(crate) mod expressions;
pub(crate) mod limits;
pub(crate) mod packages;
pub(crate) mod required;
pub(crate) mod shape;
pub(crate) mod types;

use opgate_constraint::Check;
use opgate_sdk::Rule;

pub(crate) use apis::CON_22;
pub(crate) use limits::CON_01;
pub(crate) use packages::CON_10;

/// The rule of a problem that the crate reports.
pub(crate) fn rule_of(check: Check) -> &'static Rule {
    match check {
        Check::Size => &CON_01,
        Check::Object => &shape::CON_02,
        Check::Fields => &shape::CON_03,
        Check::NotEmpty => &types::CON_04,
        Check::SingleType => &types::CON_05,
        Check::Strings => &shape::CON_06,
        Check::ApiParts => &apis::CON_07,
        Check::PackageName => &packages::CON_08,
        Check::Range => &packages::CON_09,
        Check::RangeMeaning => &CON_10,
        Check::Expression => &expressions::CON_11,
        Check::Bool => &expressions::CON_12,
        Check::Contents => &types::CON_13,
        Check::NestedNot => &types::CON_14,
        Check::CompoundDepth => &limits::CON_15,
        Check::JsonDepth => &limits::CON_16,
        Check::Required => &required::CON_18,
        Check::ApiNames => &CON_22,
        Check::LowerBound => &advice::CON_26,
        Check::UpperBound => &advice::CON_27,
    }
}

#[cfg(test)]
mod tests {
    use opgate_sdk::Level;

    use super::*;

    #[test]
    fn ids_and_levels_are_those_that_are_reported_without_a_policy() {
        for check in Check::ALL {
            let rule = rule_of(check);
            assert_eq!(rule.id, check.id());
            assert_eq!(rule.level == Level::Warn, check.is_advisory(), "{}", rule.id);
        }
    }
}
