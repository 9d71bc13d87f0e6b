//! Computes the digests of a body in one pass.

use super::expect::Expectation;
use super::{Md5, SumHasher};
use crate::request::ChecksumAlgorithm;

/// Computes the digests of a body while it arrives.
///
/// The throughput is that of MD5, and of SHA-256 if it is needed: about 400 to 600 MB/s on one
/// core. A task that shares its thread should pass at most 256 KiB in one call.
#[derive(Clone, Debug)]
pub struct BodyHasher {
    bytes: u64,
    md5: Option<Md5>,
    crc64: SumHasher,
    /// The hashers for algorithms other than CRC-64 and MD5. Usually there is none or one.
    others: Vec<SumHasher>,
}

/// The digests (checksums and hashes) of the complete content of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    bytes: u64,
    md5: Option<[u8; 16]>,
    sums: Vec<(ChecksumAlgorithm, Vec<u8>)>,
}

impl BodyHasher {
    /// Returns a hasher for all digests that the expectation needs, and for the algorithm `also`,
    /// if any.
    pub fn new(expectation: &Expectation, also: Option<ChecksumAlgorithm>) -> BodyHasher {
        let md5 = expectation.needs_md5() || also == Some(ChecksumAlgorithm::Md5);
        BodyHasher { md5: md5.then(Md5::new), ..BodyHasher::without_md5(expectation, also) }
    }

    /// Returns a hasher for the same digests without MD5. The caller computes the MD5 separately
    /// and adds it with [`Digests::with_md5`].
    pub fn without_md5(expectation: &Expectation, also: Option<ChecksumAlgorithm>) -> BodyHasher {
        let requested = expectation.algorithm();
        let sha256 = expectation.content_sha256().is_some();
        let wants = |algorithm| {
            requested == Some(algorithm)
                || also == Some(algorithm)
                || (sha256 && algorithm == ChecksumAlgorithm::Sha256)
        };
        // CRC-64 is always computed, and MD5 has its own field because another thread may compute
        // it.
        let separate = [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Md5];
        let others = ChecksumAlgorithm::ALL
            .into_iter()
            .filter(|algorithm| !separate.contains(algorithm) && wants(*algorithm));
        BodyHasher {
            bytes: 0,
            md5: None,
            crc64: SumHasher::new(ChecksumAlgorithm::Crc64Nvme),
            others: others.map(SumHasher::new).collect(),
        }
    }

    /// Adds the next bytes of content.
    pub fn update(&mut self, content: &[u8]) {
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if let Some(md5) = &mut self.md5 {
            md5.update(content);
        }
        self.crc64.update(content);
        for hasher in &mut self.others {
            hasher.update(content);
        }
    }

    /// Returns the digests of all content that was added.
    pub fn finish(self) -> Digests {
        let hashers = std::iter::once(self.crc64).chain(self.others);
        let sums = hashers.map(|hasher| (hasher.algorithm(), hasher.finish()));
        Digests { bytes: self.bytes, md5: self.md5.map(Md5::finish), sums: sums.collect() }
    }
}

impl Digests {
    /// Returns the number of bytes of content over which the digests were computed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets the MD5 of the same content, if it is known and the expectation
    /// [needs](Expectation::needs_md5) it.
    #[must_use]
    pub fn with_md5(self, md5: Option<[u8; 16]>) -> Digests {
        Digests { md5, ..self }
    }

    /// Returns the MD5, if it was computed.
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// Returns a checksum, if it was computed: big-endian bytes, as base64 encodes them on the
    /// wire.
    pub fn sum(&self, algorithm: ChecksumAlgorithm) -> Option<&[u8]> {
        self.sums().find(|(other, _)| *other == algorithm).map(|(_, sum)| sum)
    }

    /// Returns all computed checksums. CRC-64 is always present and comes first.
    pub fn sums(&self) -> impl Iterator<Item = (ChecksumAlgorithm, &[u8])> {
        let md5 = self.md5.as_ref().map(|md5| (ChecksumAlgorithm::Md5, md5.as_slice()));
        self.sums.iter().map(|(algorithm, sum)| (*algorithm, sum.as_slice())).chain(md5)
    }
}
