//! Objects of lists and watches: any JSON, of which the declared fields are stored.
//!
//! Oracles: a stored object has nothing beyond the text, and two projections of an object are
//! identical.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_cluster::{Declaration, Index};
use opgate_document::Document;

fuzz_target!(|json: &str| {
    let Ok(document) = Document::parse_deep(json.to_owned()) else { return };
    let fields = ["/spec/a", "/spec/list/*/name", "/status/conditions"].map(str::to_owned);
    let keys = ["/metadata/annotations".to_owned()];
    let index = |name: &str, field: &str, separator: &str| Index {
        name: name.to_owned(),
        field: field.to_owned(),
        separator: separator.to_owned(),
    };
    let indexes = [index("one", "/spec/list/*/name", ""), index("many", "/spec/a", ",")];
    let declaration = Declaration::new(&fields, &keys, &indexes).expect("a valid declaration");
    let root = document.root();
    let page = root.get("/items").into_iter().flat_map(|items| items.items());
    let event = root.get("/object");
    for object in page.chain(event).chain([root]) {
        let Ok(stored) = declaration.project(object) else { continue };
        let repeated = declaration.project(object).expect("the same result");
        assert!(stored.is_identical(&repeated));
        assert!(stored.document().root().raw().len() <= 2 * json.len() + 1_000);
    }
});
