use store::StoreErrorKind;

use super::parse;

#[test]
fn a_url_names_members_and_a_store() {
    let address = parse("etcd://h1,h2:7,[::1]/box").expect("a URL");
    assert_eq!(address.members, ["http://h1:2379", "http://h2:7", "http://[::1]:2379"]);
    assert_eq!(address.name, "box");
    assert!(address.credentials.is_none() && address.tls.is_none());
    assert_eq!(parse("etcd://h").expect("a URL").name, "ashlar");
}

#[test]
fn user_and_password_are_decoded_and_not_shown() {
    let address = parse("etcd://a%40b:p%2Fw@h/?quota=8GiB").expect("a URL");
    let credentials = address.credentials.as_ref().expect("credentials");
    assert_eq!((&*credentials.name, &*credentials.password), ("a@b", "p/w"));
    assert_eq!(address.quota, 8 << 30);
    assert!(!format!("{address:?}").contains("p/w"));
}

#[test]
fn wrong_urls_are_refused_without_their_secrets() {
    for url in [
        "redis://h/",
        "etcd:h",
        "etcd:///name",
        "etcd://u@h/",
        "etcd://:secret@h/",
        "etcd://u:secret@h/a/b",
        "etcd://u:secret@h/?password=secret",
        "etcd://u:secret@h/?cacert=/tmp/x",
        "etcd://u:secret@h/?quota=0",
        "etcds://u:secret@h/?cert=/nowhere/secret-not",
        "etcd://u:secret@h:x/",
    ] {
        let error = parse(url).expect_err(url);
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{url}");
        assert!(!error.to_string().contains("secret@"), "{error}");
        assert!(!error.to_string().contains(":secret"), "{error}");
    }
}
