use std::sync::Arc;

use block::{BlockStore, MemoryBlocks};
use store::MemoryStore;

use super::{TimedBlocks, TimedMeta};
use crate::metrics::Metrics;

#[tokio::test]
async fn each_call_is_one_observation_of_its_operation() {
    let (meta, of_meta) = TimedMeta::over(Arc::new(MemoryStore::new()));
    let (blocks, of_blocks) = TimedBlocks::over(MemoryBlocks::new());
    let metrics = Metrics::new();
    metrics.register("metadata_call_seconds", "Latency of calls.", of_meta.family());
    metrics.register("blocks_call_seconds", "Latency of calls.", of_blocks.family());
    meta.read(&[]).await.unwrap();
    meta.commit(&[]).await.unwrap();
    meta.commit(&[]).await.unwrap();
    blocks.probe().await.unwrap();
    let text = metrics.text().unwrap();
    for line in [
        "ashlar_metadata_call_seconds_count{operation=\"read\"} 1",
        "ashlar_metadata_call_seconds_count{operation=\"commit\"} 2",
        "ashlar_blocks_call_seconds_count{operation=\"probe\"} 1",
        "ashlar_blocks_call_seconds_bucket{le=\"+Inf\",operation=\"probe\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
