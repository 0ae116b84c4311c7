//! Expressions from text.

use std::collections::BTreeSet;

/// A condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub label: String,
    /// `=`, `!=`, `=~` or `!~`.
    pub operator: String,
    /// The value, or a regular expression.
    pub value: String,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// Series, their samples within `range` seconds, or those of `offset` seconds before.
    Selector {
        /// The metric; empty without one.
        metric: String,
        /// Conditions on other labels.
        matchers: Vec<Matcher>,
        /// Seconds, for a range.
        range: Option<f64>,
        /// Seconds before the time of the evaluation.
        offset: f64,
    },
    /// A function.
    Call(String, Vec<Expression>),
    /// An aggregation by labels.
    Aggregation {
        /// `sum`, `max`, …
        operator: String,
        /// The labels that stay.
        by: Vec<String>,
        /// One expression, for `topk` after a number.
        arguments: Vec<Expression>,
    },
    /// An operator between two expressions.
    Binary {
        /// `and`, `==`, `+`, …
        operator: String,
        /// The labels by which series match; all without `on`.
        on: Option<Vec<String>>,
        /// The left side.
        left: Box<Expression>,
        /// The right side.
        right: Box<Expression>,
    },
}

/// Aggregations, with the number of their arguments.
const AGGREGATIONS: [(&str, usize); 5] =
    [("sum", 1), ("max", 1), ("min", 1), ("count", 1), ("topk", 2)];

/// Functions, with the number of their arguments.
const FUNCTIONS: [(&str, usize); 7] = [
    ("time", 0),
    ("vector", 1),
    ("abs", 1),
    ("absent", 1),
    ("increase", 1),
    ("rate", 1),
    ("histogram_quantile", 2),
];

/// Functions of the samples within a range.
const RANGE_FUNCTIONS: [&str; 2] = ["increase", "rate"];

/// Operators between two sets of series, which can have `on`.
const SET_OPERATORS: [&str; 3] = ["or", "and", "unless"];

const MATCHER_OPERATORS: [&str; 4] = ["=", "!=", "=~", "!~"];

/// Operators from those that bind least.
const OPERATORS: [&[&str]; 5] =
    [&["or"], &["and", "unless"], &["==", "!=", "<=", "<", ">=", ">"], &["+", "-"], &["*", "/"]];

/// Parses an expression.
///
/// # Panics
/// If this module does not know a part of it.
pub fn parse(text: &str) -> Expression {
    let mut parser = Parser { tokens: tokenize(text), at: 0, text };
    let expression = parser.binary(0);
    assert_eq!(parser.peek(), "", "the end of {text}");
    expression
}

/// Names with `:` and `$` (variables of Grafana), numbers with units, texts, operators.
fn tokenize(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_:.$".contains(c);
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            2 + rest[1..].find('"').unwrap()
        } else {
            let two = rest
                .get(..2)
                .is_some_and(|two| ["==", "!=", "<=", ">=", "=~", "!~"].contains(&two));
            if two { 2 } else { first.len_utf8() }
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token.to_owned());
        rest = after.trim_start();
    }
    tokens
}

struct Parser<'t> {
    tokens: Vec<String>,
    at: usize,
    text: &'t str,
}

impl Parser<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    fn take_if(&mut self, token: &str) -> bool {
        let is_it = self.peek() == token;
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, token: &str) {
        let found = self.take();
        assert_eq!(found, token, "{}", self.text);
    }

    fn binary(&mut self, level: usize) -> Expression {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.binary(level + 1);
        while operators.contains(&self.peek()) {
            let operator = self.take();
            let has_on = SET_OPERATORS.contains(&operator.as_str()) && self.take_if("on");
            let on = has_on.then(|| self.names());
            let right = Box::new(self.binary(level + 1));
            left = Expression::Binary { operator, on, left: Box::new(left), right };
        }
        left
    }

    fn operand(&mut self) -> Expression {
        let token = self.take();
        if token == "(" {
            let inner = self.binary(0);
            self.expect(")");
            return inner;
        }
        if let Ok(number) = token.parse() {
            return Expression::Number(number);
        }
        if let Some((_, count)) = AGGREGATIONS.iter().find(|(name, _)| *name == token) {
            let by = if self.take_if("by") { self.names() } else { Vec::new() };
            let arguments = self.arguments();
            assert_eq!(arguments.len(), *count, "the arguments of {token} in {}", self.text);
            return Expression::Aggregation { operator: token, by, arguments };
        }
        if self.peek() == "(" {
            return self.call(token);
        }
        if token == "{" {
            self.at -= 1;
            return self.selector(String::new());
        }
        assert!(is_name(&token), "{token:?} is no metric in {}", self.text);
        self.selector(token)
    }

    fn call(&mut self, name: String) -> Expression {
        let arguments = self.arguments();
        let known = FUNCTIONS.contains(&(name.as_str(), arguments.len()));
        assert!(known, "the function {name} with {} arguments", arguments.len());
        let is_range =
            |one: &Expression| matches!(one, Expression::Selector { range: Some(_), .. });
        let takes_range = RANGE_FUNCTIONS.contains(&name.as_str());
        assert_eq!(arguments.iter().any(is_range), takes_range, "the range in {}", self.text);
        Expression::Call(name, arguments)
    }

    /// Takes the comma before another member of a list, or its end.
    fn ends_list(&mut self, end: &str) -> bool {
        if !self.take_if(",") {
            self.expect(end);
            return true;
        }
        self.take_if(end)
    }

    fn name(&mut self) -> String {
        let name = self.take();
        assert!(is_name(&name), "{name:?} is no label in {}", self.text);
        name
    }

    fn names(&mut self) -> Vec<String> {
        self.expect("(");
        let (mut names, mut ended) = (Vec::new(), self.take_if(")"));
        while !ended {
            names.push(self.name());
            ended = self.ends_list(")");
        }
        names
    }

    fn arguments(&mut self) -> Vec<Expression> {
        self.expect("(");
        let (mut arguments, mut ended) = (Vec::new(), self.take_if(")"));
        while !ended {
            arguments.push(self.binary(0));
            ended = self.ends_list(")");
        }
        arguments
    }

    fn matcher(&mut self) -> Matcher {
        let (label, operator, value) = (self.name(), self.take(), self.take());
        let known = MATCHER_OPERATORS.contains(&operator.as_str());
        assert!(known, "the matcher {operator} in {}", self.text);
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap();
        assert!(!value.contains('\\'), "an escape in {}", self.text);
        Matcher { label, operator, value: value.to_owned() }
    }

    fn selector(&mut self, metric: String) -> Expression {
        let mut matchers = Vec::new();
        if self.take_if("{") {
            let mut ended = self.take_if("}");
            while !ended {
                matchers.push(self.matcher());
                ended = self.ends_list("}");
            }
        }
        let range = self.take_if("[").then(|| {
            let range = seconds(&self.take());
            self.expect("]");
            range
        });
        let offset = if self.take_if("offset") { seconds(&self.take()) } else { 0.0 };
        Expression::Selector { metric, matchers, range, offset }
    }
}

/// Whether this can be the name of a metric or label.
fn is_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// Seconds of a duration such as `10m`. The interval of Grafana is 5 minutes here.
pub(super) fn seconds(duration: &str) -> f64 {
    if duration == "$__rate_interval" {
        return 300.0;
    }
    let (number, unit) = duration.split_at(duration.len() - 1);
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => panic!("the unit of {duration}"),
    };
    number.parse::<f64>().unwrap() * factor
}

impl Expression {
    /// The metric and matchers of each selector.
    pub fn selectors(&self) -> Vec<(&str, &[Matcher])> {
        let selectors = self.parts().into_iter().filter_map(|part| match part {
            Self::Selector { metric, matchers, .. } => Some((metric.as_str(), &matchers[..])),
            _ => None,
        });
        selectors.collect()
    }

    /// The age of the oldest samples that it can need, in seconds.
    pub fn history_seconds(&self) -> f64 {
        let ages = self.parts().into_iter().map(|part| match part {
            Self::Selector { range, offset, .. } => range.unwrap_or(0.0) + offset,
            _ => 0.0,
        });
        ages.fold(0.0, f64::max)
    }

    /// The expression and all in it.
    fn parts(&self) -> Vec<&Self> {
        let inner: Vec<&Self> = match self {
            Self::Number(_) | Self::Selector { .. } => Vec::new(),
            Self::Call(_, arguments) | Self::Aggregation { arguments, .. } => {
                arguments.iter().collect()
            }
            Self::Binary { left, right, .. } => vec![left, right],
        };
        let mut parts = vec![self];
        parts.extend(inner.into_iter().flat_map(Self::parts));
        parts
    }

    /// The metrics that it names, each with the labels that its selectors, or aggregations around them, name.
    pub fn metrics(&self) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        self.collect(&[], &mut found);
        found
    }

    fn collect(&self, outer: &[String], found: &mut BTreeSet<(String, String)>) {
        match self {
            Self::Number(_) => {}
            Self::Selector { metric, matchers, .. } => {
                let own = matchers.iter().map(|matcher| &matcher.label);
                found.insert((metric.clone(), String::new()));
                found.extend(own.chain(outer).map(|label| (metric.clone(), label.clone())));
            }
            Self::Call(_, arguments) => {
                for argument in arguments {
                    argument.collect(outer, found);
                }
            }
            Self::Aggregation { by, arguments, .. } => {
                let labels: Vec<_> = outer.iter().chain(by).cloned().collect();
                for argument in arguments {
                    argument.collect(&labels, found);
                }
            }
            Self::Binary { operator, on, left, right } => {
                let on = on.as_deref().unwrap_or_default();
                left.collect(&[outer, on].concat(), found);
                // The result of these has series of the left side only.
                let is_filter = matches!(operator.as_str(), "and" | "unless");
                let outer = if is_filter { &[][..] } else { outer };
                right.collect(&[outer, on].concat(), found);
            }
        }
    }
}
