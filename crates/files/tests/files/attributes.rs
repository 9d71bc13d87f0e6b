//! Extended attributes: access control lists.

use files::{MadeBy, SetNode, XattrWrite};
use record::Ino;
use rustix::io::Errno;
use volume::{Acl, AclKind, AttributeChange};

use super::{Bench, WRITES, by};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A list in the form of Linux: what the owner, user 1000, the group, the mask and the others may.
fn list([owner, user, group, mask, others]: [u8; 5]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (whom, bits) in [(1, owner), (2, user), (4, group), (16, mask), (32, others)] {
        let id = if whom == 2 { [0xe8, 3, 0, 0] } else { [0xff; 4] };
        bytes.extend_from_slice(&[whom, 0, bits, 0]);
        bytes.extend_from_slice(&id);
    }
    bytes
}

async fn set(bench: &Bench, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    bench.files.set_xattr(ino, name, value, XattrWrite::Set, false).await
}

async fn chmod(bench: &Bench, ino: Ino, mode: u32) {
    let attributes = AttributeChange { mode: Some(mode), ..AttributeChange::default() };
    bench.files.set(ino, None, SetNode { attributes, size: None }).await.unwrap();
}

#[tokio::test]
async fn a_list_is_set_read_listed_and_removed() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", b"x").await;
    assert_eq!(files.xattr(ino, ACCESS).await, Err(Errno::NODATA));
    assert_eq!(files.xattr(ino, DEFAULT).await, Err(Errno::NODATA));
    set(&bench, ino, ACCESS, &list([6, 7, 4, 5, 0])).await.unwrap();
    assert_eq!(files.attributes(ino).await.unwrap().mode, 0o650);
    assert_eq!(files.xattr(ino, ACCESS).await.unwrap(), list([6, 7, 4, 5, 0]));
    assert_eq!(files.xattr_names(ino).await.unwrap(), [ACCESS]);
    files.remove_xattr(ino, ACCESS).await.unwrap();
    files.remove_xattr(ino, ACCESS).await.unwrap();
    assert_eq!(files.xattr(ino, ACCESS).await, Err(Errno::NODATA));
}

#[tokio::test]
async fn what_is_no_list_or_has_none_says_so() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", b"x").await;
    let good = list([6, 7, 4, 5, 0]);
    assert_eq!(set(&bench, ino, ACCESS, &good[..20]).await, Err(Errno::INVAL));
    assert_eq!(set(&bench, ino, ACCESS, b"").await, Err(Errno::INVAL));
    assert_eq!(set(&bench, ino, ACCESS, &[3, 0, 0, 0]).await, Err(Errno::OPNOTSUPP));
    let mut long = good[..12].to_vec();
    long.extend(std::iter::repeat_n(&good[12..20], 200).flatten());
    long.extend_from_slice(&good[20..]);
    assert_eq!(set(&bench, ino, ACCESS, &long).await, Err(Errno::NOSPC));
    assert_eq!(set(&bench, ino, DEFAULT, &good).await, Err(Errno::ACCESS));
    assert_eq!(set(&bench, ino, b"system.other", &good).await, Err(Errno::OPNOTSUPP));
    let link = files.make_symlink(bench.bucket, b"l", b"f", by()).await.unwrap().ino;
    assert_eq!(set(&bench, link, ACCESS, &good).await, Err(Errno::OPNOTSUPP));
}

#[tokio::test]
async fn what_is_made_inherits_and_a_bucket_hands_on_too() {
    let bench = Bench::new().await;
    let files = &bench.files;
    set(&bench, bench.bucket, DEFAULT, &list([7, 6, 5, 7, 0])).await.unwrap();
    let by = MadeBy { mode: 0o777, umask: 0o077, ..by() };
    let directory = files.make_directory(bench.bucket, b"d", by).await.unwrap();
    assert_eq!(directory.mode, 0o770);
    let opened = files.create(directory.ino, b"f", MadeBy { mode: 0o646, ..by }).await.unwrap();
    assert_eq!(opened.attributes.mode, 0o640);
    let ino = opened.attributes.ino;
    assert_eq!(files.xattr(ino, ACCESS).await.unwrap(), list([6, 6, 5, 4, 0]));
    let nameless = files.create_nameless(directory.ino, by).await.unwrap();
    assert_eq!(nameless.attributes.mode, 0o770);
    files.release(opened.handle).await;
    files.release(nameless.handle).await;
}

#[tokio::test]
async fn bits_and_lists_of_a_file_that_is_written_are_those_that_were_set_last() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", b"x").await;
    let handle = bench.open("f", WRITES).await;
    files.write(handle, 0, b"dirty", false, false).await.unwrap();
    chmod(&bench, ino, 0o600).await;
    set(&bench, ino, ACCESS, &list([7, 7, 7, 7, 1])).await.unwrap();
    assert_eq!(files.attributes(ino).await.unwrap().mode, 0o771);
    files.write(handle, 0, b"again", false, false).await.unwrap();
    chmod(&bench, ino, 0o640).await;
    assert_eq!(files.attributes(ino).await.unwrap().mode, 0o640);
    assert_eq!(files.xattr(ino, ACCESS).await.unwrap(), list([6, 7, 7, 4, 0]));
    bench.close(handle).await;
    assert_eq!(files.attributes(ino).await.unwrap().mode, 0o640);
    assert_eq!(files.xattr(ino, ACCESS).await.unwrap(), list([6, 7, 7, 4, 0]));
    assert_eq!(bench.get("f").await.unwrap(), b"again");
}

#[tokio::test]
async fn a_list_that_others_set_shows_of_a_file_that_is_open() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"x").await;
    let handle = bench.open("f", WRITES).await;
    let said = list([7, 7, 7, 7, 1]);
    let acl = Acl::parse(&said).unwrap();
    bench.volume.set_acl(ino, AclKind::Access, acl.as_ref(), false).await.unwrap();
    assert_eq!(bench.files.xattr(ino, ACCESS).await.unwrap(), said);
    assert_eq!(bench.files.attributes(ino).await.unwrap().mode, 0o771);
    bench.close(handle).await;
}
