//! New names of members.

use opgate_yaml::tree::{Member, NodeKind, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::render::{ScalarContext, json_string, yaml_text};

/// Renames a member, in its place.
pub(crate) fn rename(layout: &Layout<'_>, member: &Member, name: &str) -> Option<Vec<Splice>> {
    let key = &member.key;
    let NodeKind::Scalar(style) = key.kind else { return None };
    if key.is_marked || matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
        return None;
    }
    let name = if layout.is_json {
        json_string(name)
    } else {
        yaml_text(name, Some(style), layout.quote, ScalarContext::Key)
    };
    Some(vec![Splice::new(key.start, key.end, name)])
}
