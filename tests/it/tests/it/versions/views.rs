//! Compares reads of versions with the model: pages of listings, from any start, and each version
//! by its id.

use bytes::Bytes;
use futures::TryStreamExt as _;
use record::{InodeHead, Tag, VersionRef};
use volume::{
    FsError, ListEntry, ListQuery, ListedAs, VersionsEntry, VersionsQuery, Volume, VolumeError,
    size_and_tag,
};

use super::dice::{BUCKETS, Dice, KEYS};
use super::model::{Content, Model, Name, VersionKind};

/// Returns the bytes of a content.
pub(crate) fn bytes(content: Content) -> Bytes {
    let line = format!("{:015}\n", content.seed).into_bytes();
    let mut bytes = line.repeat(content.length.div_ceil(line.len()));
    bytes.truncate(content.length);
    bytes.into()
}

/// Returns a unique entity tag for each content.
pub(crate) fn tag(content: Content) -> Tag {
    Tag::Md5((u128::from(content.seed) << 64 | content.length as u128).to_be_bytes())
}

/// An entry of a listing as text, for comparison.
type Line = (Vec<u8>, Option<VersionRef>, String);

fn object(content: Content, latest: bool) -> String {
    format!("{latest} {} {:?}", content.length, tag(content))
}

fn object_found(inode: &InodeHead, latest: bool) -> String {
    let (size, tag) = size_and_tag(inode);
    format!("{latest} {size} {tag:?}")
}

/// Returns the common prefix into which a key is grouped, if any.
fn rolled_up(key: &[u8], prefix: &[u8], delimiter: bool) -> Option<Vec<u8>> {
    let at = key[prefix.len()..].iter().position(|byte| *byte == b'/').filter(|_| delimiter)?;
    Some(key[..=prefix.len() + at].to_vec())
}

/// The expected result of a listing of versions.
struct Wanted {
    prefix: Vec<u8>,
    delimiter: bool,
    lines: Vec<Line>,
}

impl Wanted {
    fn of(all: Vec<Line>, prefix: &str, delimiter: bool) -> Wanted {
        let prefix = prefix.as_bytes().to_vec();
        let mut lines: Vec<Line> = Vec::new();
        for line in all.into_iter().filter(|line| line.0.starts_with(&prefix)) {
            match rolled_up(&line.0, &prefix, delimiter) {
                None => lines.push(line),
                Some(common) if lines.last().is_some_and(|last| last.0 == common) => {}
                Some(common) => lines.push((common, None, String::new())),
            }
        }
        Wanted { prefix, delimiter, lines }
    }
}

fn lines(model: &Model, bucket: usize) -> Vec<Line> {
    let all = model.all(bucket).into_iter();
    let line = |(key, latest, version): (&str, bool, super::model::Version)| {
        let what = match version.what {
            VersionKind::Marker(at) => format!("{latest} marker {at:?}"),
            VersionKind::Object(content, _) => object(content, latest),
        };
        (key.as_bytes().to_vec(), Some(version.id), what)
    };
    all.map(line).collect()
}

fn line_of(entry: VersionsEntry) -> Line {
    match entry {
        VersionsEntry::Prefix(prefix) => (prefix, None, String::new()),
        VersionsEntry::Version { key, version, is_latest, listed_as, .. } => {
            let what = match listed_as {
                ListedAs::Marker(at) => format!("{is_latest} marker {at:?}"),
                ListedAs::Object(inode) => object_found(&inode, is_latest),
            };
            (key, Some(version), what)
        }
    }
}

/// Checks `ListObjectVersions` page by page, with pages of different sizes. Some pages begin after
/// a key without a version id, which skips the remaining versions of that key.
pub(crate) async fn versions(volume: &Volume, model: &Model, bucket: usize, dice: &mut Dice) {
    let prefix = dice.of(&["", "", "", "a", "a/", "a/b", "b"]);
    let wanted = Wanted::of(lines(model, bucket), prefix, dice.one_in(3));
    let (mut at, mut after) = (0, None);
    loop {
        let limit = dice.of(&[1, 2, 3, 7, 20, 1_000]);
        let delimiter = wanted.delimiter.then(|| b"/".to_vec());
        let query = VersionsQuery { prefix: wanted.prefix.clone(), delimiter, after, limit };
        let page = volume.list_versions(BUCKETS[bucket].into(), &query).await.expect("a page");
        let found: Vec<Line> = page.entries.into_iter().map(line_of).collect();
        let end = wanted.lines.len().min(at + limit);
        assert_eq!(found, wanted.lines[at..end], "{}: {query:?}", BUCKETS[bucket]);
        assert_eq!(page.truncated, end < wanted.lines.len(), "{}: {query:?}", BUCKETS[bucket]);
        if !page.truncated {
            return;
        }
        at = end;
        let (key, version, _) = &wanted.lines[end - 1];
        after = Some((key.clone(), *version));
        if dice.one_in(4) {
            after = Some((key.clone(), None));
            at += wanted.lines[at..].iter().take_while(|line| line.0 == *key).count();
        }
    }
}

/// Checks `ListObjectsV2` page by page.
pub(crate) async fn objects(volume: &Volume, model: &Model, bucket: usize, dice: &mut Dice) {
    let prefix = dice.of(&["", "", "", "a", "a/", "a/b", "b"]);
    let line = |key: &&'static str| {
        let (id, content, _) = model.find((bucket, *key), None).ok()?;
        Some((key.as_bytes().to_vec(), Some(id), object(content, true)))
    };
    let wanted = Wanted::of(KEYS.iter().filter_map(line).collect(), prefix, dice.one_in(3));
    let (mut at, mut after) = (0, None);
    loop {
        let limit = dice.of(&[1, 2, 3, 7, 1_000]);
        let delimiter = wanted.delimiter.then(|| b"/".to_vec());
        let query = ListQuery { prefix: wanted.prefix.clone(), delimiter, after, limit };
        let page = volume.list(BUCKETS[bucket], query).await.expect("a page");
        let found: Vec<Line> = page.entries.into_iter().map(object_line).collect();
        let end = wanted.lines.len().min(at + limit);
        assert_eq!(found, wanted.lines[at..end], "{}, {prefix:?}, {at}", BUCKETS[bucket]);
        assert_eq!(page.truncated, end < wanted.lines.len(), "{prefix:?}, {at}");
        if !page.truncated {
            return;
        }
        at = end;
        after = wanted.lines.get(end - 1).map(|line| line.0.clone());
    }
}

fn object_line(entry: ListEntry) -> Line {
    match entry {
        ListEntry::Prefix(prefix) => (prefix, None, String::new()),
        ListEntry::Object { key, inode, version } => {
            let version = version.map_or(VersionRef::Null, VersionRef::Id);
            (key, Some(version), object_found(&inode, true))
        }
    }
}

/// Checks one version, or the current one, with its bytes.
pub(crate) async fn version(
    volume: &Volume,
    model: &Model,
    name: Name,
    version: Option<VersionRef>,
) {
    let (bucket, key) = name;
    let wanted = model.find(name, version);
    let found = match volume.stat_version(BUCKETS[bucket], key.as_bytes(), version).await {
        Ok(object) => {
            let read = volume.read(&object, 0..object.size());
            let read: Vec<Bytes> = read.try_collect().await.expect("its bytes are read");
            let id = object.version.unwrap_or(VersionRef::Null);
            Ok((id, read.concat(), *object.tag(), object.file().object.lock))
        }
        Err(VolumeError::Fs(error)) => Err(error),
        Err(error) => panic!("{name:?} {version:?}: {error}"),
    };
    let wanted: Result<_, FsError> =
        wanted.map(|(id, content, lock)| (id, bytes(content).to_vec(), tag(content), lock));
    assert!(
        found == wanted,
        "{name:?} {version:?}: {} and not {}",
        describe(&found),
        describe(&wanted)
    );
}

fn describe<A: std::fmt::Debug, B: std::fmt::Debug, C: std::fmt::Debug>(
    found: &Result<(A, Vec<u8>, B, C), FsError>,
) -> String {
    match found {
        Ok((id, bytes, tag, lock)) => {
            let first = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]);
            format!("{id:?}, {} bytes {first:?}, {tag:?}, {lock:?}", bytes.len())
        }
        Err(error) => format!("{error:?}"),
    }
}

/// Checks every version of every key, and the current one.
pub(crate) async fn every_version(volume: &Volume, model: &Model) {
    for bucket in 0..BUCKETS.len() {
        for (key, _, found) in model.all(bucket) {
            version(volume, model, (bucket, key), Some(found.id)).await;
        }
        for key in KEYS {
            version(volume, model, (bucket, key), None).await;
            version(volume, model, (bucket, key), Some(VersionRef::Null)).await;
        }
    }
}
