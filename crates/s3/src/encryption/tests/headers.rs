//! Headers of encryption: of new objects, of reads, of copies and of steps of an upload.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::encryption::{
    AppliedEncryption, CustomerKey, EncryptionMode, RequestedEncryption, check_read,
};
use crate::fields::Fields;
use crate::{Code, Fault};

const MODE: &str = "x-amz-server-side-encryption";
const KMS_KEY: &str = "x-amz-server-side-encryption-aws-kms-key-id";
const CONTEXT: &str = "x-amz-server-side-encryption-context";
const BUCKET_KEY: &str = "x-amz-server-side-encryption-bucket-key-enabled";
const ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
const KEY: &str = "x-amz-server-side-encryption-customer-key";
const MD5: &str = "x-amz-server-side-encryption-customer-key-md5";
const SOURCE_ALGORITHM: &str = "x-amz-copy-source-server-side-encryption-customer-algorithm";
const SOURCE_KEY: &str = "x-amz-copy-source-server-side-encryption-customer-key";
const SOURCE_MD5: &str = "x-amz-copy-source-server-side-encryption-customer-key-md5";

/// Two keys of `s3-tests`, with their MD5s.
const KEY_A: &str = "pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=";
const MD5_A: &str = "DWygnHRtgiJ77HCm+1rvHw==";
const KEY_B: &str = "6b+WOZ1T3cqZMxgThRcXAQBrS5mXKdDUphvpxptl9/4=";
const MD5_B: &str = "arxBvwY2V4SiOne6yppVPQ==";
/// A key of 10 bytes and its MD5.
const SHORT_KEY: &str = "MTIzNDU2Nzg5MA==";
const SHORT_MD5: &str = "6Afx/PgtEy+bsBjKZzihnw==";

type Headers<'a> = &'a [(&'a str, &'a str)];

fn map(headers: Headers<'_>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn requested(headers: Headers<'_>) -> Result<Option<RequestedEncryption>, Fault> {
    RequestedEncryption::parse(Fields::new(&map(headers), &[]))
}

fn read(headers: Headers<'_>) -> Result<Option<Arc<CustomerKey>>, Fault> {
    CustomerKey::for_read(Fields::new(&map(headers), &[]))
}

fn argument(fault: &Fault) -> Option<&str> {
    let found = fault.extra.iter().find(|(name, _)| *name == "ArgumentName");
    found.map(|(_, value)| value.as_str())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Fault>, code: Code, message: &str) {
    let fault = result.expect_err("must be refused");
    assert_eq!((fault.code, &*fault.message), (code, message));
    assert_eq!(fault.status(), if code == Code::NotImplemented { 501 } else { 400 });
}

#[test]
fn the_modes_of_new_objects_are_parsed() {
    assert_eq!(requested(&[]), Ok(None));
    assert_eq!(requested(&[(MODE, ""), (KMS_KEY, ""), (CONTEXT, "")]), Ok(None));
    assert_eq!(requested(&[(MODE, "AES256")]), Ok(Some(RequestedEncryption::S3)));
    let kms = |key: Option<&str>| Ok(Some(RequestedEncryption::Kms(key.map(str::to_owned))));
    assert_eq!(requested(&[(MODE, "aws:kms")]), kms(None));
    assert_eq!(requested(&[(MODE, "aws:kms"), (KMS_KEY, "k-1")]), kms(Some("k-1")));
    assert_eq!(requested(&[(MODE, "aws:kms"), (KMS_KEY, "")]), kms(None));
    assert_eq!(requested(&[(MODE, "aws:kms"), (BUCKET_KEY, "false")]), kms(None));
    // Without a mode this header is about the default of the bucket.
    assert_eq!(requested(&[(BUCKET_KEY, "True")]), Ok(None));
    let customer = requested(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap();
    let Some(RequestedEncryption::Customer(key)) = customer else { panic!("{customer:?}") };
    assert_eq!((key.expose()[0], key.expose()[31]), (0xa4, 0x5b));
    assert_eq!(key.md5_base64(), MD5_A);
}

#[test]
fn wrong_modes_have_the_faults_of_s3() {
    let unsupported = "The encryption method specified is not supported";
    for mode in ["aes256", "AES512", "aes:kms", "aws:fsx", "NONE"] {
        refused(requested(&[(MODE, mode)]), Code::InvalidArgument, unsupported);
    }
    let fault = requested(&[(MODE, "aes:kms")]).unwrap_err();
    assert_eq!(argument(&fault), Some(MODE));
    let without_kms = "Server Side Encryption with AWS KMS managed key requires HTTP header \
                       x-amz-server-side-encryption : aws:kms";
    refused(requested(&[(KMS_KEY, "k")]), Code::InvalidArgument, without_kms);
    refused(requested(&[(MODE, "AES256"), (KMS_KEY, "k")]), Code::InvalidArgument, without_kms);
    refused(requested(&[(CONTEXT, "e30=")]), Code::InvalidArgument, without_kms);
    let unserved = Code::NotImplemented.message();
    refused(requested(&[(MODE, "aws:kms:dsse")]), Code::NotImplemented, unserved);
    refused(requested(&[(MODE, "aws:kms"), (CONTEXT, "e30=")]), Code::NotImplemented, unserved);
    let map = "The header 'x-amz-server-side-encryption-context' shall be Base64-encoded UTF-8 \
               string holding JSON which represents a string-string map";
    // Not base64, and base64 of `{"a": 1}`.
    for context in ["!", "eyJhIjogMX0="] {
        refused(requested(&[(MODE, "aws:kms"), (CONTEXT, context)]), Code::InvalidArgument, map);
    }
    let flag = "The value of the header must be true or false.";
    refused(requested(&[(MODE, "aws:kms"), (BUCKET_KEY, "1")]), Code::InvalidArgument, flag);
    let unknown = "x-amz-server-side-encryption-new-thing";
    refused(requested(&[(unknown, "k")]), Code::NotImplemented, unserved);
    let elsewhere = format!("{SOURCE_KEY} header is not supported for this operation.");
    refused(requested(&[(SOURCE_KEY, KEY_A)]), Code::InvalidArgument, &elsewhere);
}

/// The fault of each wrong set of headers of a client's key: algorithm, key and MD5.
const WRONG_KEYS: [(Code, &str, [Option<&str>; 3]); 11] = {
    const NO_ALGORITHM: &str = "Requests specifying Server Side Encryption with Customer provided \
                                keys must provide a valid encryption algorithm.";
    const NO_KEY: &str = "Requests specifying Server Side Encryption with Customer provided keys \
                          must provide an appropriate secret key.";
    const NO_MD5: &str = "Requests specifying Server Side Encryption with Customer provided keys \
                          must provide the client calculated MD5 of the secret key.";
    const OTHER_MD5: &str =
        "The calculated MD5 hash of the key did not match the hash that was provided.";
    const WRONG_KEY: &str = "The secret key was invalid for the specified algorithm.";
    const WRONG_ALGORITHM: &str =
        "The Encryption request you specified is not valid. Supported value: AES256.";
    const AES: Option<&str> = Some("AES256");
    [
        (Code::InvalidArgument, NO_ALGORITHM, [None, Some(KEY_A), Some(MD5_A)]),
        (Code::InvalidArgument, NO_ALGORITHM, [Some(""), Some(KEY_A), Some(MD5_A)]),
        (Code::InvalidArgument, NO_ALGORITHM, [None, None, Some(MD5_A)]),
        (Code::InvalidArgument, NO_KEY, [AES, None, None]),
        (Code::InvalidArgument, NO_KEY, [AES, Some(""), Some(MD5_A)]),
        (Code::InvalidArgument, NO_MD5, [AES, Some(KEY_A), None]),
        (Code::InvalidArgument, OTHER_MD5, [AES, Some(KEY_A), Some(MD5_B)]),
        // The MD5 is compared before the length.
        (Code::InvalidArgument, OTHER_MD5, [AES, Some(SHORT_KEY), Some(MD5_A)]),
        (Code::InvalidArgument, WRONG_KEY, [AES, Some(SHORT_KEY), Some(SHORT_MD5)]),
        (Code::InvalidArgument, WRONG_KEY, [AES, Some("not base64"), Some(MD5_A)]),
        (
            Code::InvalidEncryptionAlgorithmError,
            WRONG_ALGORITHM,
            [Some("AES192"), Some(KEY_A), Some(MD5_A)],
        ),
    ]
};

#[test]
fn wrong_keys_of_clients_have_the_faults_of_s3() {
    for (code, message, values) in WRONG_KEYS {
        let with = |names: [&'static str; 3]| {
            let pairs = names.into_iter().zip(values);
            let pairs = pairs.filter_map(|(name, value)| Some((name, value?)));
            pairs.collect::<Vec<_>>()
        };
        let own = with([ALGORITHM, KEY, MD5]);
        refused(requested(&own), code, message);
        refused(read(&own), code, message);
        assert_eq!(argument(&requested(&own).unwrap_err()), Some(MODE), "{own:?}");
        let headers = map(&with([SOURCE_ALGORITHM, SOURCE_KEY, SOURCE_MD5]));
        let source = CustomerKey::of_copy_source(Fields::new(&headers, &[]));
        refused(source, code, message);
        // No fault repeats the key.
        let document = requested(&own).unwrap_err().to_xml("/bucket/key", "id", "host");
        assert!(!document.contains(&KEY_A[..10]) && !document.contains(&SHORT_KEY[..10]));
    }
}

#[test]
fn a_key_of_the_client_excludes_other_modes() {
    let key = [(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)];
    let message = "Server Side Encryption with Customer provided key is incompatible with the \
                   encryption method specified";
    for mode in ["AES256", "aws:kms"] {
        let both = [&[(MODE, mode)][..], &key].concat();
        refused(requested(&both), Code::InvalidArgument, message);
        // S3 checks this before the cipher.
        refused(requested(&[(MODE, mode), (ALGORITHM, "AES192")]), Code::InvalidArgument, message);
    }
}

#[test]
fn reads_refuse_the_modes_of_new_objects() {
    assert_eq!(read(&[]), Ok(None));
    // An empty header counts as absent.
    assert_eq!(read(&[(MODE, "")]), Ok(None));
    for (name, value) in [(MODE, "AES256"), (KMS_KEY, "k"), (CONTEXT, "e30="), (BUCKET_KEY, "true")]
    {
        let message = format!("{name} header is not supported for this operation.");
        refused(read(&[(name, value)]), Code::InvalidArgument, &message);
    }
    let key = read(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap();
    assert_eq!(key.map(|key| key.md5_base64()).as_deref(), Some(MD5_A));
    refused(
        read(&[(SOURCE_MD5, MD5_A)]),
        Code::InvalidArgument,
        &format!("{SOURCE_MD5} header is not supported for this operation."),
    );
}

#[test]
fn a_copy_has_a_key_for_its_source_and_another_for_itself() {
    let headers = map(&[
        (ALGORITHM, "AES256"),
        (KEY, KEY_B),
        (MD5, MD5_B),
        (SOURCE_ALGORITHM, "AES256"),
        (SOURCE_KEY, KEY_A),
        (SOURCE_MD5, MD5_A),
    ]);
    let fields = Fields::new(&headers, &[]);
    let Ok(Some(RequestedEncryption::Customer(own))) = RequestedEncryption::parse_for_copy(fields)
    else {
        panic!("the copy has a key");
    };
    let source = CustomerKey::of_copy_source(fields).unwrap().unwrap();
    assert_eq!((own.md5_base64().as_str(), source.md5_base64().as_str()), (MD5_B, MD5_A));
    assert_ne!(own, source);
    assert_eq!(
        source,
        read(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap().unwrap()
    );
    // The modes of a new object have no form for a source.
    let odd = map(&[("x-amz-copy-source-server-side-encryption", "AES256")]);
    let refusal = RequestedEncryption::parse_for_copy(Fields::new(&odd, &[]));
    assert_eq!(refusal.unwrap_err().code, Code::NotImplemented);
}

#[test]
fn debug_shows_no_byte_of_a_key() {
    let requested = requested(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap();
    assert_eq!(format!("{requested:?}"), "Some(Customer(CustomerKey(…)))");
}

#[test]
fn steps_of_an_upload_repeat_its_mode_or_name_none() {
    let customer = requested(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap();
    let kms = Some(RequestedEncryption::Kms(Some("other".to_owned())));
    let s3 = Some(RequestedEncryption::S3);
    let check = |requested: &Option<RequestedEncryption>, upload, needs_key| {
        RequestedEncryption::check_step(requested.as_ref(), upload, needs_key)
    };
    let message = "The multipart upload initiate requested encryption. Subsequent part requests \
                   must include the appropriate encryption parameters.";
    let modes =
        [None, Some(EncryptionMode::S3), Some(EncryptionMode::Kms), Some(EncryptionMode::Customer)];
    for upload in modes {
        for asked in [&None, &s3, &kms, &customer] {
            for needs_key in [false, true] {
                let mode = asked.as_ref().map(RequestedEncryption::mode);
                let misses_key = needs_key && upload == Some(EncryptionMode::Customer);
                let fits = mode == upload || (mode.is_none() && !misses_key);
                match check(asked, upload, needs_key) {
                    Ok(()) => assert!(fits, "{upload:?} {asked:?}"),
                    refusal @ Err(_) => {
                        assert!(!fits, "{upload:?} {asked:?}");
                        refused(refusal, Code::InvalidRequest, message);
                    }
                }
            }
        }
    }
}

#[test]
fn reads_need_a_key_if_and_only_if_the_object_has_one() {
    let key = read(&[(ALGORITHM, "AES256"), (KEY, KEY_A), (MD5, MD5_A)]).unwrap();
    assert_eq!(check_read(false, None), Ok(()));
    assert_eq!(check_read(true, key.as_deref()), Ok(()));
    refused(
        check_read(true, None),
        Code::InvalidRequest,
        "The object was stored using a form of Server Side Encryption. The correct parameters must \
         be provided to retrieve the object.",
    );
    refused(
        check_read(false, key.as_deref()),
        Code::InvalidRequest,
        "The encryption parameters are not applicable to this object.",
    );
}

#[test]
fn answers_name_the_mode_and_never_the_key_of_a_client() {
    assert_eq!(AppliedEncryption::S3.headers(), [(MODE, "AES256")]);
    assert_eq!(
        AppliedEncryption::Kms("k-1").headers(),
        [(MODE, "aws:kms"), (KMS_KEY, "k-1"), (BUCKET_KEY, "true")]
    );
    assert_eq!(AppliedEncryption::Customer(MD5_A).headers(), [(ALGORITHM, "AES256"), (MD5, MD5_A)]);
}

#[test]
fn a_presigned_url_may_have_the_headers_in_its_query() {
    let headers = map(&[]);
    let hoisted = [(MODE.to_owned(), "AES256".to_owned())];
    let requested = RequestedEncryption::parse(Fields::new(&headers, &hoisted));
    assert_eq!(requested, Ok(Some(RequestedEncryption::S3)));
}
