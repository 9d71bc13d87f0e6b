use clap::Parser as _;

use super::*;

#[derive(clap::Parser, Debug)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn engines(words: &[&str]) -> Vec<Engine> {
    let line = Line::try_parse_from([&["bench"], words].concat());
    line.expect("good options").options.engine
}

#[test]
fn sqlite_is_measured_unless_others_are_named() {
    assert_eq!(engines(&[]), [Engine::Sqlite]);
    assert_eq!(engines(&["--engine", "redis"]), [Engine::Redis]);
    assert_eq!(
        engines(&["--engine", "mysql", "--engine", "postgres"]),
        [Engine::Mysql, Engine::Postgres]
    );
}

#[test]
fn what_is_deleted_was_written_before() {
    for (name, _, verbs) in WORKLOADS {
        assert_eq!(verbs.first(), Some(&Verb::Put), "{name}");
    }
}
