use super::*;

#[test]
fn the_summary_of_pytest_is_its_last_line_with_counts() {
    let log = "test_a.py::test_one PASSED\n=== FAILURES ===\n\
               == 2 failed, 98 passed, 25 skipped, 1 error in 26.63s (0:00:26) ==\n";
    let (line, counts) = pytest(log).expect("there is a summary");
    assert!(line.starts_with("== 2 failed"));
    assert_eq!(counts, Counts { passed: 98, failed: 3, skipped: 25 });
}

#[test]
fn an_interrupted_pytest_run_has_no_summary() {
    assert_eq!(pytest("== test session starts ==\ntest_a.py::test_one PASSED\n"), None);
    assert_eq!(pytest("== no tests ran in 0.01s ==\n"), None);
}

#[test]
fn cargo_summaries_add_up() {
    let log = "running 2 tests\n\
        test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; 0.1s\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; 0.1s\n";
    let lines = cargo_lines(log);
    assert_eq!(lines.len(), 2);
    assert_eq!(cargo_counts(&lines), Counts { passed: 15, failed: 2, skipped: 1 });
}

#[test]
fn tests_that_did_not_end_are_named() {
    let log = "running 3 tests\ntest fast ... ok\n\
        test slow has been running for over 60 seconds\n\
        test hung has been running for over 60 seconds\ntest slow ... ok\n";
    assert_eq!(unfinished(log), "test hung did not end\n");
}

#[test]
fn the_output_of_failed_tests_is_found_in_the_log() {
    let log = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n\
        it broke\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n\n\
        running 1 test\ntest c ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
    let failures = cargo_failures(log);
    assert_eq!(failures, "failures:\n\n---- b stdout ----\nit broke\n\nfailures:\n    b\n\n");
    assert_eq!(cargo_failures("test a ... ok\ntest result: ok. 1 passed; 0 failed\n"), "");
}

#[test]
fn summaries_of_inner_runners_are_collected() {
    let log =
        "x PASSED\ntold: fsx: well\n told: not\ntold: pjdfstest: 1 failed\n== 1 passed in 1s ==";
    assert_eq!(inner_summaries(log), ["fsx: well", "pjdfstest: 1 failed"]);
}
