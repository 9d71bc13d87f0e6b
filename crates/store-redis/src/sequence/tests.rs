use redis::Value;

use super::script_answers;

const QUEUED: &str = "+QUEUED\r\n";
const UNKNOWN: &str = "-NOSCRIPT No matching script.\r\n";

/// Parses the lines of a server as the driver does.
fn answers(lines: &[&str]) -> Vec<Value> {
    let read = |line: &&str| redis::parse_redis_value(line.as_bytes()).expect("an answer");
    lines.iter().map(read).collect()
}

fn done(last: &str) -> Vec<Value> {
    answers(&["+OK\r\n", QUEUED, QUEUED, QUEUED, last])
}

fn code(answers: Vec<Value>) -> Option<String> {
    script_answers(answers).expect_err("refused").code().map(str::to_owned)
}

#[test]
fn each_plan_has_its_answer_or_its_error() {
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let all = done(&format!("*3\r\n:1\r\n{oom}$-1\r\n"));
    let Value::Array(list) = script_answers(all).expect("done") else { panic!("a list") };
    assert_eq!(list[0], Value::Int(1));
    assert!(matches!(&list[1], Value::ServerError(error) if error.code() == "OOM"));
    assert_eq!(list.len(), 2);
}

#[test]
fn an_unknown_script_is_an_error_of_the_whole() {
    let all = done(&format!("*3\r\n{UNKNOWN}{UNKNOWN}$-1\r\n"));
    assert_eq!(code(all).as_deref(), Some("NOSCRIPT"));
}

#[test]
fn a_transaction_that_did_not_run_returns_the_first_refusal() {
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(code(answers(&["+OK\r\n", full, QUEUED, aborted])).as_deref(), Some("OOM"));
    assert_eq!(code(done(aborted)).as_deref(), Some("EXECABORT"));
    assert_eq!(code(done("*-1\r\n")), None);
}

#[test]
fn a_commit_without_its_entry_in_the_feed_is_an_error() {
    let failed = "*2\r\n:1\r\n-ERR failed\r\n";
    assert_eq!(code(done(failed)), None);
    assert_eq!(code(done("*0\r\n")), None);
}
