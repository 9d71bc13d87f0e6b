use store::StoreErrorKind;

use super::Connector;

fn refused(url: &str) -> String {
    let error = Connector::new(url, false).expect_err(url);
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    error.to_string()
}

#[test]
fn urls_of_both_schemes_are_parsed() {
    for url in [
        "mysql://user:pass@host:3307/ashlar",
        "mariadb://host/ashlar?ssl-mode=VERIFY_CA",
        "mysql://host/ashlar?single_writer=yes",
        "mysql://host/ashlar?single_writer=no&ssl-mode=REQUIRED",
        "mysql://one,two:3307/ashlar?async_standbys=never_promoted",
    ] {
        Connector::new(url, false).expect(url);
    }
}

#[test]
fn a_connector_shows_no_user_and_no_password() {
    let connector = Connector::new("mysql://someone:secret@host/ashlar", false).expect("a URL");
    let shown = format!("{connector:?}");
    assert!(shown.contains("host") && shown.contains("ashlar"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("someone"), "{shown}");
}

#[test]
fn unusable_urls_are_refused_with_the_reason() {
    assert!(refused("host/ashlar").contains("URL"));
    assert!(refused("postgres://host/ashlar").contains("mysql://"));
    assert!(refused("mysql://host").contains("no database"));
    assert!(refused("mysql://host/ashlar?ssl-moed=REQUIRED").contains("ssl-mode"));
    assert!(refused("mysql://host/ashlar?ssl-mode=PERHAPS").contains("ssl-mode"));
    let several = refused("mysql://one,two/ashlar?single_writer=yes");
    assert!(several.contains("contradicts its list of hosts"), "{several}");
    assert!(refused("mysql://one,two/ashlar?socket=/s").contains("contradicts its list of hosts"));
    assert!(refused("mysql://one,,two/ashlar").contains("a host is empty"));
    let promoted = refused("mysql://host/ashlar?async_standbys=promoted");
    assert!(promoted.contains("async_standbys is not never_promoted"), "{promoted}");
    let perhaps = refused("mysql://host/ashlar?single_writer=perhaps");
    assert!(perhaps.contains("single_writer is neither yes nor no"), "{perhaps}");
}
