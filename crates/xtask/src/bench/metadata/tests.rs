use super::*;

#[test]
fn redis_tells_its_memory_among_other_things() {
    let answer = "$99\r\n# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\n+OK\r\n";
    assert_eq!(used_memory_in(answer), Some(1 << 20));
    assert_eq!(used_memory_in("-LOADING\r\n"), None);
}

#[test]
fn folders_below_a_folder_count() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("a")).expect("a folder");
    std::fs::write(folder.path().join("a/b"), [0; 100]).expect("a file");
    std::fs::write(folder.path().join("c"), [0; 10]).expect("a file");
    assert_eq!(size_below(folder.path()).expect("it is there"), 110);
    assert!(size_below(&folder.path().join("d")).is_err());
}
