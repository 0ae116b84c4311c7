//! The table as Rust: types by number, those without parts first.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{Kind, SCALARS, Type, Types, definition};

/// The variants of [`SCALARS`] in the library.
const VARIANTS: [&str; 10] = [
    "Any",
    "Boolean",
    "Bytes",
    "IntOrString",
    "Int32",
    "Int64",
    "Number",
    "Quantity",
    "String",
    "Time",
];

/// Numbers of types. Types without parts come first.
struct TypeNumbers<'t> {
    all: Vec<&'t Type>,
    of: BTreeMap<&'t Type, usize>,
}

impl<'t> TypeNumbers<'t> {
    /// Numbers a type after its parts, but not the fields of a struct.
    fn add(&mut self, new: &'t Type) {
        if let Type::List(inner) | Type::Map(inner) | Type::Either(inner) = new {
            self.add(inner);
        }
        if !self.of.contains_key(new) {
            self.of.insert(new, self.all.len());
            self.all.push(new);
        }
    }

    fn get(&self, of: &Type) -> Result<usize> {
        self.of.get(of).copied().with_context(|| format!("{of:?} has no number"))
    }
}

pub(super) fn render_table(kinds: &[Kind], types: &Types) -> Result<String> {
    let scalars: Vec<Type> = SCALARS.into_iter().map(Type::Scalar).collect();
    let roots: Vec<Type> = kinds.iter().map(|kind| Type::Struct(kind.definition.clone())).collect();
    let mut numbers = TypeNumbers { all: Vec::new(), of: BTreeMap::new() };
    for of in scalars.iter().chain(&roots) {
        numbers.add(of);
    }
    // Definitions that no kind uses are omitted.
    let mut next = 0;
    while let Some(of) = numbers.all.get(next).copied() {
        if let Type::Struct(name) = of {
            let fields = types.get(name).with_context(|| format!("nothing defines {name}"))?;
            for field in fields.values() {
                numbers.add(field);
            }
        }
        next += 1;
    }
    let mut text = String::from(
        "//! Kinds and types, made by `cargo xtask kinds`: see `docs/adr/0034-kinds.md`.\n\nuse crate::Type::{\n    self, Any, Boolean, Bytes, Either, Int32, Int64, IntOrString, List, Map, Number, Quantity,\n    String, Struct, Time,\n};\n\n",
    );
    text.push_str("/// By apiVersion and kind, in byte order: the number of the type.\n");
    text.push_str("#[rustfmt::skip]\npub(crate) static KINDS: &[(&str, &str, u16)] = &[\n");
    for (kind, of) in kinds.iter().zip(&roots) {
        let number = numbers.get(of)?;
        writeln!(text, "    ({:?}, {:?}, {number}),", kind.api_version, kind.kind)?;
    }
    text.push_str(
        "];\n\n/// By number. Fields are in byte order, each with the number of its type.\n",
    );
    text.push_str("#[rustfmt::skip]\npub(crate) static TYPES: &[Type] = &[\n");
    for of in &numbers.all {
        match of {
            Type::Scalar(name) => {
                let variants = SCALARS.iter().zip(VARIANTS);
                let variant = variants.into_iter().find(|(scalar, _)| *scalar == name);
                writeln!(text, "    {},", variant.context("a scalar")?.1)?;
            }
            Type::List(inner) => writeln!(text, "    List({}),", numbers.get(inner)?)?,
            Type::Map(inner) => writeln!(text, "    Map({}),", numbers.get(inner)?)?,
            Type::Either(inner) => writeln!(text, "    Either({}),", numbers.get(inner)?)?,
            Type::Struct(name) => {
                write!(text, "    Struct({:?}, &[", go_type_name(name))?;
                for (at, (field, of)) in types.get(name).into_iter().flatten().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(text, "{comma}({field:?}, {})", numbers.get(of)?)?;
                }
                text.push_str("]),\n");
            }
        }
    }
    text.push_str("];\n");
    debug_assert!(roots.iter().all(|root| definition(root).is_some()));
    Ok(text)
}

/// Returns a definition as Go names the type: `v1.Container`.
fn go_type_name(definition: &str) -> String {
    let mut parts = definition.rsplitn(3, '.');
    let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{version}.{name}")
}
