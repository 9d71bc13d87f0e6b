//! Ranges, conditions and reads of one object.

use proptest::prelude::*;
use s3::conditions::{
    ConditionNames, ETagList, ReadPreconditions, ReadVerdict, format_http_date, parse_http_date,
};
use s3::range::{Range, Span};
use s3::request::{Fields, GetObject, GetObjectAttributes};
use s3::{Code, Fault};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::{TestRequest, refused};

const MODIFIED: OffsetDateTime = datetime!(2026-01-02 03:04:05.7 UTC);
const BEFORE: &str = "Fri, 02 Jan 2026 03:04:04 GMT";
const SAME: &str = "Fri, 02 Jan 2026 03:04:05 GMT";

fn span(header: &str, size: u64) -> Result<Option<(u64, u64)>, Code> {
    match Range::parse(header).map(|range| range.resolve(size)) {
        None | Some(Ok(None)) => Ok(None),
        Some(Ok(Some(Span { first, length, .. }))) => Ok(Some((first, length))),
        Some(Err(fault)) => Err(fault.code),
    }
}

#[test]
fn s3_r1_ranges_are_clamped() {
    assert_eq!(span("bytes=0-0", 10), Ok(Some((0, 1))));
    assert_eq!(span("bytes=2-5", 10), Ok(Some((2, 4))));
    assert_eq!(span("bytes=2-99", 10), Ok(Some((2, 8))));
    assert_eq!(span("bytes=2-18446744073709551615", 10), Ok(Some((2, 8))));
    assert_eq!(span("bytes=9-", 10), Ok(Some((9, 1))));
    assert_eq!(span("bytes=-3", 10), Ok(Some((7, 3))));
    assert_eq!(span("bytes=-99", 10), Ok(Some((0, 10))));
    assert_eq!(span("Bytes=0-1", 10), Ok(Some((0, 2))));
    let span = Range::parse("bytes=2-5").and_then(|range| range.resolve(10).ok()?).expect("a span");
    assert_eq!(span.content_range(), "bytes 2-5/10");
}

#[test]
fn s3_r1_ranges_past_the_end_are_refused() {
    for (header, size) in [
        ("bytes=10-", 10),
        ("bytes=10-11", 10),
        ("bytes=0-", 0),
        ("bytes=-0", 10),
        ("bytes=-0", 0),
        ("bytes=0-0", 0),
    ] {
        assert_eq!(span(header, size), Err(Code::InvalidRange), "{header} of {size}");
    }
    let fault = Range::From(10).resolve(10).expect_err("past the end");
    assert_eq!(fault.status(), 416);
    assert_eq!(fault.headers[0].0, "content-range");
    assert_eq!(fault.headers[0].1, "bytes */10");
    let extra = [("RangeRequested", "bytes=10-".to_owned()), ("ActualObjectSize", "10".to_owned())];
    assert_eq!(fault.extra, extra);
}

#[test]
fn s3_r1_malformed_or_several_ranges_select_the_whole_object() {
    for header in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=1-2,4-5",
        "bytes=+1-2",
        "items=0-1",
        "bytes=0x1-2",
        "bytes=1--2",
        "bytes=,",
        "bytes= -1",
        "bytes=0 -1",
        "bytes = 0-1",
        "bytes=99999999999999999999-",
    ] {
        assert_eq!(span(header, 10), Ok(None), "{header}");
    }
    assert_eq!(span("bytes=-1", 0), Ok(None), "all of an empty object");
}

#[test]
fn s3_m5_copy_ranges_are_strict() {
    assert_eq!(Range::parse_strict("bytes=0-4"), Ok(Range::Between { first: 0, last: 4 }));
    for header in ["", "0-4", "bytes=0-", "bytes=-4", "bytes=4-0", "bytes=0-4,6-7", "bytes= 0-4"] {
        refused(Range::parse_strict(header), Code::InvalidArgument);
    }
    let range = Range::Between { first: 0, last: 4 };
    assert_eq!(range.resolve_source(5).map(|span| span.length), Ok(5));
    refused(range.resolve_source(4), Code::InvalidArgument);
    refused(range.resolve_source(0), Code::InvalidArgument);
}

#[test]
fn s3_r5_preconditions_are_decided_in_the_order_of_the_rfc() {
    use ReadVerdict::{Failed, NotModified, Proceed};
    let decide = |headers: &[(&str, &str)]| {
        let request = TestRequest::new("", headers);
        ReadPreconditions::parse(request.arguments().fields)
            .expect("conditions")
            .decide("tag", MODIFIED)
    };
    let table: &[(&[(&str, &str)], ReadVerdict)] = &[
        (&[], Proceed),
        (&[("if-match", "\"tag\"")], Proceed),
        (&[("if-match", "tag")], Proceed),
        (&[("if-match", "*")], Proceed),
        (&[("if-match", "\"x\", \"tag\"")], Proceed),
        (&[("if-match", "\"x\""), ("if-match", "\"tag\"")], Proceed),
        (&[("if-match", "\"x\"")], Failed("If-Match")),
        (&[("if-match", "W/\"tag\"")], Failed("If-Match")),
        (&[("if-none-match", "\"tag\"")], NotModified),
        (&[("if-none-match", "W/\"tag\"")], NotModified),
        (&[("if-none-match", "*")], NotModified),
        (&[("if-none-match", "\"x\"")], Proceed),
        (&[("if-modified-since", SAME)], NotModified),
        (&[("if-modified-since", BEFORE)], Proceed),
        (&[("if-modified-since", "yesterday")], Proceed),
        (&[("if-unmodified-since", SAME)], Proceed),
        (&[("if-unmodified-since", BEFORE)], Failed("If-Unmodified-Since")),
        // An entity tag overrides the date of the same kind.
        (&[("if-match", "\"tag\""), ("if-unmodified-since", BEFORE)], Proceed),
        (&[("if-none-match", "\"x\""), ("if-modified-since", SAME)], Proceed),
        // A failure takes precedence over "not modified".
        (&[("if-match", "\"x\""), ("if-none-match", "\"tag\"")], Failed("If-Match")),
        (&[("if-match", "\"tag\""), ("if-none-match", "\"tag\"")], NotModified),
        (
            &[("if-unmodified-since", BEFORE), ("if-modified-since", SAME)],
            Failed("If-Unmodified-Since"),
        ),
    ];
    for (headers, expected) in table {
        assert_eq!(decide(headers), *expected, "{headers:?}");
    }
}

#[test]
fn s3_c6_copy_source_preconditions_fail_instead_of_not_modified() {
    let check =
        |name: &str, value: &str| {
            let request = TestRequest::new("", &[(name, value)]);
            ReadPreconditions::parse_for_source(request.arguments().fields)
                .expect("conditions")
                .check(&ConditionNames::COPY_SOURCE, "tag", MODIFIED)
        };
    assert_eq!(check("x-amz-copy-source-if-match", "\"tag\""), Ok(()));
    assert_eq!(check("x-amz-copy-source-if-none-match", "\"x\""), Ok(()));
    for (name, value) in [
        ("x-amz-copy-source-if-match", "\"x\""),
        ("x-amz-copy-source-if-none-match", "\"tag\""),
        ("x-amz-copy-source-if-modified-since", SAME),
        ("x-amz-copy-source-if-unmodified-since", BEFORE),
    ] {
        let fault = check(name, value).expect_err("must fail");
        assert_eq!(fault.code, Code::PreconditionFailed);
        assert_eq!(fault.extra[0].1.to_lowercase(), name);
    }
}

#[test]
fn unclear_preconditions_of_copies_and_renames_are_refused() {
    type Parse = fn(Fields<'_>) -> Result<ReadPreconditions, Fault>;
    let all: [(&str, Parse); 3] = [
        ("", ReadPreconditions::parse_for_target),
        ("x-amz-rename-source-", ReadPreconditions::parse_for_rename),
        ("x-amz-copy-source-", ReadPreconditions::parse_for_source),
    ];
    for (prefix, parse) in all {
        let read = |pairs: &[(&str, &str)]| {
            let names: Vec<_> = pairs.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
            let values = pairs.iter().map(|(_, value)| *value);
            let headers: Vec<_> = names.iter().map(String::as_str).zip(values).collect();
            parse(TestRequest::new("", &headers).arguments().fields)
        };
        for value in ["\"*\"", "*, *", "*,", "W/\"*\"", "\"a\", *", ","] {
            refused(read(&[("if-none-match", value)]), Code::NotImplemented);
        }
        refused(read(&[("if-none-match", "*"), ("if-none-match", "*")]), Code::NotImplemented);
        for name in ["if-modified-since", "if-unmodified-since"] {
            for value in ["", "yesterday", "Fri, 32 Jan 2026 03:04:05 GMT"] {
                let fault = read(&[(name, value)]).expect_err("a date that is none");
                assert_eq!(fault.code, Code::NotImplemented, "{prefix}{name}");
                assert_eq!(fault.extra, [("Header", format!("{prefix}{name}"))]);
            }
            assert!(read(&[(name, SAME)]).is_ok(), "{prefix}{name}");
        }
        // An empty `If-Match` matches no object, and an empty `If-None-Match` counts as absent.
        for empty in ["", " ", ","] {
            let verdict = read(&[("if-match", empty)]).map(|read| read.decide("tag", MODIFIED));
            assert_eq!(verdict, Ok(ReadVerdict::Failed("If-Match")), "{prefix} {empty:?}");
        }
        assert_eq!(read(&[("if-none-match", "")]), Ok(ReadPreconditions::default()), "{prefix}");
        let star = read(&[("if-none-match", "*")]).map(|read| read.if_none_match);
        assert_eq!(star, Ok(Some(ETagList::Any)), "{prefix}");
        let listed = read(&[("if-none-match", "\"x\", W/\"y\""), ("if-match", "\"tag\"")]);
        let verdict = listed.map(|read| read.decide("tag", MODIFIED));
        assert_eq!(verdict, Ok(ReadVerdict::Proceed), "{prefix}");
    }
}

#[test]
fn http_dates_are_read_and_written() {
    assert_eq!(format_http_date(MODIFIED), SAME);
    assert_eq!(parse_http_date(SAME), Some(datetime!(2026-01-02 03:04:05 UTC)));
    assert_eq!(
        parse_http_date("Fri Jan  2 03:04:05 2026"),
        Some(datetime!(2026-01-02 03:04:05 UTC))
    );
    assert_eq!(parse_http_date("Fri, 32 Jan 2026 03:04:05 GMT"), None);
}

#[test]
fn each_day_of_a_leap_year_is_written_as_it_is_read() {
    let first = datetime!(2028-01-01 00:00:00 UTC);
    for day in 0..366 {
        let at = first + Duration::days(day) + Duration::seconds(day * 235);
        assert_eq!(parse_http_date(&format_http_date(at)), Some(at), "day {day}");
    }
}

fn get(query: &str, headers: &[(&str, &str)]) -> Result<GetObject, s3::Fault> {
    GetObject::parse(&TestRequest::new(query, headers).arguments())
}

#[test]
fn s3_r11_part_and_range_exclude_each_other() {
    assert_eq!(
        get("partNumber=3", &[]).expect("a part").part.map(s3::request::PartNumber::get),
        Some(3)
    );
    refused(get("partNumber=3", &[("range", "bytes=0-1")]), Code::InvalidRequest);
    for number in ["0", "10001", "-1", "+1", "", "x", "99999999999"] {
        let query = format!("partNumber={}", number.replace('+', "%2B"));
        refused(get(&query, &[]), Code::InvalidArgument);
    }
}

#[test]
fn s3_r1_repeated_range_headers_select_the_whole_object() {
    assert_eq!(get("", &[("range", "bytes=0-1"), ("range", "bytes=3-4")]).unwrap().range, None);
}

#[test]
fn if_range_ignores_the_range_of_another_version() {
    let range = |value: &str| {
        get("", &[("range", "bytes=1-"), ("if-range", value)]).unwrap().range_for("tag", MODIFIED)
    };
    assert_eq!(range("\"tag\""), Some(Range::From(1)));
    assert_eq!(range(SAME), Some(Range::From(1)));
    for other in ["\"x\"", "W/\"tag\"", BEFORE, "junk", "\""] {
        assert_eq!(range(other), None, "{other}");
    }
}

#[test]
fn s3_r7_overrides_need_a_signature() {
    let query = "response-content-type=text%2Fplain&response-expires=0";
    let overrides = get(query, &[]).expect("signed").overrides;
    let expected = [("content-type", "text/plain".to_owned()), ("expires", "0".to_owned())];
    assert_eq!(overrides, expected);
    let anonymous = TestRequest { anonymous: true, ..TestRequest::new(query, &[]) };
    refused(GetObject::parse(&anonymous.arguments()), Code::InvalidRequest);
}

#[test]
fn s3_s18_overrides_with_control_characters_are_refused() {
    for value in ["a%0D%0Ab", "a%0Ab", "%00", "%7F"] {
        let query = format!("response-content-disposition={value}");
        refused(get(&query, &[]), Code::InvalidArgument);
    }
}

#[test]
fn s3_r12_attributes_must_be_named() {
    let parse =
        |list: &[(&str, &str)]| GetObjectAttributes::parse(&TestRequest::new("", list).arguments());
    let name = "x-amz-object-attributes";
    assert_eq!(
        parse(&[(name, "ETag, ObjectSize"), (name, "Checksum")]).unwrap().attributes.len(),
        3
    );
    refused(parse(&[]), Code::InvalidRequest);
    refused(parse(&[(name, " , ")]), Code::InvalidRequest);
    let fault = parse(&[(name, "ETag,Colour")]).unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
    assert_eq!(fault.extra[1], ("ArgumentValue", "Colour".to_owned()));
}

proptest! {
    #[test]
    fn s3_r1_spans_are_within_the_object(first: u64, last: u64, size: u64, form in 0..3) {
        let range = match form {
            0 => Range::Between { first: first.min(last), last: first.max(last) },
            1 => Range::From(first),
            _ => Range::Last(first),
        };
        prop_assert_eq!(Range::parse(&range.to_string()), Some(range));
        if let Ok(Some(span)) = range.resolve(size) {
            prop_assert!(span.length > 0);
            prop_assert!(span.last() < size);
        }
    }

    #[test]
    fn s3_s16_range_and_conditions_never_panic(text in any::<String>(), tags in "[W/\"*, a]{0,20}") {
        let _ = Range::parse(&text).map(|range| range.resolve(7));
        let _ = Range::parse_strict(&text);
        let _ = parse_http_date(&text);
        for list in [&text, &tags] {
            let _ = ETagList::parse(list).matches("a");
        }
    }

    #[test]
    fn dates_round_trip_through_headers(seconds in 0_i64..4_000_000_000) {
        let time = OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        prop_assert_eq!(parse_http_date(&format_http_date(time)), Some(time));
    }
}
