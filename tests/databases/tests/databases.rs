//! Each server that is installed here starts, dies and starts again.

use databases::{Database, Engine};

#[test]
fn servers_start_die_and_start_again() {
    for engine in Engine::ALL {
        if !Database::installed(engine) {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "{engine:?} is not installed");
            eprintln!("not run: {engine:?} is not installed");
            continue;
        }
        let mut database = Database::start(engine);
        assert!(database.fresh("one").contains(&database.address().to_string()));
        assert!(!database.processes().is_empty());
        database.kill();
        assert!(database.processes().is_empty(), "nothing of it is left");
        database.restart();
        assert!(database.url().contains(&database.address().to_string()));
    }
}
