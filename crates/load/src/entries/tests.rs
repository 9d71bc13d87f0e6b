use super::*;

fn entries(parent: &Path) -> SmallFiles {
    SmallFiles::make(parent, 2, 100).expect("two folders")
}

#[test]
fn every_verb_finds_what_the_ones_before_it_made() {
    let parent = tempfile::tempdir().expect("a folder");
    let (entries, gauge) = (entries(parent.path()), Gauge::default());
    for verb in EntryVerb::ALL {
        let pass = entries.pass(verb, Duration::ZERO, &gauge).expect("it works");
        assert_eq!(pass.calls, 200, "{verb}");
        assert!(pass.rate() > 0.0, "{verb}");
    }
    entries.clean().expect("nothing is left");
    assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
}

#[test]
fn a_pass_that_changes_nothing_is_repeated_until_the_time_is_over() {
    let parent = tempfile::tempdir().expect("a folder");
    let (entries, gauge, time) =
        (entries(parent.path()), Gauge::default(), Duration::from_millis(30));
    let made = entries.pass(EntryVerb::Create, time, &gauge).expect("they are made");
    assert_eq!(made.calls, 200, "each once, in any time");
    let asked = entries.pass(EntryVerb::Stat, time, &gauge).expect("they are there");
    assert!(asked.took >= time && asked.calls > 200, "{asked:?}");
}

#[test]
fn a_missing_file_fails_the_pass() {
    let parent = tempfile::tempdir().expect("a folder");
    let (entries, gauge) = (entries(parent.path()), Gauge::default());
    let found = entries.pass(EntryVerb::Stat, Duration::ZERO, &gauge).expect_err("none is made");
    assert!(found.to_string().starts_with("stat "), "{found}");
}

#[test]
fn a_stopped_pass_has_no_result() {
    let parent = tempfile::tempdir().expect("a folder");
    let (entries, gauge) = (entries(parent.path()), Gauge::default());
    gauge.stop();
    let found = entries.pass(EntryVerb::Create, Duration::ZERO, &gauge);
    assert!(matches!(found, Err(Trouble::Stopped)), "{found:?}");
}
