use store::StoreErrorKind;

use super::*;

fn driver(words: &str) -> Option<&'static str> {
    let words = words.to_owned();
    of_server(&StoreError::because(StoreErrorKind::Unavailable, "connecting", words))
}

#[test]
fn errors_of_drivers_get_the_remedy_for_their_cause() {
    for (words, remedy) in [
        ("Connection refused (os error 111)", ADDRESS),
        ("failed to lookup address information: Name or service not known", ADDRESS),
        ("\"NOAUTH\": HELLO must be called with the client already authenticated", CREDENTIALS),
        ("\"WRONGPASS\": invalid username-password pair or user is disabled", CREDENTIALS),
        ("Access denied for user 'me'@'localhost' (using password: NO)", CREDENTIALS),
        ("password authentication failed for user \"me\"", CREDENTIALS),
        ("role \"me\" does not exist", CREDENTIALS),
        ("error returned from database: permission denied for schema public", RIGHTS),
        ("database \"db\" does not exist", DATABASE),
        ("Unknown database 'db'", DATABASE),
        ("refused to switch database: DB index is out of range", DATABASE),
        ("invalid peer certificate: UnknownIssuer", TLS),
        ("Parse error at 0: Unexpected `72`", ANOTHER),
    ] {
        assert_eq!(driver(words), Some(remedy), "{words}");
    }
    assert_eq!(driver("something else"), None);
    let hosts = "db1:5432: it is a standby; the URL must name the primary; db2:5432: no answer \
                 within 1.5s";
    assert_eq!(driver(hosts), Some(ADDRESS));
    let hosts = "db1:5432: it is a standby; db2:5432: it is a former primary: its timeline is 1";
    assert_eq!(driver(hosts), None, "the reasons say what to do");
}

#[test]
fn a_wrong_url_and_missing_rights_are_wrong_settings() {
    let cause = |kind, doing: &str| cause_of_server(&StoreError::new(kind, doing));
    let url = "reading the URL of a PostgreSQL database: it names no user";
    assert_eq!(cause(StoreErrorKind::Unavailable, url), Cause::Settings);
    let url = "reading the URL of the metadata store: it has a fragment";
    assert_eq!(cause(StoreErrorKind::Malformed, url), Cause::Settings);
    assert_eq!(cause(StoreErrorKind::Unavailable, "connecting"), Cause::Unavailable);
    let rights = "permission denied for table ashlar_store".to_owned();
    let error = StoreError::because(StoreErrorKind::Unavailable, "opening", rights);
    assert_eq!(cause_of_server(&error), Cause::Settings);
}

#[test]
fn errors_that_name_a_setting_get_no_second_remedy() {
    let own = |doing: &str| of_server(&StoreError::new(StoreErrorKind::Unavailable, doing));
    assert_eq!(own("appendonly is not yes; --metadata-durability=relaxed accepts that"), None);
    assert_eq!(own("single_writer is neither yes nor no"), None);
    assert_eq!(own("connecting: no answer within 2s"), Some(ADDRESS));
    let silent =
        "opening: 1 of 3 Sentinels name the master, and most of them must (one: no answer)";
    assert_eq!(own(silent), Some(SENTINELS));
}

#[test]
fn a_bucket_that_answers_without_tls_gets_the_remedy_for_that() {
    let endpoint = "https://127.0.0.1:9000&region=us-east-1";
    let place = BlocksPlace::parse(&format!("s3://blocks/p?endpoint={endpoint}")).expect("a place");
    let away = |cause: &str| {
        of_blocks(
            &place,
            &BlockError::with_cause(BlockErrorKind::Unavailable, "probing", cause.to_owned()),
        )
    };
    let plain = away("received corrupt message of type InvalidContentType").expect("a remedy");
    assert!(plain.contains("endpoint=http://"), "{plain}");
    let refused = away("Connection refused (os error 111)").expect("a remedy");
    assert!(refused.contains("runs at the endpoint"), "{refused}");
}
