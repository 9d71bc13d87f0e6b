//! The counters of calls.

use super::*;
use crate::{MemoryBlocks, Sealer};

#[tokio::test]
async fn requests_bytes_and_failures_are_counted_by_verb() {
    let store = Observed::new(MemoryBlocks::new());
    let block = |counter, byte| {
        let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), counter), 9);
        sealer.push_copy(&[byte; 9]);
        sealer.finish()
    };
    store.put(&block(1, 1)).await.expect("put");
    store.put(&block(2, 1)).await.expect("put");
    store.put(&block(2, 2)).await.expect_err("a conflict");
    store.get(block(1, 1).id(), 5..12).await.expect("there");
    store.get(block(3, 1).id(), 5..12).await.expect_err("absent");
    let mut source = store.open(block(1, 1).id(), 5..14).await.expect("there");
    assert_eq!(source.next().await.expect("sound").map(|bytes| bytes.len()), Some(9));
    assert_eq!(source.next().await.expect("sound"), None);
    assert!(store.open(block(3, 1).id(), 5..12).await.is_err(), "absent");
    store.size(block(3, 1).id()).await.expect("absence is an answer");
    store.delete(block(2, 1).id()).await.expect("deleted");
    store.sessions().await.expect("listed");
    store.list(Nonce([1; Nonce::BYTES]), None).await.expect("listed");
    assert_eq!(store.mark().await.expect("absence is an answer"), None);
    store.set_mark(Bytes::from_static(b"ours")).await.expect("marked");
    store.set_mark(Bytes::from_static(b"another")).await.expect_err("a conflict");
    store.mark().await.expect("there").expect("marked");
    store.probe().await.expect("probed");
    let count = |requests, failures, bytes| VerbMeters { requests, failures, bytes };
    let sealed = block(1, 1).sealed_bytes();
    let expected = [
        ("put", count(3, 1, 2 * sealed)),
        ("get", count(4, 2, 7 + 9)),
        ("size", count(1, 0, 0)),
        ("delete", count(1, 0, 0)),
        ("sessions", count(1, 0, 0)),
        ("list", count(1, 0, 0)),
        ("mark", count(2, 0, 4)),
        ("set_mark", count(2, 1, 4)),
        ("probe", count(1, 0, 0)),
    ];
    let BlockMeters { put, get, size, delete, sessions, list, mark, set_mark, probe } =
        store.meters();
    let counted = [put, get, size, delete, sessions, list, mark, set_mark, probe];
    for ((verb, expected), counted) in expected.iter().zip(counted) {
        assert_eq!(counted.read(), *expected, "{verb}");
    }
}
