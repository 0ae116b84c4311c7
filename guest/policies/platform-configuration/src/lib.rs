//! Policy `platform-configuration`: the configuration of the OpenShift platform, and the projects
//! of Operators.
//!
//! ```text
//! kinds of OpenShift ────────▶ one module for each ─▶ report
//! ClusterRole, ConfigMap,
//! Secret, StorageClass ──────▶ one module for each; conditions exclude nearly all
//! any object in files ───────▶ annotations   those of Ansible Operators, and values that are not strings
//! custom resources, by name ─▶ annotations   those in requests, if a setting names kinds
//! OperatorProject ───────────▶ watches       watches.yaml of a project
//! ```
//!
//! A cluster without OpenShift has few of these kinds. Each rule reads only the object under
//! review, except the three that compare it with another one.

mod aggregation;
mod annotations;
mod cgroup;
mod credentials;
mod infrastructure;
mod machine_autoscaler;
mod machine_config;
mod monitoring;
mod operator_source;
mod preview;
mod pull_secret;
mod rbac;
mod reads;
mod samples;
mod singletons;
mod storage_class;
mod targets;
mod trusted_ca;
mod watches;

use targets as on;

opgate_sdk::policy! {
    name: "platform-configuration",
    title: "the configuration of the platform and of Operator projects takes effect",
    rules: [
        aggregation::RULES,
        annotations::RULES,
        cgroup::RULES,
        credentials::RULES,
        infrastructure::RULES,
        machine_autoscaler::RULES,
        machine_config::RULES,
        monitoring::RULES,
        operator_source::RULES,
        preview::RULES,
        pull_secret::RULES,
        samples::RULES,
        singletons::RULES,
        storage_class::RULES,
        trusted_ca::RULES,
        watches::RULES,
    ],
    routes: [
        on::CLUSTER_ROLE => aggregation::check,
        on::CONFIG_MAP => trusted_ca::check,
        on::SECRET => pull_secret::check,
        on::CLUSTER_AUTOSCALER => singletons::check,
        on::SAMPLES_CONFIG => singletons::check,
        on::ETCD => singletons::check,
        on::CLUSTER_INGRESS => singletons::check,
        on::MACHINE_AUTOSCALER => machine_autoscaler::check,
        on::IMAGE_STREAM => samples::check,
        on::TEMPLATE => samples::check,
        on::STORAGE_CLASS => storage_class::check,
        on::MACHINE_CONFIG => machine_config::check,
        on::INFRASTRUCTURE_STATUS => infrastructure::check,
        on::MANIFEST => annotations::check_in_files,
        on::CUSTOM_RESOURCE => annotations::check_in_requests,
        on::PROJECT => watches::check,
        on::CREDENTIALS_REQUEST => credentials::check,
        on::OPERATOR_SOURCE => operator_source::check,
        on::PERFORMANCE_PROFILE => cgroup::check_profile,
        on::NODE_CONFIG => cgroup::check_nodes,
        on::SERVICE_MONITOR => monitoring::check,
        on::BUNDLE => preview::check,
        on::BUNDLE_DEPLOYMENT => preview::check,
        on::PLATFORM_OPERATOR => preview::check,
        on::OPERATOR => preview::check,
        on::CATALOG => preview::check,
    ],
    settings: include_str!("settings.json"),
}
