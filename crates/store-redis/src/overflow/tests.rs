use redis::Value;

use super::script_answer;

/// Parses the lines of a server as the driver does.
fn answers(lines: &[&str]) -> Vec<Value> {
    let read = |line: &&str| redis::parse_redis_value(line.as_bytes()).expect("an answer");
    lines.iter().map(read).collect()
}

/// Returns the answers of the server after a transaction that ran.
fn done(last: &str) -> Vec<Value> {
    answers(&["+OK\r\n", QUEUED, QUEUED, QUEUED, QUEUED, last])
}

const QUEUED: &str = "+QUEUED\r\n";

fn code(answers: Vec<Value>) -> Option<String> {
    let error = script_answer(answers).expect_err("refused");
    error.code().map(str::to_owned)
}

#[test]
fn the_answer_of_the_script_is_returned() {
    let all = done("*4\r\n+OK\r\n:7\r\n:0\r\n:0\r\n");
    assert_eq!(script_answer(all).expect("done"), Value::Int(7));
}

#[test]
fn the_error_of_a_failed_script_is_returned() {
    let all = done("*4\r\n+OK\r\n-NOSCRIPT No matching script.\r\n:0\r\n:1\r\n");
    assert_eq!(code(all).as_deref(), Some("NOSCRIPT"));
}

#[test]
fn a_transaction_that_did_not_begin_returns_the_first_refusal() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let refused = ["+OK\r\n", full, QUEUED, QUEUED, QUEUED, aborted];
    assert_eq!(code(answers(&refused)).as_deref(), Some("OOM"));
    let replica = "-READONLY You can't write against a read only replica.\r\n";
    let refused = ["+OK\r\n", replica, replica, replica, replica, aborted];
    assert_eq!(code(answers(&refused)).as_deref(), Some("READONLY"));
    assert_eq!(code(done(aborted)).as_deref(), Some("EXECABORT"));
}

#[test]
fn a_malformed_answer_has_no_code() {
    for last in ["*-1\r\n", "*1\r\n+OK\r\n", "+OK\r\n"] {
        assert_eq!(code(done(last)), None, "{last}");
    }
}

#[test]
fn a_commit_without_its_overflow_values_is_an_error() {
    let with = |set: &str, script: &str| {
        script_answer(done(&format!("*4\r\n+OK\r\n{script}\r\n{set}\r\n:0\r\n")))
    };
    assert_eq!(with(":1", ":1").expect("done"), Value::Int(1));
    assert_eq!(with(":0", "$-1").expect("not done"), Value::Nil);
    assert_eq!(with(":0", ":1").expect_err("the outcome is unknown").code(), None);
}
