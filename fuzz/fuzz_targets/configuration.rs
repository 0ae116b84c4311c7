//! The configuration: any text is read or refused with its place, in one line for each error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use opgate::builtin::BUILTINS;
use opgate::policy::Configuration;

fuzz_target!(|text: &str| {
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    for text in [text.to_owned(), format!("{head}{text}")] {
        if let Err(errors) = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS) {
            let said = errors.to_string();
            assert!(!said.is_empty());
            for line in said.lines() {
                assert!(line.starts_with("opgate.yaml:"), "{said}");
            }
        }
    }
});
