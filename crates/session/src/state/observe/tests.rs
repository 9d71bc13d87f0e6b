use super::*;

const SILENCE: Duration = Duration::from_secs(30);
const OWN: Nonce = Nonce([0; 10]);

fn seen(beat: &'static [u8]) -> Vec<ObservedSession> {
    vec![ObservedSession { nonce: Nonce([1; 10]), beat: Some(Value::from_static(beat)) }]
}

/// Looks every two seconds from `from` on, `times` times; how many looks found it silent.
fn look(others: &mut SilenceTracker, from: Instant, times: u32) -> usize {
    let at = |number| from + Duration::from_secs(2) * number;
    (0..times)
        .filter(|number| !others.observe(OWN, seen(b"same"), at(*number), SILENCE).is_empty())
        .count()
}

#[test]
fn a_session_without_a_new_beat_becomes_silent() {
    let (mut others, start) = (SilenceTracker::default(), Instant::now());
    assert_eq!(look(&mut others, start, 15), 0);
    assert_eq!(look(&mut others, start + SILENCE, 1), 1);
    assert!(others.observe(OWN, seen(b"another"), start + SILENCE, SILENCE).is_empty());
}

#[test]
fn unobserved_time_is_no_silence() {
    let (mut others, start) = (SilenceTracker::default(), Instant::now());
    assert_eq!(look(&mut others, start, 5), 0);
    // The store was away for an hour, for the other session as for this one.
    let back = start + Duration::from_hours(1);
    assert_eq!(look(&mut others, back, 6), 0, "it had no chance to show a beat");
    assert!(look(&mut others, back + Duration::from_secs(12), 20) > 0, "it has one now");
}

#[test]
fn a_session_without_a_valid_beat_has_passed_epoch_zero() {
    let seen = ObservedSession { nonce: Nonce([1; 10]), beat: None };
    assert_eq!(seen.passed(), 0);
}
