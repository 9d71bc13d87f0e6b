use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{
    DefaultRetention, LegalHold, LockMode, ObjectLockConfiguration, ObjectLockHeaders, Retention,
    RetentionPeriod, bypasses_governance, requests_object_lock,
};
use crate::fields::Fields;
use crate::{Code, Fault};

const NOW: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);
const NAMESPACE: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
const MALFORMED: &str = Code::MalformedXML.message();

fn document(root: &str, inside: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} {NAMESPACE}>{inside}</{root}>")
}

fn configuration(inside: &str) -> Result<ObjectLockConfiguration, Fault> {
    ObjectLockConfiguration::parse(document("ObjectLockConfiguration", inside).as_bytes())
}

fn retention(inside: &str) -> Result<Option<Retention>, Fault> {
    Retention::parse(document("Retention", inside).as_bytes(), NOW)
}

fn legal_hold(inside: &str) -> Result<LegalHold, Fault> {
    LegalHold::parse(document("LegalHold", inside).as_bytes())
}

/// A configuration with this content of its default retention.
fn with_default(inside: &str) -> String {
    format!(
        "<ObjectLockEnabled>Enabled</ObjectLockEnabled>\
         <Rule><DefaultRetention>{inside}</DefaultRetention></Rule>"
    )
}

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn parse(list: &[(&'static str, &str)]) -> Result<ObjectLockHeaders, Fault> {
    ObjectLockHeaders::parse(Fields::new(&headers(list), &[]), NOW)
}

/// Checks the code, the message and the extra elements of a fault.
#[track_caller]
fn refused<T: std::fmt::Debug>(
    result: Result<T, Fault>,
    code: Code,
    message: &str,
    extra: &[(&'static str, &str)],
) {
    let fault = result.expect_err("must be refused");
    let shown: Vec<_> = fault.extra.iter().map(|(name, text)| (*name, text.as_str())).collect();
    assert_eq!((fault.code, &*fault.message, &*shown), (code, message, extra), "{fault}");
}

#[test]
fn s3_b10_a_configuration_round_trips() {
    let bare = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
    let read = configuration(bare).unwrap();
    assert_eq!(read, ObjectLockConfiguration { default: None });
    assert_eq!(read.to_xml(), document("ObjectLockConfiguration", bare));
    for (inside, mode, period) in [
        ("<Mode>GOVERNANCE</Mode><Days>1</Days>", LockMode::Governance, RetentionPeriod::Days(1)),
        (
            "<Mode>COMPLIANCE</Mode><Days>36500</Days>",
            LockMode::Compliance,
            RetentionPeriod::Days(36_500),
        ),
        (
            "<Mode>COMPLIANCE</Mode><Years>100</Years>",
            LockMode::Compliance,
            RetentionPeriod::Years(100),
        ),
    ] {
        let text = with_default(inside);
        let read = configuration(&text).unwrap();
        assert_eq!(read.default, Some(DefaultRetention { mode, period }));
        assert_eq!(read.to_xml(), document("ObjectLockConfiguration", &text));
    }
    let other_order = with_default("<Days>7</Days><Mode>GOVERNANCE</Mode>");
    assert!(configuration(&other_order).is_ok());
}

#[test]
fn s3_b10_invalid_configurations_are_malformed() {
    let enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
    for inside in [
        "",
        "<ObjectLockEnabled/>",
        "<ObjectLockEnabled>Disabled</ObjectLockEnabled>",
        "<ObjectLockEnabled>enabled</ObjectLockEnabled>",
        "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>",
        &format!("{enabled}{enabled}"),
        &format!("{enabled}<Rule/>"),
        &format!("{enabled}<Rule><Other/></Rule>"),
        &format!("{enabled}<Rule/><Rule/>"),
        &format!("{enabled}<Foo/>"),
        &format!("{enabled}x"),
        &with_default(""),
        &with_default("<Mode>GOVERNANCE</Mode>"),
        &with_default("<Days>1</Days>"),
        &with_default("<Mode>governance</Mode><Days>1</Days>"),
        &with_default("<Mode>abc</Mode><Days>1</Days>"),
        &with_default("<Mode/><Days>1</Days>"),
        &with_default("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>"),
        &with_default("<Mode>GOVERNANCE</Mode><Days>3</Days><Years>0</Years>"),
        &with_default("<Mode>GOVERNANCE</Mode><Days>soon</Days>"),
        &with_default("<Mode>GOVERNANCE</Mode><Days>1.5</Days>"),
        &with_default("<Mode>GOVERNANCE</Mode><Days/>"),
        &with_default("<Mode>GOVERNANCE</Mode><Years>99999999999999999999</Years>"),
        &with_default("<Mode>GOVERNANCE</Mode><Months>1</Months>"),
    ] {
        refused(configuration(inside), Code::MalformedXML, MALFORMED, &[]);
    }
    let other = document("Configuration", enabled);
    refused(ObjectLockConfiguration::parse(other.as_bytes()), Code::MalformedXML, MALFORMED, &[]);
}

#[test]
fn s3_b10_a_default_lasts_1_to_36500_days_or_1_to_100_years() {
    let short = "Default retention period must be a positive integer value.";
    let long = "Default retention period too large.";
    for (name, period, message) in [
        ("Days", "0", short),
        ("Days", "-1", short),
        ("Days", "-2147483648", short),
        ("Years", "0", short),
        ("Years", "-5", short),
        ("Days", "36501", long),
        ("Days", "999999999", long),
        ("Years", "101", long),
    ] {
        let inside = format!("<Mode>COMPLIANCE</Mode><{name}>{period}</{name}>");
        let result = configuration(&with_default(&inside));
        refused(result, Code::InvalidArgument, message, &[("ArgumentName", name)]);
    }
}

#[test]
fn s3_b10_a_year_of_a_default_has_365_days() {
    assert_eq!(RetentionPeriod::Days(1).days(), 1);
    assert_eq!(RetentionPeriod::Years(1).days(), 365);
    assert_eq!(RetentionPeriod::Years(100).days(), RetentionPeriod::Days(36_500).days());
    assert_eq!(RetentionPeriod::Years(u32::MAX).days(), u32::MAX);
}

#[test]
fn s3_b10_a_retention_round_trips() {
    let inside =
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>2026-03-01T12:00:00.001Z</RetainUntilDate>";
    let read = retention(inside).unwrap().unwrap();
    assert_eq!(
        read,
        Retention { mode: LockMode::Governance, until: NOW + Duration::milliseconds(1) }
    );
    assert_eq!(read.to_xml(), document("Retention", inside));
    for (date, until) in [
        ("2027-01-01T00:00:00Z", datetime!(2027-01-01 00:00 UTC)),
        ("2027-01-01T00:00:00", datetime!(2027-01-01 00:00 UTC)),
        ("2027-01-01T00:00:00+02:00", datetime!(2026-12-31 22:00 UTC)),
        ("2027-01-01T00:00:00.123456Z", datetime!(2027-01-01 00:00:00.123 UTC)),
        ("9999-12-31T23:59:59.999Z", datetime!(9999-12-31 23:59:59.999 UTC)),
    ] {
        let inside = format!("<RetainUntilDate>{date}</RetainUntilDate><Mode>COMPLIANCE</Mode>");
        let read = retention(&inside).unwrap().unwrap();
        assert_eq!(read, Retention { mode: LockMode::Compliance, until }, "{date}");
        assert_eq!(Retention::parse(read.to_xml().as_bytes(), NOW), Ok(Some(read)), "{date}");
    }
}

#[test]
fn s3_b10_an_empty_document_removes_the_retention() {
    assert_eq!(retention(""), Ok(None));
    assert_eq!(Retention::parse(b"<Retention/>", NOW), Ok(None));
    assert_eq!(Retention::parse(b"<Retention>\n</Retention>", NOW), Ok(None));
    // A missing document is not an empty document.
    refused(retention("GOVERNANCE"), Code::MalformedXML, MALFORMED, &[]);
    refused(Retention::parse(b"", NOW), Code::MalformedXML, MALFORMED, &[]);
}

#[test]
fn s3_b10_an_incomplete_retention_is_malformed() {
    let date = "<RetainUntilDate>2027-01-01T00:00:00Z</RetainUntilDate>";
    for inside in [
        "<Mode>GOVERNANCE</Mode>",
        date,
        "<Mode/>",
        "<Mode/><RetainUntilDate/>",
        &format!("<Mode>invalid_mode</Mode>{date}"),
        &format!("<Mode>compliance</Mode>{date}"),
        &format!("<Mode>GOVERNANCE</Mode>{date}{date}"),
        &format!("<Mode>GOVERNANCE</Mode>{date}<Foo/>"),
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>tomorrow</RetainUntilDate>",
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>2027-01-01</RetainUntilDate>",
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>9999-12-31T23:59:59-23:59</RetainUntilDate>",
    ] {
        refused(retention(inside), Code::MalformedXML, MALFORMED, &[]);
    }
}

#[test]
fn s3_b10_a_retention_must_end_in_the_future() {
    // The last one is in the past after truncation to milliseconds.
    for date in ["2026-03-01T12:00:00Z", "2020-01-01T00:00:00Z", "2026-03-01T12:00:00.0009Z"] {
        let inside = format!("<Mode>GOVERNANCE</Mode><RetainUntilDate>{date}</RetainUntilDate>");
        refused(
            retention(&inside),
            Code::InvalidArgument,
            "The retain until date must be in the future!",
            &[("ArgumentName", "RetainUntilDate"), ("ArgumentValue", date)],
        );
    }
}

#[test]
fn s3_b10_a_legal_hold_is_on_or_off() {
    for hold in [LegalHold::On, LegalHold::Off] {
        let inside = format!("<Status>{}</Status>", hold.as_str());
        assert_eq!(legal_hold(&inside), Ok(hold));
        assert_eq!(hold.to_xml(), document("LegalHold", &inside));
        assert_eq!(LegalHold::from_bool(hold.is_on()), hold);
    }
    for inside in [
        "",
        "<Status/>",
        "<Status>on</Status>",
        "<Status>True</Status>",
        "<Status>ON</Status><Status>ON</Status>",
        "<Status>ON</Status><Foo/>",
    ] {
        refused(legal_hold(inside), Code::MalformedXML, MALFORMED, &[]);
    }
    refused(LegalHold::parse(b""), Code::MalformedXML, MALFORMED, &[]);
}

#[test]
fn s3_b10_headers_set_a_retention_and_a_hold() {
    let until = datetime!(2027-01-01 00:00 UTC);
    let mode = ("x-amz-object-lock-mode", "COMPLIANCE");
    let date = ("x-amz-object-lock-retain-until-date", "2027-01-01T00:00:00Z");
    let retention = Some(Retention { mode: LockMode::Compliance, until });
    let both = parse(&[mode, date, ("x-amz-object-lock-legal-hold", "ON")]).unwrap();
    assert_eq!(both, ObjectLockHeaders { retention, legal_hold: Some(true) });
    assert!(!both.is_empty());
    let retained = parse(&[mode, date]).unwrap();
    assert_eq!(retained, ObjectLockHeaders { retention, legal_hold: None });
    let let_go = parse(&[("x-amz-object-lock-legal-hold", "OFF")]).unwrap();
    assert_eq!(let_go, ObjectLockHeaders { retention: None, legal_hold: Some(false) });
    assert!(!retained.is_empty() && !let_go.is_empty());
    for nothing in [
        parse(&[]),
        parse(&[("x-amz-object-lock-legal-hold", ""), ("x-amz-object-lock-mode", "")]),
        parse(&[("x-amz-bucket-object-lock-enabled", "true")]),
    ] {
        assert_eq!(nothing, Ok(ObjectLockHeaders::default()));
        assert!(ObjectLockHeaders::default().is_empty());
    }
}

#[test]
fn s3_b10_lock_headers_in_a_presigned_url_are_parsed() {
    let hoisted = [("x-amz-object-lock-legal-hold".to_owned(), "ON".to_owned())];
    let headers = HeaderMap::new();
    let read = ObjectLockHeaders::parse(Fields::new(&headers, &hoisted), NOW).unwrap();
    assert_eq!(read.legal_hold, Some(true));
}

#[test]
fn s3_b10_mode_and_time_must_be_sent_together() {
    let [mode, date] = ["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"];
    let why =
        "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";
    for (list, missing) in [
        (vec![(mode, "GOVERNANCE")], date),
        (vec![(mode, "GOVERNANCE"), (date, "")], date),
        (vec![(date, "2027-01-01T00:00:00Z")], mode),
        (vec![(date, "2027-01-01T00:00:00Z"), (mode, "")], mode),
    ] {
        refused(parse(&list), Code::InvalidArgument, why, &[("ArgumentName", missing)]);
    }
}

#[test]
fn s3_b10_invalid_lock_headers_are_refused() {
    let [mode, date] = ["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"];
    let future = (date, "2027-01-01T00:00:00Z");
    for value in ["abc", "governance", "Compliance", "GOVERNANCE,COMPLIANCE"] {
        refused(
            parse(&[(mode, value), future]),
            Code::InvalidArgument,
            "Unknown wormMode directive.",
            &[("ArgumentName", mode), ("ArgumentValue", value)],
        );
    }
    for value in ["abc", "2027-01-01", "Fri, 01 Jan 2027 00:00:00 GMT"] {
        refused(
            parse(&[(mode, "GOVERNANCE"), (date, value)]),
            Code::InvalidArgument,
            "The retain until date must be provided in ISO 8601 format",
            &[("ArgumentName", date), ("ArgumentValue", value)],
        );
    }
    for value in ["2026-03-01T12:00:00Z", "2025-12-25T12:00:00Z"] {
        refused(
            parse(&[(mode, "GOVERNANCE"), (date, value)]),
            Code::InvalidArgument,
            "The retain until date must be in the future!",
            &[("ArgumentName", date), ("ArgumentValue", value)],
        );
    }
    for value in ["wrong", "on", "true"] {
        let hold = "x-amz-object-lock-legal-hold";
        refused(
            parse(&[(hold, value)]),
            Code::InvalidArgument,
            "Legal Hold must be either of 'ON' or 'OFF'",
            &[("ArgumentName", hold), ("ArgumentValue", value)],
        );
    }
    let twice = parse(&[(mode, "GOVERNANCE"), (mode, "GOVERNANCE"), future]);
    assert_eq!(twice.unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn s3_b10_event_based_retention_is_not_implemented() {
    let message = Code::NotImplemented.message();
    let name = "x-amz-object-lock-event-hold";
    refused(parse(&[(name, "ON")]), Code::NotImplemented, message, &[("Header", name)]);
    for name in ["EventHold", "EventHoldDuration"] {
        let inside = format!("<Mode>GOVERNANCE</Mode><{name}>ON</{name}>");
        refused(retention(&inside), Code::NotImplemented, message, &[("Element", name)]);
    }
    let inside =
        with_default("<Mode>GOVERNANCE</Mode><DefaultEventHold><Days>1</Days></DefaultEventHold>");
    let extra = [("Element", "DefaultEventHold")];
    refused(configuration(&inside), Code::NotImplemented, message, &extra);
}

#[test]
fn s3_b10_boolean_headers_ignore_case() {
    type Read = fn(Fields<'_>) -> Result<bool, Fault>;
    let switches: [(&'static str, Read); 2] = [
        ("x-amz-bypass-governance-retention", bypasses_governance),
        ("x-amz-bucket-object-lock-enabled", requests_object_lock),
    ];
    for (name, read) in switches {
        assert_eq!(read(Fields::new(&HeaderMap::new(), &[])), Ok(false));
        for (value, expected) in
            [("true", true), ("True", true), ("TRUE", true), ("false", false), ("", false)]
        {
            assert_eq!(read(Fields::new(&headers(&[(name, value)]), &[])), Ok(expected), "{value}");
        }
        for value in ["1", "yes", "Enabled", "truest"] {
            refused(
                read(Fields::new(&headers(&[(name, value)]), &[])),
                Code::InvalidArgument,
                "Invalid Argument",
                &[("ArgumentName", name), ("ArgumentValue", value)],
            );
        }
        let twice = headers(&[(name, "true"), (name, "true")]);
        assert_eq!(read(Fields::new(&twice, &[])).unwrap_err().code, Code::InvalidArgument);
    }
}

proptest! {
    #[test]
    fn s3_s16_reading_never_panics(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = ObjectLockConfiguration::parse(&bytes);
        let _ = Retention::parse(&bytes, NOW);
        let _ = LegalHold::parse(&bytes);
        let _ = configuration(&with_default(&text));
        let _ = retention(&text);
        let date = format!("<Mode>GOVERNANCE</Mode><RetainUntilDate>{text}</RetainUntilDate>");
        let _ = retention(&date);
        let _ = legal_hold(&text);
    }

    #[test]
    fn s3_b10_each_default_retention_round_trips(
        compliance: bool,
        days in 1..=36_500_u32,
        years in 1..=100_u32,
    ) {
        let mode = if compliance { LockMode::Compliance } else { LockMode::Governance };
        for period in [RetentionPeriod::Days(days), RetentionPeriod::Years(years)] {
            let put = ObjectLockConfiguration { default: Some(DefaultRetention { mode, period }) };
            prop_assert_eq!(ObjectLockConfiguration::parse(put.to_xml().as_bytes()), Ok(put));
        }
    }
}
