use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Version;
use proptest::prelude::*;

use super::{BodyHasher, Combined, Digests, Expectation, Md5, combine, composite};
use crate::auth::tests::sent_request::SentRequest;
use crate::body::{BodyDecoder, BodyHead, UPLOAD_BYTES_MAX};
use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::{Code, Fault, Operation};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn digests(content: &[u8], algorithm: ChecksumAlgorithm) -> Digests {
    let anonymous = put(&[]);
    let expectation = expect(Operation::PutObject, &anonymous).unwrap();
    let mut hasher = BodyHasher::without_md5(&expectation, Some(algorithm));
    for piece in content.chunks(3) {
        hasher.update(piece);
    }
    hasher.finish().with_md5(Some(md5(content)))
}

fn md5(content: &[u8]) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(content);
    md5.finish()
}

fn encoded(content: &[u8], algorithm: ChecksumAlgorithm) -> String {
    STANDARD.encode(digests(content, algorithm).sum(algorithm).unwrap())
}

/// An anonymous PUT, because the signature has no influence here.
fn put(headers: &[(&str, &str)]) -> SentRequest {
    SentRequest::new("PUT", "/b/k", &[&[("host", "localhost")], headers].concat())
}

fn expect(operation: Operation, sent: &SentRequest) -> Result<Expectation, Fault> {
    Expectation::parse(operation, &sent.verify()?, &sent.headers)
}

/// Receives an unframed body as the gateway does.
fn receive(sent: &SentRequest, content: &[u8]) -> Result<Digests, Fault> {
    let length = content.len().to_string();
    let sent = sent.clone().with("content-length", &length);
    receive_wire(&sent, content)
}

fn receive_wire(sent: &SentRequest, wire: &[u8]) -> Result<Digests, Fault> {
    let verified = sent.verify()?;
    let expectation = Expectation::parse(Operation::PutObject, &verified, &sent.headers)?;
    let head = BodyHead::parse(Version::HTTP_11, &sent.headers)?;
    let mut decoder = BodyDecoder::new(&verified, &head, UPLOAD_BYTES_MAX)?;
    let mut hasher = BodyHasher::new(&expectation, None);
    let mut content = Vec::new();
    decoder.push(Bytes::copy_from_slice(wire), &mut content)?;
    for slice in content {
        hasher.update(&slice);
    }
    let (trailers, digests) = (decoder.finish()?, hasher.finish());
    expectation.verify(&digests, &trailers)?;
    Ok(digests)
}

#[track_caller]
fn check(outcome: Result<impl std::fmt::Debug, Fault>, code: Code) -> Fault {
    let fault = outcome.unwrap_err();
    assert_eq!(fault.code, code, "{fault}");
    fault
}

#[test]
fn s3_u23_algorithms_match_known_values() {
    use ChecksumAlgorithm::{
        Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Sha512, Xxhash3, Xxhash64, Xxhash128,
    };
    for (algorithm, check) in [
        (Crc32, "cbf43926"),
        (Crc32c, "e3069283"),
        (Crc64Nvme, "ae8b14860a799888"),
        (Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        (Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        (
            Sha512,
            "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a\
             d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
        ),
        (Md5, "25f9e794323b453885f5181f1b624d0b"),
        (Xxhash64, "8cb841db40e6ae83"),
    ] {
        let digests = digests(b"123456789", algorithm);
        assert_eq!(hex::encode(digests.sum(algorithm).unwrap()), check, "{algorithm:?}");
        assert!(digests.sum(Crc64Nvme).is_some(), "always computed");
        let besides_md5 = digests.sums().filter(|(algorithm, _)| *algorithm != Md5).count();
        assert_eq!(besides_md5, if matches!(algorithm, Crc64Nvme | Md5) { 1 } else { 2 });
        assert_eq!(hex::encode(digests.md5().unwrap()), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(digests.bytes(), 9);
    }
    // Encoded by another client library.
    for (algorithm, sum) in [
        (Md5, "esZsDxSN6VGbi9JkMSxNZA=="),
        (Xxhash64, "GGCUDikCgi0="),
        (Xxhash3, "WkDcP9RMBS8="),
        (Xxhash128, "Kq/YOGmlnDE/55jA7aptxg=="),
    ] {
        assert_eq!(encoded(b"abcdefg", algorithm), sum, "{algorithm:?}");
    }
    // The trailer in AWS's documentation is the checksum of its body.
    assert_eq!(encoded(&vec![b'a'; 66_560], Crc32c), "sOO8/Q==");
}

#[test]
fn s3_u13_a_malformed_or_wrong_content_md5_is_refused() {
    let md5 = STANDARD.encode(digests(b"Welcome", ChecksumAlgorithm::Sha1).md5().unwrap());
    receive(&put(&[("content-md5", &md5)]), b"Welcome").unwrap();
    let fault = check(receive(&put(&[("content-md5", &md5)]), b"welcome"), Code::BadDigest);
    let sent = hex::encode(STANDARD.decode(&md5).unwrap());
    assert_eq!(fault.extra[0], ("ExpectedDigest", sent));
    let computed = digests(b"welcome", ChecksumAlgorithm::Sha1).md5().unwrap();
    assert_eq!(fault.extra[1], ("CalculatedDigest", STANDARD.encode(computed)));
    for bad in ["", "AAAA", "é", &md5[..23], &format!("{md5}="), "YWJjZGVmZ2hpamtsbW5vcHE="] {
        check(receive(&put(&[("content-md5", bad)]), b""), Code::InvalidDigest);
    }
    let twice = put(&[("content-md5", &md5), ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")]);
    check(receive(&twice, b"Welcome"), Code::InvalidDigest);
}

#[test]
fn s3_u14_the_body_hash_is_verified() {
    let sent = put(&[("x-amz-content-sha256", EMPTY)]);
    receive(&sent, b"").unwrap();
    let fault = check(receive(&sent, b"a"), Code::XAmzContentSHA256Mismatch);
    assert_eq!(fault.extra[0], ("ClientComputedContentSHA256", EMPTY.to_owned()));
    assert_eq!(fault.extra[1].0, "S3ComputedContentSHA256");
    receive(&sent.signed(), b"").unwrap();
}

#[test]
fn s3_u15_each_sent_checksum_is_verified() {
    for algorithm in ChecksumAlgorithm::ALL {
        let (name, good) = (algorithm.header(), encoded(b"Welcome", algorithm));
        let digests = receive(&put(&[(name, &good)]), b"Welcome").unwrap();
        assert!(digests.sum(algorithm).is_some());
        check(receive(&put(&[(name, &good)]), b"welcome"), Code::BadDigest);
        for bad in ["", "x", "AAAAAAAA", &good[1..], &format!("{good}-2")] {
            check(receive(&put(&[(name, bad)]), b"Welcome"), Code::InvalidRequest);
        }
        let also = put(&[(name, &good), ("x-amz-sdk-checksum-algorithm", algorithm.as_str())]);
        receive(&also, b"Welcome").unwrap();
        let twice = put(&[(name, &good), (name, &good)]);
        check(receive(&twice, b"Welcome"), Code::InvalidRequest);
    }
}

#[test]
fn s3_u15_several_or_unknown_algorithms_are_refused() {
    let crc = ("x-amz-checksum-crc32", "AAAAAA==");
    for (headers, code) in [
        (&[crc, ("x-amz-checksum-crc32c", "AAAAAA==")][..], Code::InvalidRequest),
        (&[crc, ("x-amz-sdk-checksum-algorithm", "SHA256")], Code::InvalidRequest),
        (&[crc, ("x-amz-sdk-checksum-algorithm", "CRC")], Code::InvalidRequest),
        (&[("x-amz-sdk-checksum-algorithm", "CRC32")], Code::InvalidRequest),
        (&[("x-amz-sdk-checksum-algorithm", "XXHASH64")], Code::InvalidRequest),
        (&[("x-amz-checksum-adler32", "AAAAAA==")], Code::InvalidRequest),
        (&[("x-amz-checksum-sha512", "AAAAAA==")], Code::InvalidRequest),
        (&[("x-amz-trailer", "x-amz-meta-a")], Code::InvalidRequest),
        (&[("x-amz-trailer", "x-amz-checksum-adler32")], Code::InvalidRequest),
        (&[crc, ("x-amz-trailer", "x-amz-checksum-crc32")], Code::InvalidRequest),
        (&[("x-amz-trailer", "x-amz-checksum-crc32, x-amz-checksum-sha1")], Code::InvalidRequest),
    ] {
        check(expect(Operation::PutObject, &put(headers)), code);
    }
    let settings = put(&[("x-amz-checksum-mode", "ENABLED"), ("x-amz-checksum-type", "COMPOSITE")]);
    assert_eq!(expect(Operation::PutObject, &settings).unwrap().algorithm(), None);
}

#[test]
fn s3_u15_a_put_can_request_a_checksum_algorithm() {
    let name = "x-amz-checksum-algorithm";
    let digests = receive(&put(&[(name, "CRC32C")]), b"Welcome").unwrap();
    assert!(digests.sum(ChecksumAlgorithm::Crc32c).is_some());
    let asked = |operation, headers: &[(&str, &str)]| {
        expect(operation, &put(headers)).map(|expectation| expectation.algorithm())
    };
    let both = [(name, "SHA256"), ("x-amz-checksum-crc32", "AAAAAA==")];
    assert_eq!(asked(Operation::PutObject, &both).unwrap(), Some(ChecksumAlgorithm::Crc32));
    check(asked(Operation::PutObject, &[(name, "CRC")]), Code::InvalidRequest);
    // A part gets the checksum algorithm of its upload.
    assert_eq!(asked(Operation::UploadPart, &[(name, "SHA256")]).unwrap(), None);
}

#[test]
fn s3_u15_two_checksums_are_refused_before_either_is_read() {
    let two = put(&[("x-amz-checksum-sha1", ""), ("x-amz-checksum-crc32c", "")]);
    let fault = check(expect(Operation::PutObject, &two), Code::InvalidRequest);
    assert_eq!(fault, ChecksumAlgorithm::multiple_checksums());
}

#[test]
fn s3_m9_a_part_must_have_the_checksum_algorithm_of_its_upload() {
    use ChecksumAlgorithm::{Crc32, Sha256};
    let of_part = |headers: &[(&str, &str)]| expect(Operation::UploadPart, &put(headers)).unwrap();
    let (crc, nothing) = (of_part(&[("x-amz-checksum-crc32", "AAAAAA==")]), of_part(&[]));
    for kind in [ChecksumType::FullObject, ChecksumType::Composite] {
        crc.check_part(Crc32, kind).unwrap();
        let fault = check(crc.check_part(Sha256, kind), Code::InvalidRequest);
        assert_eq!(
            fault.message,
            "Checksum Type mismatch occurred, expected checksum Type: SHA256, actual checksum \
             Type: CRC32"
        );
    }
    nothing.check_part(Crc32, ChecksumType::FullObject).unwrap();
    let fault = check(nothing.check_part(Crc32, ChecksumType::Composite), Code::InvalidRequest);
    assert!(fault.message.ends_with("expected checksum Type: CRC32, actual checksum Type: null"));
}

#[test]
fn s3_m9_a_trailer_can_have_any_checksum_algorithm() {
    for algorithm in ChecksumAlgorithm::ALL {
        let name = algorithm.header();
        let sent = put(&[
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-decoded-content-length", "7"),
            ("x-amz-trailer", name),
            ("x-amz-sdk-checksum-algorithm", algorithm.as_str()),
            ("transfer-encoding", "chunked"),
        ]);
        let wire = |sum: &str| format!("7\r\nWelcome\r\n0\r\n{name}:{sum}\r\n\r\n");
        let good = encoded(b"Welcome", algorithm);
        receive_wire(&sent, wire(&good).as_bytes()).unwrap();
        let other = encoded(b"welcome", algorithm);
        check(receive_wire(&sent, wire(&other).as_bytes()), Code::BadDigest);
    }
}

#[test]
fn s3_d4_a_trailing_checksum_is_verified() {
    let good = encoded(b"Welcome", ChecksumAlgorithm::Crc32);
    let sent = put(&[
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", "7"),
        ("x-amz-trailer", "X-Amz-Checksum-CRC32"),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("transfer-encoding", "chunked"),
    ]);
    let wire = |sum: &str| format!("7\r\nWelcome\r\n0\r\nx-amz-checksum-crc32:{sum}\r\n\r\n");
    receive_wire(&sent, wire(&good).as_bytes()).unwrap();
    check(receive_wire(&sent, wire("AAAAAA==").as_bytes()), Code::BadDigest);
    for bad in ["", "AAAA", "x", "AAAAAAAAAAA="] {
        check(receive_wire(&sent, wire(bad).as_bytes()), Code::InvalidRequest);
    }
}

/// The framing of uploads by boto3, the AWS CLI and the Go SDK over TLS.
fn framed() -> (Vec<(&'static str, &'static str)>, String) {
    let headers = vec![
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", "7"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("content-encoding", "aws-chunked"),
        ("expect", "100-continue"),
    ];
    let sum = encoded(b"Welcome", ChecksumAlgorithm::Crc32);
    (headers, format!("7\r\nWelcome\r\n0\r\nx-amz-checksum-crc32:{sum}\r\n\r\n"))
}

#[test]
fn s3_u1_unsigned_trailer_without_content_length_is_accepted() {
    let (mut headers, wire) = framed();
    headers.push(("transfer-encoding", "chunked"));
    let digests = receive_wire(&put(&headers).signed(), wire.as_bytes()).unwrap();
    assert_eq!(digests.bytes(), 7);
}

#[test]
fn s3_u2_unsigned_trailer_with_framed_content_length_is_accepted() {
    let (mut headers, wire) = framed();
    let length = wire.len().to_string();
    headers.push(("content-length", &length));
    let digests = receive_wire(&put(&headers).signed(), wire.as_bytes()).unwrap();
    assert_eq!(digests.bytes(), 7);
}

#[test]
fn s3_u3_anonymous_unsigned_trailer_is_decoded() {
    let (mut headers, wire) = framed();
    headers.push(("transfer-encoding", "chunked"));
    let digests = receive_wire(&put(&headers), wire.as_bytes()).unwrap();
    assert_eq!(digests.bytes(), 7);
    let wrong = wire.replace("Welcome", "welcome");
    check(receive_wire(&put(&headers), wrong.as_bytes()), Code::BadDigest);
}

#[test]
fn s3_u4_crc_and_signed_hash_are_both_verified() {
    let crc = encoded(b"Welcome", ChecksumAlgorithm::Crc32);
    let sha256 = hex::encode(
        digests(b"Welcome", ChecksumAlgorithm::Sha256).sum(ChecksumAlgorithm::Sha256).unwrap(),
    );
    let signed = |crc: &str, sha256: &str| {
        put(&[("x-amz-checksum-crc32", crc), ("x-amz-content-sha256", sha256)]).signed()
    };
    receive(&signed(&crc, &sha256), b"Welcome").unwrap();
    check(receive(&signed("AAAAAA==", &sha256), b"Welcome"), Code::BadDigest);
    check(receive(&signed(&crc, EMPTY), b"Welcome"), Code::XAmzContentSHA256Mismatch);
}

#[test]
fn s3_u9_content_md5_of_an_unsigned_payload_is_verified() {
    let md5 = STANDARD.encode(digests(b"Welcome", ChecksumAlgorithm::Sha1).md5().unwrap());
    let sent = put(&[("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("content-md5", &md5)]);
    receive(&sent.clone().signed(), b"Welcome").unwrap();
    check(receive(&sent.signed(), b"welcome"), Code::BadDigest);
}

#[test]
fn s3_u25_a_presigned_checksum_of_an_empty_body_is_ignored() {
    let presigned = |query: &str| {
        SentRequest::new("PUT", &format!("/b/k?{query}"), &[("host", "localhost")]).presigned(60)
    };
    let nothing = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32";
    let sent = presigned(nothing);
    receive(&sent, b"Welcome").unwrap();
    receive(&sent, b"").unwrap();
    let good = encoded(b"Welcome", ChecksumAlgorithm::Crc32).replace('=', "%3D");
    let good = good.replace('+', "%2B").replace('/', "%2F");
    let sent = presigned(&format!("x-amz-checksum-crc32={good}"));
    receive(&sent, b"Welcome").unwrap();
    check(receive(&sent, b"welcome"), Code::BadDigest);
    check(receive(&sent, b""), Code::BadDigest);
    let sent = presigned("x-amz-sdk-checksum-algorithm=CRC32C");
    let digests = receive(&sent, b"Welcome").unwrap();
    assert!(digests.sum(ChecksumAlgorithm::Crc32c).is_some());
    // In a header it is verified as any other checksum.
    let sent = put(&[("x-amz-checksum-crc32", "AAAAAA==")]);
    check(receive(&sent, b"Welcome"), Code::BadDigest);
}

#[test]
fn s3_m2_the_checksum_of_a_completion_is_not_that_of_its_document() {
    let sent = put(&[("x-amz-checksum-crc32", "AAAAAA=="), ("content-md5", "x")]);
    check(expect(Operation::CompleteMultipartUpload, &sent), Code::InvalidDigest);
    let sent = put(&[("x-amz-checksum-sha256", "not-a-sum-2")]);
    let expectation = expect(Operation::CompleteMultipartUpload, &sent).unwrap();
    assert_eq!(expectation.algorithm(), None);
}

#[test]
fn digests_of_another_body_are_refused() {
    let sent = put(&[("content-length", "1")]);
    let verified = sent.verify().unwrap();
    let head = BodyHead::parse(Version::HTTP_11, &sent.headers).unwrap();
    let mut decoder = BodyDecoder::new(&verified, &head, 1).unwrap();
    decoder.push(Bytes::from_static(b"a"), &mut Vec::new()).unwrap();
    let expectation = expect(Operation::PutObject, &sent).unwrap();
    let forgotten = BodyHasher::new(&expectation, None).finish();
    check(expectation.verify(&forgotten, &decoder.finish().unwrap()), Code::InternalError);
}

#[test]
fn a_separately_computed_md5_is_compared() {
    let sum = digests(b"Welcome", ChecksumAlgorithm::Sha1).md5().unwrap();
    let sent = put(&[("content-md5", &STANDARD.encode(sum)), ("content-length", "7")]);
    let expectation = expect(Operation::PutObject, &sent).unwrap();
    let head = BodyHead::parse(Version::HTTP_11, &sent.headers).unwrap();
    assert!(expectation.needs_md5());
    let cases = [
        (Some(sum), None),
        (Some([0; 16]), Some(Code::BadDigest)),
        (None, Some(Code::InternalError)),
    ];
    for (md5, code) in cases {
        let mut decoder =
            BodyDecoder::new(&sent.verify().unwrap(), &head, UPLOAD_BYTES_MAX).unwrap();
        decoder.push(Bytes::from_static(b"Welcome"), &mut Vec::new()).unwrap();
        let mut hasher = BodyHasher::without_md5(&expectation, Some(ChecksumAlgorithm::Sha1));
        hasher.update(b"Welcome");
        let digests = hasher.finish().with_md5(md5);
        assert_eq!(digests.md5(), md5);
        assert!(digests.sum(ChecksumAlgorithm::Sha1).is_some());
        let outcome = expectation.verify(&digests, &decoder.finish().unwrap());
        assert_eq!(outcome.err().map(|fault| fault.code), code);
    }
}

#[test]
fn s3_u23_a_composite_is_the_checksum_of_the_part_checksums() {
    for algorithm in ChecksumAlgorithm::ALL {
        let parts = [digests(b"Wel", algorithm), digests(b"come", algorithm)];
        let sums = || parts.iter().map(|part| part.sum(algorithm).unwrap());
        let joined: Vec<u8> = sums().flatten().copied().collect();
        let expected = digests(&joined, algorithm);
        assert_eq!(Some(composite(algorithm, sums()).as_slice()), expected.sum(algorithm));
    }
}

#[test]
fn s3_u23_only_crcs_of_the_right_length_combine() {
    let piece = |sum| Combined { sum, length: 1 };
    assert_eq!(combine(ChecksumAlgorithm::Sha256, [piece(&[0; 32])]), None);
    for hash in ChecksumAlgorithm::ALL {
        let combines = ChecksumType::FullObject.supports(hash);
        assert_eq!(combine(hash, []).is_some(), combines, "{hash:?}");
    }
    assert_eq!(combine(ChecksumAlgorithm::Crc32, [piece(&[0; 8])]), None);
    assert_eq!(combine(ChecksumAlgorithm::Crc64Nvme, [piece(&[0; 4])]), None);
    assert_eq!(combine(ChecksumAlgorithm::Crc32, []), Some(vec![0; 4]));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_u23_crcs_of_parts_combine_to_the_crc_of_the_object(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6)
    ) {
        use ChecksumAlgorithm::{Crc32, Crc32c, Crc64Nvme};
        for algorithm in [Crc32, Crc32c, Crc64Nvme] {
            let computed = parts.iter().map(|part| digests(part, algorithm));
            let computed: Vec<Digests> = computed.collect();
            let pieces = computed.iter().map(|part| Combined {
                sum: part.sum(algorithm).unwrap(),
                length: part.bytes(),
            });
            let whole = digests(&parts.concat(), algorithm);
            let combined = combine(algorithm, pieces);
            prop_assert_eq!(combined.as_deref(), whole.sum(algorithm));
        }
    }

    #[test]
    fn s3_s16_no_checksum_headers_panic(
        name in "(x-amz-checksum-[a-z0-9]{0,9}|x-amz-sdk-checksum-algorithm|x-amz-trailer\
                 |content-md5)",
        value in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "[A-Za-z0-9+/=]{0,44}".prop_map(String::into_bytes),
        ],
    ) {
        let mut sent = put(&[]);
        if let Ok(value) = http::HeaderValue::from_bytes(&value) {
            sent.headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        drop(receive(&sent, b"Welcome"));
        for algorithm in ChecksumAlgorithm::ALL {
            let text = String::from_utf8_lossy(&value);
            let sum = algorithm.decode(&text);
            prop_assert!(sum.is_none_or(|sum| STANDARD.encode(sum) == text));
        }
    }
}
