use super::*;

fn names(cells: &[Cell]) -> Vec<String> {
    cells.iter().map(Cell::name).collect()
}

#[test]
fn a_plain_run_takes_most_suites_to_one_engine() {
    let cells = cells(&Engine::ALL, Some(Engine::Sqlite), false, |_| true);
    assert_eq!(names(&cells), ["mount-folder", "mount-postgres"]);
    let left_out: Vec<_> = SUITES.iter().filter(|it| !cells[0].suites.contains(it)).collect();
    assert_eq!(left_out, SUITES_OF_MINUTES.iter().collect::<Vec<_>>());
    assert!(cells[1..].iter().all(|cell| cell.suites == SUITES_ON_TWO_ENGINES && !cell.whole));
}

#[test]
fn a_plain_run_takes_some_suites_to_the_drawn_engine_alone() {
    let cells = cells(&Engine::ALL, Some(Engine::Mysql), false, |_| true);
    for cell in &cells {
        let more = SUITES_ON_THE_DRAWN_ENGINE.iter().filter(|suite| cell.suites.contains(suite));
        let expected = if cell.engine == Engine::Mysql { 3 } else { 0 };
        assert_eq!(more.count(), expected, "{}", cell.name());
    }
}

#[test]
fn a_plain_run_compares_the_views_on_the_drawn_engine_and_the_next_one() {
    let cells = cells(&Engine::ALL, Some(Engine::Redis), false, |_| true);
    assert_eq!(names(&cells), ["mount-folder", "mount-redis", "mount-etcd"]);
    for cell in &cells {
        assert!(SUITES_ON_TWO_ENGINES.iter().all(|suite| cell.suites.contains(suite)));
    }
}

#[test]
fn a_whole_run_takes_the_short_form_on_mariadb_only() {
    let cells = cells(&Engine::ALL, None, true, |_| true);
    assert!(cells.iter().all(|cell| cell.suites == SUITES));
    let short: Vec<_> = cells.iter().filter(|cell| !cell.whole).map(Cell::name).collect();
    assert_eq!(short, ["mount-mysql"]);
}

#[test]
fn a_step_is_selected_by_its_suite_and_cell() {
    let cells = cells(&Engine::ALL, None, false, |step| step == "files git mount-redis");
    assert_eq!(names(&cells), ["mount-redis"]);
    assert_eq!(cells[0].suites, ["git"]);
}

#[test]
fn each_suite_has_a_file_and_each_file_is_a_suite() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/files");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the suites") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let suite = name.strip_prefix("test_").and_then(|it| it.strip_suffix(".py"));
        found.extend(suite.map(str::to_owned));
    }
    // A suite may have several files: `test_views.py` and `test_views_versions.py` are one.
    let is_further = |file: &String| {
        SUITES.iter().any(|suite| file.strip_prefix(suite).is_some_and(|it| it.starts_with('_')))
    };
    found.retain(|file| !is_further(file));
    found.sort();
    let mut suites = SUITES;
    suites.sort_unstable();
    assert_eq!(found, suites);
}
