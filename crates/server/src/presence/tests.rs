use super::*;

const FSTAB: &str = "# /mnt/old is away\nUUID=1 / ext4 defaults 0 1\n#/dev/x /mnt/x ext4\n\
                     UUID=2 /mnt/data/ ext4 noatime 0 2\nUUID=3 /mnt/two\\040words xfs\n\
                     UUID=4 none swap sw\n";
const ROOT_ONLY: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";

#[test]
fn a_mount_point_without_its_disk_is_found_at_and_above_a_folder() {
    let found = |path: &str| unmounted_in(FSTAB, ROOT_ONLY, Path::new(path));
    let data = Some(PathBuf::from("/mnt/data"));
    assert_eq!(found("/mnt/data"), data);
    assert_eq!(found("/mnt/data/ashlar/volume"), data);
    assert_eq!(found("/mnt/two words/volume"), Some(PathBuf::from("/mnt/two words")));
    for other in ["/", "/mnt", "/mnt/database", "/mnt/x/volume", "/srv/ashlar"] {
        assert_eq!(found(other), None, "{other}");
    }
    let mounted = format!("{ROOT_ONLY}30 22 8:2 / /mnt/data rw - ext4 /dev/sdb1 rw\n");
    assert_eq!(unmounted_in(FSTAB, &mounted, Path::new("/mnt/data/ashlar")), None);
}

#[test]
fn a_path_below_a_file_is_absent_and_a_loop_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "x").expect("written");
    assert_eq!(is_present(&path("file")), Ok(true));
    assert_eq!(is_present(&path("none")), Ok(false));
    assert_eq!(is_present(&path("file/x")), Ok(false));
    // An error that `Path::exists` hides, also from root.
    std::os::unix::fs::symlink("loop", path("loop")).expect("a link to itself");
    let problem = is_present(&path("loop/x")).expect_err("it cannot be found out");
    assert!(problem.to_string().starts_with("cannot look for "), "{problem}");
}

#[test]
fn a_folder_of_blocks_is_known_by_its_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocks = folder.path().join("blocks");
    fs::create_dir_all(blocks.join("below")).expect("folders");
    assert_eq!(blocks_above(&blocks), None);
    let mark = format!("ashlar volume {0} place {0} format 1\n", "00".repeat(16));
    fs::write(blocks.join(MARK_NAME), mark).expect("written");
    let found = fs::canonicalize(&blocks).expect("a folder");
    assert_eq!(blocks_above(&blocks), Some(found.clone()));
    assert_eq!(blocks_above(&blocks.join("below/absent")), Some(found));
    assert_eq!(blocks_above(folder.path()), None, "beside the mark");
}
