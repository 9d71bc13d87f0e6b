//! The digests of a body, computed in one pass.

use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::Md5;
use super::expect::Expectation;
use crate::request::ChecksumAlgorithm;

/// Computes digests of a body as it arrives.
///
/// It is as fast as MD5, and SHA-256 if that is wanted: about 400 to 600 MB/s on one core. A task
/// that shares its thread should pass at most 256 KiB at a time.
#[derive(Clone, Debug)]
pub struct BodyHasher {
    bytes: u64,
    md5: Option<Md5>,
    crc32: Option<crc_fast::Digest>,
    crc32c: Option<crc_fast::Digest>,
    crc64: crc_fast::Digest,
    sha1: Option<Sha1>,
    sha256: Option<Sha256>,
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
        let md5 = expectation.wants_md5().then(Md5::new);
        BodyHasher { md5, ..BodyHasher::without_md5(expectation, also) }
    }

    /// The same without the MD5, which is computed elsewhere and [added](Digests::with_md5) later.
    pub fn without_md5(expectation: &Expectation, also: Option<ChecksumAlgorithm>) -> BodyHasher {
        let asked = expectation.algorithm();
        let wants = |algorithm| asked == Some(algorithm) || also == Some(algorithm);
        let crc = |algorithm, engine| wants(algorithm).then(|| crc_fast::Digest::new(engine));
        let sha256 = wants(ChecksumAlgorithm::Sha256) || expectation.content_sha256().is_some();
        BodyHasher {
            bytes: 0,
            md5: None,
            crc32: crc(ChecksumAlgorithm::Crc32, CrcAlgorithm::Crc32IsoHdlc),
            crc32c: crc(ChecksumAlgorithm::Crc32c, CrcAlgorithm::Crc32Iscsi),
            crc64: crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme),
            sha1: wants(ChecksumAlgorithm::Sha1).then(Sha1::new),
            sha256: sha256.then(Sha256::new),
        }
    }

    /// Takes the next bytes of content.
    pub fn update(&mut self, content: &[u8]) {
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if let Some(md5) = &mut self.md5 {
            md5.update(content);
        }
        for crc in [&mut self.crc32, &mut self.crc32c].into_iter().flatten() {
            crc.update(content);
        }
        self.crc64.update(content);
        if let Some(sha1) = &mut self.sha1 {
            sha1.update(content);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(content);
        }
    }

    /// The digests of all that was taken.
    pub fn finish(self) -> Digests {
        let mut sums =
            vec![(ChecksumAlgorithm::Crc64Nvme, self.crc64.finalize().to_be_bytes().to_vec())];
        let mut keep = |algorithm, sum: Option<Vec<u8>>| {
            sums.extend(sum.map(|sum| (algorithm, sum)));
        };
        keep(ChecksumAlgorithm::Crc32, self.crc32.as_ref().map(four_bytes));
        keep(ChecksumAlgorithm::Crc32c, self.crc32c.as_ref().map(four_bytes));
        keep(ChecksumAlgorithm::Sha1, self.sha1.map(|sha1| sha1.finalize().to_vec()));
        keep(ChecksumAlgorithm::Sha256, self.sha256.map(|sha256| sha256.finalize().to_vec()));
        Digests { bytes: self.bytes, md5: self.md5.map(Md5::finish), sums }
    }
}

/// A 32-bit CRC, which its engine keeps in the lower half of 64 bits.
fn four_bytes(crc: &crc_fast::Digest) -> Vec<u8> {
    crc.finalize().to_be_bytes().iter().skip(4).copied().collect()
}

impl Digests {
    /// How many bytes of content there were.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same with the MD5 of the same bytes, if it is known and the expectation
    /// [wants](Expectation::wants_md5) it.
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
        self.sums.iter().find(|(other, _)| *other == algorithm).map(|(_, sum)| sum.as_slice())
    }

    /// All checksums that were computed; CRC-64 always is, and comes first.
    pub fn sums(&self) -> impl Iterator<Item = (ChecksumAlgorithm, &[u8])> {
        self.sums.iter().map(|(algorithm, sum)| (*algorithm, sum.as_slice()))
    }
}
