use proptest::prelude::*;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{acting, filtered, parse, rule};
use crate::lifecycle::{due_at, expiration_header};

const DAY: Duration = Duration::DAY;

#[test]
fn s3_b9_due_times_are_rounded_up_to_midnight() {
    for (since, days, expected) in [
        // The example of S3's user guide.
        (datetime!(2014-01-15 10:30 UTC), 3, datetime!(2014-01-19 00:00 UTC)),
        (datetime!(2014-01-15 00:00:00.000000001 UTC), 1, datetime!(2014-01-17 00:00 UTC)),
        (datetime!(2014-01-15 00:00:01 UTC), 1, datetime!(2014-01-17 00:00 UTC)),
        (datetime!(2014-01-15 23:59:59.999 UTC), 1, datetime!(2014-01-17 00:00 UTC)),
        // A period that ends at midnight needs no rounding.
        (datetime!(2014-01-15 00:00 UTC), 1, datetime!(2014-01-16 00:00 UTC)),
        // Leap years: each fourth year, except each hundredth.
        (datetime!(2024-02-28 12:00 UTC), 1, datetime!(2024-03-01 00:00 UTC)),
        (datetime!(2023-02-28 12:00 UTC), 1, datetime!(2023-03-02 00:00 UTC)),
        (datetime!(2100-02-28 12:00 UTC), 1, datetime!(2100-03-02 00:00 UTC)),
        (datetime!(2024-02-28 00:00 UTC), 366, datetime!(2025-02-28 00:00 UTC)),
        (datetime!(2023-12-31 23:00 UTC), 365, datetime!(2024-12-31 00:00 UTC)),
        // Midnight is in UTC.
        (datetime!(2026-01-01 01:00 +2), 1, datetime!(2026-01-02 00:00 UTC)),
        (datetime!(2026-01-01 23:00 -2), 1, datetime!(2026-01-04 00:00 UTC)),
        // Before 1970, too.
        (datetime!(1969-12-30 12:00 UTC), 1, datetime!(1970-01-01 00:00 UTC)),
        (datetime!(1969-12-31 12:00 UTC), 0, datetime!(1970-01-01 00:00 UTC)),
    ] {
        assert_eq!(due_at(since, days, DAY), expected, "{since} and {days} days");
    }
}

#[test]
fn s3_b9_due_times_follow_the_configured_day_length() {
    let since = datetime!(2026-01-01 00:00:07.25 UTC);
    let due = |days, seconds| due_at(since, days, Duration::seconds(seconds));
    assert_eq!(due(1, 1), datetime!(2026-01-01 00:00:09 UTC));
    assert_eq!(due(2, 5), datetime!(2026-01-01 00:00:20 UTC));
    assert_eq!(due(1, 10), datetime!(2026-01-01 00:00:20 UTC));
    let whole = datetime!(2026-01-01 00:00:07 UTC);
    assert_eq!(due_at(whole, 3, Duration::SECOND), datetime!(2026-01-01 00:00:10 UTC));
}

#[test]
fn s3_b9_a_due_time_after_the_year_9999_is_its_end() {
    let since = datetime!(2026-01-01 12:00 UTC);
    let end = datetime!(9999-12-31 23:59:59.999999999 UTC);
    assert_eq!(due_at(since, u32::MAX, DAY), end);
    assert_eq!(due_at(since, i32::MAX.unsigned_abs(), DAY), end);
    assert_eq!(due_at(since, u32::MAX, Duration::MAX), end);
    assert_eq!(due_at(datetime!(9999-12-31 12:00 UTC), 0, DAY), end);
    for no_day in [Duration::ZERO, -DAY, Duration::MIN] {
        assert!(due_at(since, 1, no_day) >= since);
    }
}

#[test]
fn s3_b9_each_action_uses_its_own_days() {
    let since = datetime!(2026-01-01 12:00 UTC);
    let rule = rule(&acting(
        "<Expiration><Days>1</Days></Expiration><NoncurrentVersionExpiration>\
         <NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration>\
         <AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation>\
         </AbortIncompleteMultipartUpload>",
    ));
    assert_eq!(rule.expires_at(since, DAY), Some(datetime!(2026-01-03 00:00 UTC)));
    assert_eq!(rule.noncurrent_expires_at(since, DAY), Some(datetime!(2026-01-04 00:00 UTC)));
    assert_eq!(rule.aborts_upload_at(since, DAY), Some(datetime!(2026-01-05 00:00 UTC)));
}

#[test]
fn s3_b9_a_date_applies_to_all_objects() {
    let rule = rule(&acting("<Expiration><Date>2026-06-01T00:00:00Z</Date></Expiration>"));
    let date = datetime!(2026-06-01 00:00 UTC);
    for written in [date - DAY, date, date + DAY] {
        assert_eq!(rule.expires_at(written, DAY), Some(date));
        assert_eq!(rule.expires_at(written, Duration::SECOND), Some(date));
        assert_eq!(rule.noncurrent_expires_at(written, DAY), None);
        assert_eq!(rule.aborts_upload_at(written, DAY), None);
    }
    let marker = super::rule(&acting(
        "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
    ));
    assert_eq!(marker.expires_at(date, DAY), None);
}

#[test]
fn s3_b9_the_earliest_due_rule_decides() {
    let with = |id: &str, prefix: &str, status: &str, action: &str| {
        format!(
            "<ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>{status}</Status>\
             {action}"
        )
    };
    let days = |days: u32| format!("<Expiration><Days>{days}</Days></Expiration>");
    let configuration = parse(&[
        &with("off", "", "Disabled", &days(1)),
        &with("slow", "", "Enabled", &days(30)),
        &with("logs", "logs/", "Enabled", &days(7)),
        &with("again", "logs/", "Enabled", &days(7)),
        &with(
            "old",
            "old/",
            "Enabled",
            "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>",
        ),
        &with(
            "marker",
            "logs/",
            "Enabled",
            "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        ),
    ])
    .unwrap();
    let written = datetime!(2026-01-01 12:00 UTC);
    let found = |key: &str| {
        let (rule, time) = configuration.next_expiration(key, 1, &[], written, DAY)?;
        Some((rule.id.as_deref()?, time))
    };
    assert_eq!(found("a"), Some(("slow", datetime!(2026-02-01 00:00 UTC))));
    assert_eq!(found("logs/a"), Some(("logs", datetime!(2026-01-09 00:00 UTC))));
    assert_eq!(found("old/a"), Some(("old", datetime!(2020-01-01 00:00 UTC))));
    let tagged = parse(&[&filtered("<Tag><Key>k</Key><Value>v</Value></Tag>")]).unwrap();
    assert_eq!(tagged.next_expiration("a", 1, &[], written, DAY), None);
    assert!(tagged.next_expiration("a", 1, &[("k".into(), "v".into())], written, DAY).is_some());
}

#[test]
fn s3_b9_the_expiration_header_has_date_and_rule_id() {
    let date = datetime!(2012-12-21 00:00 UTC);
    let header = |id: &str| expiration_header(id, date);
    assert_eq!(
        header("picture-deletion-rule"),
        "expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\", rule-id=\"picture-deletion-rule\""
    );
    for (id, shown) in [
        ("Rule for testfile.txt", "Rule for testfile.txt"),
        ("a/b:c,d;e=f", "a/b:c,d;e=f"),
        ("OWI4YzMxM2U=", "OWI4YzMxM2U="),
        ("a\"b", "a%22b"),
        ("100%", "100%25"),
        ("a+b", "a%2Bb"),
        ("a\\b", "a%5Cb"),
        ("é\r\n", "%C3%A9%0D%0A"),
    ] {
        assert!(header(id).ends_with(&format!(" rule-id=\"{shown}\"")), "{}", header(id));
    }
}

proptest! {
    #[test]
    fn s3_b9_an_action_is_due_less_than_a_day_after_its_days(
        since in -1_000_000_000_000_i64..4_000_000_000_000,
        days in 1..100_000_u32,
        seconds in 1..100_000_i64,
    ) {
        let day = Duration::seconds(seconds);
        let since = i128::from(since) * 1_000_000;
        let since = OffsetDateTime::from_unix_timestamp_nanos(since).unwrap();
        let due = due_at(since, days, day);
        prop_assert!(due >= since + day * days && due - (since + day * days) < day);
        prop_assert_eq!(due.unix_timestamp().rem_euclid(seconds), 0);
        prop_assert_eq!(due.nanosecond(), 0);
    }

    #[test]
    fn s3_b9_the_expiration_header_is_always_valid(id in any::<String>()) {
        let text = expiration_header(&id, datetime!(2026-01-01 00:00 UTC));
        prop_assert!(text.is_ascii());
        prop_assert!(http::HeaderValue::from_str(&text).is_ok());
        let shown = text.split('"').nth(3).unwrap();
        let decoded = percent_encoding::percent_decode_str(shown).decode_utf8().unwrap();
        prop_assert_eq!(decoded, id);
        prop_assert_eq!(text.matches('"').count(), 4);
    }
}
