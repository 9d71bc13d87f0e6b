use std::time::Instant;

use super::*;

#[test]
fn cpu_time_and_size_of_every_server_are_measured() {
    let wanted = std::env::var_os("ASHLAR_TEST_ENGINES").unwrap_or_default();
    let wanted = wanted.to_string_lossy();
    for engine in Engine::ALL.into_iter().filter(|engine| engine.has_server()) {
        if !wanted.is_empty() && !wanted.split(',').any(|name| name == engine.name()) {
            continue;
        }
        if let Some(package) = crate::engines::missing_packages(&[engine]).first() {
            let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
            assert!(!required, "{package} is not installed");
            eprintln!("not run: {package} is not installed");
            continue;
        }
        let mut databases = Databases::default();
        databases.start(engine).expect("it starts");
        let metadata =
            Metadata::fresh(&databases, engine, Path::new("/"), "bench").expect("a store");
        // The system counts in hundredths of a second; Redis needs less than that to start.
        let limit = Instant::now() + ANSWER_LIMIT;
        while metadata.cpu() == Duration::ZERO {
            assert!(metadata.bytes().expect("a size") > 0, "{engine:?} is empty");
            assert!(Instant::now() < limit, "{engine:?} used no CPU time");
        }
        assert!(metadata.bytes().expect("a size") > 0, "{engine:?} is empty");
    }
}

#[test]
fn the_memory_of_redis_excludes_its_buffers() {
    let answer = "$99\r\n# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\n+OK\r\n";
    assert_eq!(used_memory_in(answer), Some(1 << 20));
    let busy = "used_memory:1048576\r\nmem_clients_normal:4000\r\nmem_aof_buffer:576\r\n";
    assert_eq!(used_memory_in(busy), Some((1 << 20) - 4_576));
    assert_eq!(used_memory_in("-LOADING\r\n"), None);
}

#[test]
fn the_size_of_a_folder_includes_its_subfolders() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("a")).expect("a folder");
    std::fs::write(folder.path().join("a/b"), [0; 100]).expect("a file");
    std::fs::write(folder.path().join("c"), [0; 10]).expect("a file");
    assert_eq!(size_below(folder.path()).expect("it is there"), 110);
    assert!(size_below(&folder.path().join("d")).is_err());
}

/// A log of one-kilobyte pages: the salt and the commit size of each frame.
fn log(salt: u64, frames: &[(u64, u32)]) -> Vec<u8> {
    let mut log = vec![0; 32];
    log[8..12].copy_from_slice(&1024_u32.to_be_bytes());
    log[16..24].copy_from_slice(&salt.to_be_bytes());
    for (salt, pages) in frames {
        let start = log.len();
        log.resize(start + 24 + 1024, 0);
        log[start + 4..start + 8].copy_from_slice(&pages.to_be_bytes());
        log[start + 8..start + 16].copy_from_slice(&salt.to_be_bytes());
    }
    log
}

#[test]
fn the_size_is_that_of_the_last_commit_in_the_log() {
    assert_eq!(logged_size(&log(7, &[(7, 0), (7, 5), (7, 9), (7, 0)])), Some(9 << 10));
    assert_eq!(logged_size(&log(8, &[(8, 5), (7, 9)])), Some(5 << 10), "the rest is old");
    assert_eq!(logged_size(&log(8, &[(7, 9)])), None);
    assert_eq!(logged_size(b""), None);
}
