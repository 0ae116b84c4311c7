//! `opgate policy`, and what a policy can do in the engine.

mod author_mistakes;
mod case_schema;
pub(crate) mod cases;
mod confined_compiler;
mod examples;
mod imports;
mod inspect;
mod load;
mod new;
mod record;
mod registry;
mod test;
mod undeclared_reads;
