//! placeholder
/// The text about an expression of any other type.
pub const NOT_BOOL: &str = "cel expressions must have type Bool";
/// x
#[derive(Debug)]
pub enum Fault {
    /// x
    Wrong(String),
    /// x
    NotBool,
}
/// # Errors
/// x
pub fn check(rule: &str) -> Result<(), Fault> {
    if rule.is_empty() {
        Err(Fault::Wrong("x".into()))
    } else if rule == "1" {
        Err(Fault::NotBool)
    } else {
        Ok(())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(e) => f.write_str(e),
            Self::NotBool => f.write_str(NOT_BOOL),
        }
    }
}
