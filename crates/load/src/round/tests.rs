use super::*;

fn micros(all: impl IntoIterator<Item = u64>) -> Round {
    let mut round = Round::empty();
    all.into_iter().for_each(|it| round.add(1, 10, Duration::from_micros(it)));
    round
}

#[test]
fn a_percentile_is_the_latency_that_requests_do_not_exceed() {
    let round = micros(1..=1000);
    let close = |percent: f64, expected: u64| {
        let found = round.percentile(percent).as_micros();
        let error = found.abs_diff(u128::from(expected));
        assert!(error <= 1, "p{percent} is {found} µs");
    };
    close(50.0, 500);
    close(90.0, 900);
    close(99.0, 990);
    close(100.0, 1000);
}

#[test]
fn writes_have_percentiles_of_their_own() {
    let mut all = micros([10; 100]);
    assert_eq!(all.write_percentile(50.0), Duration::ZERO, "no writes");
    let mut other = micros([900]);
    other.add_write(Duration::from_micros(900));
    all.merge(other);
    let near = |found: Duration, micros: u128| found.as_micros().abs_diff(micros) <= 1;
    assert!(near(all.write_percentile(50.0), 900) && near(all.percentile(50.0), 10));
}

#[test]
fn latencies_beyond_the_bounds_count_as_the_longest() {
    assert!(micros([u64::MAX]).percentile(50.0) >= Duration::from_mins(10));
}

#[test]
fn rounds_of_clients_add_up_and_last_as_long_as_the_longest() {
    let mut all = micros([10, 20]);
    all.took = Duration::from_secs(1);
    let mut other = micros([30, 40]);
    other.took = Duration::from_secs(2);
    other.add_error("no".to_owned());
    other.add_error("no".to_owned());
    all.merge(other);
    assert_eq!((all.requests, all.bytes, all.errors), (4, 40, 2));
    assert_eq!(all.samples, ["no"]);
    assert!((all.rate() - 2.0).abs() < 1e-9);
    assert!((all.mib_rate() - 20.0 / f64::from(1 << 20)).abs() < 1e-12);
}

#[test]
fn a_median_needs_no_order() {
    assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    assert!(median(Vec::new()).is_nan());
}
