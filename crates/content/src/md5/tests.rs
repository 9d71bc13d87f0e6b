use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::runtime::Builder;

use super::*;

fn pool() -> Arc<Hashing> {
    Arc::new(Hashing::new(HashingPool::start(NonZeroUsize::MIN)))
}

fn content(bytes: usize) -> Bytes {
    let byte = |index: usize| u8::try_from(index * index % 251).unwrap();
    (0..bytes).map(byte).collect::<Vec<u8>>().into()
}

/// The expected MD5, computed without a pool.
fn expected(content: &[u8]) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(content);
    md5.finish()
}

async fn hash(
    hashing: &Arc<Hashing>,
    announced: bool,
    content: Bytes,
    piece_bytes: usize,
) -> [u8; 16] {
    let bytes = announced.then_some(content.len() as u64);
    let mut md5 = BodyMd5::new(hashing, bytes);
    let mut rest = content;
    while !rest.is_empty() {
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        md5.take(&piece).await.unwrap();
        let most = if md5.mode == HashMode::Whole { WHOLE_BYTES_MAX } else { HELD_BYTES_MAX };
        assert!(md5.held_bytes < most + piece.len(), "too much is held");
        assert!(md5.held.len() <= HELD_PIECES_MAX, "too many pieces are held");
    }
    md5.digest().await.unwrap()
}

#[test]
fn bodies_of_all_lengths_and_pieces_get_their_md5() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let hashing = pool();
    let mut tasks = Vec::new();
    for bytes in [
        0,
        1,
        SHORT_BYTES - 1,
        SHORT_BYTES,
        SHORT_BYTES + 1,
        JOB_BYTES_MIN,
        JOB_BYTES_MIN + SHORT_BYTES - 1,
        HELD_BYTES_MAX + 1,
        WHOLE_BYTES_MAX,
        WHOLE_BYTES_MAX + 1,
        3_000_001,
    ] {
        for piece_bytes in [7, 4_096, 65_537, 1 << 20] {
            for announced in [true, false] {
                let hashing = Arc::clone(&hashing);
                tasks.push(runtime.spawn(async move {
                    let content = content(bytes);
                    let sum = hash(&hashing, announced, content.clone(), piece_bytes).await;
                    assert_eq!(sum, expected(&content), "{bytes} bytes in {piece_bytes}");
                }));
            }
        }
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(hashing.held.load(Ordering::Relaxed), 0, "all that was held was let go");
    assert_eq!(hashing.bodies.load(Ordering::Relaxed), 0, "no body is left");
}

#[tokio::test]
async fn short_body_is_not_submitted() {
    let hashing = pool();
    let mut md5 = BodyMd5::new(&hashing, Some(SHORT_BYTES as u64));
    md5.take(&content(SHORT_BYTES)).await.unwrap();
    assert!(matches!(md5.running, Running::Local(_)));
    assert_eq!(md5.held_bytes, 0);
    assert_eq!(md5.digest().await.unwrap(), expected(&content(SHORT_BYTES)));
}

#[tokio::test]
async fn long_body_is_submitted() {
    let hashing = pool();
    let mut md5 = BodyMd5::new(&hashing, None);
    md5.take(&content(JOB_BYTES_MIN)).await.unwrap();
    assert!(matches!(md5.running, Running::Submitted(_)));
    assert_eq!(md5.digest().await.unwrap(), expected(&content(JOB_BYTES_MIN)));
}

#[tokio::test]
async fn bytes_held_by_all_bodies_are_limited() {
    let hashing = pool();
    let piece = content(JOB_BYTES_MIN / 2);
    let (mut bodies, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..2 * ALL_HELD_BYTES_MAX / piece.len() {
        let mut md5 = BodyMd5::new(&hashing, None);
        md5.take(&piece).await.unwrap();
        bodies.push(md5);
        assert!(hashing.held.load(Ordering::Relaxed) <= ALL_HELD_BYTES_MAX);
    }
    assert_eq!(hashing.held.load(Ordering::Relaxed), ALL_HELD_BYTES_MAX, "some hold, some do not");
    whole.extend_from_slice(&[&piece[..], &piece[..]].concat());
    for mut md5 in bodies.drain(..).rev().step_by(7) {
        md5.take(&piece).await.unwrap();
        assert_eq!(md5.digest().await.unwrap(), expected(&whole));
    }
    assert_eq!(hashing.held.load(Ordering::Relaxed), 0, "a dropped body releases its bytes, too");
}

#[tokio::test]
async fn bytes_beyond_the_limit_are_hashed_at_once() {
    let hashing = pool();
    let too_much = content(ALL_HELD_BYTES_MAX + 1);
    let mut md5 = BodyMd5::new(&hashing, None);
    md5.take(&too_much).await.unwrap();
    assert!(matches!(md5.running, Running::Local(_)), "nothing was handed over");
    assert_eq!(md5.digest().await.unwrap(), expected(&too_much));
}

#[tokio::test]
async fn whole_body_is_submitted_when_all_of_it_has_arrived() {
    let hashing = pool();
    let content = content(WHOLE_BYTES_MAX);
    let mut md5 = BodyMd5::new(&hashing, Some(WHOLE_BYTES_MAX as u64));
    for piece in content.chunks(HELD_BYTES_MAX) {
        md5.take(&Bytes::copy_from_slice(piece)).await.unwrap();
        assert!(matches!(md5.running, Running::Local(_)));
    }
    assert_eq!(md5.held_bytes, WHOLE_BYTES_MAX);
    assert_eq!(md5.digest().await.unwrap(), expected(&content));
    assert_eq!(md5.digest().await.unwrap(), expected(&content), "it may be asked for again");
    assert_eq!(md5.held_bytes, 0);
}

#[tokio::test]
async fn lone_whole_body_is_hashed_as_it_arrives() {
    let hashing = pool();
    let content = content(5 * JOB_BYTES_MIN);
    let mut pieces = content.chunks(JOB_BYTES_MIN).map(Bytes::copy_from_slice);
    let mut md5 = BodyMd5::new(&hashing, Some(content.len() as u64));
    for piece in pieces.by_ref().take(2) {
        md5.take(&piece).await.unwrap();
        assert_eq!(md5.held_bytes, 0, "alone");
    }
    let other = BodyMd5::new(&hashing, Some(WHOLE_BYTES_MAX as u64));
    for (count, piece) in pieces.enumerate() {
        md5.take(&piece).await.unwrap();
        assert_eq!(md5.held_bytes, (count + 1) * JOB_BYTES_MIN, "others may come along");
    }
    drop(other);
    assert_eq!(md5.digest().await.unwrap(), expected(&content));
    assert_eq!(hashing.held.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn job_waits_for_others_only_if_there_are_any() {
    let hashing = pool();
    let _short = BodyMd5::new(&hashing, Some(1));
    let first = BodyMd5::new(&hashing, None);
    assert_eq!(hashing.patience(WHOLE_PATIENCE), Patience::default());
    let second = BodyMd5::new(&hashing, Some(WHOLE_BYTES_MAX as u64));
    let both = Patience { wait: WHOLE_PATIENCE, jobs: 2 };
    assert_eq!(hashing.patience(WHOLE_PATIENCE), both);
    drop(first);
    assert_eq!(hashing.patience(WHOLE_PATIENCE), Patience::default());
    drop(second);
}
