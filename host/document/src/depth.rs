//! A bound on nesting, checked before anything recurses over a document.

/// Deepest nesting of lists and objects. Kubernetes objects stay far below (a CRD schema of 60
/// levels of properties nests 130 deep); everything that recurses over a document is bounded by it.
pub const MAX_DEPTH: usize = 512;

/// Fails at the byte offset of the first bracket that nests deeper than [`MAX_DEPTH`].
pub(crate) fn check_depth(json: &str) -> Result<(), usize> {
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for (offset, byte) in json.bytes().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(offset);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_only_outside_of_text() {
        let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(check_depth(&deep), Ok(()));
        let deeper = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(check_depth(&deeper), Err(MAX_DEPTH));
        let quoted = format!("[\"{}\\\"{}\"]", "[".repeat(1000), "{".repeat(1000));
        assert_eq!(check_depth(&quoted), Ok(()));
        let wide = format!("[{}[]]", "[],".repeat(1000));
        assert_eq!(check_depth(&wide), Ok(()));
    }
}
