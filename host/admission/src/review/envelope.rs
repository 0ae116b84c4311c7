//! The shape of a review's envelope, for `serde_json` and for the fast parser.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::object::Object;

/// A text that is borrowed if it has no escapes; `Cow` alone is always owned inside lists.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub(super) api_version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) request: Option<Object<Request<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Object<Kind<'a>>>,
    #[serde(borrow)]
    pub(super) resource: Option<Object<Resource<'a>>>,
    #[serde(borrow)]
    pub(super) sub_resource: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) namespace: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) operation: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) user_info: Option<Object<UserInfo<'a>>>,
    #[serde(borrow)]
    pub(super) object: Option<RawObject<'a>>,
    #[serde(borrow)]
    pub(super) old_object: Option<RawObject<'a>>,
    pub(super) dry_run: Option<bool>,
}

/// The text of an object, which is not parsed yet.
pub(super) struct RawObject<'a>(pub(super) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

#[derive(Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) group: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(borrow)]
    pub(super) group: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) resource: Option<Str<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct UserInfo<'a> {
    #[serde(borrow)]
    pub(super) username: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) groups: Option<Groups<'a>>,
}

/// More groups than any user has. Each uses more memory than its two quotes.
pub(super) const MAX_GROUPS: usize = 10_000;

#[derive(Default)]
pub(super) struct Groups<'a>(pub(super) Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Groups<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(GroupsVisitor)
    }
}

struct GroupsVisitor;

impl<'de> Visitor<'de> for GroupsVisitor {
    type Value = Groups<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut groups = Vec::new();
        while let Some(Str(group)) = list.next_element()? {
            if groups.len() == MAX_GROUPS {
                return Err(A::Error::custom(format!(
                    "request.userInfo.groups has more than {MAX_GROUPS} elements"
                )));
            }
            groups.push(group);
        }
        Ok(Groups(groups))
    }
}
