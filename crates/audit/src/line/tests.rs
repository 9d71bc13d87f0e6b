use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;
use time::OffsetDateTime;

use super::LineFormat;
use crate::entry::{AuditEntry, EntryKind, Requester};

/// The number of fields of the server access log of S3. The time is two fields for a reader that
/// splits at blanks, because its offset follows a blank.
const FIELDS: usize = 27;

fn entry() -> AuditEntry {
    AuditEntry {
        time: OffsetDateTime::from_unix_timestamp(1_549_411_238).expect("a time"),
        kind: EntryKind::S3,
        request_id: "3E57427F3".into(),
        remote: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3))),
        requester: Some(Requester {
            access_key: "AKIA".into(),
            account: "000000000001".into(),
            arn: Some("arn:aws:iam::000000000001:user/anna".into()),
            ..Requester::default()
        }),
        operation: "GetObject",
        resource: "OBJECT",
        bucket_owner: Some("79a5".into()),
        bucket: Some("photos".into()),
        key: Some("2026/a b.jpg".into()),
        version_id: Some("3HL4".into()),
        method: "GET".into(),
        target: "/photos/2026/a%20b.jpg?versionId=3HL4".into(),
        protocol: "HTTP/1.1",
        status: 200,
        bytes_in: 0,
        bytes_out: 2662,
        object_size: Some(3462),
        total: Duration::from_millis(70),
        turn_around: Duration::from_millis(10),
        referer: Some("http://www.example.com/".into()),
        user_agent: Some("curl/7.15.1".into()),
        host: Some("photos.s3.example".into()),
        signature: Some("SigV4"),
        authentication: Some("AuthHeader"),
        tls: Some("1.2"),
        cipher: Some("ECDHE-RSA-AES128-GCM-SHA256"),
        region: "us-west-1".into(),
        ..AuditEntry::default()
    }
}

/// Splits a line as readers of S3's log do: at blanks, except between quotes and between brackets.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut closing) = (Vec::new(), String::new(), None);
    for character in line.chars() {
        match (character, closing) {
            (_, Some(end)) if character == end => closing = None,
            ('"', None) if field.is_empty() => closing = Some('"'),
            ('[', None) if field.is_empty() => closing = Some(']'),
            (' ', None) => fields.push(std::mem::take(&mut field)),
            _ => field.push(character),
        }
    }
    fields.push(field);
    fields
}

#[test]
fn a_line_of_s3_has_the_fields_of_the_documentation_in_order() {
    assert_eq!(
        LineFormat::S3.line(&entry()),
        "79a5 photos [06/Feb/2019:00:00:38 +0000] 192.0.2.3 arn:aws:iam::000000000001:user/anna \
         3E57427F3 REST.GET.OBJECT 2026/a%20b.jpg \
         \"GET /photos/2026/a%20b.jpg?versionId=3HL4 HTTP/1.1\" 200 - 2662 3462 70 10 \
         \"http://www.example.com/\" \"curl/7.15.1\" 3HL4 3E57427F3 SigV4 \
         ECDHE-RSA-AES128-GCM-SHA256 AuthHeader photos.s3.example TLSv1.2 - - us-west-1"
    );
    assert_eq!(fields(&LineFormat::S3.line(&entry())).len(), FIELDS);
}

#[test]
fn unknown_fields_are_dashes() {
    let line = LineFormat::S3.line(&AuditEntry::default());
    assert_eq!(
        line,
        "- - [01/Jan/1970:00:00:00 +0000] - - - - - \"  \" 0 - - - 0 0 \"-\" \"-\" - - - - - - - - - -"
    );
}

#[test]
fn a_json_line_has_the_names_of_the_fields() {
    let line = LineFormat::Json.line(&entry());
    let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    for (name, expected) in [
        ("time", serde_json::json!("2019-02-06T00:00:38Z")),
        ("kind", serde_json::json!("s3")),
        ("remote", serde_json::json!("192.0.2.3")),
        ("operation", serde_json::json!("GetObject")),
        ("key", serde_json::json!("2026/a b.jpg")),
        ("total_us", serde_json::json!(70_000)),
        ("turn_around_us", serde_json::json!(10_000)),
    ] {
        assert_eq!(value[name], expected, "{line}");
    }
    assert_eq!(value["requester"]["access_key"], "AKIA");
    assert!(value.get("code").is_none(), "an unknown field is absent: {line}");
}

proptest! {
    /// Fields that a client chooses change no other field and add no line, in both formats.
    #[test]
    fn a_client_cannot_forge_a_line_or_a_field(
        bucket in "(?s).{0,20}",
        key in "(?s).{0,40}",
        target in "(?s).{0,40}",
        referer in "(?s)[\"\\\\\\[\\] \n\r\u{2028}a%]{0,20}",
        user_agent in "(?s).{0,40}",
        host in "(?s).{0,20}",
        method in "[!-~]{1,8}",
    ) {
        let honest = entry();
        let forged = AuditEntry {
            bucket: Some(bucket),
            key: Some(key.clone()),
            target,
            referer: Some(referer),
            user_agent: Some(user_agent),
            host: Some(host),
            method,
            ..honest.clone()
        };
        let line = LineFormat::S3.line(&forged);
        prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
        let (of_forged, of_honest) = (fields(&line), fields(&LineFormat::S3.line(&honest)));
        prop_assert_eq!(of_forged.len(), FIELDS, "{}", line);
        for index in [0, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21, 23, 24, 25, 26] {
            prop_assert_eq!(&of_forged[index], &of_honest[index], "field {} of {}", index, line);
        }
        let json = LineFormat::Json.line(&forged);
        prop_assert!(!json.bytes().any(|byte| byte < b' '), "{json:?}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        prop_assert_eq!(&value["key"], &serde_json::json!(key));
        prop_assert_eq!(&value["status"], &serde_json::json!(200));
    }
}
