use super::{HOSTS_MAX, HostList, InvalidHosts};

fn urls(text: &str) -> Vec<String> {
    let list = HostList::parse(text).expect("a list");
    list.urls().iter().map(ToString::to_string).collect()
}

#[test]
fn each_host_gets_a_url_with_all_other_parts() {
    assert_eq!(
        urls("postgres://u:p%40@h1,h2:5433,[::1]:7/db?sslmode=require"),
        [
            "postgres://u:p%40@h1/db?sslmode=require",
            "postgres://u:p%40@h2:5433/db?sslmode=require",
            "postgres://u:p%40@[::1]:7/db?sslmode=require",
        ]
    );
    assert_eq!(urls("redis://h:6379/?prefix=a,b"), ["redis://h:6379/?prefix=a,b"]);
    assert_eq!(urls("postgres:///db?host=/run/x"), ["postgres:///db?host=/run/x"]);
}

#[test]
fn the_text_of_a_list_can_be_parsed_again() {
    for text in [
        "postgres://u:p%40@h1,h2:5433/db?sslmode=require",
        "etcd://h1:2379,h2:2379,[::1]:9/name",
        "mysql://u@h1/db",
        "postgres:///db?host=/run/x",
    ] {
        assert_eq!(HostList::parse(text).expect("a list").to_text(), text);
    }
}

#[test]
fn malformed_lists_are_refused() {
    let many: Vec<String> = (0..=HOSTS_MAX).map(|n| format!("h{n}")).collect();
    let many = format!("etcd://{}/n", many.join(","));
    for (text, why) in [
        ("postgres:u@h/db", InvalidHosts::NoUrl),
        ("postgres://u@h1:x,h2/db", InvalidHosts::NoUrl),
        ("postgres://u@h1,,h2/db", InvalidHosts::EmptyHost),
        ("postgres://u@h1,/db", InvalidHosts::EmptyHost),
        ("postgres://u@h1:1,h2,h1:1/db", InvalidHosts::Repeated),
        (&many, InvalidHosts::TooMany),
    ] {
        assert_eq!(HostList::parse(text), Err(why), "{text}");
    }
}

#[test]
fn hosts_and_debug_contain_no_secret() {
    let list = HostList::parse("etcd://u:secret@h1:1,h2/n?key=secret").expect("a list");
    assert_eq!(list.hosts(), "h1:1,h2");
    assert!(!format!("{list:?}").contains("secret"));
}

#[test]
fn a_change_applies_to_each_url() {
    let list = HostList::parse("etcd://u@h1,h2/n").expect("a list");
    let changed = list.map(|url| url.set_password(Some("p"))).expect("a password fits");
    assert_eq!(changed.to_text(), "etcd://u:p@h1,h2/n");
}
