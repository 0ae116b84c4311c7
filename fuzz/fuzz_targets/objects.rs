//! What events and pages of a watch carry: any JSON, of which the declared fields are kept.
//!
//! The oracles: nothing is kept that the text does not have, an object is as large as it says, and what
//! is projected twice is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_cluster::{Declaration, Index};
use opgate_document::Document;

fuzz_target!(|json: &str| {
    let Ok(document) = Document::deep(json.to_owned()) else { return };
    let fields = ["/spec/a", "/spec/list/*/name", "/status/conditions"].map(str::to_owned);
    let keys = ["/metadata/annotations".to_owned()];
    let index = |name: &str, field: &str, separator: &str| Index {
        name: name.to_owned(),
        field: field.to_owned(),
        separator: separator.to_owned(),
    };
    let indexes = [index("one", "/spec/list/*/name", ""), index("many", "/spec/a", ",")];
    let declaration = Declaration::new(&fields, &keys, &indexes).expect("declared well");
    let root = document.root();
    let page = root.get("/items").into_iter().flat_map(|items| items.items());
    let event = root.get("/object");
    for object in page.chain(event).chain([root]) {
        let Ok(kept) = declaration.project(object) else { continue };
        let again = declaration.project(object).expect("once more");
        assert!(kept.is_same(&again));
        assert!(kept.document().root().raw().len() <= 2 * json.len() + 1_000);
    }
});
