use super::*;

#[test]
fn waits_grow_to_their_limit_and_are_random() {
    let mut backoff = Backoff::new();
    let mut limit = BACKOFF_MIN;
    for _ in 0..20 {
        let wait = backoff.next();
        assert!(wait >= limit / 2 && wait <= limit, "{wait:?} of {limit:?}");
        limit = (2 * limit).min(BACKOFF_MAX);
    }
    assert_eq!(limit, BACKOFF_MAX);
    let waits: std::collections::BTreeSet<_> = (0..50).map(|_| backoff.next()).collect();
    assert!(waits.len() > 5, "{}", waits.len());
}
