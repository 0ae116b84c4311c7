//! The order in which tenants get permits.

use std::pin::Pin;

use futures_util::FutureExt as _;

use super::*;

fn fair_permits(permits: usize, queue: usize) -> Arc<FairPermits> {
    Arc::new(FairPermits::new(permits, queue, false))
}

fn distant_deadline() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// A request of a tenant that waits or has its permit.
type PendingPermit = Pin<Box<dyn Future<Output = Result<Permit, PermitError>>>>;

fn queued_call(tenant: u64, review_bytes: usize, class: CallClass) -> QueuedCall {
    QueuedCall { tenant: Tenant(tenant), review_bytes, class }
}

fn request_permit(fair: &Arc<FairPermits>, tenant: u64, pace: CallClass) -> PendingPermit {
    let fair = fair.clone();
    async move { fair.acquire(queued_call(tenant, 100, pace), Some(distant_deadline())).await }
        .boxed_local()
}

/// Runs until it waits; returns its result.
fn poll_permit(pending: &mut PendingPermit) -> Option<Result<Permit, PermitError>> {
    pending.as_mut().now_or_never()
}

fn permit(fair: &Arc<FairPermits>, tenant: u64, pace: CallClass) -> Permit {
    poll_permit(&mut request_permit(fair, tenant, pace)).expect("at once").unwrap()
}

/// Everything that was acquired is released.
fn assert_idle(fair: &FairPermits) {
    let state = fair.state.lock();
    let running = (state.running, state.running_long, state.running_expensive);
    assert_eq!((running, state.waiting, state.bytes), ((0, 0, 0), 0, 0));
    assert!(state.short.is_empty() && state.long.is_empty());
    assert!(
        state.accounts.values().all(|account| account.is_idle() && account.running_expensive == 0)
    );
}

#[tokio::test]
async fn tenant_holds_at_most_half_of_the_permits() {
    // Permits, of one tenant, of long calls, of long calls of all expensive tenants and of one of
    // them.
    let cases = [
        [1, 1, 1, 1, 1],
        [2, 1, 1, 1, 1],
        [3, 2, 2, 1, 1],
        [4, 2, 3, 2, 1],
        [8, 4, 7, 4, 2],
        [256, 128, 255, 128, 64],
    ];
    for [permits, each, long, dear, dear_each] in cases {
        for (pace, is_dear, each, all) in [
            (CallClass::Short, false, each, permits),
            (CallClass::Short, true, each, permits),
            (CallClass::Long, false, each, long),
            (CallClass::Long, true, dear_each, dear),
        ] {
            let fair = fair_permits(permits, 1_000);
            let (mut held, mut most) = (Vec::new(), 0);
            if is_dear {
                (0..8).for_each(|tenant| permit(&fair, tenant, pace).charge(MAX_CHARGED_CPU_TIME));
            }
            for tenant in 0..8 {
                let before = held.len();
                while let Some(Ok(permit)) = poll_permit(&mut request_permit(&fair, tenant, pace)) {
                    held.push(permit);
                }
                most = most.max(held.len() - before);
            }
            assert_eq!((most, held.len()), (each, all), "{permits} {pace:?} {is_dear}");
            // In addition to long calls of any tenant, a permit remains for a short one.
            if permits > 1 && pace == CallClass::Long {
                permit(&fair, 100, CallClass::Short);
            }
            drop(held);
            assert_idle(&fair);
        }
    }
}

#[tokio::test]
async fn tenants_take_turns() {
    let fair = fair_permits(1, 100);
    let mut held = Some(permit(&fair, 0, CallClass::Short));
    // One has ten waiting before the two others come.
    let tenants = [[1].repeat(10), vec![2, 3, 2, 3]].concat();
    let mut waiting: Vec<_> = tenants
        .iter()
        .map(|tenant| (*tenant, request_permit(&fair, *tenant, CallClass::Short)))
        .collect();
    for (_, pending) in &mut waiting {
        assert!(poll_permit(pending).is_none());
    }
    let mut order = Vec::new();
    while let Some(permit) = held.take() {
        drop(permit);
        for position in 0..waiting.len() {
            if let Some(permit) = poll_permit(&mut waiting[position].1) {
                held = Some(permit.unwrap());
                order.push(waiting.remove(position).0);
                break;
            }
        }
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_idle(&fair);
}

#[tokio::test]
async fn expensive_tenant_waits_behind_cheaper_ones() {
    let fair = fair_permits(1, 100);
    let mut first = permit(&fair, 1, CallClass::Short);
    first.charge(Duration::from_millis(100));
    drop(first);
    let mut second = permit(&fair, 2, CallClass::Short);
    assert!(!second.is_expensive());
    second.charge(Duration::from_millis(200));
    drop(second);
    let held = permit(&fair, 3, CallClass::Short);
    let mut waiting: Vec<_> =
        [2, 1, 1, 4].map(|tenant| (tenant, request_permit(&fair, tenant, CallClass::Short))).into();
    for (_, pending) in &mut waiting {
        assert!(poll_permit(pending).is_none());
    }
    drop(held);
    let mut order = Vec::new();
    while let Some(position) = {
        let mut found = None;
        for (position, (_, pending)) in waiting.iter_mut().enumerate() {
            if let Some(permit) = poll_permit(pending) {
                drop(permit.unwrap());
                found = Some(position);
                break;
            }
        }
        found
    } {
        order.push(waiting.remove(position).0);
    }
    // The tenant without cost, then those that cost less.
    assert_eq!(order, [4, 1, 1, 2]);
}

#[tokio::test]
async fn full_queue_rejects_the_tenant_with_most_calls() {
    let fair = fair_permits(2, 8);
    let held = [permit(&fair, 0, CallClass::Short), permit(&fair, 9, CallClass::Short)];
    let mut waiting = Vec::new();
    let mut fill = |tenant: u64, count: usize| {
        let mut refused = 0;
        for _ in 0..count {
            let mut pending = request_permit(&fair, tenant, CallClass::Short);
            match poll_permit(&mut pending) {
                None => waiting.push((tenant, pending)),
                Some(Err(PermitError::Share(4))) => refused += 1,
                Some(other) => panic!("{other:?}"),
            }
        }
        refused
    };
    assert_eq!(fill(1, 10), 6, "half of the queue is the most");
    assert_eq!(fill(2, 4), 0);
    // It is full; a tenant with fewer calls replaces the last call of a tenant with most.
    assert_eq!(fill(3, 2), 0);
    assert_eq!(fill(4, 1), 0);
    let mut displaced = Vec::new();
    for (tenant, pending) in &mut waiting {
        if let Some(answer) = poll_permit(pending) {
            assert!(matches!(answer.unwrap_err(), PermitError::Share(_)));
            displaced.push(*tenant);
        }
    }
    displaced.sort_unstable();
    assert_eq!(displaced.len(), 3);
    assert!(displaced.iter().all(|tenant| [1, 2].contains(tenant)), "{displaced:?}");
    assert_eq!(fair.state.lock().waiting, 8);
    // If each tenant has one, the next one is rejected.
    let mut alike: Vec<_> =
        (20..30).map(|tenant| request_permit(&fair, tenant, CallClass::Short)).collect();
    let answers: Vec<_> = alike.iter_mut().map(poll_permit).collect();
    assert!(matches!(answers[9], Some(Err(PermitError::Full(8)))), "{answers:?}");
    drop(alike);
    drop(waiting);
    drop(held);
    assert_idle(&fair);
}

#[tokio::test]
async fn queued_large_reviews_leave_room_for_small_ones() {
    let fair = fair_permits(1, 1_000);
    let held = permit(&fair, 0, CallClass::Short);
    let mut waiting = Vec::new();
    let mut wait = |tenant: u64, bytes: usize| {
        let fair = fair.clone();
        let mut pending: PendingPermit = async move {
            fair.acquire(queued_call(tenant, bytes, CallClass::Short), Some(distant_deadline()))
                .await
        }
        .boxed_local();
        let waits = poll_permit(&mut pending).is_none();
        waiting.push(pending);
        waits
    };
    // One of any size, then 4 MiB of one tenant, and 16 MiB of all.
    assert!(wait(1, 7 << 20) && !wait(1, 1 << 20));
    assert_eq!((0..10).filter(|_| wait(2, 1 << 20)).count(), 4);
    assert_eq!((3..100).filter(|tenant| wait(*tenant, 1 << 20)).count(), 5);
    assert!((0..100).all(|tenant| wait(tenant, SMALL_REVIEW_BYTES)));
    drop(waiting);
    drop(held);
    assert_idle(&fair);
}

#[tokio::test]
async fn long_calls_run_between_short_ones() {
    let fair = fair_permits(2, 1_000);
    let held = permit(&fair, 1, CallClass::Long);
    let mut long = request_permit(&fair, 2, CallClass::Long);
    assert!(poll_permit(&mut long).is_none());
    let mut short: Vec<_> =
        (10..40).map(|tenant| request_permit(&fair, tenant, CallClass::Short)).collect();
    let first = poll_permit(&mut short[0]).unwrap().unwrap();
    for pending in &mut short[1..] {
        assert!(poll_permit(pending).is_none());
    }
    drop(held);
    drop(first);
    let mut before = 1;
    loop {
        if let Some(permit) = poll_permit(&mut long) {
            drop(permit.unwrap());
            break;
        }
        let Some(permit) = poll_permit(&mut short[before]) else { continue };
        before += 1;
        drop(permit.unwrap());
    }
    assert!(before < 20, "{before} short ones before it");
}

#[tokio::test]
async fn cancelled_requests_release_permits_and_queue_entries() {
    let fair = fair_permits(1, 8);
    let held = permit(&fair, 1, CallClass::Short);
    let mut gone = request_permit(&fair, 2, CallClass::Short);
    let mut stays = request_permit(&fair, 3, CallClass::Short);
    assert!(poll_permit(&mut gone).is_none() && poll_permit(&mut stays).is_none());
    // Dropped while it waits, and dropped when the permit is on its way.
    drop(gone);
    assert_eq!(fair.state.lock().waiting, 1);
    let mut second = request_permit(&fair, 2, CallClass::Short);
    assert!(poll_permit(&mut second).is_none());
    drop(held);
    drop(stays);
    assert!(poll_permit(&mut second).unwrap().is_ok());
    assert_idle(&fair);
    let late = fair.acquire(queued_call(1, 100, CallClass::Short), None).await.unwrap();
    assert_eq!(
        fair.acquire(queued_call(2, 100, CallClass::Short), None).await.unwrap_err(),
        PermitError::Busy
    );
    let now = Some(Instant::now());
    let refused = fair.acquire(queued_call(2, 100, CallClass::Short), now).await.unwrap_err();
    assert!(matches!(refused, PermitError::Late(_)), "{refused:?}");
    drop(late);
    assert_idle(&fair);
}

#[tokio::test]
async fn cheapest_tenants_are_forgotten_first() {
    let fair = fair_permits(4, 8);
    for tenant in 0..20_000 {
        let mut permit = permit(&fair, tenant, CallClass::Short);
        if tenant == 7 {
            permit.charge(MAX_CHARGED_CPU_TIME);
            permit.record_class(CallClass::Long);
        }
        drop(permit);
        assert!(fair.state.lock().accounts.len() <= MAX_IDLE_TENANTS);
    }
    assert_eq!(fair.expected_class(Tenant(7)), CallClass::Long, "it cost the most");
    assert_eq!(fair.expected_class(Tenant(8)), CallClass::Short);
}

#[test]
fn cpu_account_drains_over_time_and_is_capped() {
    let now = Instant::now();
    let mut account = TenantAccount::new(now);
    account.charge(Duration::from_millis(60), now);
    assert_eq!(account.current_excess(now + Duration::from_secs(1)), Duration::from_millis(10));
    assert_eq!(account.current_excess(now + Duration::from_secs(2)), Duration::ZERO);
    account.charge(Duration::from_secs(60), now);
    assert_eq!(account.current_excess(now), MAX_CHARGED_CPU_TIME);
}

#[test]
fn a_tenant_is_a_namespace_or_else_a_user() {
    let tenants = Tenants::default();
    assert_eq!(tenants.of("a", "one"), tenants.of("a", "two"));
    assert_ne!(tenants.of("a", "one"), tenants.of("b", "one"));
    assert_ne!(tenants.of("", "one"), tenants.of("", "two"));
    assert_ne!(tenants.of("", "a"), tenants.of("a", "a"), "a user is not a namespace");
}
