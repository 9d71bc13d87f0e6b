use super::*;

const PLENTY: u64 = 16 << 30;

#[test]
fn a_short_run_is_in_memory_if_there_is_enough() {
    assert_eq!(Place::of(true, PLENTY), Place::Memory);
    assert_eq!(Place::of(true, NEEDED_BYTES - 1), Place::Disk(NEEDED_BYTES - 1));
    assert_eq!(Place::of(false, PLENTY), Place::DiskForLongSuites);
}

#[test]
fn the_free_memory_is_in_the_reason_for_the_disk() {
    let text = Place::of(true, 3 << 29).to_string();
    assert!(text.contains("1.5 GiB of memory are free, and 8 GiB are needed"), "{text}");
}

#[test]
fn available_memory_is_read_from_the_kernel() {
    let text = "MemTotal:       24684084 kB\nMemFree:         1 kB\nMemAvailable:   20982700 kB\n";
    assert_eq!(available(text), 20_982_700 * 1024);
    assert_eq!(available("MemTotal:       24684084 kB\n"), 0);
    assert_eq!(available("MemAvailable:   much\n"), 0);
}

/// Databases run as users of their own, and tests as any user make files there.
#[test]
fn each_user_can_make_files_in_the_folder_for_data() {
    let (folder, _) = make(false).expect("a folder");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(folder.path()), 0o755);
    assert_eq!(mode(&data(folder.path())), 0o1777);
}
