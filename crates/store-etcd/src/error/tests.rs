use store::StoreErrorKind;
use tonic::Status;

use super::{Effect, kind, wants_token};

#[test]
fn a_commit_that_was_proposed_is_unknown() {
    for status in [
        Status::unavailable("etcdserver: request timed out"),
        Status::unavailable("etcdserver: leader changed"),
        Status::unavailable(
            "etcdserver: request timed out, possibly due to previous leader failure",
        ),
        Status::unavailable("etcdserver: server stopped"),
        Status::unavailable("error reading a body from connection"),
        Status::unknown("transport error"),
        Status::cancelled("operation was canceled"),
    ] {
        assert_eq!(kind(&status, Effect::Commits), StoreErrorKind::Unknown, "{status}");
        assert_eq!(kind(&status, Effect::None), StoreErrorKind::Unavailable, "{status}");
    }
}

#[test]
fn a_commit_that_was_refused_is_definite() {
    for status in [
        Status::unavailable("etcdserver: no leader"),
        Status::resource_exhausted("etcdserver: too many requests"),
        Status::invalid_argument("etcdserver: too many operations in txn request"),
        Status::invalid_argument("etcdserver: request is too large"),
        Status::unauthenticated("etcdserver: invalid auth token"),
        Status::permission_denied("etcdserver: permission denied"),
    ] {
        assert_eq!(kind(&status, Effect::Commits), StoreErrorKind::Unavailable, "{status}");
    }
    let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
    assert_eq!(kind(&full, Effect::Commits), StoreErrorKind::Full);
}

#[test]
fn an_old_token_is_renewed() {
    assert!(wants_token(&Status::unauthenticated("etcdserver: invalid auth token")));
    assert!(wants_token(&Status::invalid_argument("etcdserver: revision of auth store is old")));
    assert!(!wants_token(&Status::permission_denied("etcdserver: permission denied")));
}
