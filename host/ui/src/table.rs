//! Tables of limited size.

use maud::{Markup, PreEscaped, html};

/// A table whose rows stop at a limit.
#[derive(Debug)]
pub struct Table<'t> {
    /// Unique on the page.
    pub id: &'t str,
    /// The title of the table.
    pub caption: &'t str,
    /// The headings of its columns.
    pub headings: &'t [&'t str],
    /// The text instead of a table without rows.
    pub empty: &'t str,
    /// Maximum bytes of the rows.
    pub max_bytes: usize,
}

impl Table<'_> {
    /// Renders the rows that fit, and the number of the others.
    #[must_use]
    pub fn render(&self, rows: impl IntoIterator<Item = Markup>) -> Markup {
        let (mut text, mut omitted) = (String::new(), 0_usize);
        for row in rows {
            let row = row.into_string();
            if omitted > 0 || text.len() + row.len() > self.max_bytes {
                omitted += 1;
            } else {
                text.push_str(&row);
            }
        }
        let caption = format!("{}-caption", self.id);
        html! {
            @if text.is_empty() && omitted == 0 {
                p { (self.empty) }
            } @else {
                div.scroll id=(self.id) role="region" aria-labelledby=(caption) tabindex="0" {
                    table {
                        caption id=(caption) { (self.caption) }
                        thead { tr { @for heading in self.headings { th scope="col" { (heading) } } } }
                        tbody { (PreEscaped(text)) }
                    }
                }
                @if omitted > 0 { p { (omitted) " more are not shown." } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let table =
            Table { id: "t", caption: "<c>", headings: &["H"], empty: "None.", max_bytes: 100 };
        let rows = |count| (0..count).map(|_| html! { tr { td { "twenty-four bytes" } } });
        for (count, shown, note) in
            [(0, 0, "<p>None.</p>"), (2, 2, "&lt;c&gt;"), (5, 2, "<p>3 more are not shown.</p>")]
        {
            let text = table.render(rows(count)).into_string();
            assert_eq!(text.matches("twenty-four").count(), shown, "{text}");
            assert!(text.contains(note), "{text}");
        }
    }
}
