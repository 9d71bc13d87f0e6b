//! Checksums of bytes that are stored already.
//!
//! A copy moves no data. Only a checksum that nobody has computed yet makes it read what it copies:
//! once, as it would be sent to a client, and without holding more of it than a reader does.

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

/// The checksum of a range of an object's bytes. That of all of them is taken from the object if it
/// has one.
pub(crate) async fn sum_of(
    call: &Call<'_>,
    object: &Object,
    range: Range<u64>,
    algorithm: ChecksumAlgorithm,
) -> Result<Sum, Fault> {
    let wanted = sum_algorithm(algorithm);
    let whole = range == (0..object.size());
    let is_it = |sum: &&Sum| sum.algorithm == wanted && sum.kind == SumKind::FullObject;
    if let Some(sum) = object.file().sums.iter().find(is_it).filter(|_| whole) {
        return Ok(sum.clone());
    }
    let mut hasher = SumHasher::new(algorithm);
    let mut content = call.volume.read(object, range);
    while let Some(bytes) = content.next().await {
        for step in bytes.map_err(translate::fault)?.chunks(HASH_STEP_BYTES) {
            hasher.update(step);
            tokio::task::consume_budget().await;
        }
    }
    Ok(Sum { algorithm: wanted, kind: SumKind::FullObject, bytes: hasher.finish() })
}

/// The checksums of a copy that is to have one of this algorithm: that, and the CRC-64 of its source,
/// which stays true.
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
