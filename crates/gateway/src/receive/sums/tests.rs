use std::num::NonZeroUsize;
use std::sync::Arc;

use sha2::Digest as _;
use tokio::runtime::Builder;

use super::*;

fn content(bytes: usize) -> Bytes {
    let byte = |index: usize| u8::try_from(index * index % 251).unwrap();
    (0..bytes).map(byte).collect::<Vec<u8>>().into()
}

/// What is known of it without a pool.
fn expected(content: &[u8]) -> [u8; 16] {
    let mut sums = Sums::md5();
    sums.update(content);
    sums.finish().0
}

async fn hash(desk: &Desk, announced: bool, content: Bytes, piece_bytes: usize) -> [u8; 16] {
    let bytes = announced.then_some(content.len() as u64);
    let mut sums = BodySums::new(desk, bytes, false);
    let mut rest = content;
    while !rest.is_empty() {
        let piece = rest.split_to(piece_bytes.min(rest.len()));
        sums.take(&piece, false).await.unwrap();
        let most = if sums.manner == Manner::Whole { WHOLE_BYTES_MAX } else { HELD_BYTES_MAX };
        assert!(sums.held_bytes < most + piece.len(), "too much is held");
        assert!(sums.held.len() <= HELD_PIECES_MAX, "too many pieces are held");
    }
    sums.settle().await.unwrap().md5
}

#[test]
fn bodies_of_all_lengths_and_pieces_get_their_sum() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let desk = Arc::new(Desk::new(Pool::start(NonZeroUsize::MIN)));
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
                let desk = Arc::clone(&desk);
                tasks.push(runtime.spawn(async move {
                    let content = content(bytes);
                    let sum = hash(&desk, announced, content.clone(), piece_bytes).await;
                    assert_eq!(sum, expected(&content), "{bytes} bytes in {piece_bytes}");
                }));
            }
        }
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(desk.held.load(Ordering::Relaxed), 0, "all that was held was let go");
    assert_eq!(desk.bodies.load(Ordering::Relaxed), 0, "no body is left");
}

#[tokio::test]
async fn a_short_body_is_not_handed_over() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let mut sums = BodySums::new(&desk, Some(SHORT_BYTES as u64), false);
    sums.take(&content(SHORT_BYTES), false).await.unwrap();
    assert!(matches!(sums.running, Running::Here(_)));
    assert_eq!(sums.held_bytes, 0);
    assert_eq!(sums.settle().await.unwrap().md5, expected(&content(SHORT_BYTES)));
}

#[tokio::test]
async fn a_long_body_is_handed_over() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let mut sums = BodySums::new(&desk, None, false);
    sums.take(&content(JOB_BYTES_MIN), false).await.unwrap();
    assert!(matches!(sums.running, Running::Away(_)));
    assert_eq!(sums.settle().await.unwrap().md5, expected(&content(JOB_BYTES_MIN)));
}

#[tokio::test]
async fn what_all_bodies_may_hold_is_bounded() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let piece = content(JOB_BYTES_MIN / 2);
    let (mut bodies, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..2 * ALL_HELD_BYTES_MAX / piece.len() {
        let mut sums = BodySums::new(&desk, None, false);
        sums.take(&piece, false).await.unwrap();
        bodies.push(sums);
        assert!(desk.held.load(Ordering::Relaxed) <= ALL_HELD_BYTES_MAX);
    }
    assert_eq!(desk.held.load(Ordering::Relaxed), ALL_HELD_BYTES_MAX, "some hold, some do not");
    whole.extend_from_slice(&[&piece[..], &piece[..]].concat());
    for mut sums in bodies.drain(..).rev().step_by(7) {
        sums.take(&piece, false).await.unwrap();
        assert_eq!(sums.settle().await.unwrap().md5, expected(&whole));
    }
    assert_eq!(desk.held.load(Ordering::Relaxed), 0, "what was given up was let go, too");
}

#[tokio::test]
async fn what_is_more_than_may_be_held_is_hashed_here() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let too_much = content(ALL_HELD_BYTES_MAX + 1);
    let mut sums = BodySums::new(&desk, None, false);
    sums.take(&too_much, false).await.unwrap();
    assert!(matches!(sums.running, Running::Here(_)), "nothing was handed over");
    assert_eq!(sums.settle().await.unwrap().md5, expected(&too_much));
}

#[tokio::test]
async fn a_body_that_is_kept_whole_is_handed_over_when_all_of_it_is_there() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let content = content(WHOLE_BYTES_MAX);
    let mut sums = BodySums::new(&desk, Some(WHOLE_BYTES_MAX as u64), false);
    for piece in content.chunks(HELD_BYTES_MAX) {
        sums.take(&Bytes::copy_from_slice(piece), false).await.unwrap();
        assert!(matches!(sums.running, Running::Here(_)));
    }
    assert_eq!(sums.held_bytes, WHOLE_BYTES_MAX);
    assert_eq!(sums.settle().await.unwrap().md5, expected(&content));
    assert_eq!(sums.settle().await.unwrap().md5, expected(&content), "it may be asked for again");
    assert_eq!(sums.held_bytes, 0);
}

#[tokio::test]
async fn a_body_that_is_kept_whole_and_alone_is_hashed_as_it_arrives() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let content = content(5 * JOB_BYTES_MIN);
    let mut pieces = content.chunks(JOB_BYTES_MIN).map(Bytes::copy_from_slice);
    let mut sums = BodySums::new(&desk, Some(content.len() as u64), false);
    for piece in pieces.by_ref().take(2) {
        sums.take(&piece, false).await.unwrap();
        assert_eq!(sums.held_bytes, 0, "alone");
    }
    let other = BodySums::new(&desk, Some(WHOLE_BYTES_MAX as u64), false);
    for (count, piece) in pieces.enumerate() {
        sums.take(&piece, false).await.unwrap();
        assert_eq!(sums.held_bytes, (count + 1) * JOB_BYTES_MIN, "others may come along");
    }
    drop(other);
    assert_eq!(sums.settle().await.unwrap().md5, expected(&content));
    assert_eq!(desk.held.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_body_waits_for_others_only_if_there_are_any() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let _short = BodySums::new(&desk, Some(1), false);
    let first = BodySums::new(&desk, None, false);
    assert_eq!(desk.patience(WHOLE_PATIENCE), Patience::default());
    let second = BodySums::new(&desk, Some(WHOLE_BYTES_MAX as u64), false);
    let both = Patience { wait: WHOLE_PATIENCE, company: 2 };
    assert_eq!(desk.patience(WHOLE_PATIENCE), both);
    drop(first);
    assert_eq!(desk.patience(WHOLE_PATIENCE), Patience::default());
    drop(second);
}

/// A body cut into chunks, of which some are of whole blocks and some are not.
async fn hash_chunks(desk: &Desk, content: Bytes, chunk_bytes: usize, piece_bytes: usize) {
    let mut sums = BodySums::new(desk, None, true);
    assert!(sums.takes_sha256());
    let (mut chunks, mut expected) = (Vec::new(), Vec::new());
    for chunk in content.chunks(chunk_bytes) {
        let mut rest = content.slice_ref(chunk);
        while !rest.is_empty() {
            let piece = rest.split_to(piece_bytes.min(rest.len()));
            sums.take(&piece, rest.is_empty()).await.unwrap();
            chunks.append(&mut sums.known_chunks());
        }
        expected.push(<[u8; 32]>::from(sha2::Sha256::digest(chunk)));
    }
    let known = sums.settle().await.unwrap();
    chunks.append(&mut sums.known_chunks());
    assert_eq!(chunks, expected, "chunks of {chunk_bytes} bytes in {piece_bytes}");
    assert_eq!(known.md5, super::tests::expected(&content));
    assert_eq!(known.sha256, Some(sha2::Sha256::digest(b"").into()), "no chunk is under way");
}

#[test]
fn chunks_of_bodies_side_by_side_get_each_its_own_sha256() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let desk = Arc::new(Desk::new(Pool::start(NonZeroUsize::MIN)));
    let mut tasks = Vec::new();
    for chunk_bytes in [8_192, 65_536, 100_001, JOB_BYTES_MIN, 3 << 20] {
        for piece_bytes in [3_000, 65_536, 1 << 20] {
            let desk = Arc::clone(&desk);
            let bytes = 2_000_000 + chunk_bytes;
            tasks.push(runtime.spawn(async move {
                hash_chunks(&desk, content(bytes), chunk_bytes, piece_bytes).await;
            }));
        }
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(desk.held.load(Ordering::Relaxed), 0, "all that was held was let go");
}

#[tokio::test]
async fn chunks_that_may_not_be_held_are_hashed_here() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    assert!(desk.hold(ALL_HELD_BYTES_MAX));
    hash_chunks(&desk, content(1_000_000), 65_536, 40_000).await;
}

#[tokio::test]
async fn the_sha256_of_a_long_body_is_that_of_all_of_it() {
    let desk = Desk::new(Pool::start(NonZeroUsize::MIN));
    let content = content(3_000_001);
    let mut sums = BodySums::new(&desk, None, true);
    for piece in content.chunks(70_000) {
        sums.take(&Bytes::copy_from_slice(piece), false).await.unwrap();
    }
    let sha256 = sha2::Sha256::digest(&content).into();
    let known = Known { md5: expected(&content), sha256: Some(sha256) };
    assert_eq!(sums.settle().await.unwrap(), known);
    assert_eq!(sums.settle().await.unwrap(), known, "it may be asked for again");
    for announced in [1, SHORT_BYTES, WHOLE_BYTES_MAX] {
        let sums = BodySums::new(&desk, Some(announced as u64), true);
        assert!(!sums.takes_sha256(), "whoever has {announced} bytes does it as they arrive");
    }
}
