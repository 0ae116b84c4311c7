//! The node of a JSON pointer, with the nodes around it.

use opgate_edit::{Edit, EditError, Pointer};
use opgate_yaml::tree::{Member, Node, NodeKind};
use serde_json::Value;

use crate::Refusal;

/// A node, and the way to it.
#[derive(Debug, Clone)]
pub(crate) struct Place<'n> {
    node: &'n Node,
    /// The place of the collection around it, and the position in it.
    around: Option<(Box<Place<'n>>, usize)>,
}

impl<'n> Place<'n> {
    pub(crate) fn node(&self) -> &'n Node {
        self.node
    }

    /// Returns the place of the collection around it.
    pub(crate) fn around(&self) -> Option<&Place<'n>> {
        self.around.as_ref().map(|(place, _)| &**place)
    }

    /// Returns its position in the collection around it.
    pub(crate) fn index(&self) -> Option<usize> {
        self.around.as_ref().map(|(_, index)| *index)
    }

    /// Returns the member of a map whose value it is.
    pub(crate) fn member(&self) -> Option<&'n Member> {
        let (place, index) = self.around.as_ref()?;
        match &place.node.kind {
            NodeKind::Map(_, members) => members.get(*index),
            _ => None,
        }
    }

    fn child(self, index: usize) -> Option<Self> {
        let node = match &self.node.kind {
            NodeKind::Map(_, members) => &members.get(index)?.value,
            NodeKind::List(_, elements) => &elements.get(index)?.value,
            _ => return None,
        };
        Some(Self { node, around: Some((Box::new(self), index)) })
    }
}

/// The result of a pointer.
#[derive(Debug)]
pub(crate) struct Resolved<'n> {
    /// The place of the pointer, or of the nearest value around it.
    pub(crate) place: Place<'n>,
    /// The names that lead further.
    pub(crate) missing: Vec<String>,
    /// The last token of the pointer.
    pub(crate) last: String,
}

impl<'n> Resolved<'n> {
    /// Returns the place of the collection that the last token leads into.
    pub(crate) fn parent(&self) -> Option<&Place<'n>> {
        if self.missing.is_empty() { self.place.around() } else { Some(&self.place) }
    }
}

/// Finds the place of a pointer. The value of the document shows what an alias or a merge key hides.
///
/// # Errors
/// Fails if the place is hidden, or has an anchor or a tag, unless the edit only inserts an element before it.
pub(crate) fn resolve<'n>(
    root: &'n Node,
    document: &Value,
    edit: &Edit,
) -> Result<Resolved<'n>, Refusal> {
    let shown = edit.pointer();
    let pointer = Pointer::parse(shown).ok_or_else(|| EditError::Missing(shown.to_owned()))?;
    let last = pointer.tokens().last().cloned().unwrap_or_default();
    let mut place = Place { node: root, around: None };
    let mut value = Some(document);
    for (depth, token) in pointer.tokens().iter().enumerate() {
        check_editable(place.node, shown)?;
        value = value.and_then(|around| match around {
            Value::Object(map) => map.get(token),
            Value::Array(items) => token.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        });
        match (child_index(place.node, token), value) {
            (Some(index), _) => {
                let child = place.child(index);
                place = child.ok_or_else(|| EditError::Missing(shown.to_owned()))?;
            }
            (None, Some(_)) => return Err(Refusal::Merged(shown.to_owned())),
            (None, None) => {
                let missing = pointer.tokens().get(depth..).unwrap_or_default().to_vec();
                return Ok(Resolved { place, missing, last });
            }
        }
    }
    if !matches!(edit, Edit::Insert { .. }) {
        check_editable(place.node, shown)?;
    }
    Ok(Resolved { place, missing: Vec::new(), last })
}

/// Fails for a node that stands for another one, or that other nodes may stand for.
fn check_editable(node: &Node, shown: &str) -> Result<(), Refusal> {
    if node.is_marked || node.kind == NodeKind::Alias {
        return Err(Refusal::Marked(shown.to_owned()));
    }
    Ok(())
}

/// Returns the position of a child.
fn child_index(node: &Node, token: &str) -> Option<usize> {
    match &node.kind {
        NodeKind::Map(_, members) => {
            members.iter().rposition(|member| member.name.as_deref() == Some(token))
        }
        NodeKind::List(_, elements) => token.parse().ok().filter(|index| *index < elements.len()),
        _ => None,
    }
}
