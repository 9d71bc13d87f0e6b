use adminapi::resources::jobs::{JobArgument, JobCount};

use super::*;

pub(super) fn job(state: &str) -> JobJson {
    let count = |name: &str, count| JobCount { name: name.to_owned(), count };
    JobJson {
        number: "7".to_owned(),
        kind: "fork".to_owned(),
        arguments: vec![JobArgument { name: "source".to_owned(), value: "photos".to_owned() }],
        state: state.to_owned(),
        user: "anna".to_owned(),
        place: "host:1".to_owned(),
        began: "2026-01-02T03:04:05Z".to_owned(),
        changed: "2026-01-02T03:04:07Z".to_owned(),
        progress: vec![count("objects", 1_000), count("bytes", 2 << 20)],
        message: String::new(),
        lines: Vec::new(),
        has_more_lines: false,
    }
}

#[test]
fn the_end_of_a_job_decides_the_exit_status() {
    assert_eq!(outcome(&job("done")), Ok(Outcome::Success));
    let found = |kind: &str| {
        let lines = vec!["a block is missing".to_owned()];
        outcome(&JobJson { kind: kind.to_owned(), lines, ..job("done") })
    };
    assert_eq!(found("fsck"), Ok(Outcome::Findings));
    assert_eq!(found("gc"), Ok(Outcome::Success), "the lines of other kinds are no findings");
    for state in ["failed", "stopped", "interrupted"] {
        let problem = outcome(&job(state)).expect_err("it is not complete").to_string();
        assert_eq!(problem, format!("cannot complete the job 7: it is {state}"));
    }
    let message = "The source has gone.".to_owned();
    let problem = outcome(&JobJson { message, ..job("failed") }).expect_err("it failed");
    assert_eq!(problem.to_string(), "cannot complete the job 7: The source has gone");
}
