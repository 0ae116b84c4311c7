//! Every alert leads to its section of docs/operate/alerts.md.

use std::collections::BTreeSet;

use super::alert_rules;

const PAGE: &str = include_str!("../../../docs/operate/alerts.md");

/// What a section has to answer.
const PARTS: [&str; 3] = ["**What happened:**", "**Where to look:**", "**What to do:**"];

#[test]
fn each_alert_has_a_section_and_each_section_an_alert() {
    let rules = alert_rules(&[]);
    let alerts: BTreeSet<_> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    let sections: Vec<_> = PAGE.split("\n## ").skip(1).collect();
    let titles: Vec<_> = sections.iter().map(|text| text.lines().next().unwrap()).collect();
    assert_eq!(titles.iter().copied().collect::<BTreeSet<_>>(), alerts);
    assert_eq!(titles.len(), alerts.len(), "a section is there twice");
    for section in sections {
        for part in PARTS {
            assert_eq!(section.matches(part).count(), 1, "{part} in {section}");
        }
    }
}

#[test]
fn alerts_link_to_the_page_where_it_is_published() {
    for (arguments, start) in [
        (&[][..], "docs"),
        (&["--docs-url", "https://docs.example.com/opgate/"], "https://docs.example.com/opgate"),
    ] {
        for rule in alert_rules(arguments) {
            let section = rule["alert"].as_str().unwrap().to_lowercase();
            let expected = format!("{start}/operate/alerts.md#{section}");
            assert_eq!(rule["annotations"]["runbook_url"], expected);
        }
    }
}
