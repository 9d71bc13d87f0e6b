use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::config::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use sigv4::{EMPTY_SHA256, UNSIGNED_PAYLOAD};

use super::*;

/// 2026-11-21 23:59:59.
const EVENING: u64 = 1_795_305_599;

fn signer() -> Signer {
    let [access, secret, region, service] = ["access", "secret/+", "eu-west-3", "s3"];
    let at = UNIX_EPOCH + Duration::from_secs(EVENING);
    Signer::new(access.into(), secret.into(), region.into(), service.into(), at).expect("plain")
}

/// The signature of the SDK's signer for the same request.
fn theirs(request: Signable<'_>, at: SystemTime) -> (String, String) {
    let identity = Credentials::new("access", "secret/+", None, None, "test").into();
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region("eu-west-3")
        .name("s3")
        .time(at)
        .settings(settings)
        .build()
        .expect("all is there");
    let body = match request.payload {
        UNSIGNED_PAYLOAD => SignableBody::UnsignedPayload,
        _ => SignableBody::Bytes(&[]),
    };
    let url = format!("http://{}{}", request.host, request.path);
    let headers = request.condition.into_iter().chain(request.metadata);
    let theirs = SignableRequest::new(request.method, url, headers, body).expect("good");
    let (signed, _) = sign(theirs, &parameters.into()).expect("signed").into_parts();
    let header = |name: &str| {
        let found = signed.headers().find(|header| header.0 == name);
        found.expect("the header is there").1.to_owned()
    };
    (header("x-amz-date"), header("authorization"))
}

#[test]
fn signature_equals_the_one_of_the_sdk() {
    let signer = signer();
    let requests = [
        ("PUT", None, None, UNSIGNED_PAYLOAD),
        ("PUT", Some(("if-none-match", "*")), None, UNSIGNED_PAYLOAD),
        ("PUT", None, Some(("x-amz-meta-ashlar-sums", "q+/A7w==")), UNSIGNED_PAYLOAD),
        (
            "PUT",
            Some(("if-none-match", "*")),
            Some(("x-amz-meta-ashlar-sums", "q+/A7w==")),
            UNSIGNED_PAYLOAD,
        ),
        ("GET", Some(("range", "bytes=32-4194335")), None, EMPTY_SHA256),
        ("HEAD", None, None, EMPTY_SHA256),
        ("DELETE", None, None, EMPTY_SHA256),
    ];
    let (path, host) = ("/stones/a%20b/%C3%A4~/0101", "[::1]:9000");
    for (method, condition, metadata, payload) in requests {
        let request = Signable { method, path, host, condition, metadata, payload };
        // The last second of a day, the first one of the next day, and back again.
        for second in [EVENING, EVENING + 1, EVENING] {
            let at = UNIX_EPOCH + Duration::from_secs(second);
            let ours = signer.sign(request, at).expect("plain");
            let theirs = theirs(request, at);
            assert_eq!(ours.date, theirs.0);
            assert_eq!(ours.authorization, theirs.1);
        }
    }
}

#[test]
fn invalid_header_characters_in_a_key_are_refused() {
    let at = UNIX_EPOCH + Duration::from_secs(EVENING);
    let made = Signer::new("a\nb".into(), "secret".into(), "r".into(), "s3".into(), at);
    made.expect_err("a line break");
    assert!(!format!("{:?}", signer()).contains("secret"));
}
