use clap::Parser as _;

use super::*;

#[derive(clap::Parser, Debug)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Parses the words of a command line.
pub(in crate::bench) fn options(words: &[&str]) -> Options {
    Line::try_parse_from([&["bench"], words].concat()).expect("good options").options
}

#[test]
fn the_default_engine_is_sqlite() {
    let engines = |words: &[&str]| options(words).engines();
    assert_eq!(engines(&[]), [Engine::Sqlite]);
    assert_eq!(engines(&["--engine", "redis"]), [Engine::Redis]);
    assert_eq!(
        engines(&["--engine", "mysql", "--engine", "postgres"]),
        [Engine::Mysql, Engine::Postgres]
    );
}

#[test]
fn the_default_engines_of_the_file_view_are_redis_and_sqlite() {
    assert_eq!(options(&["--files"]).engines(), [Engine::Redis, Engine::Sqlite]);
    let named = options(&["--files", "--engine", "postgres"]);
    assert_eq!(named.engines(), [Engine::Postgres]);
}

#[test]
fn the_gateway_runs_relaxed_if_redis_syncs_once_a_second() {
    let settings = |words: &[&str], engine| options(words).settings(engine);
    let strict = [("ASHLAR_CACHE_MEMORY", "1GiB")];
    let relaxed = [("ASHLAR_CACHE_MEMORY", "1GiB"), ("ASHLAR_METADATA_DURABILITY", "relaxed")];
    assert_eq!(settings(&[], Engine::Redis), relaxed);
    assert_eq!(settings(&["--redis-fsync", "everysec"], Engine::Redis), relaxed);
    assert_eq!(settings(&["--redis-fsync", "always"], Engine::Redis), strict);
    assert_eq!(settings(&[], Engine::Postgres), strict, "nothing else is relaxed");
}

#[test]
fn the_default_engines_in_company_have_several_processes() {
    assert_eq!(options(&["--company"]).engines(), [Engine::Redis, Engine::Postgres]);
    assert_eq!(options(&["--company", "--files"]).engines(), [Engine::Redis]);
    assert_eq!(options(&["--company", "--engine", "mysql"]).engines(), [Engine::Mysql]);
}

#[test]
fn rounds_in_company_are_short_unless_the_user_wants_longer_ones() {
    let seconds = |words: &[&str]| options(words).time().as_secs();
    assert_eq!([seconds(&[]), seconds(&["--company"])], [5, 1]);
    assert_eq!(seconds(&["--company", "--seconds", "4"]), 4);
    assert_eq!(seconds(&["--seconds", "4", "--quick"]), 1);
}
