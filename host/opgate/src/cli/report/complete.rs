//! Results in the formats that have everything at once.
//!
//! ```text
//! Page: items, unreadable inputs, rule pages ─▶ junit, github, sarif, html
//! ```

use std::io::{self, Write};

use super::html::Page;
use super::{Format, github, junit, sarif};
use opgate_admission::policy::PolicySet;

/// Writes a result. The formats that commands write themselves are not written.
///
/// # Errors
/// If the output is not writable.
pub(in crate::cli) fn write(
    out: &mut impl Write,
    format: Format,
    set: &PolicySet,
    page: &Page<'_>,
) -> io::Result<()> {
    let Page { command, items, unreadable, pages, .. } = *page;
    match format {
        Format::Junit => junit::write(out, command.as_str(), items, unreadable, pages),
        Format::Github => github::write(out, items, unreadable, pages),
        Format::Sarif => {
            let log = sarif::build_log(command.as_str(), set, items, unreadable, pages);
            serde_json::to_writer_pretty(&mut *out, &log)?;
            writeln!(out)
        }
        Format::Html => page.write(out),
        Format::Table | Format::Json | Format::Jsonl => Ok(()),
    }
}
