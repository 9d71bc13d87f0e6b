//! A hasher for one checksum of any algorithm.

use std::fmt;
use std::hash::Hasher as _;

use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use super::Md5;
use crate::request::ChecksumAlgorithm;

/// Computes one checksum of content that arrives in pieces.
#[derive(Clone)]
pub struct SumHasher {
    algorithm: ChecksumAlgorithm,
    engine: Engine,
}

/// The running computation of a checksum, by one of the supported algorithms.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "every body has a CRC, which costs no allocation")]
enum Engine {
    Crc(crc_fast::Digest),
    Md5(Box<Md5>),
    Sha1(Box<Sha1>),
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
    Xxhash64(Box<XxHash64>),
    Xxhash3(Box<XxHash3_64>),
    Xxhash128(Box<XxHash3_128>),
}

impl SumHasher {
    /// Returns a hasher without content. The hashes of the XXH family have the seed 0.
    pub fn new(algorithm: ChecksumAlgorithm) -> SumHasher {
        let crc = |crc| Engine::Crc(crc_fast::Digest::new(crc));
        let engine = match algorithm {
            ChecksumAlgorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            ChecksumAlgorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            ChecksumAlgorithm::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            ChecksumAlgorithm::Md5 => Engine::Md5(Box::default()),
            ChecksumAlgorithm::Sha1 => Engine::Sha1(Box::default()),
            ChecksumAlgorithm::Sha256 => Engine::Sha256(Box::default()),
            ChecksumAlgorithm::Sha512 => Engine::Sha512(Box::default()),
            ChecksumAlgorithm::Xxhash64 => Engine::Xxhash64(Box::new(XxHash64::with_seed(0))),
            ChecksumAlgorithm::Xxhash3 => Engine::Xxhash3(Box::new(XxHash3_64::new())),
            ChecksumAlgorithm::Xxhash128 => Engine::Xxhash128(Box::new(XxHash3_128::new())),
        };
        SumHasher { algorithm, engine }
    }

    /// Returns the checksum of `content`.
    pub fn digest(algorithm: ChecksumAlgorithm, content: &[u8]) -> Vec<u8> {
        let mut hasher = SumHasher::new(algorithm);
        hasher.update(content);
        hasher.finish()
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Adds the next bytes of content.
    pub fn update(&mut self, content: &[u8]) {
        match &mut self.engine {
            Engine::Crc(crc) => crc.update(content),
            Engine::Md5(md5) => md5.update(content),
            Engine::Sha1(sha1) => sha1.update(content),
            Engine::Sha256(sha256) => sha256.update(content),
            Engine::Sha512(sha512) => sha512.update(content),
            Engine::Xxhash64(xxhash64) => xxhash64.write(content),
            Engine::Xxhash3(xxhash3) => xxhash3.write(content),
            Engine::Xxhash128(xxhash128) => xxhash128.write(content),
        }
    }

    /// Returns the checksum of all content: big-endian bytes, as base64 encodes them on the wire.
    pub fn finish(self) -> Vec<u8> {
        match self.engine {
            Engine::Crc(crc) => {
                // A 32-bit CRC is in the lower half of the 64 bits.
                let unused = 8 - self.algorithm.sum_bytes();
                crc.finalize().to_be_bytes().iter().skip(unused).copied().collect()
            }
            Engine::Md5(md5) => md5.finish().to_vec(),
            Engine::Sha1(sha1) => sha1.finalize().to_vec(),
            Engine::Sha256(sha256) => sha256.finalize().to_vec(),
            Engine::Sha512(sha512) => sha512.finalize().to_vec(),
            Engine::Xxhash64(xxhash64) => xxhash64.finish().to_be_bytes().to_vec(),
            Engine::Xxhash3(xxhash3) => xxhash3.finish().to_be_bytes().to_vec(),
            Engine::Xxhash128(xxhash128) => xxhash128.finish_128().to_be_bytes().to_vec(),
        }
    }
}

impl fmt::Debug for SumHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SumHasher").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
