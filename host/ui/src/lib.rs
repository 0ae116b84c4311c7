//! Parts of the pages that opgate shows in a browser.
//!
//! ```text
//! host header ─▶ HostNames ─▶ rejected, or:
//! PolicySet, RuleFilter ─▶ rules ─┐
//! rows ─▶ Table ──────────────────┴▶ Page ─▶ set_headers ─▶ response
//! ```
//!
//! `opgate serve --ui` and `opgate ui` use all of it, HTML reports the [`BASE_STYLE`]. `maud` escapes all texts.

mod chapters;
mod host_names;
mod layout;
mod query;
mod rules;
mod table;

pub use host_names::{HostError, HostNames, MAX_HOST_BYTES};
pub use layout::{BASE_STYLE, NavLink, Page, content_security_policy, set_headers};
pub use query::parameter;
pub use rules::{RuleFilter, render_list, render_rule};
pub use table::Table;
