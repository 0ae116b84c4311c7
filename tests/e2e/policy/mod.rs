//! `opgate policy`, and what a policy can do in the engine.

pub(crate) mod cases;
mod confined_compiler;
mod examples;
mod imports;
mod inspect;
mod load;
mod new;
mod registry;
mod test;
mod undeclared_reads;
