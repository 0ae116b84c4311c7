//! The configuration: any text is read, or each error is one line with its location.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use opgate::builtin::BUILTINS;
use opgate::policy::Configuration;

fuzz_target!(|text: &str| {
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    for text in [text.to_owned(), format!("{head}{text}")] {
        if let Err(errors) = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS) {
            let message = errors.to_string();
            assert!(!message.is_empty());
            for line in message.lines() {
                assert!(line.starts_with("opgate.yaml:"), "{message}");
            }
        }
    }
});
