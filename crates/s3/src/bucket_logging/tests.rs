use time::macros::datetime;

use super::{LogKeyFormat, LogSource, LoggingEnabled, PartitionDate};
use crate::{Code, Fault};

const SOURCE: LogSource<'_> =
    LogSource { account: "000000000001", region: "us-east-1", bucket: "photos" };

fn parse(inside: &str) -> Result<Option<LoggingEnabled>, Fault> {
    let document = format!("<BucketLoggingStatus>{inside}</BucketLoggingStatus>");
    LoggingEnabled::parse(document.as_bytes())
}

/// A configuration with this prefix and these further elements.
fn enabled(prefix: &str, more: &str) -> Result<LoggingEnabled, Fault> {
    let parsed = parse(&format!(
        "<LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>{prefix}</TargetPrefix>{more}</LoggingEnabled>"
    ));
    parsed.map(|enabled| enabled.expect("it is enabled"))
}

fn partitioned(date: &str) -> String {
    format!(
        "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>{date}</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat>"
    )
}

#[test]
fn keys_have_the_form_that_the_configuration_names() {
    let time = datetime!(2026-03-01 12:34:56.789 +1);
    let simple = enabled("a/", "").unwrap();
    assert_eq!(simple.key(&SOURCE, time, 10), "a/2026-03-01-11-34-56-000000000000000A");
    let by_delivery = enabled("a/", &partitioned("DeliveryTime")).unwrap();
    assert_eq!(
        by_delivery.key(&SOURCE, time, u64::MAX),
        "a/000000000001/us-east-1/photos/2026/03/01/2026-03-01-11-34-56-FFFFFFFFFFFFFFFF"
    );
    // The date of the event has no time of day.
    let by_event = enabled("", &partitioned("EventTime")).unwrap();
    assert_eq!(
        by_event.key(&SOURCE, time, 0),
        "000000000001/us-east-1/photos/2026/03/01/2026-03-01-00-00-00-0000000000000000"
    );
    assert!(by_event.is_by_day() && !by_delivery.is_by_day() && !simple.is_by_day());
}

#[test]
fn a_document_survives_its_own_form() {
    for format in [
        None,
        Some(LogKeyFormat::Simple),
        Some(LogKeyFormat::Partitioned(PartitionDate::Event)),
        Some(LogKeyFormat::Partitioned(PartitionDate::Delivery)),
    ] {
        let enabled = LoggingEnabled { key_format: format, ..enabled(" a&amp;b ", "").unwrap() };
        assert_eq!(enabled.prefix, " a&b ");
        let again = LoggingEnabled::parse(enabled.to_xml().as_bytes()).unwrap();
        assert_eq!(again.as_ref(), Some(&enabled));
    }
    assert_eq!(parse("").unwrap(), None);
}

#[test]
fn wrong_documents_are_refused() {
    let malformed = [
        parse("<Other/>").map(drop),
        parse("<LoggingEnabled/>").map(drop),
        parse("<LoggingEnabled><TargetBucket>logs</TargetBucket></LoggingEnabled>").map(drop),
        parse("<LoggingEnabled><TargetPrefix>a</TargetPrefix></LoggingEnabled>").map(drop),
        enabled("", "<LoggingType>Journal</LoggingType>").map(drop),
        enabled("", &partitioned("kaboom")).map(drop),
        enabled("", "<TargetObjectKeyFormat/>").map(drop),
        enabled(
            "",
            "<TargetObjectKeyFormat><SimplePrefix/><PartitionedPrefix/></TargetObjectKeyFormat>",
        )
        .map(drop),
    ];
    for (index, result) in malformed.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().code, Code::MalformedXML, "{index}");
    }
    let code = |result: Result<LoggingEnabled, Fault>| result.unwrap_err().code;
    assert_eq!(code(enabled(&"x".repeat(1_000), "")), Code::KeyTooLongError);
    let grants = "<TargetGrants><Grant/></TargetGrants>";
    assert_eq!(code(enabled("", grants)), Code::NotImplemented);
    assert!(enabled("", "<TargetGrants/>").is_ok());
    let bad =
        parse("<LoggingEnabled><TargetBucket>A</TargetBucket><TargetPrefix/></LoggingEnabled>");
    assert_eq!(bad.unwrap_err().code, Code::InvalidTargetBucketForLogging);
}
