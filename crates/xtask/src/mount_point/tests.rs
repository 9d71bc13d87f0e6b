use super::*;

const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
61 22 0:48 / /tmp/one rw,nosuid - fuse.null null rw
62 22 0:49 / /tmp/two rw,nosuid - fuse.ashlar ashlar rw
63 22 0:50 / /tmp/two rw,nosuid - fuse.ashlar ashlar rw
";

#[test]
fn the_mount_on_a_folder_is_found_by_its_full_path() {
    assert_eq!(device_in(MOUNTS, "/tmp/one"), Some(48));
    assert_eq!(device_in(MOUNTS, "/tmp/two"), Some(50), "the visible one");
    assert_eq!(device_in(MOUNTS, "/tmp"), None);
}

#[test]
fn a_new_mount_point_is_open_to_all_and_is_removed_when_dropped() {
    let point = MountPoint::make().expect("a folder");
    let folder = point.folder().to_owned();
    assert_eq!(folder.metadata().expect("it is there").permissions().mode() & 0o777, 0o755);
    assert!(!point.is_mounted().expect("the table is read"));
    drop(point);
    assert!(!folder.exists());
}
