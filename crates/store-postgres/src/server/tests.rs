use super::Server;
use crate::address::LOCK_TIMEOUT;

pub(crate) fn good() -> Server {
    Server {
        version: "150018".into(),
        recovery: "false".into(),
        fsync: "on".into(),
        full_page_writes: "on".into(),
        synchronous_commit: "on".into(),
        lock_timeout: LOCK_TIMEOUT.into(),
        isolation: "read committed".into(),
        started: "2026-01-01 00:00:00+00".into(),
        system: "7".into(),
        timeline: 1,
        synchronous: String::new(),
        standbys: 0,
        hidden: 0,
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
        assert!(
            Server { synchronous_commit: level.into(), ..good() }.lax(false).is_empty(),
            "{level}"
        );
    }
    let bad = [
        (Server { fsync: "off".into(), ..good() }, "fsync"),
        (Server { full_page_writes: "off".into(), ..good() }, "full_page_writes"),
        (Server { synchronous_commit: "off".into(), ..good() }, "synchronous_commit"),
        (Server { synchronous_commit: "local".into(), ..good() }, "synchronous_commit"),
    ];
    for (server, setting) in bad {
        let reasons = server.lax(false);
        assert!(reasons.len() == 1 && reasons[0].contains(setting), "{reasons:?}");
    }
}

#[test]
fn asynchronous_standbys_lose_commits_unless_they_are_never_promoted() {
    let followed = Server { standbys: 2, ..good() };
    let reasons = followed.lax(false);
    assert!(reasons.len() == 1 && reasons[0].contains("never_promoted"), "{reasons:?}");
    assert!(followed.lax(true).is_empty());
    let synchronous = Server { synchronous: "one".into(), ..followed };
    assert!(synchronous.lax(false).is_empty());
    let hidden = Server { hidden: 1, ..good() };
    assert!(hidden.hides_standbys() && hidden.lax(false).is_empty());
    assert!(!Server { synchronous: "one".into(), ..hidden }.hides_standbys());
}
