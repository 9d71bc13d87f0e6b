//! The digests of a body, computed in one pass.

use super::expect::Expectation;
use super::{Md5, SumHasher};
use crate::request::ChecksumAlgorithm;

/// Computes digests of a body as it arrives.
///
/// It is as fast as MD5, and SHA-256 if that is wanted: about 400 to 600 MB/s on one core. A task
/// that shares its thread should pass at most 256 KiB at a time.
#[derive(Clone, Debug)]
pub struct BodyHasher {
    bytes: u64,
    md5: Option<Md5>,
    crc64: SumHasher,
    /// What was asked for besides those two. Usually one, or none.
    others: Vec<SumHasher>,
}

/// The digests of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    bytes: u64,
    md5: Option<[u8; 16]>,
    sums: Vec<(ChecksumAlgorithm, Vec<u8>)>,
}

impl BodyHasher {
    /// Computes what the expectation needs, and one checksum more if something other than the
    /// request wants it.
    pub fn new(expectation: &Expectation, also: Option<ChecksumAlgorithm>) -> BodyHasher {
        let md5 = expectation.needs_md5() || also == Some(ChecksumAlgorithm::Md5);
        BodyHasher { md5: md5.then(Md5::new), ..BodyHasher::without_md5(expectation, also) }
    }

    /// The same without the MD5, which is computed separate and [added](Digests::with_md5) later.
    pub fn without_md5(expectation: &Expectation, also: Option<ChecksumAlgorithm>) -> BodyHasher {
        let asked = expectation.algorithm();
        let sha256 = expectation.content_sha256().is_some();
        let wants = |algorithm| {
            asked == Some(algorithm)
                || also == Some(algorithm)
                || (sha256 && algorithm == ChecksumAlgorithm::Sha256)
        };
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

    /// Takes the next bytes of content.
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

    /// The digests of all that was taken.
    pub fn finish(self) -> Digests {
        let hashers = std::iter::once(self.crc64).chain(self.others);
        let sums = hashers.map(|hasher| (hasher.algorithm(), hasher.finish()));
        Digests { bytes: self.bytes, md5: self.md5.map(Md5::finish), sums: sums.collect() }
    }
}

impl Digests {
    /// How many bytes of content there were.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same with the MD5 of the same bytes, if it is known and the expectation
    /// [wants](Expectation::needs_md5) it.
    #[must_use]
    pub fn with_md5(self, md5: Option<[u8; 16]>) -> Digests {
        Digests { md5, ..self }
    }

    /// The MD5, if it was computed.
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// A checksum, if it was computed: big-endian bytes, as they are encoded on the wire.
    pub fn sum(&self, algorithm: ChecksumAlgorithm) -> Option<&[u8]> {
        self.sums().find(|(other, _)| *other == algorithm).map(|(_, sum)| sum)
    }

    /// All checksums that were computed; CRC-64 always is, and comes first.
    pub fn sums(&self) -> impl Iterator<Item = (ChecksumAlgorithm, &[u8])> {
        let md5 = self.md5.as_ref().map(|md5| (ChecksumAlgorithm::Md5, md5.as_slice()));
        self.sums.iter().map(|(algorithm, sum)| (*algorithm, sum.as_slice())).chain(md5)
    }
}
