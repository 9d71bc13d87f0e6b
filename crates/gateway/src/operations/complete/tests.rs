//! Digests of a completed object, and the checks of the client's list of parts.

use record::{
    AccountId, Ino, ObjectHeaders, Part, PartTag, Sum, SumAlgorithm, SumKind, Timestamp, Upload,
    UploadState,
};
use s3::checksum::SumHasher;
use s3::conditions::WritePrecondition;
use s3::request::{
    ChecksumAlgorithm, ChecksumType, CompleteMultipartUpload, CompletedPart, FinalChecksum,
    PartNumber, UploadIdText,
};
use s3::{Code, Fault};
use volume::{FoundPart, FsError, ObjectDigests, VolumeError};

use super::{finish, refused};
use crate::translate::sum_algorithm;

const CONTENTS: [&[u8]; 2] = [b"Wel", b"come"];

fn upload(checksum: Option<(SumAlgorithm, SumKind)>) -> Upload {
    Upload {
        ino: Ino(1 << 60),
        begun: Timestamp::default(),
        uid: 0,
        gid: 0,
        umask: 0,
        initiator: String::new(),
        account: AccountId::ANONYMOUS,
        writer: None,
        checksum,
        object: ObjectHeaders::default(),
        asked: Vec::new(),
        encryption: None,
        state: UploadState::Open,
    }
}

fn kept(algorithm: ChecksumAlgorithm, content: &[u8]) -> Sum {
    let bytes = SumHasher::digest(algorithm, content);
    Sum { algorithm: sum_algorithm(algorithm), kind: SumKind::FullObject, bytes }
}

/// Returns the stored parts: each has a CRC-64 and a checksum of this algorithm.
fn arrived(algorithm: ChecksumAlgorithm) -> Vec<FoundPart> {
    let part = |(content, number): (&[u8], u16)| FoundPart {
        number,
        transmission: 0,
        part: Part {
            owner: Ino(u64::from(number)),
            size: content.len() as u64,
            arrived: Timestamp::default(),
            tag: PartTag::Md5([1; 16]),
            sums: vec![kept(ChecksumAlgorithm::Crc64Nvme, content), kept(algorithm, content)],
            shared: false,
            slices: Vec::new(),
        },
    };
    CONTENTS.into_iter().zip(1..).map(part).collect()
}

/// Returns the client's list of these parts, each with a checksum of this algorithm.
fn request(algorithm: Option<ChecksumAlgorithm>) -> CompleteMultipartUpload {
    let part = |(content, number): (&[u8], u16)| CompletedPart {
        number: PartNumber::parse(&number.to_string()).unwrap(),
        etag: "01".repeat(16),
        checksum: algorithm.map(|algorithm| (algorithm, SumHasher::digest(algorithm, content))),
    };
    CompleteMultipartUpload {
        upload: UploadIdText::parse("upload").unwrap(),
        parts: CONTENTS.into_iter().zip(1..).map(part).collect(),
        object_size: None,
        checksum: None,
        checksum_type: None,
        encryption: None,
        condition: WritePrecondition::None,
    }
}

fn finished(
    checksum: Option<(ChecksumAlgorithm, SumKind)>,
    request: &CompleteMultipartUpload,
) -> Result<ObjectDigests, Fault> {
    let algorithm = checksum.map_or(ChecksumAlgorithm::Crc32, |(algorithm, _)| algorithm);
    let upload = upload(checksum.map(|(algorithm, kind)| (sum_algorithm(algorithm), kind)));
    finish(&upload, &arrived(algorithm), request)
}

#[track_caller]
fn check(outcome: Result<ObjectDigests, Fault>, code: Code, message: &str) {
    let fault = outcome.expect_err("must be refused");
    assert_eq!((fault.code, &*fault.message), (code, message));
}

#[test]
fn every_algorithm_except_crc64_has_a_composite_checksum() {
    for algorithm in ChecksumAlgorithm::ALL {
        if !ChecksumType::Composite.supports(algorithm) {
            continue;
        }
        let mut request = request(Some(algorithm));
        let joined = CONTENTS.map(|content| SumHasher::digest(algorithm, content)).concat();
        let sum = SumHasher::digest(algorithm, &joined);
        for parts in [None, Some(2)] {
            request.checksum = Some(FinalChecksum { algorithm, sum: sum.clone(), parts });
            let done = finished(Some((algorithm, SumKind::Composite)), &request).unwrap();
            assert_eq!(done.sums[0].bytes, sum);
            assert_eq!(done.part_sums.len(), 2, "those of the parts are kept");
        }
        request.checksum = Some(FinalChecksum { algorithm, sum, parts: Some(3) });
        let name = algorithm.as_str();
        let why = format!("The {name} you specified did not match the calculated checksum.");
        check(finished(Some((algorithm, SumKind::Composite)), &request), Code::BadDigest, &why);
    }
}

#[test]
fn crcs_of_parts_combine_to_the_crc_of_the_object() {
    for algorithm in ChecksumAlgorithm::ALL {
        if !ChecksumType::FullObject.supports(algorithm) {
            continue;
        }
        let sum = SumHasher::digest(algorithm, &CONTENTS.concat());
        // For a full-object checksum, the list may omit the checksums of parts.
        for listed in [None, Some(algorithm)] {
            let mut request = request(listed);
            request.checksum = Some(FinalChecksum { algorithm, sum: sum.clone(), parts: None });
            let done = finished(Some((algorithm, SumKind::FullObject)), &request).unwrap();
            assert_eq!(done.sums[0].bytes, sum);
        }
    }
}

#[test]
fn a_part_without_its_checksum_is_refused() {
    let mut request = request(Some(ChecksumAlgorithm::Sha1));
    request.parts[1].checksum = None;
    let outcome = finished(Some((ChecksumAlgorithm::Sha1, SumKind::Composite)), &request);
    let why = "The upload was created using a sha1 checksum. The complete request must include \
               the checksum for each part. It was missing for part 2 in the request.";
    check(outcome, Code::InvalidRequest, why);
}

#[test]
fn a_part_with_another_checksum_is_refused() {
    let request = request(Some(ChecksumAlgorithm::Sha256));
    let outcome = finished(Some((ChecksumAlgorithm::Crc32c, SumKind::FullObject)), &request);
    let why = "The sha256 you specified for part 1 did not match what we received.";
    check(outcome, Code::BadDigest, why);
}

#[test]
fn the_checksum_type_must_be_that_of_the_upload() {
    let mut asked = request(None);
    asked.checksum_type = Some(ChecksumType::Composite);
    let why = |kind| {
        format!(
            "The upload was created using the {kind} checksum mode. The complete request must use \
             the same checksum mode."
        )
    };
    let full = Some((ChecksumAlgorithm::Crc32, SumKind::FullObject));
    check(finished(full, &asked), Code::InvalidRequest, &why("FULL_OBJECT"));
    check(finished(None, &asked), Code::InvalidRequest, &why("null"));
    asked.checksum_type = Some(ChecksumType::FullObject);
    finished(full, &asked).unwrap();
    finished(None, &asked).unwrap();
}

#[test]
fn a_checksum_is_compared_only_if_the_upload_has_an_algorithm() {
    let mut request = request(None);
    let (algorithm, sum) = (ChecksumAlgorithm::Crc64Nvme, vec![0; 8]);
    request.checksum = Some(FinalChecksum { algorithm, sum, parts: None });
    let done = finished(None, &request).unwrap();
    assert_eq!(done.sums, [kept(algorithm, &CONTENTS.concat())]);
    assert!(done.part_sums.is_empty());
    let outcome = finished(Some((ChecksumAlgorithm::Crc32, SumKind::FullObject)), &request);
    let why = "Checksum Type mismatch occurred, expected checksum Type: CRC32, actual checksum \
               Type: CRC64NVME";
    check(outcome, Code::InvalidRequest, why);
}

#[test]
fn the_stated_size_must_be_that_of_the_parts() {
    let mut request = request(None);
    request.object_size = Some(7);
    finished(None, &request).unwrap();
    request.object_size = Some(8);
    let why = "The provided 'x-amz-mp-object-size' header value 8 does not match what was \
               computed: 7";
    check(finished(None, &request), Code::InvalidRequest, why);
}

#[test]
fn a_refusal_names_the_invalid_part() {
    let request = request(None);
    let named = |error| refused(VolumeError::Fs(error), &request);
    let extras = |fault: Fault| {
        let extra = fault.extra.into_iter();
        extra.map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>()
    };
    let etag = format!("ETag={}", "01".repeat(16));
    assert_eq!(
        extras(named(FsError::InvalidPart(2))),
        ["UploadId=upload", "PartNumber=2", etag.as_str()]
    );
    assert_eq!(
        extras(named(FsError::PartTooSmall { number: 1, bytes: 3 })),
        ["ProposedSize=3", "MinSizeAllowed=5242880", "PartNumber=1", etag.as_str()]
    );
}
