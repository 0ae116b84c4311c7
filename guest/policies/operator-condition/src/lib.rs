//! Policy `operator-condition`: the conditions that Operators report to OLM, and the configuration
//! of OLM and OperatorHub.
//!
//! ```text
//! OperatorCondition ─────────▶ condition ─┬─ entries     conditions and overrides
//!                                         └─ access      users that change the spec
//! ClusterServiceVersion ─────▶ replaced ───▶ upgradeable the condition of the replaced one
//! OLMConfig ─────────────────▶ olm_config
//! OperatorHub ───────────────▶ operator_hub
//! ```
//!
//! [`upgradeable`] is a port of OLM's evaluation of a condition. It does not depend on requests.

mod condition;
mod olm_config;
mod operator_hub;
mod reads;
mod replaced;
mod targets;
pub mod upgradeable;

use targets::{CONDITION, CONDITION_STATUS, CSV, CSV_STATUS, OLM_CONFIG, OPERATOR_HUB};

opgate_sdk::policy! {
    name: "operator-condition",
    title: "OperatorConditions, OLMConfig and OperatorHub have values that OLM supports",
    rules: [
        condition::entries::RULES,
        condition::access::RULES,
        replaced::RULES,
        olm_config::RULES,
        operator_hub::RULES,
    ],
    routes: [
        CONDITION => condition::check,
        CONDITION_STATUS => condition::check_status,
        CSV => replaced::check,
        CSV_STATUS => replaced::check_status,
        OLM_CONFIG => olm_config::check,
        OPERATOR_HUB => operator_hub::check,
    ],
    settings: include_str!("settings.json"),
}
