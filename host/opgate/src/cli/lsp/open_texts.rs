//! The texts of the editor on their way to the evaluator: only the last one of each file waits for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The texts of the editor at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenTexts {
    pub(super) texts: HashMap<PathBuf, Arc<str>>,
    /// The number of each text in the session.
    pub(super) revisions: HashMap<PathBuf, u64>,
}

#[derive(Debug, Default)]
struct Content {
    open: OpenTexts,
    /// Those that have changed since they were taken, or that were closed.
    changed: Vec<PathBuf>,
}

/// The texts that the session has set, and the evaluator takes.
#[derive(Debug, Default)]
pub(super) struct TextMailbox(Mutex<Content>);

impl TextMailbox {
    /// Sets a text with its number, or removes it. Returns whether none waits before it: the evaluator has to be told.
    pub(super) fn set(&self, path: PathBuf, text: Option<(Arc<str>, u64)>) -> bool {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let OpenTexts { texts, revisions } = &mut content.open;
        if let Some((text, revision)) = text {
            texts.insert(path.clone(), text);
            revisions.insert(path.clone(), revision);
        } else {
            texts.remove(&path);
            revisions.remove(&path);
        }
        let is_first = content.changed.is_empty();
        // The last one is evaluated first.
        content.changed.retain(|known| *known != path);
        content.changed.push(path);
        is_first
    }

    /// Takes the texts, and the paths of those that have changed.
    pub(super) fn take(&self) -> (OpenTexts, Vec<PathBuf>) {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = std::mem::take(&mut content.changed);
        (content.open.clone(), changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_text_of_a_file_waits() {
        let mailbox = TextMailbox::default();
        let path = |name: &str| PathBuf::from(name);
        let text: Arc<str> = "x".into();
        let wakes: Vec<_> = (0..1_000)
            .map(|revision| mailbox.set(path("a"), Some((text.clone(), revision))))
            .collect();
        assert_eq!(wakes.iter().filter(|wakes| **wakes).count(), 1);
        // This test, and the mailbox.
        assert_eq!(Arc::strong_count(&text), 2);
        assert!(!mailbox.set(path("b"), None));
        assert!(!mailbox.set(path("a"), Some((text.clone(), 1_000))));
        let (open, changed) = mailbox.take();
        assert_eq!(changed, [path("b"), path("a")]);
        assert_eq!(open.revisions, HashMap::from([(path("a"), 1_000)]));
        assert!(mailbox.take().1.is_empty());
        assert!(mailbox.set(path("a"), None));
        assert!(mailbox.take().0.texts.is_empty());
    }
}
