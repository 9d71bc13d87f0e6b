use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser as _;

use super::*;

#[derive(clap::Parser, Debug)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &[&str]) -> Result<Options, clap::Error> {
    Line::try_parse_from([&["test"], words].concat()).map(|line| line.options)
}

#[test]
fn several_engines_are_named_by_repeated_options() {
    let options = parse(&["--engine", "redis", "--engine", "sqlite"]).expect("two engines");
    assert_eq!(options.engine, [Engine::Redis, Engine::Sqlite]);
    assert!(parse(&[]).expect("nothing").engine.is_empty());
    assert!(parse(&["--engine", "oracle"]).is_err());
}

#[test]
fn the_reference_run_excludes_engines_gateways_and_files() {
    assert!(parse(&["--reference", "--engine", "redis"]).is_err());
    assert!(parse(&["--reference", "--gateway", "x"]).is_err());
    assert!(parse(&["--reference", "--files"]).is_err());
}

#[test]
fn steps_are_selected_by_whole_words() {
    let step = "clients boto3 redis-http";
    for words in ["clients", "boto3", "redis", "http", "redis-http", "boto3 redis-http", step] {
        assert!(has_words(step, words), "{words}");
        assert!(
            has_words("clients boto3 redis-https", words) != words.ends_with("http"),
            "{words}"
        );
    }
    for words in ["client", "oto3", "dis-http", "mysql", "redis-https"] {
        assert!(!has_words(step, words), "{words}");
    }
}

#[test]
fn a_full_run_excludes_the_other_kinds_of_runs() {
    assert!(parse(&["--full"]).expect("a full run").full);
    for other in ["--reference", "--files", "--external"] {
        assert!(parse(&["--full", other]).is_err(), "{other}");
    }
}

#[test]
fn a_drawn_engine_can_be_named() {
    let options = parse(&["--full", "--drawn", "mysql"]).expect("an engine");
    assert_eq!(options.drawn, Some(Engine::Mysql));
    assert!(parse(&["--drawn", "oracle"]).is_err());
    assert!(parse(&["--drawn", "mysql", "--reference"]).is_err());
}

#[test]
fn the_named_engine_is_drawn_if_it_is_wanted() {
    let drawn = |words: &[&str]| crate::test::drawn(&parse(words).expect("options"));
    assert_eq!(drawn(&["--drawn", "mysql"]).expect("it is wanted"), Engine::Mysql);
    assert_eq!(drawn(&["--engine", "redis"]).expect("the only one"), Engine::Redis);
    let refused = drawn(&["--engine", "redis", "--drawn", "mysql"]).expect_err("it is left out");
    assert!(refused.to_string().contains("--engine leaves out mysql"), "{refused}");
}

#[test]
fn jobs_take_their_places_and_results_are_in_order() {
    let (taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let jobs = [2, 1, 1, 2, 1, 1, 1, PLACES + 1, 1];
    let results = in_places(
        &jobs,
        |&places| places,
        |&places| {
            let now = taken.fetch_add(places, Ordering::SeqCst) + places;
            if places <= PLACES {
                most.fetch_max(now, Ordering::SeqCst);
            } else {
                assert_eq!(now, places, "it runs alone");
            }
            thread::sleep(Duration::from_millis(30));
            taken.fetch_sub(places, Ordering::SeqCst);
            places
        },
    );
    assert_eq!(results, jobs);
    assert_eq!(most.load(Ordering::SeqCst), PLACES, "no place is empty while jobs wait for one");
}

#[test]
#[should_panic(expected = "the job panics")]
fn a_panic_of_a_job_is_not_lost() {
    in_places(&[1, 1, 1, 1], |_| 1, |_| assert_eq!(1, 2, "the job panics"));
}
