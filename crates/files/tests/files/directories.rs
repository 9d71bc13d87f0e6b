//! Reading directories.

use std::collections::BTreeSet;

use files::{DirectoryEntry, HandleId};

use super::{Bench, by};

/// Returns the entries of one reply, which takes at most a hundred.
async fn answer(bench: &Bench, handle: HandleId, position: u64) -> Vec<DirectoryEntry> {
    let mut entries = Vec::new();
    let take = |entry: &DirectoryEntry| {
        if entries.len() < 100 {
            entries.push(entry.clone());
        }
        entries.len() < 100
    };
    bench.files.read_directory(handle, position, true, take).await.unwrap();
    entries
}

/// Returns all names of a directory, and the number of replies.
async fn names(bench: &Bench, directory: record::Ino) -> (Vec<Vec<u8>>, usize) {
    let handle = bench.files.open_directory(directory).await.unwrap();
    let (mut names, mut position, mut answers) = (Vec::new(), 0, 0);
    loop {
        let entries = answer(bench, handle, position).await;
        let Some(last) = entries.last() else { break };
        position = last.next;
        answers += 1;
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    bench.files.release_directory(handle);
    (names, answers)
}

#[tokio::test]
async fn large_directory_is_read_in_pages_without_repeats() {
    let bench = Bench::new().await;
    for at in 0..2_500 {
        bench.put(&format!("d/{at:04}"), b"").await;
    }
    let directory = bench.files.look_up(bench.bucket, b"d").await.unwrap().ino;
    let (found, answers) = names(&bench, directory).await;
    assert_eq!(&found[..2], [&b"."[..], b".."]);
    let expected: BTreeSet<Vec<u8>> =
        (0..2_500).map(|at| format!("{at:04}").into_bytes()).collect();
    assert_eq!(found.len(), 2_502);
    assert_eq!(found[2..].iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(answers, 26);
}

#[tokio::test]
async fn reading_continues_after_names_were_removed() {
    let bench = Bench::new().await;
    let files = &bench.files;
    for at in 0..1_500 {
        bench.put(&format!("d/{at:04}"), b"").await;
    }
    let directory = files.look_up(bench.bucket, b"d").await.unwrap().ino;
    let handle = files.open_directory(directory).await.unwrap();
    let first = answer(&bench, handle, 0).await;
    for entry in first.iter().filter(|entry| !entry.name.starts_with(b".")) {
        files.unlink(directory, &entry.name).await.unwrap();
    }
    let next = answer(&bench, handle, first.last().unwrap().next).await;
    assert_eq!(next.first().unwrap().name, format!("{:04}", first.len() - 2).into_bytes());
    let again = answer(&bench, handle, 0).await;
    assert_eq!(again[2].name, next[0].name, "a new read from the start sees remaining names");
    files.release_directory(handle);
}

#[tokio::test]
async fn directory_object_is_not_listed_as_a_name() {
    let bench = Bench::new().await;
    bench.put("d/", b"marker").await;
    bench.put("d/f", b"").await;
    bench.put("d/.", b"").await;
    bench.put("d/g", b"").await;
    bench.put("d/g/h", b"").await;
    let directory = bench.files.look_up(bench.bucket, b"d").await.unwrap().ino;
    let (found, _) = names(&bench, directory).await;
    assert_eq!(found, [&b"."[..], b"..", b"f", b"g"]);
    bench.files.make_directory(directory, b"e", by()).await.unwrap();
    let (found, _) = names(&bench, directory).await;
    assert_eq!(found, [&b"."[..], b"..", b"e", b"f", b"g"]);
}
