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
    Binary(String, Box<Expression>, Box<Expression>),
}

const AGGREGATIONS: [&str; 5] = ["sum", "max", "min", "count", "topk"];

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
            let right = self.binary(level + 1);
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
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
        if AGGREGATIONS.contains(&token.as_str()) {
            let by = if self.take_if("by") { self.names() } else { Vec::new() };
            return Expression::Aggregation { operator: token, by, arguments: self.arguments() };
        }
        if self.peek() == "(" {
            return Expression::Call(token, self.arguments());
        }
        if token == "{" {
            self.at -= 1;
            return self.selector(String::new());
        }
        self.selector(token)
    }

    fn names(&mut self) -> Vec<String> {
        self.expect("(");
        let mut names = Vec::new();
        while !self.take_if(")") {
            names.push(self.take());
            self.take_if(",");
        }
        names
    }

    fn arguments(&mut self) -> Vec<Expression> {
        self.expect("(");
        let mut arguments = Vec::new();
        while !self.take_if(")") {
            arguments.push(self.binary(0));
            self.take_if(",");
        }
        arguments
    }

    fn selector(&mut self, metric: String) -> Expression {
        let mut matchers = Vec::new();
        if self.take_if("{") {
            while !self.take_if("}") {
                let (label, operator, value) = (self.take(), self.take(), self.take());
                let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                matchers.push(Matcher { label, operator, value: value.unwrap().to_owned() });
                self.take_if(",");
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
            Self::Binary(_, left, right) => {
                left.collect(outer, found);
                right.collect(outer, found);
            }
        }
    }
}
