//! Extended attributes: access control lists and S3 metadata.

use files::{CreateOptions, SetNode, XattrWrite};
use record::{Header, Ino, ObjectHeaders};
use rustix::io::Errno;
use volume::{Acl, AclKind, AttributeChange, Note};

use super::{Bench, WRITES, by};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A list in the format of Linux: permissions of owner, user 1000, group, mask and others.
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
async fn access_control_list_is_set_read_listed_and_removed() {
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
async fn invalid_or_missing_access_control_list_is_refused() {
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
async fn default_list_is_inherited_also_from_a_bucket() {
    let bench = Bench::new().await;
    let files = &bench.files;
    set(&bench, bench.bucket, DEFAULT, &list([7, 6, 5, 7, 0])).await.unwrap();
    let by = CreateOptions { mode: 0o777, umask: 0o077, ..by() };
    let directory = files.make_directory(bench.bucket, b"d", by).await.unwrap();
    assert_eq!(directory.mode, 0o770);
    let opened =
        files.create(directory.ino, b"f", CreateOptions { mode: 0o646, ..by }).await.unwrap();
    assert_eq!(opened.attributes.mode, 0o640);
    let ino = opened.attributes.ino;
    assert_eq!(files.xattr(ino, ACCESS).await.unwrap(), list([6, 6, 5, 4, 0]));
    let nameless = files.create_unnamed(directory.ino, by).await.unwrap();
    assert_eq!(nameless.attributes.mode, 0o770);
    files.release(opened.handle).await;
    files.release(nameless.handle).await;
}

#[tokio::test]
async fn mode_and_list_of_a_dirty_file_are_the_last_ones_set() {
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
async fn list_set_by_another_mount_shows_on_an_open_file() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"x").await;
    let handle = bench.open("f", WRITES).await;
    let said = list([7, 7, 7, 7, 1]);
    let acl = Acl::parse(&said).unwrap();
    let note = Note::none();
    let volume = bench.volume.journaled(&note);
    volume.set_acl(ino, AclKind::Access, acl.as_ref(), false).await.unwrap();
    assert_eq!(bench.files.xattr(ino, ACCESS).await.unwrap(), said);
    assert_eq!(bench.files.attributes(ino).await.unwrap().mode, 0o771);
    bench.close(handle).await;
}

/// Returns the value of an attribute as text.
async fn text(bench: &Bench, ino: Ino, name: &str) -> Result<String, Errno> {
    let value = bench.files.xattr(ino, name.as_bytes()).await?;
    Ok(String::from_utf8(value.to_vec()).unwrap())
}

async fn put(bench: &Bench, ino: Ino, name: &str, value: &str) -> Result<(), Errno> {
    set(bench, ino, name.as_bytes(), value.as_bytes()).await
}

#[tokio::test]
async fn s3_metadata_is_set_and_read_in_both_views() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("o", b"object").await;
    let ino = files.look_up(bench.bucket, b"o").await.unwrap().ino;
    let tags = vec![("kind".to_owned(), "a b".to_owned())];
    let change = volume::ObjectChange::Tags(&tags);
    bench.volume.change_object("bkt", b"o", None, None, change).await.unwrap();
    let before = bench.volume.stat("bkt", b"o").await.unwrap();
    assert_eq!(text(&bench, ino, "user.ashlar.tag.kind").await.unwrap(), "a b");
    assert_eq!(text(&bench, ino, "user.ashlar.content-type").await, Err(Errno::NODATA));
    put(&bench, ino, "user.ashlar.content-type", "text/plain; charset=utf-8").await.unwrap();
    put(&bench, ino, "user.ashlar.meta.x-y", "Grüße").await.unwrap();
    put(&bench, ino, "user.ashlar.tag.kind", "c").await.unwrap();
    put(&bench, ino, "user.other", "apart").await.unwrap();
    let after = bench.volume.stat("bkt", b"o").await.unwrap();
    let object = &after.file().object;
    assert_eq!(object.header(Header::ContentType), Some("text/plain; charset=utf-8"));
    assert_eq!(object.user, [("x-y".to_owned(), "Grüße".to_owned())]);
    assert_eq!(object.tags, [("kind".to_owned(), "c".to_owned())]);
    assert_eq!(after.tag(), before.tag());
    assert_eq!(after.inode.attributes.changed, before.inode.attributes.changed);
    let names = files.xattr_names(ino).await.unwrap();
    let names: Vec<&str> = names.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
    let expected =
        ["user.other", "user.ashlar.content-type", "user.ashlar.meta.x-y", "user.ashlar.tag.kind"];
    assert_eq!(names, expected);
    for name in &expected[1..] {
        files.remove_xattr(ino, name.as_bytes()).await.unwrap();
        assert_eq!(files.remove_xattr(ino, name.as_bytes()).await, Err(Errno::NODATA));
    }
    let object = bench.volume.stat("bkt", b"o").await.unwrap().file().object.clone();
    assert_eq!(object, ObjectHeaders::default());
}

#[tokio::test]
async fn entity_tag_attribute_is_readable_and_not_writable() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"hello\n").await;
    let etag = "user.ashlar.etag";
    assert_eq!(text(&bench, ino, etag).await.unwrap(), "b1946ac92492d2347c6235b4d2611184");
    assert_eq!(put(&bench, ino, etag, "other").await, Err(Errno::PERM));
    assert_eq!(bench.files.remove_xattr(ino, etag.as_bytes()).await, Err(Errno::PERM));
    assert_eq!(bench.files.xattr_names(ino).await.unwrap(), <[&[u8]; 0]>::default());
}

#[tokio::test]
async fn metadata_that_s3_refuses_cannot_be_set() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", b"x").await;
    let invalid: [(&str, &[u8]); 12] = [
        ("user.ashlar.content-type", b""),
        ("user.ashlar.content-type", b"two\r\nlines: 1"),
        ("user.ashlar.meta.a", b"\xff"),
        ("user.ashlar.meta.a", b" space"),
        ("user.ashlar.meta.Upper", b"x"),
        ("user.ashlar.meta.", b"x"),
        ("user.ashlar.tag.k", b"what?"),
        ("user.ashlar.tag.aws:k", b"x"),
        ("user.ashlar.unknown", b"x"),
        ("user.ashlar.x-amz-storage-class", b"COLD"),
        ("user.ashlar.x-amz-website-redirect-location", b"javascript:x"),
        ("user.ashlar.content-encoding", b"aws-chunked, gzip"),
    ];
    for (name, value) in invalid {
        assert_eq!(set(&bench, ino, name.as_bytes(), value).await, Err(Errno::INVAL), "{name}");
        assert_eq!(text(&bench, ino, name).await, Err(Errno::NODATA), "{name}");
    }
    let long = "v".repeat(2_048);
    assert_eq!(put(&bench, ino, "user.ashlar.meta.a", &long).await, Err(Errno::TOOBIG));
    put(&bench, ino, "user.ashlar.meta.a", &long[1..]).await.unwrap();
    for n in 0..10 {
        put(&bench, ino, &format!("user.ashlar.tag.{n}"), "v").await.unwrap();
    }
    assert_eq!(put(&bench, ino, "user.ashlar.tag.more", "v").await, Err(Errno::NOSPC));
    let name = b"user.ashlar.tag.0";
    let create = files.set_xattr(ino, name, b"w", XattrWrite::Create, false).await;
    assert_eq!(create, Err(Errno::EXIST));
    let name = b"user.ashlar.expires";
    let replace = files.set_xattr(ino, name, b"w", XattrWrite::Replace, false).await;
    assert_eq!(replace, Err(Errno::NODATA));
    let directory = files.make_directory(bench.bucket, b"d", by()).await.unwrap().ino;
    assert_eq!(put(&bench, directory, "user.ashlar.tag.k", "v").await, Err(Errno::OPNOTSUPP));
    assert_eq!(text(&bench, directory, "user.ashlar.tag.k").await, Err(Errno::NODATA));
}

#[tokio::test]
async fn s3_metadata_survives_a_change_of_content() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"x").await;
    let handle = bench.open("f", WRITES).await;
    bench.files.write(handle, 0, b"dirty", false, false).await.unwrap();
    put(&bench, ino, "user.ashlar.meta.a", "1").await.unwrap();
    bench.close(handle).await;
    let object = bench.volume.stat("bkt", b"f").await.unwrap();
    assert_eq!(object.file().object.user, [("a".to_owned(), "1".to_owned())]);
    assert_eq!(bench.get("f").await.unwrap(), b"dirty");
}

#[tokio::test]
async fn write_removes_capabilities_and_set_id_bits() {
    const CAPABILITIES: &str = "security.capability";
    let bench = Bench::new().await;
    let ino = bench.write("f", b"program").await;
    let handle = bench.open("f", WRITES).await;
    let files = &bench.files;
    // Earlier writes must not remove capabilities that are set after them.
    files.write(handle, 0, b"P", false, true).await.unwrap();
    put(&bench, ino, CAPABILITIES, "cap").await.unwrap();
    files.flush(handle).await.unwrap();
    assert_eq!(text(&bench, ino, CAPABILITIES).await.unwrap(), "cap");
    files.write(handle, 0, b"p", false, true).await.unwrap();
    files.flush(handle).await.unwrap();
    assert_eq!(text(&bench, ino, CAPABILITIES).await, Err(Errno::NODATA));
    put(&bench, ino, CAPABILITIES, "cap").await.unwrap();
    bench.append("f", b" appended").await;
    assert_eq!(text(&bench, ino, CAPABILITIES).await, Err(Errno::NODATA), "S3 has appended");
    bench.close(handle).await;
}

#[tokio::test]
async fn fallocate_and_copy_clear_set_id_bits() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"program").await;
    let handle = bench.open("f", WRITES).await;
    for (before, after) in [(0o6755, 0o755), (0o2745, 0o2745), (0o644, 0o644)] {
        chmod(&bench, ino, before).await;
        bench.files.drop_rights(handle).await.unwrap();
        assert_eq!(bench.files.attributes(ino).await.unwrap().mode, after, "{before:o}");
    }
    bench.close(handle).await;
}
