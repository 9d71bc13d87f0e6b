use super::*;

#[test]
fn no_name_selects_all_engines() {
    assert_eq!(wanted(&[]), Engine::ALL);
    assert_eq!(
        wanted(&[Engine::Redis, Engine::Sqlite, Engine::Redis]),
        [Engine::Sqlite, Engine::Redis]
    );
}

#[test]
fn crates_whose_server_is_absent_are_left_out() {
    assert!(crates_without_servers(&Engine::ALL).is_empty());
    assert_eq!(
        crates_without_servers(&[Engine::Postgres, Engine::Mysql, Engine::Redis, Engine::Etcd]),
        ["store-sqlite"]
    );
    assert_eq!(
        crates_without_servers(&[Engine::Sqlite, Engine::Redis]),
        ["store-postgres", "store-mysql", "store-etcd", "databases"]
    );
}

#[test]
fn sqlite_needs_no_server() {
    let mut databases = Databases::default();
    databases.start(Engine::Sqlite).expect("nothing to start");
    assert!(databases.variables().is_empty());
    let place = databases.fresh(Engine::Sqlite, Path::new("/x"), "a").expect("a file");
    assert_eq!(place, "sqlite:/x/meta.sqlite");
    assert!(databases.fresh(Engine::Redis, Path::new("/x"), "a").is_err());
    assert!(missing_packages(&[Engine::Sqlite]).is_empty());
    assert!(missing_cluster_packages(&[Engine::Sqlite]).is_empty());
}

#[test]
fn a_panic_becomes_an_error_with_its_text() {
    let failed = catch_panic(|| panic!("port {} is taken", 1)).expect_err("it panics");
    assert_eq!(failed.to_string(), "port 1 is taken");
}
