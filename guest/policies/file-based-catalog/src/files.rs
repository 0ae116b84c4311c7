//! The folder of a catalog: FBC-43 for files that could not be read, and FBC-44.
//!
//! Both are in the document without package. `spec.directories` lists directories with the packages
//! that have blobs there: `{path: "", packages: [a, b]}`.

use opgate_sdk::Document;
use opgate_sdk::go::quote;

use crate::findings::{Findings, joined};

/// Judges the files and directories.
pub(crate) fn judge(document: &Document, findings: &mut Findings<'_>) {
    for (index, file) in (0_u32..).zip(document.items("/spec/files")) {
        if file.has("/error") {
            let message = file.text("/error/message").filter(|message| !message.is_empty());
            let message = message.unwrap_or_else(|| "the file cannot be read".to_owned());
            findings.add("FBC-43", format!("spec.files[{index}].error"), message);
        }
    }
    for (index, directory) in (0_u32..).zip(document.items("/spec/directories")) {
        let packages = directory.texts("/packages");
        if packages.len() > 1 {
            let message = format!(
                "blobs of packages [{}] share directory {}; it is recommended to store each package in a separate subdirectory",
                joined(packages.iter().map(String::as_str), " "),
                quote(&directory.text_or_empty("/path"))
            );
            findings.add("FBC-44", format!("spec.directories[{index}]"), message);
        }
    }
}
