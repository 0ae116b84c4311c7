//! BundleDeployments: they may pivot to other content at any time; what they pivot to must be sound.
//!
//! v1alpha1 has a template from which Bundles are generated, v1alpha2 has the source itself.

use opgate_sdk::go::quote;
use opgate_sdk::identities::is_collector;
use opgate_sdk::{Document, Operation, Request, Shape, Verdict};

use crate::context::{ConfigMaps, LeftOut, NO_CONFIG_MAPS_IN_PART};
use crate::{Review, findings, source};

const CLASS: &str = "/spec/provisionerClassName";
const TEMPLATE: &str = "/spec/template";
const TEMPLATE_CLASS: &str = "/spec/template/spec/provisionerClassName";
const TEMPLATE_SOURCE: &str = "/spec/template/spec/source";
const TEMPLATE_TYPE: &str = "/spec/template/spec/source/type";
const SOURCE: &str = "/spec/source";

/// That there is a template, whatever it says.
const PRESENCE: Shape = Shape::Pointer(&[]);
/// What RPK-25 asks of owners.
const OWNERS: Shape =
    Shape::List(&Shape::Struct(&[("apiVersion", Shape::Scalar), ("kind", Shape::Scalar)]));

/// Longest name of a v1alpha1 BundleDeployment, decision B-7.
const NAME_MAX: usize = 45;

pub(crate) fn judge(review: &Review<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    restricted_access(review, &mut verdict);
    let Some(object) = review.object else { return verdict };
    if review.conventions.exempts(review.request) {
        return verdict;
    }
    let templated = review.request.resource.version == "v1alpha1";
    let (classes, source): (&[&str], &str) = if templated {
        let has_template = object.has(TEMPLATE);
        (if has_template { &[CLASS, TEMPLATE_CLASS] } else { &[CLASS] }, TEMPLATE_SOURCE)
    } else {
        (&[CLASS], SOURCE)
    };
    // A new template brings new requirements, also where what they ask for was not there before.
    let new_template = templated && review.touches(object, TEMPLATE, &PRESENCE);
    for &class in classes {
        if review.touches(object, class, &Shape::Scalar)
            || (class == TEMPLATE_CLASS && new_template)
        {
            findings::required_text(object, class, &mut verdict);
            findings::class_pattern(object, class, &mut verdict);
            findings::class_known(object, class, review.settings, &mut verdict);
        }
    }
    let source_counts = new_template || review.touches(object, source, &source::SHAPE);
    if source_counts && (!templated || object.has(TEMPLATE)) {
        findings::required_object(object, source, &mut verdict);
    }
    let mut config_maps = ConfigMaps::new(review.settings);
    if !templated && (source_counts || review.rechecks_sources(object)) {
        for found in source::webhook(object, source, "bundledeployment", &mut config_maps) {
            verdict.deny("RPK-22", found.field, found.message);
        }
    }
    if source_counts {
        if templated {
            template_source(object, &mut config_maps, &mut verdict);
        }
        findings::pinned(object, source, &mut verdict);
    }
    if config_maps.are_absent() {
        let mut left_out = LeftOut::default();
        left_out.add(if templated { "RPK-23" } else { "RPK-22" }, NO_CONFIG_MAPS_IN_PART);
        left_out.report(review, &findings::field(&format!("{source}/configMaps")), &mut verdict);
    }
    if templated {
        if review.request.operation == Operation::Create {
            let name = object.text("/metadata/name").unwrap_or_else(|| review.request.name.clone());
            let limit = review.settings.integer("/rukpak/bundleDeploymentNameMax");
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(NAME_MAX);
            findings::name_length("RPK-15", &name, limit, &mut verdict);
        }
        if review.touches(object, TEMPLATE_CLASS, &Shape::Scalar)
            || review.touches(object, TEMPLATE_TYPE, &Shape::Scalar)
            || review.touches(object, "/metadata/ownerReferences", &OWNERS)
        {
            plain_from_image(object, &mut verdict);
        }
    }
    verdict
}

/// RPK-23: the Bundle that the template gives will be accepted.
fn template_source(object: &Document, config_maps: &mut ConfigMaps, verdict: &mut Verdict) {
    if !object.has(TEMPLATE_SOURCE) {
        return;
    }
    let webhook = source::webhook(object, TEMPLATE_SOURCE, "bundle", config_maps);
    for found in webhook.into_iter().chain(source::schema(object, TEMPLATE_SOURCE)) {
        let message = format!(
            "spec.template.spec.source is invalid, the generated Bundle will be rejected: {}",
            found.message
        );
        verdict.warn("RPK-23", found.field, message);
    }
}

/// RPK-24: only those write BundleDeployments who need to (OCP 4.12 L1242).
fn restricted_access(review: &Review<'_>, verdict: &mut Verdict) {
    let settings = review.settings;
    let (users, groups) = ("/rukpak/allowedUsers", "/rukpak/allowedGroups");
    if !settings.has(users) && !settings.has(groups) {
        return;
    }
    let Request { user, operation, .. } = review.request;
    let allowed = settings.texts(users).contains(&user.username)
        || settings.texts(groups).iter().any(|group| user.groups.contains(group))
        || is_controller(review);
    if !allowed {
        let verb = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Connect => "connect to",
        };
        let message = format!(
            "BundleDeployment access is restricted: {} is not allowed to {verb}",
            user.username
        );
        verdict.deny("RPK-24", "", message);
    }
}

/// Whether the user is a controller that must be able to write: RukPak, what collects Kubernetes'
/// garbage, or whatever runs in a namespace that the settings name.
fn is_controller(review: &Review<'_>) -> bool {
    let Review { request, settings, .. } = *review;
    let account = request.user.username.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|account| account.split_once(':')).map(|(ns, _)| ns);
    let namespaces = "/rukpak/controllerNamespaces";
    // Namespaces that somebody names stand in the place of a list that nobody has.
    let by_name = settings.has("/identities/rukpak") || !settings.has(namespaces);
    (by_name && review.conventions.identities().is_rukpak(request))
        || is_collector(request)
        || namespace.is_some_and(|own| settings.texts(namespaces).iter().any(|named| named == own))
}

/// RPK-25: OLM 1.0 installs plain bundles from images only.
fn plain_from_image(object: &Document, verdict: &mut Verdict) {
    let owned_by_operator = object.items("/metadata/ownerReferences").any(|owner| {
        owner.text_or_empty("/kind") == "Operator"
            && owner.text_or_empty("/apiVersion").starts_with("operators.operatorframework.io/")
    });
    let kind = object.text_or_empty(TEMPLATE_TYPE);
    if owned_by_operator
        && object.text_or_empty(TEMPLATE_CLASS) == "core-rukpak-io-plain"
        && kind != "image"
    {
        let message = format!(
            "OLM 1.0 installs plain bundles from plain bundle images only; spec.template.spec.source.type is {}",
            quote(&kind)
        );
        verdict.warn("RPK-25", "spec.template.spec.source.type", message);
    }
}
