//! RBF-31: `tests/scorecard/config.yaml`.

use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, Folder};

const CONFIGURATION: &str = "tests/scorecard/config.yaml";
const API_VERSION: &str = "scorecard.operatorframework.io/v1alpha3";

pub(crate) fn judge(folder: &Folder<'_>, findings: &mut Findings<'_>) {
    let Some(file) = folder.file(CONFIGURATION) else { return };
    let mut warn = |field: String, why: &str| {
        findings.warn("RBF-31", field, format!("scorecard configuration: {why}"));
    };
    if let Content::Failed(why) = &file.content {
        warn(file.error_field(), why);
        return;
    }
    let Some(object) = folder.first(file) else {
        warn(file.field(), "the file is empty");
        return;
    };
    if object.text_or_empty("/kind") != "Configuration" {
        warn(file.within("kind"), "kind must be Configuration");
    }
    // One edition prints `apiversion` (decision K-6).
    let version = object.text("/apiVersion").or_else(|| object.text("/apiversion"));
    if version.as_deref() != Some(API_VERSION) {
        warn(file.within("apiVersion"), &format!("apiVersion must be {API_VERSION}"));
    }
    if object.kind("/stages") != Kind::List {
        warn(file.within("stages"), "stages must be a list");
    }
    for (index, stage) in object.items("/stages").enumerate() {
        let place = format!("stages[{index}]");
        if stage.has("/parallel") && stage.kind("/parallel") != Kind::Boolean {
            let field = format!("{place}.parallel");
            warn(file.within(&field), &format!("{field} must be true or false"));
        }
        if stage.kind("/tests") != Kind::List {
            let field = format!("{place}.tests");
            warn(file.within(&field), &format!("{field} must be a list"));
        }
        for (number, test) in stage.items("/tests").enumerate() {
            let place = format!("{place}.tests[{number}]");
            for (member, is_there) in
                [("image", has_image(&test)), ("entrypoint", has_entry(&test))]
            {
                if !is_there {
                    warn(file.within(&place), &format!("{place}.{member} is missing"));
                }
            }
        }
    }
}

fn has_image(test: &Document) -> bool {
    !test.text_or_empty("/image").is_empty()
}

/// A command: texts, at least one.
fn has_entry(test: &Document) -> bool {
    let length = test.length("/entrypoint").unwrap_or_default();
    length > 0
        && test.items("/entrypoint").all(|word| word.kind("") == Kind::Text)
        && test.kind("/entrypoint") == Kind::List
}
