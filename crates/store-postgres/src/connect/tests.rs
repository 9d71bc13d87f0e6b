use store::StoreErrorKind;

use super::{Connector, LOCK_TIMEOUT, Server, parse};

const SECRET: &str = "hush-3b1f";

#[test]
fn no_message_contains_the_password() {
    let url = format!("postgres://someone:{SECRET}@somewhere:5433/things");
    let connector = Connector::new(&url, false).expect("a URL");
    assert_eq!(connector.name(), "somewhere:5433/things");
    assert!(!format!("{connector:?}").contains(SECRET));
    for url in [
        format!("postgres://someone:{SECRET}@somewhere/"),
        format!("postgres://:{SECRET}@somewhere/things"),
        format!("postgres://someone:{SECRET}@somewhere:port/things"),
        format!("postgres://someone:{SECRET}@somewhere/things?sslmode={SECRET}"),
        format!("postgres://someone@somewhere/things?pasword={SECRET}"),
        format!("mysql://someone:{SECRET}@somewhere/things"),
        SECRET.to_owned(),
    ] {
        let error = Connector::new(&url, false).expect_err("it is no URL of ours");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_url_has_user_host_and_database() {
    let accepted = [
        "postgres://me@here/it",
        "postgresql://me:pw@[::1]:6000/it?sslmode=verify-full&sslrootcert=/ca.pem",
        "postgres://me@here/it?options[search_path]=one&application_name=x",
        "postgres:///?user=me&dbname=it&host=/run/postgresql",
    ];
    for url in accepted {
        parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    }
    for url in ["postgres://here/it", "postgres://me@here", "postgres:///it?user=me"] {
        parse(url).expect_err(url);
    }
    let (options, name) = parse("postgres://me@here/it").expect("a URL");
    assert_eq!(name, "here:5432/it");
    assert!(options.get_options().expect("settings").contains("plan_cache_mode"));
}

fn good() -> Server {
    Server {
        version: "150018".into(),
        recovery: "false".into(),
        fsync: "on".into(),
        full_page_writes: "on".into(),
        synchronous_commit: "on".into(),
        lock_timeout: LOCK_TIMEOUT.into(),
        isolation: "read committed".into(),
        started: "2026-01-01 00:00:00+00".into(),
    }
}

#[test]
fn a_server_must_be_a_primary_that_takes_session_settings() {
    assert_eq!(good().refused(), None);
    let bad = [
        Server { version: "140011".into(), ..good() },
        Server { recovery: "true".into(), ..good() },
        Server { lock_timeout: "0".into(), ..good() },
        Server { isolation: "serializable".into(), ..good() },
    ];
    for server in bad {
        assert!(server.refused().is_some(), "{server:?}");
    }
}

#[test]
fn settings_that_lose_commits_are_named() {
    for level in ["on", "remote_apply", "remote_write"] {
        assert!(Server { synchronous_commit: level.into(), ..good() }.lax().is_empty(), "{level}");
    }
    let bad = [
        (Server { fsync: "off".into(), ..good() }, "fsync"),
        (Server { full_page_writes: "off".into(), ..good() }, "full_page_writes"),
        (Server { synchronous_commit: "off".into(), ..good() }, "synchronous_commit"),
        (Server { synchronous_commit: "local".into(), ..good() }, "synchronous_commit"),
    ];
    for (server, setting) in bad {
        let reasons = server.lax();
        assert!(reasons.len() == 1 && reasons[0].contains(setting), "{reasons:?}");
    }
}
