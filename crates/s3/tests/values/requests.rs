//! Listings, multipart uploads, deletions and bucket requests.

use proptest::prelude::*;
use s3::conditions::WritePrecondition;
use s3::request::{
    ChecksumAlgorithm, ChecksumType, CompleteMultipartUpload, ContinuationToken, CreateBucket,
    CreateMultipartUpload, DeleteObject, DeleteObjects, FinalChecksum, ListBuckets,
    ListMultipartUploads, ListObjectVersions, ListObjects, ListObjectsV2, ListParts, OwnershipRule,
    PublicAccessBlockConfiguration, PutAcl, UploadPart, UploadPartCopy, parse_ownership_controls,
};
use s3::tagging::{TagSet, Tagged};
use s3::{Code, Fault, KeyPrefix};

use crate::{TestRequest, refused};

fn v2(query: &str) -> Result<ListObjectsV2, Fault> {
    ListObjectsV2::parse(&TestRequest::new(query, &[]).arguments())
}

#[test]
fn s3_l3_page_sizes_are_limited() {
    let keys = |query: &str| v2(query).map(|list| list.max_keys).map_err(|fault| fault.code);
    assert_eq!(keys(""), Ok(1000));
    assert_eq!(keys("max-keys="), Ok(1000));
    assert_eq!(keys("max-keys=0"), Ok(0));
    assert_eq!(keys("max-keys=7"), Ok(7));
    assert_eq!(keys("max-keys=2147483647"), Ok(1000));
    for bad in ["-1", "x", "2147483648", "1.5", "%2B1", "0x1", "7&max-keys=8"] {
        assert_eq!(keys(&format!("max-keys={bad}")), Err(Code::InvalidArgument), "{bad}");
    }
}

#[test]
fn s3_l2_l4_delimiters_and_encoding_are_parsed() {
    let list =
        v2("prefix=a%2Fb&delimiter=&start-after=a&fetch-owner=true&encoding-type=url").unwrap();
    assert_eq!(list.prefix, Some(KeyPrefix::parse("a/b").expect("a prefix")));
    assert_eq!(list.delimiter, None);
    assert!(list.fetch_owner && list.url_encoded);
    assert_eq!(list.start_after, Some(KeyPrefix::parse("a").unwrap()));
    assert_eq!(v2("delimiter=a+b").unwrap().delimiter.as_deref(), Some("a b"));
    refused(v2("encoding-type=base64"), Code::InvalidArgument);
    refused(v2("prefix=%00"), Code::InvalidArgument);
    refused(v2(&format!("prefix={}", "x".repeat(1025))), Code::KeyTooLongError);
    let first =
        ListObjects::parse(&TestRequest::new("marker=m&delimiter=%2F", &[]).arguments()).unwrap();
    assert_eq!(first.marker, Some(KeyPrefix::parse("m").expect("a marker")));
    assert_eq!((first.prefix, first.delimiter.as_deref()), (None, Some("/")));
}

#[test]
fn s3_l7_tokens_contain_the_last_key() {
    let token = ContinuationToken::AfterKey(KeyPrefix::parse("a/é +").unwrap());
    let query = format!("continuation-token={}", token.encode());
    let list = v2(&query).expect("our own token");
    assert_eq!(list.token, Some(token.clone()));
    assert_eq!(list.token_text, Some(token.encode()));
    assert_eq!(v2("continuation-token=").expect("an empty one").token, None);
    refused(ListBuckets::parse(&TestRequest::new(&query, &[]).arguments()), Code::InvalidArgument);
    for foreign in ["x", "AAAA", "1ueGcxLPRx1Tr", "bm90LW91cnM"] {
        refused(v2(&format!("continuation-token={foreign}")), Code::InvalidArgument);
    }
    // Each changed byte is detected.
    let text = token.encode();
    for place in 0..text.len() {
        let other = if text.as_bytes()[place] == b'A' { 'B' } else { 'A' };
        let changed = format!("{}{other}{}", &text[..place], &text[place + 1..]);
        refused(ContinuationToken::decode(&changed), Code::InvalidArgument);
    }
}

#[test]
fn s3_l9_bucket_listings_have_pages() {
    let parse = |query: &str| ListBuckets::parse(&TestRequest::new(query, &[]).arguments());
    let token = ContinuationToken::AfterBucket("abc".to_owned()).encode();
    let list = parse(&format!("prefix=a&max-buckets=5&continuation-token={token}")).unwrap();
    assert_eq!((list.after.as_deref(), list.max_buckets), (Some("abc"), Some(5)));
    refused(parse("max-buckets=0"), Code::InvalidArgument);
    refused(parse("max-buckets=10001"), Code::InvalidArgument);
}

#[test]
fn s3_l10_l11_markers_are_parsed_and_checked() {
    let versions =
        |query: &str| ListObjectVersions::parse(&TestRequest::new(query, &[]).arguments());
    assert!(versions("key-marker=a&version-id-marker=null").unwrap().version_marker.is_some());
    refused(versions("version-id-marker=null"), Code::InvalidArgument);
    let uploads = TestRequest::new("key-marker=a&upload-id-marker=u&max-uploads=2", &[]);
    let uploads = ListMultipartUploads::parse(&uploads.arguments()).unwrap();
    assert_eq!(uploads.upload_marker.as_ref().map(s3::request::UploadIdText::as_str), Some("u"));
    let parts = TestRequest::new("uploadId=u&part-number-marker=3&max-parts=2000", &[]);
    let parts = ListParts::parse(&parts.arguments()).unwrap();
    assert_eq!((parts.part_marker, parts.max_parts), (3, 1000));
    let empty = TestRequest::new("uploadId=", &[]);
    refused(ListParts::parse(&empty.arguments()), Code::NoSuchUpload);
}

#[test]
fn s3_m1_parts_are_numbered_from_one() {
    let parse = |query: &str| UploadPart::parse(&TestRequest::new(query, &[]).arguments());
    assert_eq!(parse("uploadId=u&partNumber=10000").unwrap().part.get(), 10_000);
    for number in ["0", "10001", "", "x", "%2B1", "65537"] {
        refused(parse(&format!("uploadId=u&partNumber={number}")), Code::InvalidArgument);
    }
    refused(parse("uploadId=%20&partNumber=1"), Code::NoSuchUpload);
    let copy = TestRequest::new(
        "uploadId=u&partNumber=1",
        &[("x-amz-copy-source", "bucket/k"), ("x-amz-copy-source-range", "bytes=0-")],
    );
    refused(UploadPartCopy::parse(&copy.arguments()), Code::InvalidArgument);
}

fn complete(body: &str) -> Result<CompleteMultipartUpload, Fault> {
    let request =
        TestRequest::new("uploadId=u", &[("x-amz-mp-object-size", "12"), ("if-none-match", "*")]);
    CompleteMultipartUpload::parse(&request.arguments(), body.as_bytes())
}

#[test]
fn s3_m2_complete_reads_its_parts() {
    let request = complete(
        "<CompleteMultipartUpload xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>
           <Part><ETag>&quot;aa&quot;</ETag><PartNumber>1</PartNumber></Part>
           <Part><PartNumber> 7 </PartNumber><ETag>bb</ETag><ChecksumCRC32C>AAAAAA==</ChecksumCRC32C></Part>
         </CompleteMultipartUpload>",
    )
    .expect("a request");
    let parts: Vec<_> =
        request.parts.iter().map(|part| (part.number.get(), part.etag.as_str())).collect();
    assert_eq!(parts, [(1, "aa"), (7, "bb")]);
    assert_eq!(request.parts[1].checksum, Some((ChecksumAlgorithm::Crc32c, vec![0; 4])));
    assert_eq!(request.object_size, Some(12));
    assert_eq!(request.condition, WritePrecondition::IfNoneMatchStar);
}

#[test]
fn s3_m9_complete_reads_one_checksum_of_each_part() {
    let part = |checksums: &str| {
        complete(&format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag>{checksums}\
             </Part></CompleteMultipartUpload>"
        ))
    };
    let why = "Invalid Base64 or multiple checksums present in request";
    for (checksums, value) in [
        ("<ChecksumCRC32>no sum</ChecksumCRC32>", "no sum"),
        ("<ChecksumMD5>AAAAAA==</ChecksumMD5>", "AAAAAA=="),
        ("<ChecksumSHA1>a</ChecksumSHA1><ChecksumCRC32>b</ChecksumCRC32>", "CRC32:b;SHA1:a;"),
    ] {
        let fault = part(checksums).expect_err("no checksum");
        assert_eq!((fault.code, &*fault.message), (Code::InvalidArgument, why));
        let value = ("ArgumentValue", value.to_owned());
        assert_eq!(fault.extra, [("ArgumentName", "Checksum".to_owned()), value]);
    }
}

#[test]
fn s3_m9_complete_reads_the_checksum_of_the_object() {
    let body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>\
                </CompleteMultipartUpload>";
    let parse = |headers: &[(&str, &str)]| {
        let request = TestRequest::new("uploadId=u", headers);
        CompleteMultipartUpload::parse(&request.arguments(), body.as_bytes())
    };
    let sum = |header, text| parse(&[(header, text)]).map(|request| request.checksum);
    for (header, algorithm, text, parts) in [
        ("x-amz-checksum-crc32", ChecksumAlgorithm::Crc32, "AAAAAA==", None),
        ("x-amz-checksum-crc32", ChecksumAlgorithm::Crc32, "AAAAAA==-12", Some(12)),
        ("x-amz-checksum-xxhash3", ChecksumAlgorithm::Xxhash3, "AAAAAAAAAAA=-1", Some(1)),
        ("x-amz-checksum-crc64nvme", ChecksumAlgorithm::Crc64Nvme, "AAAAAAAAAAA=", None),
    ] {
        let bytes = vec![0; algorithm.sum_bytes()];
        let expected = FinalChecksum { algorithm, sum: bytes, parts };
        assert_eq!(sum(header, text), Ok(Some(expected)), "{header} {text}");
    }
    for (header, text) in [
        ("x-amz-checksum-crc32", ""),
        ("x-amz-checksum-crc32", "AAAAAA==-"),
        ("x-amz-checksum-crc32", "AAAAAA==-2a"),
        ("x-amz-checksum-crc32", "AAAAAA==-2-3"),
        ("x-amz-checksum-crc32", "AAAAAA==--3"),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=-1"),
        ("x-amz-checksum-md5", "AAAAAA=="),
    ] {
        let fault = sum(header, text).expect_err("no checksum");
        assert_eq!(fault.message, format!("Value for {header} header is invalid."));
    }
    let two = [("x-amz-checksum-crc32", ""), ("x-amz-checksum-sha1", "")];
    refused(parse(&two), Code::InvalidRequest);
    let size = |text| parse(&[("x-amz-mp-object-size", text)]).map(|request| request.object_size);
    assert_eq!(size("12"), Ok(Some(12)));
    let why = "Value for x-amz-mp-object-size header is less than zero: '-1'";
    assert_eq!(size("-1").expect_err("no size").message, why);
    let why = "Value for x-amz-mp-object-size header is invalid: '1x'";
    assert_eq!(size("1x").expect_err("no size").message, why);
    let why = "Value for x-amz-mp-object-size header is invalid: '+5'";
    assert_eq!(size("+5").expect_err("no size").message, why);
}

#[test]
fn s3_m2_complete_refuses_parts_out_of_order() {
    let body = |numbers: &[&str]| {
        let part = |number| format!("<Part><PartNumber>{number}</PartNumber><ETag>e</ETag></Part>");
        let parts = numbers.iter().map(part).collect::<Vec<_>>().concat();
        complete(&format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"))
    };
    assert!(body(&["1", "2", "10000"]).is_ok());
    refused(body(&["2", "1"]), Code::InvalidPartOrder);
    refused(body(&["1", "1"]), Code::InvalidPartOrder);
    refused(body(&["0"]), Code::InvalidArgument);
    refused(body(&["10001"]), Code::InvalidArgument);
    refused(body(&[]), Code::MalformedXML);
    refused(complete(""), Code::MalformedXML);
    refused(
        complete("<CompleteMultipartUpload><Part/></CompleteMultipartUpload>"),
        Code::MalformedXML,
    );
}

#[test]
fn s3_m8_checksum_types_must_fit_their_algorithm() {
    use ChecksumAlgorithm::{Crc32, Crc64Nvme, Sha256};
    use ChecksumType::{Composite, FullObject};

    let parse = |algorithm: &str, kind: &str| {
        let mut headers = Vec::new();
        if !algorithm.is_empty() {
            headers.push(("x-amz-checksum-algorithm", algorithm));
        }
        if !kind.is_empty() {
            headers.push(("x-amz-checksum-type", kind));
        }
        CreateMultipartUpload::parse(&TestRequest::new("uploads", &headers).arguments())
            .map(|request| request.checksum)
    };
    assert_eq!(parse("", ""), Ok(None));
    assert_eq!(parse("CRC32", ""), Ok(Some((Crc32, Composite))));
    assert_eq!(parse("CRC32", "FULL_OBJECT"), Ok(Some((Crc32, FullObject))));
    assert_eq!(parse("crc64nvme", ""), Ok(Some((Crc64Nvme, FullObject))));
    assert_eq!(parse("SHA256", "COMPOSITE"), Ok(Some((Sha256, Composite))));
    for hash in ["SHA1", "SHA256", "SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"] {
        let algorithm = ChecksumAlgorithm::parse(hash).expect("a name");
        assert_eq!(parse(hash, ""), Ok(Some((algorithm, Composite))));
        refused(parse(hash, "FULL_OBJECT"), Code::InvalidRequest);
    }
    let why = "The COMPOSITE checksum type cannot be used with the crc64nvme checksum algorithm.";
    assert_eq!(parse("CRC64NVME", "COMPOSITE").expect_err("no pair").message, why);
    for (algorithm, kind) in [
        ("SHA256", "FULL_OBJECT"),
        ("CRC64NVME", "COMPOSITE"),
        ("", "COMPOSITE"),
        ("MD4", ""),
        ("CRC32", "X"),
    ] {
        refused(parse(algorithm, kind), Code::InvalidRequest);
    }
}

#[test]
fn s3_e2_delete_objects_reads_its_list() {
    let request = DeleteObjects::parse(
        b"<Delete><Object><Key> a </Key><VersionId>null</VersionId><ETag>\"e\"</ETag></Object>\
          <Object><Key>a//b</Key></Object><Object><Key>a//b</Key></Object><Quiet>true</Quiet></Delete>",
    )
    .expect("a request");
    assert!(request.quiet);
    let keys: Vec<_> = request.deletions.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, [" a ", "a//b", "a//b"]);
    assert!(
        matches!(&request.deletions[0].condition, WritePrecondition::IfMatch(list) if list.matches("e"))
    );
    let many = |count: usize| {
        let objects = "<Object><Key>k</Key></Object>".repeat(count);
        DeleteObjects::parse(format!("<Delete>{objects}</Delete>").as_bytes())
    };
    assert_eq!(many(1000).expect("as many as allowed").deletions.len(), 1000);
    refused(many(1001), Code::MalformedXML);
    refused(many(0), Code::MalformedXML);
    refused(DeleteObjects::parse(b""), Code::MalformedXML);
    refused(DeleteObjects::parse(b"<Delete><Object/></Delete>"), Code::MalformedXML);
    refused(DeleteObjects::parse(&vec![b' '; (4 << 20) + 1]), Code::MaxMessageLengthExceeded);
    let sized = b"<Delete><Object><Key>k</Key><Size>-1</Size></Object></Delete>";
    refused(DeleteObjects::parse(sized), Code::InvalidArgument);
}

#[test]
fn s3_c6_delete_parses_its_preconditions() {
    let parse =
        |headers: &[(&str, &str)]| DeleteObject::parse(&TestRequest::new("", headers).arguments());
    assert!(matches!(
        parse(&[("if-match", "*")]).unwrap().condition,
        WritePrecondition::IfMatch(_)
    ));
    refused(parse(&[("if-none-match", "*")]), Code::NotImplemented);
    assert_eq!(parse(&[("x-amz-if-match-size", "1")]).expect("a request").stat.size, Some(1));
}

#[test]
fn s3_b1_the_location_must_be_the_configured_region() {
    let parse = |body: &str| {
        CreateBucket::parse(&TestRequest::new("", &[]).arguments(), body.as_bytes(), "eu-north-1")
    };
    let located = |region: &str| {
        parse(&format!(
            "<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint>\
             </CreateBucketConfiguration>"
        ))
    };
    assert!(parse("").is_ok());
    assert!(parse("<CreateBucketConfiguration/>").is_ok());
    assert!(located("eu-north-1").is_ok());
    assert!(located("").is_ok());
    let ours = TestRequest::new("", &[]);
    let body = "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint>\
                </CreateBucketConfiguration>";
    assert!(CreateBucket::parse(&ours.arguments(), body.as_bytes(), "us-east-1").is_ok());
    refused(located("mars"), Code::InvalidLocationConstraint);
    refused(parse("<x/>"), Code::MalformedXML);
    refused(
        parse("<CreateBucketConfiguration><Bucket/></CreateBucketConfiguration>"),
        Code::NotImplemented,
    );
    let tags = "<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>";
    let tagged = parse(&format!("<CreateBucketConfiguration>{tags}</CreateBucketConfiguration>"));
    assert_eq!(tagged.unwrap().tags.as_slice(), [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn s3_b6_an_acl_is_in_headers_or_in_a_document() {
    let put = |headers: &[(&'static str, &str)], body: &[u8]| {
        PutAcl::parse(&TestRequest::new("", headers).arguments(), body)
    };
    let document = b"<AccessControlPolicy><Owner><ID>o</ID></Owner><AccessControlList/>\
                     </AccessControlPolicy>";
    assert!(matches!(put(&[("x-amz-acl", "public-read")], b""), Ok(PutAcl::Headers(_))));
    assert!(matches!(put(&[], document), Ok(PutAcl::Document(_))));
    refused(put(&[("x-amz-acl", "private")], document), Code::UnexpectedContent);
    refused(put(&[], b" "), Code::MissingSecurityHeader);
    refused(put(&[], b"<x/>"), Code::MalformedACLError);
}

#[test]
fn s3_b6_ownership_and_public_access_documents_are_parsed() {
    let controls = |name: &str| {
        let xml = format!(
            "<OwnershipControls><Rule><ObjectOwnership>{name}</ObjectOwnership></Rule>\
             </OwnershipControls>"
        );
        parse_ownership_controls(xml.as_bytes())
    };
    assert_eq!(controls("ObjectWriter"), Ok(OwnershipRule::ObjectWriter));
    refused(controls("Nobody"), Code::MalformedXML);
    refused(parse_ownership_controls(b"<OwnershipControls/>"), Code::MalformedXML);
    let block = |inner: &str| {
        let root = "PublicAccessBlockConfiguration";
        PublicAccessBlockConfiguration::parse(format!("<{root}>{inner}</{root}>").as_bytes())
    };
    let one = block("<IgnorePublicAcls>TRUE</IgnorePublicAcls>").unwrap();
    assert!(one.ignore_public_acls && !one.block_public_acls);
    refused(block("<IgnorePublicAcls>maybe</IgnorePublicAcls>"), Code::MalformedXML);
}

proptest! {
    #[test]
    fn s3_l7_tokens_round_trip(key in "[^\0]{0,100}", prefix: bool) {
        let place = KeyPrefix::parse(&key).unwrap();
        let token = if prefix { ContinuationToken::AfterPrefix(place) } else { ContinuationToken::AfterKey(place) };
        prop_assert_eq!(ContinuationToken::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn s3_s16_requests_never_panic(value in any::<String>(), body in any::<Vec<u8>>()) {
        let _ = ContinuationToken::decode(&value);
        let _ = TagSet::parse_header(&value);
        let _ = TagSet::parse_xml(&body, Tagged::Bucket);
        let _ = DeleteObjects::parse(&body);
        let _ = complete(&value);
        let _ = s3::request::Query::parse(&value);
        if let Ok(header) = http::HeaderValue::from_bytes(&body) {
            let mut request = TestRequest::new("", &[]);
            for name in ["x-amz-copy-source", "range", "if-match", "x-amz-meta-a", "x-amz-tagging"] {
                request.headers.insert(name, header.clone());
            }
            let arguments = request.arguments();
            let _ = s3::request::GetObject::parse(&arguments);
            let _ = s3::request::PutObject::parse(&arguments);
            let _ = s3::request::CopyObject::parse(&arguments);
        }
    }
}
