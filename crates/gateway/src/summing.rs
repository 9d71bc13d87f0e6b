//! Checksums of stored content.
//!
//! A copy moves no data. Only if it needs a checksum that no write has computed, the gateway reads
//! the content once, as a GET does, with the memory of one reader. For example, a copy with
//! `x-amz-checksum-algorithm: SHA256` reads a source that has a CRC-64 only.

use std::ops::Range;

use futures::StreamExt;
use record::{Sum, SumKind};
use s3::Fault;
use s3::checksum::SumHasher;
use s3::request::ChecksumAlgorithm;
use volume::Object;

use crate::call::Call;
use crate::receive::HASH_STEP_BYTES;
use crate::translate::{self, sum_algorithm};

/// Returns the checksum of a range of an object. For the whole object, it uses the stored checksum
/// if there is one.
pub(crate) async fn sum_of(
    call: &Call<'_>,
    object: &Object,
    range: Range<u64>,
    algorithm: ChecksumAlgorithm,
) -> Result<Sum, Fault> {
    let wanted = sum_algorithm(algorithm);
    let whole = range == (0..object.size());
    let matches = |sum: &&Sum| sum.algorithm == wanted && sum.kind == SumKind::FullObject;
    if let Some(sum) = object.file().sums.iter().find(matches).filter(|_| whole) {
        return Ok(sum.clone());
    }
    let mut hasher = SumHasher::new(algorithm);
    // The stream has read-ahead and takes its memory from the budget of readers.
    let mut content = call.volume.read(object, range);
    while let Some(bytes) = content.next().await {
        for step in bytes.map_err(translate::fault)?.chunks(HASH_STEP_BYTES) {
            hasher.update(step);
            tokio::task::consume_budget().await;
        }
    }
    Ok(Sum { algorithm: wanted, kind: SumKind::FullObject, bytes: hasher.finish() })
}

/// Returns the checksums of a copy: the one of this algorithm, and the CRC-64 of the source, which
/// remains valid.
pub(crate) async fn sums_of_copy(
    call: &Call<'_>,
    source: &Object,
    algorithm: ChecksumAlgorithm,
) -> Result<Vec<Sum>, Fault> {
    let sum = sum_of(call, source, 0..source.size(), algorithm).await?;
    let crc64 = sum_algorithm(ChecksumAlgorithm::Crc64Nvme);
    let stays = |other: &&Sum| other.algorithm == crc64 && sum.algorithm != crc64;
    let mut sums: Vec<Sum> = source.file().sums.iter().filter(stays).cloned().collect();
    sums.push(sum);
    Ok(sums)
}
