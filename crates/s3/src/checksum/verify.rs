//! Compares the digests of a body with the checksums that the request announced.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::expect::{Expectation, StatedChecksum, refuse};
use super::hasher::Digests;
use super::sum_hasher::SumHasher;
use crate::body::Trailers;
use crate::request::ChecksumAlgorithm;
use crate::{Code, Fault};

impl Expectation {
    /// Compares the announced checksums with the computed digests and with the trailer.
    ///
    /// Fails with `XAmzContentSHA256Mismatch`; `BadDigest`; `InvalidRequest` for a malformed
    /// checksum in the trailer; `MalformedTrailerError` if the trailer has no checksum; or
    /// `InternalError` if the digests are not of this body or a needed one is missing.
    pub fn verify(&self, digests: &Digests, trailers: &Trailers) -> Result<(), Fault> {
        // A difference is a bug of the gateway: the hasher did not see the decoded content.
        if digests.bytes() != trailers.content_bytes() {
            return Err(Code::InternalError.into());
        }
        if let Some(expected) = &self.content_sha256() {
            check_content_sha256(expected, digests)?;
        }
        if let Some(expected) = &self.content_md5() {
            let computed = digests.md5().ok_or(Code::InternalError)?;
            if computed != *expected {
                // S3 shows the expected digest in hexadecimal and the computed one in base64.
                return Err(Fault::new(Code::BadDigest)
                    .with("ExpectedDigest", hex::encode(expected))
                    .with("CalculatedDigest", STANDARD.encode(computed)));
            }
        }
        match &self.checksum {
            StatedChecksum::Nothing | StatedChecksum::Algorithm(_) => Ok(()),
            StatedChecksum::Header(algorithm, expected) => check_sum(*algorithm, expected, digests),
            StatedChecksum::Hoisted(algorithm, expected) => {
                // Some SDKs presign the checksum of an empty body, which says nothing about the
                // body that is sent.
                if SumHasher::digest(*algorithm, &[]) == *expected {
                    return Ok(());
                }
                check_sum(*algorithm, expected, digests)
            }
            StatedChecksum::Trailer(algorithm) => {
                let name = algorithm.header();
                // The decoder has checked that the trailer has the announced name, so it can only
                // be missing if the framing has no trailer.
                let text = trailers.get(name).ok_or(Code::MalformedTrailerError)?;
                let expected = algorithm.decode(text).ok_or_else(|| {
                    refuse(format!("Value for {name} trailing header is invalid."))
                })?;
                check_sum(*algorithm, &expected, digests)
            }
        }
    }
}

/// Compares the SHA-256 that the client sent in `x-amz-content-sha256` with the computed one.
fn check_content_sha256(expected: &[u8; 32], digests: &Digests) -> Result<(), Fault> {
    let computed = digests.sum(ChecksumAlgorithm::Sha256).ok_or(Code::InternalError)?;
    if computed == expected.as_slice() {
        return Ok(());
    }
    Err(Fault::because(
        Code::XAmzContentSHA256Mismatch,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    )
    .with("ClientComputedContentSHA256", hex::encode(expected))
    .with("S3ComputedContentSHA256", hex::encode(computed)))
}

fn check_sum(
    algorithm: ChecksumAlgorithm,
    expected: &[u8],
    digests: &Digests,
) -> Result<(), Fault> {
    let computed = digests.sum(algorithm).ok_or(Code::InternalError)?;
    if computed == expected {
        Ok(())
    } else {
        Err(checksum_mismatch(algorithm, expected, computed))
    }
}

/// Returns the fault of a checksum that differs from the computed one.
pub fn checksum_mismatch(algorithm: ChecksumAlgorithm, expected: &[u8], computed: &[u8]) -> Fault {
    let name = algorithm.as_str();
    let why = format!("The {name} you specified did not match the calculated checksum.");
    Fault::because(Code::BadDigest, why)
        .with("ExpectedDigest", STANDARD.encode(expected))
        .with("CalculatedDigest", STANDARD.encode(computed))
}
