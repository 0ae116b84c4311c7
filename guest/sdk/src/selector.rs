//! Label selectors in documents, and the labels that they match.
//!
//! ```text
//! Document ─▶ selector, map_selector ─▶ Selector ─┐
//! Document ─▶ matches (labels at a pointer) ──────┴─▶ bool
//! ```
//!
//! Validation and the texts of errors are those of Kubernetes, see `opgate_compat::labels`. The SDKs of
//! all languages hold the cases in `guest/cases/helpers.json`.

use crate::{Document, Kind, Selector, SelectorError, escape};

impl Document {
    /// Returns the label selector (`metav1.LabelSelector`) at a pointer, such as `/spec/selector`. None if
    /// the value is missing or `null`: which objects that selects depends on the field, mostly none. An
    /// empty selector, `{}`, matches all objects.
    ///
    /// # Errors
    /// The reason, in the words of Kubernetes, why an API server rejects the selector.
    #[track_caller]
    pub fn selector(&self, pointer: &str) -> Result<Option<Selector>, SelectorError> {
        match self.kind(pointer) {
            Kind::Missing | Kind::Null => return Ok(None),
            Kind::Object => {}
            _ => return Err(wrong("the selector", "an object")),
        }
        let mut selector = Selector::default();
        self.add_labels(&mut selector, &format!("{pointer}/matchLabels"), "matchLabels")?;
        let expressions = format!("{pointer}/matchExpressions");
        match self.kind(&expressions) {
            Kind::Missing | Kind::Null => {}
            Kind::List => {
                for (index, expression) in self.items(&expressions).enumerate() {
                    add_expression(
                        &mut selector,
                        &expression,
                        &format!("matchExpressions[{index}]"),
                    )?;
                }
            }
            _ => return Err(wrong("matchExpressions", "a list")),
        }
        Ok(Some(selector))
    }

    /// Returns the selector of a map of labels at a pointer, such as `/spec/selector` of a Service or
    /// `ReplicationController`. None if the map is missing, `null` or empty: it selects nothing.
    ///
    /// # Errors
    /// The reason, in the words of Kubernetes, why the labels are invalid.
    #[track_caller]
    pub fn map_selector(&self, pointer: &str) -> Result<Option<Selector>, SelectorError> {
        let mut selector = Selector::default();
        self.add_labels(&mut selector, pointer, "the selector")?;
        Ok(Some(selector).filter(|selector| !selector.is_empty()))
    }

    /// Reports whether the labels at a pointer, such as `/metadata/labels`, match a selector.
    #[must_use]
    #[track_caller]
    pub fn matches(&self, pointer: &str, selector: &Selector) -> bool {
        selector.matches(|key| {
            let label = format!("{pointer}/{}", escape(key));
            // As in Go, `null` is the empty text.
            self.text(&label).or_else(|| (self.kind(&label) == Kind::Null).then(String::new))
        })
    }

    #[track_caller]
    fn add_labels(
        &self,
        selector: &mut Selector,
        pointer: &str,
        name: &str,
    ) -> Result<(), SelectorError> {
        match self.kind(pointer) {
            Kind::Missing | Kind::Null => return Ok(()),
            Kind::Object => {}
            _ => return Err(wrong(name, "an object")),
        }
        for key in self.keys(pointer) {
            let label = format!("{pointer}/{}", escape(&key));
            let value = text_or_zero(self, &label, &format!("a value of {name}"))?;
            selector.add_match_label(&key, &value)?;
        }
        Ok(())
    }
}

fn wrong(what: &str, expected: &str) -> SelectorError {
    SelectorError::new(format!("{what} is not {expected}"))
}

/// Returns a text. Go reads a missing one and `null` as empty.
fn text_or_zero(document: &Document, pointer: &str, name: &str) -> Result<String, SelectorError> {
    match document.kind(pointer) {
        Kind::Missing | Kind::Null => Ok(String::new()),
        Kind::Text => Ok(document.text_or_empty(pointer)),
        _ => Err(wrong(name, "a text")),
    }
}

fn add_expression(
    selector: &mut Selector,
    expression: &Document,
    name: &str,
) -> Result<(), SelectorError> {
    if !matches!(expression.kind(""), Kind::Object | Kind::Null) {
        return Err(wrong(name, "an object"));
    }
    let key = text_or_zero(expression, "/key", &format!("{name}.key"))?;
    let operator = text_or_zero(expression, "/operator", &format!("{name}.operator"))?;
    let mut values = Vec::new();
    match expression.kind("/values") {
        Kind::Missing | Kind::Null => {}
        Kind::List => {
            for (index, row) in expression.rows("/values", &[""]).iter().enumerate() {
                match row.kind(0) {
                    Kind::Text | Kind::Null => values.push(row.text_or_empty(0).to_owned()),
                    _ => return Err(wrong(&format!("{name}.values[{index}]"), "a text")),
                }
            }
        }
        _ => return Err(wrong(&format!("{name}.values"), "a list")),
    }
    selector.add_match_expression(&key, &operator, values.iter().map(String::as_str))
}
