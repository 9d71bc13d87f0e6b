use redis::Value;

use super::answer;

/// What the server sends, as the driver reads it.
fn answers(lines: &[&str]) -> Vec<Value> {
    let read = |line: &&str| redis::parse_redis_value(line.as_bytes()).expect("an answer");
    lines.iter().map(read).collect()
}

const QUEUED: &str = "+QUEUED\r\n";

fn code(lines: &[&str]) -> Option<String> {
    let error = answer(answers(lines), 1, None).expect_err("refused");
    error.code().map(str::to_owned)
}

#[test]
fn the_scripts_answer_is_taken_out() {
    let all = answers(&["+OK\r\n", QUEUED, QUEUED, QUEUED, "*3\r\n+OK\r\n:7\r\n:0\r\n"]);
    assert_eq!(answer(all, 1, None).expect("done"), Value::Int(7));
}

#[test]
fn a_script_that_fails_within_says_so() {
    let done = "*3\r\n+OK\r\n-NOSCRIPT No matching script.\r\n:1\r\n";
    assert_eq!(code(&["+OK\r\n", QUEUED, QUEUED, QUEUED, done]).as_deref(), Some("NOSCRIPT"));
}

#[test]
fn of_a_transaction_that_was_not_begun_the_first_refusal_counts() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(code(&["+OK\r\n", full, QUEUED, QUEUED, aborted]).as_deref(), Some("OOM"));
    let replica = "-READONLY You can't write against a read only replica.\r\n";
    let refused = ["+OK\r\n", replica, replica, replica, aborted];
    assert_eq!(code(&refused).as_deref(), Some("READONLY"));
    assert_eq!(code(&["+OK\r\n", QUEUED, QUEUED, QUEUED, aborted]).as_deref(), Some("EXECABORT"));
}

#[test]
fn what_is_no_answer_has_no_code() {
    for last in ["*-1\r\n", "*1\r\n+OK\r\n", "+OK\r\n"] {
        assert_eq!(code(&["+OK\r\n", QUEUED, QUEUED, QUEUED, last]), None, "{last}");
    }
}

#[test]
fn a_commit_without_its_rests_is_none() {
    let with = |set: &str, script: &str| {
        let done = format!("*4\r\n+OK\r\n{script}\r\n{set}\r\n:0\r\n");
        answer(answers(&["+OK\r\n", QUEUED, QUEUED, QUEUED, QUEUED, &done]), 1, Some(2))
    };
    assert_eq!(with(":1", ":1").expect("done"), Value::Int(1));
    assert_eq!(with(":0", "$-1").expect("not done"), Value::Nil);
    assert_eq!(with(":0", ":1").expect_err("nobody knows").code(), None);
}
