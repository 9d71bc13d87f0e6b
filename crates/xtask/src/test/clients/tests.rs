use super::super::steps::has_words;
use super::*;
use crate::engines::wanted as engines_wanted;

/// `postgres-http: boto3 awscli`, a line for each cell.
fn matrix(named: &[Engine], only: &[&str]) -> Vec<String> {
    let wants = |step: &str| only.is_empty() || only.iter().any(|words| has_words(step, words));
    let cells = cells(&subjects(false, &engines_wanted(named)), false, wants);
    let words = |cell: &Cell| cell.suites.iter().map(|(suite, _)| *suite).collect::<Vec<_>>();
    cells.iter().map(|cell| format!("{}: {}", cell.name(), words(cell).join(" "))).collect()
}

#[test]
fn every_engine_meets_minio_over_both_schemes() {
    let cells = cells(&subjects(false, &Engine::ALL), false, |_| true);
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
        ]
    );
    for cell in &cells {
        assert_eq!(cell.suites.len(), suites_of(&cell.name()), "{}", cell.name());
    }
    assert_eq!(engines(&cells), Engine::ALL);
}

/// How many suites a cell has when it has all that are for it.
fn suites_of(cell: &str) -> usize {
    match cell {
        "minio-http" | "folder-http" | "folder-https" => SUITES.len() - 1,
        _ => SUITES.len() - 2,
    }
}

#[test]
fn an_engine_picks_its_cells() {
    assert_eq!(matrix(&[Engine::Redis], &["boto3"]), ["redis-http: boto3", "redis-https: boto3"]);
    assert_eq!(matrix(&[Engine::Sqlite], &["restic", "mc"]).len(), 4);
}

#[test]
fn words_of_a_steps_name_pick_suites() {
    assert_eq!(matrix(&[], &["clients boto3 postgres-http"]), ["postgres-http: boto3"]);
    assert_eq!(matrix(&[], &["restic mysql-https"]), ["mysql-https: restic"]);
    assert!(matrix(&[Engine::Sqlite], &["restic mysql-https"]).is_empty());
    assert!(matrix(&[], &["rust"]).is_empty());
}

#[test]
fn a_browser_is_needed_where_its_suite_is_wanted() {
    let needs = |words: &str| {
        let cells = cells(&subjects(false, &Engine::ALL), true, |step| has_words(step, words));
        let with_one = cells.iter().filter(|cell| cell.needs_browser());
        with_one.map(Cell::name).collect::<Vec<_>>()
    };
    assert_eq!(needs("clients"), ["folder-http", "folder-https"]);
    assert_eq!(needs("browser folder-https"), ["folder-https"]);
    assert!(needs("boto3").is_empty());
}

#[test]
fn only_what_the_cells_need_is_started() {
    let some = cells(&subjects(false, &Engine::ALL), false, |step| step.contains("mc redis"));
    assert_eq!(engines(&some), [Engine::Redis]);
    let reference = cells(&subjects(true, &[]), true, |_| true);
    assert_eq!(
        reference.iter().map(Cell::name).collect::<Vec<_>>(),
        ["reference-http", "reference-https"]
    );
    assert!(reference.iter().all(|cell| cell.suites.len() == suites_of("minio-https") - 1));
    assert!(engines(&reference).is_empty());
}

#[test]
fn a_plain_run_leaves_out_what_it_would_hardly_learn_from() {
    let cells = cells(&subjects(false, &Engine::ALL), true, |_| true);
    for cell in &cells {
        let name = cell.name();
        let expected = match &*name {
            "minio-https" | "postgres-https" | "mysql-https" | "redis-https" => 1,
            "postgres-http" | "mysql-http" | "redis-http" => suites_of(&name) - 6,
            "folder-https" => suites_of(&name) - 5,
            "minio-http" => suites_of(&name) - 2,
            _ => suites_of(&name),
        };
        assert_eq!(cell.suites.len(), expected, "{name}");
    }
}
