use std::time::UNIX_EPOCH;

use super::super::reported_review::{Outcome, ReportedViolation};
use super::*;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

/// A review of an object that the namespace, or without one the user, has changed.
fn review(tenant: &str, name: &str, seconds: u64) -> ReportedReview {
    let (namespace, user) = match tenant.strip_prefix("user ") {
        Some(user) => ("", user),
        None => (tenant, "jo"),
    };
    ReportedReview {
        at: at(seconds),
        operation: "CREATE",
        resource: "/v1/pods".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: user.to_owned(),
        is_dry_run: false,
        outcome: Outcome::Denied,
        violations: Vec::new(),
        omitted: 0,
        reads: Vec::new(),
    }
}

fn large(review: ReportedReview, bytes: usize) -> ReportedReview {
    let violation = ReportedViolation {
        policy: "p".to_owned(),
        rule: "R-1".to_owned(),
        effect: None,
        field: String::new(),
        message: "x".repeat(bytes),
    };
    ReportedReview { violations: vec![violation], ..review }
}

/// The names of all reviews in fair order.
fn names(log: &ReviewLog, seconds: u64) -> Vec<String> {
    let all = log.by_tenant(at(seconds));
    order_fairly(&all).into_iter().map(|(_, review)| review.name.clone()).collect()
}

fn count(log: &ReviewLog, tenant: &str) -> (usize, u64) {
    let all = log.by_tenant(at(0));
    let found = all.iter().find(|known| known.tenant == LogTenant::Namespace(tenant.to_owned()));
    found.map_or((0, 0), |found| (found.reviews.len(), found.dropped))
}

#[test]
fn reviews_are_ordered_by_turns_of_their_tenants() {
    let log = ReviewLog::default();
    for (tenant, name) in [("a", "1"), ("b", "2"), ("a", "3"), ("user x", "4"), ("a", "5")] {
        log.record(review(tenant, name, 0), at(0));
    }
    assert_eq!(names(&log, 0), ["5", "4", "2", "3", "1"]);
    let all = log.by_tenant(at(0));
    let numbers: Vec<_> = order_fairly(&all).into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [5, 4, 2, 3, 1]);
}

#[test]
fn reviews_are_dropped_after_an_hour() {
    let log = ReviewLog::default();
    log.record(review("a", "old", 0), at(0));
    log.record(review("a", "new", 10), at(10));
    for (seconds, expected) in [(3_600, vec!["new", "old"]), (3_601, vec!["new"]), (3_611, vec![])]
    {
        assert_eq!(names(&log, seconds), expected, "{seconds}");
    }
    assert_eq!(log.0.lock().bytes, 0);
}

#[test]
fn one_tenant_has_a_tenth_of_the_memory() {
    for bytes in [0, 5_000] {
        let log = ReviewLog::default();
        log.record(review("quiet", "first", 0), at(0));
        for number in 0..5_000 {
            log.record(large(review("loud", &number.to_string(), 0), bytes), at(0));
        }
        let (kept, dropped) = count(&log, "loud");
        assert_eq!(u64::try_from(kept).unwrap() + dropped, 5_000);
        assert!(kept > 10 && kept * bytes.max(MIN_REVIEW_BYTES) <= MAX_TENANT_BYTES, "{kept}");
        assert_eq!(names(&log, 0)[..2], ["4999", "first"]);
    }
}

#[test]
fn all_tenants_have_limited_memory() {
    let log = ReviewLog::default();
    for number in 0..20_000 {
        let bytes = if number % 3 == 0 { 3_000 } else { 0 };
        let tenant = format!("team-{}", number % 5_000);
        log.record(large(review(&tenant, &number.to_string(), 0), bytes), at(0));
    }
    let state = log.0.lock();
    assert!(state.bytes <= MAX_BYTES, "{}", state.bytes);
    let sum: usize = state.tenants.values().map(|log| log.bytes).sum();
    let reviews: usize = state.tenants.values().map(|log| log.reviews.len()).sum();
    assert_eq!(sum, state.bytes);
    assert!((300..=MAX_BYTES / MIN_REVIEW_BYTES).contains(&reviews), "{reviews}");
    drop(state);
    assert_eq!(names(&log, 0)[0], "19999", "the newest review is kept");
}

#[test]
fn full_log_drops_the_oldest_of_the_largest_tenants() {
    let log = ReviewLog::default();
    for number in 0..100_u32 {
        for tenant in 0..20 {
            log.record(review(&format!("team-{tenant}"), &number.to_string(), 0), at(0));
        }
    }
    log.record(review("quiet", "only", 0), at(0));
    assert_eq!(count(&log, "quiet"), (1, 0));
    for tenant in 0..20 {
        let (kept, _) = count(&log, &format!("team-{tenant}"));
        assert!((50..=52).contains(&kept), "{kept}");
    }
}
