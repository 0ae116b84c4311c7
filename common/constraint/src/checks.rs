//! Checks of a constraint, and their results.
//!
//! Each check corresponds to a rule of the policy `constraint-limits`, which declares and documents it. The
//! ids and levels here are for checks of a constraint without a policy; the tests of the policy compare them
//! with its rules.

/// One thing that a constraint, or the value of another property, is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// It has no more bytes than the limit.
    Size,
    /// It is a JSON object, and so is what must be one in it.
    Object,
    /// It has no unknown or repeated fields.
    Fields,
    /// It has a requirement.
    NotEmpty,
    /// It is of one type.
    SingleType,
    /// Members that must be strings are strings.
    Strings,
    /// An API has a group, a version and a kind.
    ApiParts,
    /// A package has a name.
    PackageName,
    /// A range of versions can be read.
    Range,
    /// A range means what it says.
    RangeMeaning,
    /// An expression compiles.
    Expression,
    /// An expression is a `bool`.
    Bool,
    /// A compound constraint contains constraints.
    Contents,
    /// A negation stands within other constraints.
    NestedNot,
    /// Compound constraints nest no deeper than the limit.
    CompoundDepth,
    /// Its JSON nests no deeper than the limit.
    JsonDepth,
    /// Properties with a requirement name it.
    Required,
    /// An API is named as Kubernetes wants it.
    ApiNames,
    /// A range has a lower bound.
    LowerBound,
    /// A range has no narrow upper bound.
    UpperBound,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 20] = [
        Self::Size,
        Self::Object,
        Self::Fields,
        Self::NotEmpty,
        Self::SingleType,
        Self::Strings,
        Self::ApiParts,
        Self::PackageName,
        Self::Range,
        Self::RangeMeaning,
        Self::Expression,
        Self::Bool,
        Self::Contents,
        Self::NestedNot,
        Self::CompoundDepth,
        Self::JsonDepth,
        Self::Required,
        Self::ApiNames,
        Self::LowerBound,
        Self::UpperBound,
    ];

    /// Returns the id of its rule.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Size => "CON-01",
            Self::Object => "CON-02",
            Self::Fields => "CON-03",
            Self::NotEmpty => "CON-04",
            Self::SingleType => "CON-05",
            Self::Strings => "CON-06",
            Self::ApiParts => "CON-07",
            Self::PackageName => "CON-08",
            Self::Range => "CON-09",
            Self::RangeMeaning => "CON-10",
            Self::Expression => "CON-11",
            Self::Bool => "CON-12",
            Self::Contents => "CON-13",
            Self::NestedNot => "CON-14",
            Self::CompoundDepth => "CON-15",
            Self::JsonDepth => "CON-16",
            Self::Required => "CON-18",
            Self::ApiNames => "CON-22",
            Self::LowerBound => "CON-26",
            Self::UpperBound => "CON-27",
        }
    }

    /// Reports whether a violation is a recommendation: it warns, while those of all other checks deny.
    #[must_use]
    pub const fn is_advisory(self) -> bool {
        matches!(
            self,
            Self::RangeMeaning
                | Self::NestedNot
                | Self::CompoundDepth
                | Self::LowerBound
                | Self::UpperBound
        )
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check that failed.
    pub check: Check,
    /// JSON pointer inside the value.
    pub pointer: String,
    /// One sentence; upstream's where upstream has one.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(check: Check, pointer: &str, message: String) -> Self {
        Self { check, pointer: pointer.to_owned(), message }
    }
}
