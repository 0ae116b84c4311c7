//! The scorecard configuration, `tests/scorecard/config.yaml`.

use opgate_sdk::{Document, Fix, Kind, Report, corrections, escape, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, Content, File};

rules![RBF_31, RBF_33];

const CONFIGURATION: &str = "tests/scorecard/config.yaml";
const API_VERSION: &str = "scorecard.operatorframework.io/v1alpha3";

rule! {
    /// the scorecard configuration names tests with image and entrypoint
    ///
    /// The file `tests/scorecard/config.yaml`, if it exists, can be parsed and is not empty. It has
    /// `kind: Configuration` and `apiVersion: scorecard.operatorframework.io/v1alpha3`; the
    /// spelling `apiversion` is tolerated. `stages` is a list, and each stage has a list `tests`.
    /// Each test has a non-empty `image` and an `entrypoint` of at least one string. `parallel` of
    /// a stage is optional, and `true` or `false`. RBF-33 evaluates `labels`; other fields are not
    /// checked. A duplicate key in a mapping violates the rule, because operator-sdk reads the last
    /// one.
    ///
    /// # Why
    ///
    /// `operator-sdk scorecard` starts a test as the container `image` with the command
    /// `entrypoint`, and cannot run a test without them. See OpenShift 4.12, Operators, *Validating
    /// Operators using the scorecard tool*, Scorecard configuration.
    ///
    /// # Remediation
    ///
    /// Set the field that the message names, or generate the file again with `make bundle`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: Configuration
    /// apiVersion: scorecard.operatorframework.io/v1alpha3
    /// stages:
    /// - tests:
    ///   - image: quay.io/operator-framework/scorecard-test:v1.25.4
    ///     entrypoint: [scorecard-test, basic-check-spec]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: Configuration
    /// apiVersion: scorecard.operatorframework.io/v1alpha3
    /// stages:
    /// - tests: [{labels: {suite: basic}}]
    /// ```
    ///
    /// `message: scorecard configuration: stages[0].tests[0].image is missing`
    ///
    /// `message: scorecard configuration: stages[0].tests[0].entrypoint is missing`
    RBF_31: Warn {
        name: "scorecard-test-required-fields",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L22097-22159, L22396-22428", "OCP 4.15 L16942-16960"],
    }
}

rule! {
    /// the labels of a scorecard test are strings
    ///
    /// In `tests/scorecard/config.yaml`, `labels` of each test of `stages` is a mapping whose
    /// values are strings. A test without `labels` is accepted. A file that cannot be parsed
    /// violates only RBF-31.
    ///
    /// # Why
    ///
    /// `operator-sdk scorecard --selector` chooses tests by their labels, which Kubernetes defines as
    /// strings. See OpenShift 4.12, Operators, *Validating Operators using the scorecard tool*, Scorecard
    /// configuration.
    ///
    /// # Remediation
    ///
    /// Put the value in quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// stages:
    /// - tests:
    ///   - image: quay.io/operator-framework/scorecard-test:v1.25.4
    ///     entrypoint: [scorecard-test, basic-check-spec]
    ///     labels: {suite: basic}
    /// ```
    ///
    /// # Rejected
    ///
    /// This test with `labels: {suite: 5}`.
    ///
    /// `message: scorecard configuration: stages[0].tests[0].labels.suite must be a string`
    ///
    /// If `labels` is not a mapping: `message: scorecard configuration: stages[0].tests[0].labels
    /// must be a map of strings`
    RBF_33: Warn {
        name: "scorecard-labels-are-strings",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L22130-22160"],
    }
}

pub(crate) fn check(directory: &BundleDirectory<'_>, report: &mut Report<'_>) {
    let Some(file) = directory.file(CONFIGURATION) else { return };
    let warn = |report: &mut Report<'_>, field: String, why: &str| {
        report.add(&RBF_31, field, format!("scorecard configuration: {why}"));
    };
    if let Content::Invalid(why) = &file.content {
        warn(report, file.error_field(), why);
        return;
    }
    let Some(object) = directory.first_document(file) else {
        warn(report, file.field(), "the file is empty");
        return;
    };
    if let Some(why) = &file.duplicate_key {
        warn(report, file.duplicate_key_field(), &format!("{why}: the last one counts"));
    }
    if object.text_or_empty("/kind") != "Configuration" {
        warn(report, file.within("kind"), "kind must be Configuration");
        report.set_fix(&RBF_31, || {
            let (pointer, kind) = (file.pointer("/kind"), object.text_or_empty("/kind"));
            let is_meant =
                kind.is_empty() || corrections::word(&kind, &["Configuration"]).is_some();
            is_meant.then(|| corrections::write(pointer, "Configuration"))
        });
    }
    // One edition of the documentation has `apiversion`.
    let version = object.text("/apiVersion").or_else(|| object.text("/apiversion"));
    if version.as_deref() != Some(API_VERSION) {
        warn(report, file.within("apiVersion"), &format!("apiVersion must be {API_VERSION}"));
        report.set_fix(&RBF_31, || {
            let pointer = file.pointer("/apiVersion");
            let is_missing = !object.has("/apiVersion") && !object.has("/apiversion");
            let write = if is_missing { corrections::write } else { corrections::propose };
            (!object.has("/apiversion")).then(|| write(pointer, API_VERSION))
        });
    }
    if object.kind("/stages") != Kind::List {
        warn(report, file.within("stages"), "stages must be a list");
    }
    for (index, stage) in object.items("/stages").enumerate() {
        let place = format!("stages[{index}]");
        if stage.has("/parallel") && stage.kind("/parallel") != Kind::Boolean {
            let field = format!("{place}.parallel");
            warn(report, file.within(&field), &format!("{field} must be true or false"));
            report.set_fix(&RBF_31, || {
                let fix = corrections::boolean_fix(&stage, "/parallel")?;
                Some(fix.below(&file.pointer(&format!("/stages/{index}"))))
            });
        }
        if stage.kind("/tests") != Kind::List {
            let field = format!("{place}.tests");
            warn(report, file.within(&field), &format!("{field} must be a list"));
        }
        for (number, test) in stage.items("/tests").enumerate() {
            let place = format!("{place}.tests[{number}]");
            for (member, is_there) in
                [("image", has_image(&test)), ("entrypoint", has_entry(&test))]
            {
                if !is_there {
                    warn(report, file.within(&place), &format!("{place}.{member} is missing"));
                    report.set_fix(&RBF_31, || {
                        let command =
                            test.text("/entrypoint").filter(|_| member == "entrypoint")?;
                        let list = format!("[{}]", opgate_sdk::json_string(&command));
                        let pointer = format!("/stages/{index}/tests/{number}/entrypoint");
                        let is_one = !command.is_empty() && !command.contains(char::is_whitespace);
                        let fix = Fix::safe("write a list");
                        is_one.then(|| fix.set(file.pointer(&pointer), list))
                    });
                }
            }
        }
    }
    check_labels(&object, file, report);
}

fn check_labels(configuration: &Document, file: &File, report: &mut Report<'_>) {
    for (index, stage) in configuration.items("/stages").enumerate() {
        for (number, test) in stage.items("/tests").enumerate() {
            let labels = format!("stages[{index}].tests[{number}].labels");
            if test.has("/labels") && test.kind("/labels") != Kind::Object {
                let message = format!("scorecard configuration: {labels} must be a map of strings");
                report.add(&RBF_33, file.within(&labels), message);
            }
            for key in test.keys("/labels") {
                if test.kind(&format!("/labels/{}", escape(&key))) != Kind::Text {
                    let message =
                        format!("scorecard configuration: {labels}.{key} must be a string");
                    report.add(&RBF_33, file.within(&format!("{labels}[{key}]")), message);
                    report.set_fix(&RBF_33, || {
                        let fix =
                            corrections::text_fix(&test, &format!("/labels/{}", escape(&key)))?;
                        Some(fix.below(&file.pointer(&format!("/stages/{index}/tests/{number}"))))
                    });
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
