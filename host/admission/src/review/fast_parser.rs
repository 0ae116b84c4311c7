//! The envelope of a review, read from the index of its text.
//!
//! ```text
//! text, checked and indexed in one pass ─▶ members of three levels ─▶ envelope
//! ```
//!
//! A parser would read the objects again to skip them, and they are two thirds of the text. If the
//! envelope differs from the output of an API server (a duplicate name, an escape, a value of
//! another type), this module gives up, and `serde_json` reads it.

use std::borrow::Cow;
use std::ops::Range;

use opgate_document::Text;

use super::envelope::{
    Envelope, Groups, Kind, MAX_GROUPS, RawObject, Request, Resource, Str, UserInfo,
};
use crate::object::Object;

/// The envelope differs from the output of an API server.
struct UnsupportedSyntax;

type FastResult<T> = Result<T, UnsupportedSyntax>;

/// Reads the envelope, if it is like the output of an API server.
pub(super) fn read(text: &Text) -> Option<Envelope<'_>> {
    if !text.is_json() {
        return None;
    }
    let spaces = text.len() - text.trim_ascii_start().len();
    envelope(text, &(spaces..text.len())).ok()
}

fn envelope<'a>(text: &'a Text, place: &Range<usize>) -> FastResult<Envelope<'a>> {
    let names = ["apiVersion", "kind", "request"];
    let [api_version, kind, request] = members(text, place, names)?;
    Ok(Envelope {
        api_version: string(api_version)?,
        kind: string(kind)?,
        request: object(text, request, self::request)?,
    })
}

fn request<'a>(text: &'a Text, place: &Range<usize>) -> FastResult<Request<'a>> {
    let names = [
        "uid",
        "kind",
        "resource",
        "subResource",
        "name",
        "namespace",
        "operation",
        "userInfo",
        "object",
        "oldObject",
        "dryRun",
    ];
    let members = members(text, place, names)?;
    let [uid, kind, resource, sub_resource, name, namespace, operation, user, new, old, dry_run] =
        members;
    Ok(Request {
        uid: string(uid)?,
        kind: object(text, kind, |text, place| {
            let [group, version, kind] = members_of(text, place, ["group", "version", "kind"])?;
            Ok(Kind { group, version, kind })
        })?,
        resource: object(text, resource, |text, place| {
            let names = ["group", "version", "resource"];
            let [group, version, resource] = members_of(text, place, names)?;
            Ok(Resource { group, version, resource })
        })?,
        sub_resource: string(sub_resource)?,
        name: string(name)?,
        namespace: string(namespace)?,
        operation: string(operation)?,
        user_info: object(text, user, self::user)?,
        object: new.map(|value| RawObject(value.text)),
        old_object: old.map(|value| RawObject(value.text)),
        dry_run: match dry_run.map(|value| value.text) {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(UnsupportedSyntax),
        },
    })
}

fn user<'a>(text: &'a Text, place: &Range<usize>) -> FastResult<UserInfo<'a>> {
    let [username, uid, groups] = members(text, place, ["username", "uid", "groups"])?;
    let groups = groups.map(|groups| self::groups(text, &groups)).transpose()?;
    Ok(UserInfo { username: string(username)?, uid: string(uid)?, groups })
}

fn groups<'a>(text: &'a Text, list: &Value<'a>) -> FastResult<Groups<'a>> {
    if !list.text.starts_with('[') {
        return Err(UnsupportedSyntax);
    }
    let mut groups = Vec::with_capacity(4);
    for place in text.elements(list.range.start) {
        if groups.len() == MAX_GROUPS {
            return Err(UnsupportedSyntax);
        }
        groups.push(Cow::Borrowed(unquote(text.get(place).ok_or(UnsupportedSyntax)?)?));
    }
    Ok(Groups(groups))
}

/// The value of a member.
struct Value<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// The values of the members with these names; `null` counts as none.
fn members<'a, const N: usize>(
    text: &'a Text,
    place: &Range<usize>,
    names: [&str; N],
) -> FastResult<[Option<Value<'a>>; N]> {
    if text.as_bytes().get(place.start) != Some(&b'{') {
        return Err(UnsupportedSyntax);
    }
    let mut found = [const { None }; N];
    for (name, place) in text.members(place.start) {
        let name = unquote(text.get(name).ok_or(UnsupportedSyntax)?)?;
        let Some(index) = names.iter().position(|wanted| *wanted == name) else { continue };
        let slot = found.get_mut(index).ok_or(UnsupportedSyntax)?;
        let value = Value { text: text.get(place.clone()).ok_or(UnsupportedSyntax)?, range: place };
        if slot.replace(value).is_some() {
            return Err(UnsupportedSyntax);
        }
    }
    Ok(found.map(|value| value.filter(|value| value.text != "null")))
}

/// The values of the members with these names, if they are texts.
fn members_of<'a, const N: usize>(
    text: &'a Text,
    place: &Range<usize>,
    names: [&str; N],
) -> FastResult<[Option<Str<'a>>; N]> {
    let mut texts = [const { None }; N];
    for (text, value) in texts.iter_mut().zip(members(text, place, names)?) {
        *text = string(value)?;
    }
    Ok(texts)
}

fn object<'a, T>(
    text: &'a Text,
    value: Option<Value<'a>>,
    read: impl FnOnce(&'a Text, &Range<usize>) -> FastResult<T>,
) -> FastResult<Option<Object<T>>> {
    value.map(|value| read(text, &value.range).map(Object)).transpose()
}

fn string(value: Option<Value<'_>>) -> FastResult<Option<Str<'_>>> {
    value.map(|value| unquote(value.text).map(|text| Str(Cow::Borrowed(text)))).transpose()
}

/// A text without its quotes. One with escapes is unusual.
fn unquote(quoted: &str) -> FastResult<&str> {
    let text = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    text.filter(|text| !text.as_bytes().contains(&b'\\')).ok_or(UnsupportedSyntax)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use opgate_document::Charge;

    use super::*;
    use crate::review::{Review, ReviewError};

    const REVIEW: &str = r#" {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":
        {"uid":"u","kind":{"group":"g","version":"v","kind":"K"},"options":{"uid":[{}]},"dryRun":false,
        "resource":{"group":"","version":"v","resource":"ks"},"requestKind":{"kind":"x"},"name":"n",
        "namespace":"ns","operation":"UPDATE","userInfo":{"username":"me","groups":["a","b"],"extra":
        {"k":["v"]}},"object":{"a":"\"}{"},"oldObject":null, "subResource":""}} "#;

    #[test]
    fn fast_parse_equals_the_full_parse() {
        let both = |json: &str| {
            let quick = Text::with_syntax_check(json.to_owned(), Charge::default()).unwrap().into();
            let parsed = Text::new(json.to_owned()).unwrap().into();
            let told = |read: Result<Review<'_>, ReviewError>| {
                // The text itself has more state after the check.
                let parts = |r: Review<'_>| {
                    let inputs = r.inputs();
                    let documents: &[&dyn Debug] = &[&inputs.object, &inputs.old_object];
                    format!("{:?} {documents:?} {:?}", inputs.request, (r.version, r.operation))
                };
                read.map(parts).map_err(|error| error.to_string())
            };
            assert_eq!(told(Review::read(&quick)), told(Review::read(&parsed)), "{json}");
            read(&quick).is_some()
        };
        assert!(both(REVIEW));
        for (from, to, is_quick) in [
            (r#""oldObject":null"#, r#""oldObject":[1]"#, true),
            (r#""kind":{"group":"g","version":"v","kind":"K"}"#, r#""kind":{}"#, true),
            (r#""kind":{"group":"g","version":"v","kind":"K"},"#, "", true),
            (r#""name":"n""#, r#""name":null"#, true),
            (r#""dryRun":false"#, r#""dryRun":true"#, true),
            (r#""groups":["a","b"]"#, r#""groups":null"#, true),
            (r#""uid":"u""#, r#""uid":"""#, true),
            (r#""uid":"u""#, r#""uid":"\u0061""#, false),
            (r#""uid":"u""#, r#""\u0075id":"u""#, false),
            (r#""uid":"u""#, r#""uid":"u","uid":"u""#, false),
            (r#""uid":"u""#, r#""uid":null,"uid":"u""#, false),
            (r#""uid":"u""#, r#""uid":7"#, false),
            (r#""dryRun":false"#, r#""dryRun":"false""#, false),
            (r#""groups":["a","b"]"#, r#""groups":["a",null]"#, false),
            (r#""groups":["a","b"]"#, r#""groups":"a""#, false),
            (r#""userInfo":{"#, r#""userInfo":[],"x":{"#, false),
            (r#""subResource":"""#, r#""subResource":"\ud800""#, false),
            (r#""subResource":"""#, r#""subResource":"" "a""#, false),
            ("}} ", "}}} ", false),
            ("}} ", "}", false),
            (r#" {"kind""#, r#"[]{"kind""#, false),
        ] {
            assert!(REVIEW.contains(from), "{from}");
            assert_eq!(both(&REVIEW.replacen(from, to, 1)), is_quick, "{from} to {to}");
        }
        // Whichever member is changed or omitted.
        let wrong =
            ["", "\"", "\\", ",", ":", "{", "}", "[", "]", "0", "-", "null", " ", "\n", "\u{1}"];
        for (at, _) in REVIEW.char_indices() {
            let (before, after) = REVIEW.split_at(at);
            for wrong in wrong {
                both(&format!("{before}{wrong}{after}"));
                both(&format!("{before}{wrong}{}", after.get(1..).unwrap_or_default()));
            }
        }
        for json in ["[]", "1", "null", "{}", "{\"request\": {}}", "\"a\"", "x"] {
            both(json);
        }
    }
}
