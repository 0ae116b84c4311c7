//! Components that are small and valid, and made to harm the process that compiles or loads them.

use std::fmt::Write as _;

/// A component with the exports of a policy by their names, around one core module.
fn component(module: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m {module} (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "describe" (func $f))
            (export "validate-settings" (func $f))
            (export "validate" (func $f)))"#
    );
    wat::parse_str(text).unwrap()
}

/// Passes a string from a module with one memory to a module with another.
pub fn two_memories() -> Vec<u8> {
    let text = r#"(component
        (component $callee
            (core module $m (memory (export "m") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
                (func (export "f") (param i32 i32)))
            (core instance $i (instantiate $m))
            (func (export "f") (param "s" string)
                (canon lift (core func $i "f") (memory $i "m") (realloc (func $i "realloc")))))
        (component $caller
            (import "f" (func $f (param "s" string)))
            (core module $memory (memory (export "m") 1))
            (core instance $memory (instantiate $memory))
            (core func $lowered (canon lower (func $f) (memory $memory "m")))
            (core module $m (import "" "f" (func $f (param i32 i32)))
                (func (export "g") i32.const 0 i32.const 0 call $f))
            (core instance $i (instantiate $m
                (with "" (instance (export "f" (func $lowered))))))
            (func (export "g") (canon lift (core func $i "g"))))
        (instance $callee (instantiate $callee))
        (instance $caller (instantiate $caller (with "f" (func $callee "f"))))
        (export "describe" (func $caller "g"))
        (export "validate-settings" (func $caller "g"))
        (export "validate" (func $caller "g")))"#;
    wat::parse_str(text).unwrap()
}

/// A module that defines two memories.
pub fn module_with_two_memories() -> Vec<u8> {
    component("(memory 1) (memory 1)")
}

/// One function: many locals, all of which are written in each of many blocks, so that each block has
/// to know of each local.
pub fn locals_and_blocks(locals: usize, blocks: usize) -> Vec<u8> {
    let mut body = format!("(func (param i32) (local {})", "i32 ".repeat(locals));
    for block in 0..blocks {
        let local = 1 + block % locals.max(1);
        let _ = write!(
            body,
            "local.get 0 if local.get {local} local.set {} end ",
            1 + (block * 7 + 3) % locals
        );
    }
    // All of them live to the end.
    for local in 1..=locals {
        let _ = write!(body, "local.get {local} local.set 0 ");
    }
    component(&(body + ")"))
}

/// One function: loops in loops, which use locals of all levels.
pub fn loops(depth: usize, locals: usize) -> Vec<u8> {
    let mut body = format!("(func (param i32) (local {})", "i32 ".repeat(locals));
    for level in 0..depth {
        let local = 1 + level % locals;
        let _ = write!(
            body,
            "loop local.get {local} local.get 0 i32.add local.set {local} local.get 0 br_if 0 "
        );
    }
    body += &"end ".repeat(depth);
    component(&(body + ")"))
}

/// One function: jumps to each of many blocks, many times.
pub fn tables(blocks: usize, jumps: usize) -> Vec<u8> {
    let mut body = "(func (param i32) ".to_owned() + &"block ".repeat(blocks);
    let targets: Vec<_> = (0..blocks).map(|n| n.to_string()).collect();
    let targets = targets.join(" ");
    for _ in 0..jumps {
        let _ = write!(body, "block local.get 0 br_table {targets} end ");
    }
    body += &"end ".repeat(blocks);
    component(&(body + ")"))
}

/// One function: a long expression, all parts of which are alive at once.
pub fn pressure(values: usize) -> Vec<u8> {
    let mut body = "(func (param i32) (result i32) ".to_owned();
    for value in 0..values {
        let _ = write!(body, "local.get 0 i32.const {value} i32.mul ");
    }
    body += &"i32.add ".repeat(values.saturating_sub(1));
    component(&(body + ")"))
}

/// One function: calls with many results, all of which the next call takes.
pub fn calls(width: usize, count: usize) -> Vec<u8> {
    let types = "i32 ".repeat(width);
    let mut body = format!(
        "(func $g (param {types}) (result {types}) {}) (func (param i32) {}",
        (0..width).map(|n| format!("local.get {n}")).collect::<Vec<_>>().join(" "),
        "i32.const 1 ".repeat(width),
    );
    body += &"call $g ".repeat(count);
    body += &"drop ".repeat(width);
    component(&(body + ")"))
}

/// Many functions.
pub fn functions(count: usize) -> Vec<u8> {
    component(&"(func)".repeat(count))
}

/// Many imports of one thing.
pub fn imports(count: usize) -> Vec<u8> {
    component(&format!("(type $t (func)) {}", "(type (func))".repeat(count)))
}

/// Modules next to each other.
pub fn modules(count: usize) -> Vec<u8> {
    let modules = "(core module)".repeat(count);
    wat::parse_str(format!("(component {modules})")).unwrap()
}

/// Takes a compiler longer than a server can wait, and passes all limits of structure.
pub fn slow() -> Vec<u8> {
    loops(3_000, 3_000)
}

/// Has the exports of a policy, and starts with this many pages of memory.
pub fn memory(pages: usize) -> Vec<u8> {
    component(&format!("(memory {pages})"))
}

/// Modules that are instantiated.
pub fn instances(count: usize) -> Vec<u8> {
    let instances = "(core instance (instantiate $m))".repeat(count);
    wat::parse_str(format!("(component (core module $m) {instances})")).unwrap()
}

/// The same component with a custom section, so that it is longer than `size`.
pub fn padded(mut component: Vec<u8>, size: usize) -> Vec<u8> {
    // Name and content are empty but for zeros. The length is a LEB128 of five bytes.
    let length = u32::try_from(size).unwrap();
    component.push(0);
    component.extend((0..4).map(|n| (length >> (7 * n)).to_le_bytes()[0] | 0x80));
    component.push((length >> 28).to_le_bytes()[0]);
    component.resize(component.len() + size, 0);
    component
}
