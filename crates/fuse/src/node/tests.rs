use super::{FileTime, NodeAttributes};

#[test]
fn times_before_1970_keep_their_sign() {
    let time = FileTime { seconds: -2, nanoseconds: 750_000_000 };
    let attributes = NodeAttributes { mtime: time, ..NodeAttributes::default() };
    let encoded = attributes.encode();
    assert_eq!(encoded.mtime.cast_signed(), -2);
    assert_eq!(encoded.mtimensec, 750_000_000);
    assert_eq!(attributes.encode_statx(None).mtime.tv_sec, -2);
}

#[test]
fn a_device_is_split_as_the_kernel_splits_it() {
    // /dev/nvme0n1p1 might be 259:300, which needs the upper bits of the minor number: 300 is
    // 0x12c.
    let rdev = 0x2c | (259 << 8) | (0x100 << 12);
    let attributes = NodeAttributes { rdev, ..NodeAttributes::default() };
    let encoded = attributes.encode_statx(None);
    assert_eq!((encoded.rdev_major, encoded.rdev_minor), (259, 300));
}

#[test]
fn statx_has_a_creation_time_only_if_known() {
    let attributes = NodeAttributes { mode: 0o100_644, ..NodeAttributes::default() };
    assert_eq!(attributes.encode_statx(None).mask, 0x7ff);
    let birth = FileTime { seconds: 5, nanoseconds: 6 };
    let encoded = attributes.encode_statx(Some(birth));
    assert_eq!((encoded.mask, encoded.btime.tv_sec, encoded.btime.tv_nsec), (0xfff, 5, 6));
    assert_eq!(u32::from(encoded.mode), 0o100_644);
    assert_eq!(attributes.directory_entry_kind(), 8);
}
