use super::super::super::options::tests::options;
use super::*;

#[test]
fn names_of_steps_differ() {
    let names: std::collections::BTreeSet<_> = Step::ALL.map(Step::name).into();
    assert_eq!(names.len(), Step::ALL.len());
}

#[test]
fn a_wanted_step_brings_the_steps_that_it_needs() {
    let picked = |words: &str| steps(&options(&["--company", "--files", "--only", words]));
    assert_eq!(picked("git status"), [Step::Unpack, Step::Commit, Step::Status]);
    assert_eq!(picked("again"), [Step::Unpack, Step::ListCold, Step::ListAgain]);
    assert_eq!(picked("rsync,unlink"), [Step::Create, Step::Unlink, Step::Sync]);
    assert_eq!(picked("nothing"), []);
    assert_eq!(steps(&options(&["--company", "--files"])), Step::ALL);
}

#[test]
fn needs_come_earlier_and_are_complete() {
    for (place, step) in Step::ALL.into_iter().enumerate() {
        for need in step.needs() {
            assert!(Step::ALL[..place].contains(need), "{need} comes before {step}");
            assert!(need.needs().iter().all(|it| step.needs().contains(it)), "{step} needs {need}");
        }
    }
}

#[test]
fn each_step_begins_at_the_other_place_and_null_runs_once() {
    use Place::{Alone, Company, Null};
    let list = Step::ListAgain;
    assert_eq!(places(0, 0, list), [Alone, Company, Null]);
    assert_eq!(places(0, 1, list), [Company, Alone, Null]);
    assert_eq!(places(1, 0, list), [Company, Alone]);
    assert_eq!(places(1, 1, list), [Alone, Company]);
    assert_eq!(places(0, 0, Step::ListCold), [Alone, Company], "null has no cold listing");
}
