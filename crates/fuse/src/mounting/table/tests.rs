use std::path::Path;

use super::{Mounted, find_in};

const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 22 0:45 / /mnt/with\\040space rw,nosuid - fuse.ashlar my\\054volume rw,user_id=0
91 22 0:46 / /mnt/twice rw shared:7 master:3 - fuse.first one rw
92 91 0:47 / /mnt/twice rw - fuse.second two rw
nonsense
";

#[test]
fn spaces_and_optional_fields_are_parsed() {
    let found = find_in(TABLE, Path::new("/mnt/with space")).unwrap();
    let expected = Mounted {
        device: "0:45".to_owned(),
        kind: "fuse.ashlar".to_owned(),
        source: "my,volume".to_owned(),
    };
    assert_eq!(found, expected);
}

#[test]
fn later_of_two_mounts_is_visible() {
    assert_eq!(find_in(TABLE, Path::new("/mnt/twice")).unwrap().source, "two");
}

#[test]
fn folder_inside_a_mount_is_not_a_mount() {
    assert_eq!(find_in(TABLE, Path::new("/mnt/twice/below")), None);
    assert_eq!(find_in(TABLE, Path::new("/mnt")), None);
}
