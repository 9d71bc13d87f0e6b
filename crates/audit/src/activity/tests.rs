use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Activity, OPERATIONS_MAX, OTHER, RequestSample};

fn sample(ended: Instant, millis: u64) -> RequestSample {
    RequestSample {
        ended,
        duration: Duration::from_millis(millis),
        failed: false,
        refused: false,
        bytes_in: 10,
        bytes_out: 3,
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_snapshot_counts_the_requests_of_the_requested_time() {
    let start = Instant::now();
    let activity = Activity::new(start, ["PutObject", "GetObject"]);
    for second in 0..120 {
        activity.record("PutObject", &sample(start + seconds(second), 5));
    }
    activity
        .record("GetObject", &RequestSample { failed: true, ..sample(start + seconds(119), 7) });
    let now = start + seconds(119);
    let snapshot = activity.snapshot(now, seconds(60));
    assert_eq!(snapshot.over, seconds(60));
    let [get, put] = &snapshot.operations[..] else { panic!("{snapshot:?}") };
    assert_eq!((put.operation, put.counts.requests, put.counts.bytes_in), ("PutObject", 60, 600));
    assert_eq!((get.counts.requests, get.counts.failed, get.counts.bytes_out), (1, 1, 3));
    let all = activity.snapshot(now, seconds(3_600));
    assert_eq!(all.over, seconds(119), "the process is not older");
    assert_eq!(all.operations[1].counts.requests, 120);
}

#[test]
fn counts_older_than_a_ring_are_not_counted_again() {
    let start = Instant::now();
    let activity = Activity::new(start, ["PutObject"]);
    activity.record("PutObject", &sample(start, 5));
    let later = start + seconds(3_600);
    activity.record("PutObject", &sample(later, 5));
    let requests = |since| activity.snapshot(later, since).operations[0].counts.requests;
    assert_eq!(requests(seconds(3_600)), 1, "the slot of the first second is reused");
    assert_eq!(requests(Duration::from_hours(24)), 2, "the ring of a day has both");
    let day_later = later + Duration::from_hours(24);
    assert_eq!(
        activity.snapshot(day_later, Duration::from_hours(24)).operations[0].counts.requests,
        0
    );
}

#[test]
fn percentiles_are_those_of_the_last_hour() {
    let start = Instant::now();
    let activity = Activity::new(start, ["PutObject"]);
    for _ in 0..1_000 {
        activity.record("PutObject", &sample(start, 900));
    }
    let later = start + seconds(3_900);
    for millis in 1..=100 {
        activity.record("PutObject", &sample(later, millis));
    }
    let put = activity.snapshot(later, seconds(60)).operations.remove(0);
    let near = |got: Duration, millis: u64| {
        let expected = Duration::from_millis(millis);
        assert!(got.abs_diff(expected) <= expected / 50, "{got:?} is not {expected:?}");
    };
    near(put.p50, 50);
    near(put.p99, 99);
    near(put.max, 100);
    let earlier = activity.snapshot(later - seconds(600), seconds(60)).operations.remove(0);
    near(earlier.max, 900);
}

#[test]
fn a_series_has_the_complete_steps_of_one_or_all_operations() {
    let start = Instant::now();
    let activity = Activity::new(start, ["PutObject", "GetObject"]);
    activity.record("PutObject", &sample(start + seconds(2), 5));
    activity.record("GetObject", &sample(start + seconds(2), 5));
    activity.record("GetObject", &sample(start + seconds(5), 5));
    let series = activity.series(start + seconds(5), seconds(4), None);
    let requests: Vec<u64> = series.points.iter().map(|point| point.requests).collect();
    assert_eq!((series.step, requests), (seconds(1), vec![0, 2, 0, 0]));
    let series = activity.series(start + seconds(5), seconds(4), Some("PutObject"));
    assert_eq!(series.points.iter().map(|point| point.requests).sum::<u64>(), 1);
    let day = activity.series(start + seconds(25), Duration::from_hours(24), None);
    assert_eq!((day.step, day.points.len()), (seconds(10), 8_639));
    assert_eq!(day.points.iter().map(|point| point.requests).sum::<u64>(), 3);
}

#[test]
fn operations_beyond_the_limit_and_unknown_ones_share_a_history() {
    let names: Vec<&'static str> =
        (0..OPERATIONS_MAX + 5).map(|number| &*format!("Operation{number}").leak()).collect();
    let start = Instant::now();
    let activity = Activity::new(start, names.iter().copied());
    for name in names.iter().chain(&["unheard of"]) {
        activity.record(name, &sample(start, 5));
        activity.record(name, &sample(start, 5));
    }
    let snapshot = activity.snapshot(start, seconds(1));
    assert_eq!(snapshot.operations.len(), OPERATIONS_MAX + 1);
    let other = snapshot.operations.iter().find(|one| one.operation == OTHER).unwrap();
    assert_eq!(other.counts.requests, 12);
}

#[test]
fn no_request_of_concurrent_threads_is_lost() {
    let start = Instant::now();
    let activity = Arc::new(Activity::new(start, ["PutObject"]));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for number in 0..2_000 {
                    activity.record("PutObject", &sample(start + seconds(number / 100), 1));
                }
            });
        }
    });
    let put = activity.snapshot(start + seconds(20), seconds(21)).operations.remove(0);
    assert_eq!(put.counts.requests, 32_000);
}
