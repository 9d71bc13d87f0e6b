use std::time::Duration;

use audit::{Activity, RequestSample};
use tokio::time::{Instant, advance};

use super::{POINTS_MAX, of};

fn sample(ended: Instant) -> RequestSample {
    RequestSample {
        ended,
        duration: Duration::from_millis(20),
        failed: false,
        refused: true,
        bytes_in: 3,
        bytes_out: 5,
    }
}

#[tokio::test(start_paused = true)]
async fn counts_and_series_agree() {
    let activity = Activity::new(Instant::now(), ["GetObject", "PutObject"]);
    for second in 0..1_000_u64 {
        activity.record(
            if second % 2 == 0 { "GetObject" } else { "PutObject" },
            &sample(Instant::now()),
        );
        advance(Duration::from_secs(1)).await;
    }
    let found = of(&activity, Duration::from_hours(1));
    assert_eq!(found.seconds, 1_000);
    assert_eq!((found.total.requests, found.total.refused, found.total.failed), (1_000, 1_000, 0));
    assert_eq!((found.total.bytes_in, found.total.bytes_out), (3_000, 5_000));
    let names: Vec<&str> = found.operations.iter().map(|one| one.operation.as_str()).collect();
    assert_eq!(names, ["GetObject", "PutObject"]);
    assert!((19_000..=21_000).contains(&found.operations[0].p50_us));
    assert!(found.series.len() <= POINTS_MAX + 1, "{}", found.series.len());
    let in_series: u64 = found.series.iter().map(|point| point.requests).sum();
    // The second that has just begun is not part of the series.
    assert!((999..=1_000).contains(&in_series), "{in_series}");
}
