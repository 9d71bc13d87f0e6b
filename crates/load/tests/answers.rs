//! The results of the load for correct and wrong responses of a test endpoint.

mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use endpoint::Twist;
use http::header::{CONTENT_LENGTH, ETAG};
use http::{Method, StatusCode};
use http_body_util::Full;
use load::{Gauge, KeyPair, Round, Runner, TargetBucket, Trouble, Verb, Workload};

const BYTES: u64 = 10_000;

fn runner(twist: Twist) -> Runner {
    let target = TargetBucket {
        endpoint: format!("http://{}", endpoint::start(twist)),
        bucket: "bucket".to_owned(),
        region: "us-east-1".to_owned(),
        credentials: KeyPair {
            access_key: "a".to_owned(),
            secret_key: "s".to_owned(),
            session_token: None,
        },
        authority: None,
        unsigned: false,
    };
    Runner::new(&target, "run/", 7, 1).expect("a target")
}

fn workload(verb: Verb) -> Workload {
    let time = Duration::from_millis(100);
    Workload { objects: 5, ..Workload::new(verb, BYTES, 3, time) }
}

fn measure(verb: Verb, twist: Twist) -> Result<Round, Trouble> {
    let (mut runner, gauge) = (runner(twist), Arc::new(Gauge::default()));
    let workload = workload(verb);
    runner.prepare(&workload, &gauge)?;
    runner.round(&workload, &gauge)
}

/// A round with wrong responses has errors that name the mistake.
fn refused(verb: Verb, twist: Twist, words: &str) {
    let round = measure(verb, twist).expect("the round ends");
    assert!(round.errors > 0, "{verb} went through");
    assert!(round.samples.iter().any(|it| it.contains(words)), "{verb}: {:?}", round.samples);
}

#[test]
fn right_answers_are_counted_and_nothing_else_is() {
    for verb in Verb::ALL {
        let round = measure(verb, |_, _, _| ()).expect("a round");
        assert_eq!((round.errors, round.samples.as_slice()), (0, &[][..]), "{verb}");
        assert!(round.requests > 0 && round.units >= round.requests, "{verb}: {round:?}");
        let moves = matches!(verb, Verb::Put | Verb::Get | Verb::Mixed | Verb::Multipart);
        assert_eq!(round.bytes > 0, moves || verb == Verb::Range, "{verb}");
        let writes = matches!(verb, Verb::Put | Verb::Mixed | Verb::Multipart);
        assert_eq!(round.write_percentile(50.0) > Duration::ZERO, writes, "{verb}");
    }
}

#[test]
fn an_error_status_is_an_error() {
    refused(
        Verb::Put,
        |_, _, answer| {
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            *answer.body_mut() = Full::new(Bytes::from("<Code>SlowDown</Code>"));
        },
        "503 Service Unavailable: SlowDown",
    );
}

#[test]
fn a_put_without_etag_is_an_error() {
    refused(Verb::Put, |_, _, answer| drop(answer.headers_mut().remove(ETAG)), "without ETag");
}

#[test]
fn a_range_that_is_short_is_an_error() {
    refused(
        Verb::Range,
        |_, _, answer| {
            if answer.status() == StatusCode::PARTIAL_CONTENT {
                *answer.body_mut() = Full::new(Bytes::from("short"));
            }
        },
        "gave 5 bytes instead of 10000",
    );
}

#[test]
fn a_whole_object_instead_of_a_range_is_an_error() {
    refused(
        Verb::Range,
        |_, _, answer| {
            if answer.status() == StatusCode::PARTIAL_CONTENT {
                *answer.status_mut() = StatusCode::OK;
            }
        },
        "was answered 200 OK",
    );
}

#[test]
fn a_head_with_another_length_is_an_error() {
    refused(
        Verb::Head,
        |method, place, answer| {
            if *method == Method::HEAD && place.contains("read-") {
                answer.headers_mut().insert(CONTENT_LENGTH, 1.into());
            }
        },
        "instead of 10000",
    );
}

#[test]
fn a_listing_that_lacks_keys_is_an_error() {
    refused(
        Verb::List,
        |_, place, answer| {
            if place.contains("list-type") {
                *answer.body_mut() = Full::new(Bytes::from("<Key>run/list/0</Key>"));
            }
        },
        "gave 1 keys instead of 5",
    );
}

#[test]
fn keys_that_a_batch_did_not_delete_are_an_error() {
    refused(
        Verb::DeleteBatch,
        |_, place, answer| {
            if place.contains("delete=") {
                let body = "<DeleteResult><Error><Code>InternalError</Code></Error></DeleteResult>";
                *answer.body_mut() = Full::new(Bytes::from(body));
            }
        },
        "did not delete all keys",
    );
}

#[test]
fn an_upload_that_fails_behind_a_good_status_is_an_error() {
    refused(
        Verb::Multipart,
        |method, place, answer| {
            if *method == Method::POST && place.contains("uploadId") {
                let body = "<Error><Code>InternalError</Code></Error>";
                *answer.body_mut() = Full::new(Bytes::from(body));
            }
        },
        "InternalError",
    );
}

#[test]
fn content_that_came_back_changed_stops_the_preparation() {
    let found = measure(Verb::Get, |method, _, answer| {
        if *method == Method::GET {
            *answer.body_mut() = Full::new(vec![0; 10_000].into());
        }
    });
    let trouble = found.expect_err("the content is wrong").to_string();
    assert!(trouble.contains("other bytes than were written"), "{trouble}");
}

#[test]
fn an_endpoint_that_nobody_serves_is_an_error() {
    let mut runner = runner(|_, _, _| ());
    runner.move_to("http://127.0.0.1:9").expect("an endpoint");
    let found = runner.round(&workload(Verb::Put), &Arc::new(Gauge::default()));
    assert!(matches!(found, Err(Trouble::Connect { .. })));
}

#[test]
fn nothing_is_left_below_the_prefix() {
    let (mut runner, gauge) = (runner(|_, _, _| ()), Arc::new(Gauge::default()));
    assert!(!runner.make_bucket().expect("it is there"));
    runner.prepare(&workload(Verb::Get), &gauge).expect("objects");
    runner.prepare(&workload(Verb::List), &gauge).expect("objects");
    assert_eq!(runner.clean().expect("they go"), 10);
    assert_eq!(runner.clean().expect("nothing is left"), 0);
}

#[test]
fn an_interrupted_round_ends_at_once() {
    let (mut runner, gauge) = (runner(|_, _, _| ()), Arc::new(Gauge::default()));
    gauge.stop();
    let long = Workload { time: Duration::from_hours(1), ..workload(Verb::Put) };
    assert!(matches!(runner.round(&long, &gauge), Err(Trouble::Stopped)));
}

#[test]
fn a_paced_round_sends_no_more_requests_than_its_rate_allows() {
    let (mut runner, gauge) = (runner(|_, _, _| ()), Arc::new(Gauge::default()));
    let time = Duration::from_millis(300);
    let paced = Workload { time, ..workload(Verb::Put) }.at_most(50);
    let round = runner.round(&paced, &gauge).expect("a round");
    // 3 clients begin at once, and each of them has 60 ms between its steps.
    assert!((3..=15).contains(&round.requests), "{round:?}");
    let slowest = round.percentile(50.0);
    assert!(slowest < Duration::from_millis(60), "a pause counts as latency: {slowest:?}");
}

#[test]
fn what_is_read_once_is_not_read_again() {
    let (mut runner, gauge) = (runner(|_, _, _| ()), Arc::new(Gauge::default()));
    runner.round(&workload(Verb::Put), &gauge).expect("a round");
    let written = runner.unread(BYTES);
    assert!(written > 3);
    let once = Workload { once: Some(written - 3), ..workload(Verb::Get) };
    // The endpoint forgets what rounds write: each key is asked for and answered 404.
    let round = runner.round(&once, &gauge).expect("a round");
    assert!(round.errors > 0 && round.samples.iter().all(|it| it.contains("404")));
    assert_eq!(runner.unread(BYTES), 3);
    assert!(runner.round(&once, &gauge).is_ok());
    assert!(matches!(runner.round(&once, &gauge), Err(Trouble::Nothing(_))));
}
