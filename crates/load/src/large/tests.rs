use super::*;

const BYTES: usize = (3 << 20) + 100;

fn source(parent: &Path) -> std::path::PathBuf {
    let path = parent.join("source");
    let bytes: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
    std::fs::write(&path, bytes).expect("it is written");
    path
}

#[test]
fn a_copy_has_the_bytes_of_its_source() {
    let parent = tempfile::tempdir().expect("a folder");
    let (from, to) = (source(parent.path()), parent.path().join("copy"));
    for synced in [true, false] {
        copy_file(&from, &to, synced, &Gauge::default()).expect("it is copied");
        assert!(std::fs::read(&from).expect("one") == std::fs::read(&to).expect("the other"));
    }
}

#[test]
fn all_bytes_are_read_and_counted() {
    let parent = tempfile::tempdir().expect("a folder");
    let (path, gauge) = (source(parent.path()), Gauge::default());
    forget_pages(&path).expect("the kernel forgets");
    read_file(&path, &gauge).expect("it is read");
    assert_eq!(gauge.seen().1, BYTES as u64);
}

#[test]
fn no_page_is_read_twice() {
    let parent = tempfile::tempdir().expect("a folder");
    let (path, gauge) = (source(parent.path()), Gauge::default());
    let calls = |most| read_randomly(&path, most, 7, &gauge).expect("it is read").calls;
    assert_eq!([calls(10), calls(100_000)], [10, 3 * 256]);
}

#[test]
fn a_stopped_copy_has_no_result() {
    let parent = tempfile::tempdir().expect("a folder");
    let (from, gauge) = (source(parent.path()), Gauge::default());
    gauge.stop();
    let found = copy_file(&from, &parent.path().join("copy"), true, &gauge);
    assert!(matches!(found, Err(Trouble::Stopped)), "{found:?}");
}
