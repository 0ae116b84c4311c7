//! Tokens of the API: which pods get one, and by which way.

use opgate_sdk::cluster::ReadError;
use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Kind, Report, Review, go};

use crate::SERVICE_ACCOUNTS;
use crate::rules::{SVA_1, SVA_2};

const AUTOMOUNT: &str = "automountServiceAccountToken";

/// Evaluates a ServiceAccount that gives tokens to pods that do not opt out.
pub(crate) fn check_account(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(account) = review.subject() else { return };
    let (name, pointer) = (review.name(account), format!("/{AUTOMOUNT}"));
    // A controller makes the account `default` of each namespace, without the field. Its pods are for
    // SVA-1.
    if name == "default" && account.boolean(&pointer).is_none()
        || account.boolean(&pointer) == Some(false)
        || !review.touches_json(account, &pointer)
        || is_account_listed(review, &name)
    {
        return;
    }
    let message = format!(
        "ServiceAccount {} gives its token to every pod: set {AUTOMOUNT}: false",
        go::quote(&name)
    );
    report.add(&SVA_2, AUTOMOUNT, message);
}

/// Reports whether the settings let pods of this account have tokens.
fn is_account_listed(review: &Review<'_>, account: &str) -> bool {
    let key = format!("{}/{account}", review.namespace());
    review.settings.texts("/tokens").contains(&key)
}

/// A way by which a pod gets a token.
#[derive(PartialEq, Eq)]
enum TokenSource {
    Automount,
    /// A volume, by its index and name.
    Volume(usize, String),
}

pub(crate) fn check_pod(
    review: &Review<'_>,
    report: &mut Report<'_>,
    object: &Document,
    spec: &PodSpec,
    old: Option<(&Document, &PodSpec)>,
) {
    let account = account_of(object, spec);
    if is_account_listed(review, &account) {
        return;
    }
    let audiences = review.settings.texts("/audiences");
    let way =
        |(object, spec): (&Document, &PodSpec)| token_source(review, object, spec, &audiences);
    let found = way((object, spec));
    let Some(Some(found)) = report.or_skip(&[&SVA_1], "ServiceAccounts", found) else { return };
    // There is no change: the account is the same, and there was a token before.
    let was_so = old.filter(|(old, spec)| account_of(old, spec) == account).map(way);
    if matches!(was_so, Some(Ok(Some(_)))) {
        return;
    }
    let account = go::quote(&account);
    let (field, message) = match found {
        TokenSource::Automount => (
            format!("{}.{AUTOMOUNT}", spec.field()),
            format!("the pod gets the token of ServiceAccount {account}: set {AUTOMOUNT}: false"),
        ),
        TokenSource::Volume(index, name) => (
            format!("{}.volumes[{index}].projected.sources", spec.field()),
            format!(
                "volume {} has the token of ServiceAccount {account}: remove it, or name another audience",
                go::quote(&name)
            ),
        ),
    };
    report.add(&SVA_1, field, message);
}

fn account_of(object: &Document, spec: &PodSpec) -> String {
    // The second one is the old name of the field; API servers write both.
    let named = ["serviceAccountName", "serviceAccount"]
        .map(|member| object.text_or_empty(&format!("{}/{member}", spec.pointer())));
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned())
}

fn token_source(
    review: &Review<'_>,
    object: &Document,
    spec: &PodSpec,
    audiences: &[String],
) -> Result<Option<TokenSource>, ReadError> {
    // The pod takes precedence; if it does not set the field, the account does; otherwise it gets one.
    let of_pod = object.boolean(&format!("{}/{AUTOMOUNT}", spec.pointer()));
    let automounts = match of_pod {
        Some(automounts) => automounts,
        None => {
            let account = SERVICE_ACCOUNTS.get(review.namespace(), &account_of(object, spec))?;
            account.and_then(|it| it.boolean(&format!("/{AUTOMOUNT}"))) != Some(false)
        }
    };
    if automounts {
        return Ok(Some(TokenSource::Automount));
    }
    Ok(volume_with_token(object, spec, audiences))
}

/// Returns the first volume that requests a token of the API in spite of `automount…: false`.
fn volume_with_token(
    object: &Document,
    spec: &PodSpec,
    audiences: &[String],
) -> Option<TokenSource> {
    let list = format!("{}/volumes", spec.pointer());
    let volumes = object.rows(&list, &["/projected/sources", "/name"]);
    volumes.iter().enumerate().find_map(|(index, volume)| {
        if volume.kind(0) != Kind::List {
            return None;
        }
        let columns = ["/serviceAccountToken", "/serviceAccountToken/audience"];
        let sources = object.rows(&format!("{list}/{index}/projected/sources"), &columns);
        let is_of_the_api = sources.iter().any(|source| {
            let audience = source.text_or_empty(1);
            source.kind(0) == Kind::Object
                && (audience.is_empty() || audiences.iter().any(|it| it == audience))
        });
        is_of_the_api.then(|| TokenSource::Volume(index, volume.text_or_empty(1).to_owned()))
    })
}
