use time::macros::datetime;

use super::*;

fn entry() -> AuditEntry {
    AuditEntry {
        time: datetime!(2026-01-02 03:04:05 UTC),
        operation: "PutObject",
        method: "PUT".to_owned(),
        target: "/photos/a%20b?x-id=PutObject".to_owned(),
        protocol: "HTTP/1.1",
        status: 403,
        code: Some("AccessDenied".into()),
        bytes_in: 7,
        bytes_out: 11,
        total: Duration::from_millis(5),
        turn_around: Duration::from_millis(2),
        host: Some("127.0.0.1:9700".to_owned()),
        ..AuditEntry::default()
    }
}

fn filter(query: &str) -> Result<Filter, ApiError> {
    Filter::parse(&CallQuery::parse(query))
}

#[test]
fn document_has_the_form_of_minio() {
    let line = line(&entry());
    assert_eq!(line.last(), Some(&b'\n'));
    let document: serde_json::Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(document["type"], 4);
    assert_eq!(document["funcname"], "s3.PutObject");
    assert_eq!(document["path"], "/photos/a%20b");
    assert_eq!(document["dur"], 5_000_000);
    assert_eq!(document["error"], "AccessDenied");
    let http = &document["http"];
    assert_eq!(http["request"]["rawquery"], "x-id=PutObject");
    assert_eq!(http["request"]["headers"]["Host"][0], "127.0.0.1:9700");
    assert_eq!(http["response"]["time"], "2026-01-02T03:04:05.005Z");
    assert_eq!(http["response"]["statuscode"], 403);
    assert_eq!(http["stats"]["timetofirstbyte"], 2_000_000);
}

#[test]
fn filter_shows_what_the_client_asks_for() {
    let failed = entry();
    let succeeded = AuditEntry { status: 200, code: None, ..entry() };
    let all = filter("s3=true&err=false&threshold=0s").unwrap();
    assert!(all.shows(&failed) && all.shows(&succeeded));
    let errors = filter("s3=true&err=true").unwrap();
    assert!(errors.shows(&failed) && !errors.shows(&succeeded));
    let slow = filter("s3=true&threshold=5ms").unwrap();
    assert!(!slow.shows(&failed));
    assert!(slow.shows(&AuditEntry { total: Duration::from_millis(6), ..entry() }));
    assert!(!filter("storage=true").unwrap().shows(&failed));
    assert_eq!(filter("s3=true&threshold=soon").unwrap_err().code, "XMinioAdminInvalidArgument");
}
