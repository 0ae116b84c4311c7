//! The directory of a catalog: files with errors, and directories with blobs of several packages.
//!
//! Both are in the document without package. `spec.files` lists files that cannot be read (`error:
//! {message, line, column}`), files with a duplicate key (`twice`, with the same members), and
//! files with an empty document (`empty: {line}`). `spec.directories` lists directories with the
//! packages that have blobs there: `{path: "", packages: [a, b]}`.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Level, Report, rule, rules};

use crate::CATALOG;
use crate::text::join;

rules![FBC_43, FBC_44, FBC_55];

rule! {
    /// every file of a catalog is readable
    ///
    /// Every file below the root of the catalog, regardless of its name, is a stream of YAML or
    /// JSON objects. Files that `.indexignore` lists are exempt; it has the syntax of `.gitignore`,
    /// and each directory can have one. No two keys of a blob differ only in case, and
    /// `relatedImages` is a list of objects with strings. A duplicate key in an object is a
    /// warning: `opm` reads the last one. FBC-55 reports empty documents.
    ///
    /// # Why
    ///
    /// `opm` tries to load every file and fails if one does not load (OpenShift 4.12, Operators,
    /// *File-based catalogs, Directory structure*). It finds the keys of a blob in any case. Other
    /// tools reject a duplicate key, or read the first one.
    ///
    /// # Remediation
    ///
    /// Correct the file, or list it in `.indexignore` if it is not part of the catalog. Remove one
    /// of two keys with the same name.
    ///
    /// # Accepted
    ///
    /// ```text
    /// catalog/.indexignore        contains: README.md
    /// catalog/README.md
    /// catalog/etcd/index.yaml
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.package, Schema: olm.package, name: etcd}
    /// ```
    ///
    /// `message: duplicate keys for key "schema": [Schema schema]`. For a file that does not load,
    /// the message is the error of the parser, or `message: not a blob: an object with schema is
    /// expected; list files that are none in .indexignore`. For a duplicate key it is `message:
    /// duplicate mapping key: name: the last one counts`
    pub(crate) FBC_43: Deny {
        name: "readable-catalog-files",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L613-632, L638-647", "OCP 4.15 L463-493", "OKD L134-156", "operator-registry alpha/declcfg/load.go, alpha/declcfg/declcfg.go"],
    }
}

rule! {
    /// each package has a separate directory
    ///
    /// No directory of the catalog directly contains blobs of more than one package. Blobs without
    /// a package do not count.
    ///
    /// # Why
    ///
    /// With a directory for each package, you can compose and split catalogs by copying directories
    /// (OpenShift 4.12, Operators, *File-based catalogs, Directory structure*).
    ///
    /// # Remediation
    ///
    /// Move the blobs of each package into a separate subdirectory.
    ///
    /// # Accepted
    ///
    /// ```text
    /// etcd/index.yaml          blobs of etcd
    /// prometheus/index.json    blobs of prometheus
    /// ```
    ///
    /// # Rejected
    ///
    /// ```text
    /// index.yaml    blobs of etcd and prometheus
    /// ```
    ///
    /// `message: blobs of packages [etcd prometheus] share directory ""; it is recommended to store
    /// each package in a separate subdirectory`
    FBC_44: Warn {
        name: "one-directory-per-package",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L632-652", "OCP 4.15 L463-493", "OKD L146-157"],
    }
}

rule! {
    /// no document of a catalog file is empty
    ///
    /// Every document in a file of the catalog has content other than comments, blank lines and
    /// `null`. A file can begin and end with `---`. A comment before that `---`, or a blank line
    /// after the one at the end, is an empty document. Files with templates of `opm` are exempt
    /// (FBC-07).
    ///
    /// # Why
    ///
    /// `opm` treats an empty document as a blob without schema and rejects the catalog
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Move the comment below the `---` that follows it, or remove the `---` that begins or ends the
    /// empty document.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// ---
    /// # The package etcd
    /// schema: olm.package
    /// name: etcd
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The package etcd
    /// ---
    /// schema: olm.package
    /// name: etcd
    /// ```
    ///
    /// `message: object '' is missing root schema field`
    FBC_55: Deny {
        name: "no-empty-catalog-documents",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L700-720", "operator-registry alpha/declcfg/load.go"],
    }
}

/// Evaluates the files and directories.
pub(crate) fn check(document: &Document, report: &mut Report<'_>) {
    for (index, file) in (0_u32..).zip(document.items("/spec/files")) {
        if file.has("/error") {
            let message = file.text("/error/message").filter(|message| !message.is_empty());
            let message = message.unwrap_or_else(|| "the file cannot be read".to_owned());
            report.add(&FBC_43, format!("spec.files[{index}].error"), message);
        }
        if let Some(why) = file.text("/twice/message") {
            let message = format!("{why}: the last one counts");
            report.add_as(Level::Warn, &FBC_43, format!("spec.files[{index}].twice"), message);
        }
        if let Some(line) = file.integer("/empty/line") {
            // Lines of a text are counted from 0.
            let field = format!("spec.files[{index}].text[{}]", line.saturating_sub(1));
            report.add(&FBC_55, field, "object '' is missing root schema field");
        }
    }
    for (index, directory) in (0_u32..).zip(document.items("/spec/directories")) {
        let packages = directory.texts("/packages");
        if packages.len() > 1 {
            let message = format!(
                "blobs of packages [{}] share directory {}; it is recommended to store each package in a separate subdirectory",
                join(packages.iter().map(String::as_str), " "),
                quote(&directory.text_or_empty("/path"))
            );
            report.add(&FBC_44, format!("spec.directories[{index}]"), message);
        }
    }
}
