use redis::{RedisError, ServerError, Value};
use store::StoreErrorKind::{Corrupt, Full, Unavailable, Unknown};

use super::{Effect, is_answer, kind};

/// Returns the driver's error for a line of the server.
fn answered(line: &str) -> RedisError {
    let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an answer");
    let Value::ServerError(error) = answer else { panic!("{line} is no error") };
    ServerError::into(error)
}

#[test]
fn damage_is_reported_before_the_first_change() {
    let error =
        answered("DAMAGED a long record has lost its overflow value script: 0, on @user_script:1.");
    for effect in [Effect::None, Effect::Commits] {
        assert_eq!(kind(&error, effect), Corrupt);
    }
    assert!(is_answer(&error));
}

#[test]
fn answers_from_before_the_first_change_are_definite() {
    let definite = [
        "NOSCRIPT No matching script. Please use EVAL.",
        "EXECABORT Transaction discarded because of previous errors.",
        "BUSY Redis is busy running a script.",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "MISCONF Errors writing to the AOF file: Input/output error",
        "MASTERDOWN Link with MASTER is down",
        "CLUSTERDOWN The cluster is down",
    ];
    for line in definite {
        let error = answered(line);
        assert!(is_answer(&error), "{line}");
        assert_eq!(kind(&error, Effect::Commits), Unavailable, "{line}");
        assert_eq!(kind(&error, Effect::None), Unavailable, "{line}");
    }
}

#[test]
fn a_server_out_of_memory_or_disk_is_full() {
    for line in [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "EXECABORT Transaction discarded because of: OOM command not allowed",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "MISCONF Errors writing to the AOF file: Disk quota exceeded",
    ] {
        let error = answered(line);
        assert!(is_answer(&error), "{line}");
        assert_eq!(kind(&error, Effect::Commits), Full, "{line}");
        assert_eq!(kind(&error, Effect::None), Full, "{line}");
    }
}

#[test]
fn errors_from_the_middle_of_a_script_are_not_definite() {
    for line in ["ERR unknown", "NOPERM this user has no permissions", "WRONGTYPE Operation"] {
        assert_eq!(kind(&answered(line), Effect::Commits), Unknown, "{line}");
    }
    assert_eq!(kind(&answered("WRONGTYPE Operation"), Effect::None), Corrupt);
}

#[test]
fn a_missing_answer_makes_a_commit_unknown_and_ends_the_connection() {
    for cause in [std::io::ErrorKind::TimedOut, std::io::ErrorKind::ConnectionReset] {
        let error = RedisError::from(std::io::Error::from(cause));
        assert!(!is_answer(&error));
        assert_eq!(kind(&error, Effect::Commits), Unknown);
        assert_eq!(kind(&error, Effect::None), Unavailable);
    }
}
