use super::super::steps::has_words;
use super::*;
use crate::engines::wanted as engines_wanted;

/// Returns a line for each cell, such as `postgres-http: boto3 awscli`.
fn matrix(named: &[Engine], only: &[&str]) -> Vec<String> {
    let wants = |step: &str| only.is_empty() || only.iter().any(|words| has_words(step, words));
    let cells = cells(&subjects(false, &engines_wanted(named)), Breadth::Every, wants);
    let words = |cell: &Cell| cell.suites.iter().map(|(suite, _)| *suite).collect::<Vec<_>>();
    cells.iter().map(|cell| format!("{}: {}", cell.name(), words(cell).join(" "))).collect()
}

#[test]
fn every_engine_has_cells_with_minio_over_both_schemes() {
    let cells = cells(&subjects(false, &Engine::ALL), Breadth::Every, |_| true);
    let names: Vec<String> = cells.iter().map(Cell::name).collect();
    assert_eq!(
        names,
        [
            "folder-http",
            "folder-https",
            "minio-http",
            "minio-https",
            "postgres-http",
            "postgres-https",
            "mysql-http",
            "mysql-https",
            "redis-http",
            "redis-https",
            "etcd-http",
            "etcd-https",
        ]
    );
    for cell in &cells {
        assert_eq!(cell.suites.len(), suites_of(&cell.name()), "{}", cell.name());
    }
    assert_eq!(engines(&cells), Engine::ALL);
}

/// The cells of a plain run over all engines.
fn plain(drawn: Engine, wants: impl Fn(&str) -> bool) -> Vec<Cell> {
    cells(&subjects(false, &Engine::ALL), Breadth::Plain(drawn), wants)
}

impl Cell {
    fn suite_names(&self) -> impl Iterator<Item = &'static str> {
        self.suites.iter().map(|(suite, _)| *suite)
    }
}

/// Returns the number of suites that make sense in a cell.
fn suites_of(cell: &str) -> usize {
    match cell {
        "folder-http" => SUITES.len() - 1,
        "folder-https" => SUITES.len() - 2,
        "minio-http" => SUITES.len() - 3,
        _ => SUITES.len() - 4,
    }
}

#[test]
fn an_engine_selects_its_cells() {
    assert_eq!(matrix(&[Engine::Redis], &["boto3"]), ["redis-http: boto3", "redis-https: boto3"]);
    assert_eq!(matrix(&[Engine::Sqlite], &["restic", "mc"]).len(), 4);
}

#[test]
fn words_of_a_step_name_select_suites() {
    assert_eq!(matrix(&[], &["clients boto3 postgres-http"]), ["postgres-http: boto3"]);
    assert_eq!(matrix(&[], &["restic mysql-https"]), ["mysql-https: restic"]);
    assert!(matrix(&[Engine::Sqlite], &["restic mysql-https"]).is_empty());
    assert!(matrix(&[], &["rust"]).is_empty());
}

#[test]
fn a_browser_is_needed_if_its_suite_is_wanted() {
    let needs = |words: &str| {
        let cells = plain(Engine::Redis, |step| has_words(step, words));
        let with_one = cells.iter().filter(|cell| cell.needs_browser());
        with_one.map(Cell::name).collect::<Vec<_>>()
    };
    assert_eq!(needs("clients"), ["folder-http", "folder-https"]);
    assert_eq!(needs("browser folder-https"), ["folder-https"]);
    assert_eq!(needs("console folder-http"), ["folder-http"]);
    assert!(needs("boto3").is_empty());
}

#[test]
fn only_engines_of_wanted_cells_are_started() {
    let some =
        cells(&subjects(false, &Engine::ALL), Breadth::Every, |step| step.contains("mc redis"));
    assert_eq!(engines(&some), [Engine::Redis]);
    let reference = cells(&subjects(true, &[]), Breadth::Plain(Engine::Sqlite), |_| true);
    assert_eq!(
        reference.iter().map(Cell::name).collect::<Vec<_>>(),
        ["reference-http", "reference-https"]
    );
    assert!(reference.iter().all(|cell| cell.suites.len() == suites_of("minio-https") - 3));
    assert!(engines(&reference).is_empty());
}

#[test]
fn a_plain_run_takes_every_suite_over_http_once_and_boto3_on_two_engines() {
    for drawn in Engine::ALL {
        let cells = plain(drawn, |_| true);
        let over_http = cells.iter().filter(|cell| !cell.tls);
        let mut taken: Vec<_> = over_http.flat_map(Cell::suite_names).collect();
        let mut all: Vec<_> = SUITES.iter().map(|(suite, _)| *suite).collect();
        all.extend(SUITES_ON_A_SERVER);
        taken.sort_unstable();
        all.sort_unstable();
        assert_eq!(taken, all, "{drawn:?}");
    }
}

#[test]
fn files_that_a_plain_run_leaves_out_exist_and_run_on_sqlite_over_http() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
    for name in FILES_ON_ONE_ENGINE.into_iter().chain(FILES_OVER_HTTP) {
        assert!(folder.join(name).is_file(), "{name}");
    }
    for cell in plain(Engine::Redis, |_| true) {
        assert!(!cell.left_out.is_empty(), "{}", cell.name());
    }
}

#[test]
fn each_file_of_a_suite_on_a_folder_and_boto3_over_https_have_a_turn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
    let mut over_https = 0;
    for file in CONSOLE_FILES_IN_TURN.concat() {
        assert!(folder.join(file).is_file(), "{file}");
        let takes = |drawn: &Engine| {
            let cells = plain(*drawn, |_| true);
            let cell = cells.iter().find(|cell| cell.name() == "folder-http");
            !cell.expect("each run has it").left_out.contains(&file)
        };
        let turns = Engine::ALL.iter().filter(|drawn| takes(drawn)).count();
        assert!((2..=3).contains(&turns), "{file} runs on {turns} of five days");
    }
    for drawn in Engine::ALL {
        let cells = plain(drawn, |_| true);
        let cell =
            cells.iter().find(|cell| cell.name() == "folder-https").expect("each run has it");
        over_https += usize::from(cell.suite_names().any(|suite| suite == "boto3"));
    }
    assert_eq!(over_https, 2);
}

#[test]
fn a_plain_run_takes_suites_of_other_clients_on_the_drawn_engine_alone() {
    let suites = |drawn: Engine, name: &str| {
        let cells = plain(drawn, |_| true);
        let cell = cells.iter().find(|cell| cell.name() == name);
        cell.map(|cell| cell.suite_names().collect::<Vec<_>>()).unwrap_or_default()
    };
    assert!(suites(Engine::Redis, "mysql-http").is_empty());
    assert!(suites(Engine::Mysql, "redis-http").is_empty());
    assert_eq!(suites(Engine::Sqlite, "redis-http"), SUITES_ON_A_SERVER);
    assert_eq!(suites(Engine::Mysql, "minio-http"), [COLUMNAR]);
    for (drawn, cell, more) in
        [(Engine::Mysql, "mysql-http", "boto3"), (Engine::Sqlite, "minio-http", COLUMNAR)]
    {
        let taken = suites(drawn, cell);
        let wanted = [&SUITES_ON_THE_DRAWN_ENGINE[..], &[more]].concat();
        assert!(wanted.iter().all(|suite| taken.contains(suite)), "{taken:?}");
        assert_eq!(taken.len(), wanted.len());
    }
    assert_eq!(suites(Engine::Redis, "folder-https"), SUITES_OVER_HTTPS);
    assert!(suites(Engine::Redis, "redis-https").is_empty());
}
