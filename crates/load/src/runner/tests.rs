use super::*;

const EVERY: Duration = Duration::from_millis(160);

#[test]
fn clients_with_a_pace_begin_one_after_the_other() {
    let begin = Instant::now();
    let due = |id| Pace::begin(begin, EVERY, id, 8).due.duration_since(begin).as_millis();
    assert_eq!([due(0), due(1), due(7)], [0, 20, 140]);
}

#[test]
fn a_late_client_does_not_catch_up() {
    let begin = Instant::now();
    let mut pace = Pace::begin(begin, EVERY, 0, 8);
    pace.step(begin);
    assert_eq!(pace.due, begin + EVERY, "in time");
    let late = begin + EVERY * 5;
    pace.step(late);
    assert_eq!(pace.due, late + EVERY, "no five steps at once");
}
