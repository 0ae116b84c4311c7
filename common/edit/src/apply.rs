//! Edits of a JSON value. The text of a file is edited by `host/fix`, which compares its result with this one.

use serde_json::{Map, Value, json};

use crate::Edit;
use crate::pointer::{Pointer, index};

/// The reason why an edit cannot be applied to a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// There is nothing at a pointer.
    #[error("there is nothing at {0}")]
    Missing(String),
    /// The value around it is no object.
    #[error("the value around {0} is not an object")]
    NotAnObject(String),
    /// The value around it is no list.
    #[error("the value around {0} is not a list")]
    NotAList(String),
    /// There is a member of the new name.
    #[error("there is already a member {0:?}")]
    NameTaken(String),
    /// There is a file with the new path.
    #[error("there is already a file {0}")]
    PathTaken(String),
    /// A value is not JSON.
    #[error("the value for {0} is not JSON")]
    Value(String),
}

/// Applies edits to a document, one after another.
///
/// # Errors
/// Fails if one of them does not fit the document, which may then be changed in part.
pub fn apply(document: &mut Value, edits: &[Edit]) -> Result<(), EditError> {
    edits.iter().try_for_each(|edit| apply_one(document, edit))
}

fn apply_one(document: &mut Value, edit: &Edit) -> Result<(), EditError> {
    let shown = edit.pointer();
    let pointer = Pointer::parse(shown).ok_or_else(|| EditError::Missing(shown.to_owned()))?;
    match edit {
        Edit::Set { value, .. } => set(document, &pointer, parse(value, shown)?, shown),
        Edit::Insert { value, .. } => insert(document, &pointer, parse(value, shown)?, shown),
        Edit::Remove { .. } => remove(document, &pointer, shown).map(drop),
        Edit::RenameKey { name, .. } => rename_key(document, &pointer, name, shown),
        Edit::MoveFile { path, .. } => move_file(document, &pointer, path, shown),
    }
}

fn parse(value: &str, shown: &str) -> Result<Value, EditError> {
    serde_json::from_str(value).map_err(|_| EditError::Value(shown.to_owned()))
}

/// Returns the value at the tokens.
fn find<'v>(
    document: &'v mut Value,
    tokens: &[String],
    shown: &str,
) -> Result<&'v mut Value, EditError> {
    let mut at = document;
    for token in tokens {
        let next = match at {
            Value::Object(map) => map.get_mut(token),
            Value::Array(list) => index(token).and_then(|index| list.get_mut(index)),
            _ => None,
        };
        at = next.ok_or_else(|| EditError::Missing(shown.to_owned()))?;
    }
    Ok(at)
}

/// Returns the value around a pointer, and its last token.
fn parent<'v, 'p>(
    document: &'v mut Value,
    pointer: &'p Pointer,
    shown: &str,
) -> Result<(&'v mut Value, &'p str), EditError> {
    let (around, last) =
        pointer.split_last().ok_or_else(|| EditError::Missing(shown.to_owned()))?;
    Ok((find(document, around, shown)?, last))
}

fn set(
    document: &mut Value,
    pointer: &Pointer,
    value: Value,
    shown: &str,
) -> Result<(), EditError> {
    let mut at = document;
    for token in pointer.tokens() {
        // A member without a value, `annotations:`, is an object that is still empty.
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(map) => map.entry(token.clone()).or_insert(Value::Null),
            Value::Array(list) => index(token)
                .and_then(|index| list.get_mut(index))
                .ok_or_else(|| EditError::Missing(shown.to_owned()))?,
            _ => return Err(EditError::NotAnObject(shown.to_owned())),
        };
    }
    *at = value;
    Ok(())
}

fn insert(
    document: &mut Value,
    pointer: &Pointer,
    value: Value,
    shown: &str,
) -> Result<(), EditError> {
    let (around, last) = parent(document, pointer, shown)?;
    let Value::Array(elements) = around else { return Err(EditError::NotAList(shown.to_owned())) };
    let at = if last == "-" { Some(elements.len()) } else { index(last) };
    let at = at.filter(|at| *at <= elements.len());
    elements.insert(at.ok_or_else(|| EditError::Missing(shown.to_owned()))?, value);
    Ok(())
}

fn remove(document: &mut Value, pointer: &Pointer, shown: &str) -> Result<Value, EditError> {
    let missing = || EditError::Missing(shown.to_owned());
    let (around, last) = parent(document, pointer, shown)?;
    match around {
        Value::Object(map) => map.remove(last).ok_or_else(missing),
        Value::Array(elements) => {
            let at = index(last).filter(|at| *at < elements.len()).ok_or_else(missing)?;
            Ok(elements.remove(at))
        }
        _ => Err(missing()),
    }
}

fn rename_key(
    document: &mut Value,
    pointer: &Pointer,
    name: &str,
    shown: &str,
) -> Result<(), EditError> {
    let (around, name_before) = parent(document, pointer, shown)?;
    let Value::Object(map) = around else { return Err(EditError::NotAnObject(shown.to_owned())) };
    if name_before != name && map.contains_key(name) {
        return Err(EditError::NameTaken(name.to_owned()));
    }
    let value = map.remove(name_before).ok_or_else(|| EditError::Missing(shown.to_owned()))?;
    map.insert(name.to_owned(), value);
    Ok(())
}

/// Moves a file, or a document to a separate file.
fn move_file(
    document: &mut Value,
    pointer: &Pointer,
    path: &str,
    shown: &str,
) -> Result<(), EditError> {
    let files = document.pointer("/spec/files").and_then(Value::as_array);
    let paths = files.into_iter().flatten().filter_map(|file| file.get("path")?.as_str());
    if paths.into_iter().any(|known| known == path) {
        return Err(EditError::PathTaken(path.to_owned()));
    }
    let missing = || EditError::Missing(shown.to_owned());
    let tokens: Vec<_> = pointer.tokens().iter().map(String::as_str).collect();
    match tokens.as_slice() {
        ["spec", "files", _] => {
            let file = find(document, pointer.tokens(), shown)?;
            *file.get_mut("path").ok_or_else(missing)? = json!(path);
        }
        ["spec", "files", _, "documents", _] => {
            let moved = remove(document, pointer, shown)?;
            let size = moved.to_string().len();
            let files = document.pointer_mut("/spec/files").and_then(Value::as_array_mut);
            let file = json!({"path": path, "size": size, "documents": [moved]});
            files.ok_or_else(missing)?.push(file);
        }
        _ => return Err(missing()),
    }
    Ok(())
}
