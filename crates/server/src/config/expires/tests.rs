use super::*;

#[test]
fn the_end_is_a_time_from_now_a_date_or_never() {
    let now = Timestamp(10_000_000_000);
    let at = |text: &str| text.parse::<Expires>().map(|expires| expires.at(now));
    assert_eq!(at("never"), Ok(None));
    assert_eq!(at("1m"), Ok(Some(Timestamp(70_000_000_000))));
    assert_eq!(at("1970-01-01T00:00:05Z"), Ok(Some(Timestamp(5_000_000_000))));
    assert_eq!(at("9999-12-31T00:00:00Z"), Ok(Some(Timestamp(i64::MAX))));
    assert!(at("soon").is_err_and(|error| error.contains("30d")));
}
