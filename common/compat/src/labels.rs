//! Label selectors of Kubernetes (`metav1.LabelSelector`), without any JSON: the caller reads the parts of a
//! selector and passes them.
//!
//! The host uses it for queries of policies and of the API server, the guest SDK to evaluate selectors in
//! objects, so that both agree with each other and with upstream: validation and the texts of errors follow
//! `LabelSelectorAsSelector` and `labels.NewRequirement` of apimachinery v0.36.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use crate::names::{label_key_error, label_value_error};

/// The reason why a selector is invalid, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    /// The reason why a value is not a selector, in the words of the reader of the JSON.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// The message of a violation is this text.
impl From<SelectorError> for String {
    fn from(error: SelectorError) -> Self {
        error.0
    }
}

/// Values that are named in errors, and bytes of a text in one: what is wrong may have megabytes.
const MAX_LISTED_VALUES: usize = 64;
const MAX_SHOWN_BYTES: usize = 1_024;

/// A selector whose parts are valid. Without requirements it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Adds an entry of `matchLabels`.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn add_match_label(&mut self, key: &str, value: &str) -> Result<(), SelectorError> {
        self.add_requirement(key, Operator::In, [value])
    }

    /// Adds an element of `matchExpressions`.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn add_match_expression<'v>(
        &mut self,
        key: &str,
        operator: &str,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<(), SelectorError> {
        let operator = match operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(SelectorError(format!(
                    "{} is not a valid label selector operator",
                    quoted(other)
                )));
            }
        };
        self.add_requirement(key, operator, values)
    }

    fn add_requirement<'v>(
        &mut self,
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<(), SelectorError> {
        let (mut errors, mut wrong, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = BTreeSet::new();
        for (index, value) in values.into_iter().enumerate() {
            if listed.len() < MAX_LISTED_VALUES {
                listed.push(value);
            }
            if let Some(why) = label_value_error(value)
                && wrong.len() < MAX_LISTED_VALUES
            {
                let (key, value) = (truncate(key), quoted(value));
                wrong.push(format!("values[{index}][{key}]: Invalid value: {value}: {why}"));
            }
            kept.insert(value.to_owned());
        }
        if let Some(why) = label_key_error(key) {
            errors.push(format!("key: Invalid value: {}: {why}", quoted(key)));
        }
        match operator {
            Operator::In | Operator::NotIn if kept.is_empty() => errors.push(
                "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            ),
            Operator::Exists | Operator::DoesNotExist if !kept.is_empty() => {
                let list: Vec<_> = listed.into_iter().map(quoted).collect();
                errors.push(format!(
                    "values: Invalid value: []string{{{}}}: values set must be empty for exists and does not exist",
                    list.join(", ")
                ));
            }
            _ => {}
        }
        errors.append(&mut wrong);
        match errors.as_slice() {
            [] => {
                self.requirements.push(Requirement { key: key.to_owned(), operator, values: kept });
                Ok(())
            }
            [one] => Err(SelectorError(one.clone())),
            many => Err(SelectorError(format!("[{}]", many.join(", ")))),
        }
    }

    /// Reports whether it has no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Keys with the values of which an object must have one: what an index can answer.
    pub fn required_values(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        let listed = self.requirements.iter().filter(|r| r.operator == Operator::In);
        listed.map(|requirement| (requirement.key.as_str(), &requirement.values))
    }

    /// Reports whether an object with these labels is selected. `label` returns the value of a key.
    pub fn matches<L: AsRef<str>>(&self, label: impl Fn(&str) -> Option<L>) -> bool {
        self.requirements.iter().all(|requirement| {
            let listed = |value: L| requirement.values.contains(value.as_ref());
            match (requirement.operator, label(&requirement.key)) {
                (Operator::In, value) => value.is_some_and(listed),
                // As upstream, an object without the label satisfies `NotIn`.
                (Operator::NotIn, value) => !value.is_some_and(listed),
                (Operator::Exists, value) => value.is_some(),
                (Operator::DoesNotExist, value) => value.is_none(),
            }
        })
    }
}

/// Formats the notation of the query parameter `labelSelector` and of `kubectl -l`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, operator, values }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            let values = || values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
            match operator {
                Operator::In => write!(f, "{key} in ({})", values())?,
                Operator::NotIn => write!(f, "{key} notin ({})", values())?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

/// Returns the part of a text that an error shows.
fn truncate(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_SHOWN_BYTES)).unwrap_or(text)
}

fn quoted(text: &str) -> String {
    format!("{:?}", truncate(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(expressions: &[(&str, &str, &[&str])]) -> Result<Selector, SelectorError> {
        let mut selector = Selector::default();
        for (key, operator, values) in expressions {
            selector.add_match_expression(key, operator, values.iter().copied())?;
        }
        Ok(selector)
    }

    #[test]
    fn operators_select_as_upstream() {
        let labels = |key: &str| (key == "env").then_some("prod");
        let cases: [(&str, &str, &[&str], bool); 8] = [
            ("env", "In", &["dev", "prod"], true),
            ("env", "In", &["dev"], false),
            ("env", "NotIn", &["dev"], true),
            ("env", "NotIn", &["prod"], false),
            ("tier", "NotIn", &["prod"], true),
            ("env", "Exists", &[], true),
            ("tier", "Exists", &[], false),
            ("tier", "DoesNotExist", &[], true),
        ];
        for (key, operator, values, expected) in cases {
            let selector = selector(&[(key, operator, values)]).unwrap();
            assert_eq!(selector.matches(labels), expected, "{selector}");
        }
        assert!(Selector::default().matches(labels));
        let both = selector(&[("env", "Exists", &[]), ("tier", "Exists", &[])]).unwrap();
        assert!(!both.matches(labels), "all requirements must hold");
        assert_eq!(both.to_string(), "env,tier");
        let text = selector(&[("a", "NotIn", &["z", "b"]), ("b", "DoesNotExist", &[])]).unwrap();
        assert_eq!(text.to_string(), "a notin (b,z),!b");
    }

    #[test]
    fn errors_match_upstream() {
        let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let bad_key = format!("key: Invalid value: \"a b\": {name}");
        let cases: [(&str, &str, &[&str], &str); 6] = [
            ("a", "Equals", &["b"], "\"Equals\" is not a valid label selector operator"),
            ("a", "", &[], "\"\" is not a valid label selector operator"),
            (
                "a",
                "In",
                &[],
                "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                "a",
                "Exists",
                &["b"],
                "values: Invalid value: []string{\"b\"}: values set must be empty for exists and does not exist",
            ),
            ("a b", "Exists", &[], &bad_key),
            ("/a", "Exists", &[], "key: Invalid value: \"/a\": prefix part must be non-empty"),
        ];
        for (key, operator, values, error) in cases {
            assert_eq!(selector(&[(key, operator, values)]).unwrap_err().to_string(), error);
        }
        let value = selector(&[("a", "In", &["-"])]).unwrap_err().to_string();
        assert!(value.starts_with("values[0][a]: Invalid value: \"-\": a valid label must be"));
        assert!(Selector::default().add_match_label("example.com/name", "").is_ok());
        // The length is counted in bytes.
        let long = "ä".repeat(32);
        for (key, value, error) in [
            ("k".repeat(64), "v", "\": name part must be no more than 63 bytes"),
            (
                format!("{}/k", "k".repeat(254)),
                "v",
                "\": prefix part must be no more than 253 bytes",
            ),
            ("k".to_owned(), &*long, "\": must be no more than 63 bytes; a valid label must be"),
            ("a/b/c".to_owned(), "v", "\": a valid label key must consist of alphanumeric"),
        ] {
            let found = Selector::default().add_match_label(&key, value).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
