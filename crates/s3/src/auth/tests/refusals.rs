//! Requests that must be refused, and the code of each refusal.

use super::sent_request::{DAY, KEY, SECRET, SentRequest, rules, terms_at};
use crate::auth::unknown_key::DUMMY_SECRET;
use crate::auth::v2::hmac_sha1;
use crate::auth::{AuthKind, Credentials, PayloadMode, SignatureRules};
use crate::{Code, Fault};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn plain(method: &str, target: &str) -> SentRequest {
    SentRequest::new(method, target, &[("host", "localhost:9700")])
}

fn put() -> SentRequest {
    plain("PUT", "/b/key").with("x-amz-content-sha256", EMPTY)
}

#[track_caller]
fn check(outcome: Result<impl std::fmt::Debug, Fault>, code: Code) -> Fault {
    let fault = outcome.unwrap_err();
    assert_eq!(fault.code, code, "{fault}");
    fault
}

fn extra<'a>(fault: &'a Fault, name: &str) -> Option<&'a str> {
    fault.extra.iter().find(|(other, _)| *other == name).map(|(_, text)| text.as_str())
}

#[test]
fn s3_a1_unknown_key_and_wrong_secret_differ_only_in_the_code() {
    for sent in [put().signed(), plain("GET", "/b/key").presigned(60)] {
        let head = sent.head();
        let credentials = Credentials::parse(&head).unwrap();
        assert_eq!(credentials.access_key(), Some(KEY));
        let unknown = check(credentials.verify(None, &head, &rules()), Code::InvalidAccessKeyId);
        assert_eq!(extra(&unknown, "AWSAccessKeyId"), Some(KEY));
        let wrong = credentials.verify(Some("wrong"), &head, &rules());
        let wrong = check(wrong, Code::SignatureDoesNotMatch);
        for name in ["AWSAccessKeyId", "StringToSign", "SignatureProvided", "CanonicalRequest"] {
            assert!(extra(&wrong, name).is_some(), "{name}");
        }
        assert_eq!(
            credentials.verify(Some(SECRET), &head, &rules()).unwrap().access_key(),
            Some(KEY)
        );
    }
}

#[test]
fn s3_a3_header_time_may_differ_by_fifteen_minutes() {
    let sent = put().signed();
    for seconds in [DAY - 900, DAY + 900] {
        sent.verify_on(&terms_at(seconds)).unwrap();
    }
    for seconds in [DAY - 901, DAY + 901, 0, 4_000_000_000] {
        check(sent.verify_on(&terms_at(seconds)), Code::RequestTimeTooSkewed);
    }
}

#[test]
fn s3_a3_a_request_without_a_valid_time_is_refused() {
    let sent = put().signed();
    for time in ["", "20130524", "20130524T000000", "2013-05-24T00:00:00Z", "20131324T000000Z"] {
        let sent = sent.clone().without("x-amz-date").with("x-amz-date", time);
        check(sent.verify(), Code::AccessDenied);
    }
    check(sent.without("x-amz-date").verify(), Code::AccessDenied);
}

#[test]
fn s3_s4_presign_lifetime_is_one_second_to_one_week() {
    plain("GET", "/b/k").presigned(604_800).verify().unwrap();
    for expires in ["604801", "-1", "0", "1e3", "", "99999999999999999999", "%2B60", "-", "6 0"] {
        let sent = plain("GET", "/b/k").presigned(60);
        let sent = sent.tampered("X-Amz-Expires=60", &format!("X-Amz-Expires={expires}"));
        check(sent.verify(), Code::AuthorizationQueryParametersError);
    }
    let sent = plain("GET", "/b/k").presigned(60);
    check(sent.verify_on(&terms_at(DAY - 3_600)), Code::AccessDenied);
    let fault = check(sent.verify_on(&terms_at(DAY + 61)), Code::AccessDenied);
    assert_eq!(extra(&fault, "Expires"), Some("2013-05-24T00:01:00Z"));
    assert_eq!(extra(&fault, "ServerTime"), Some("2013-05-24T00:01:01Z"));
    assert_eq!(extra(&fault, "X-Amz-Expires"), Some("60"));
}

#[test]
fn s3_a4_a_scope_with_a_wrong_part_is_refused() {
    let (header, query) = (put().signed(), plain("GET", "/b/k").presigned(60));
    for (from, to) in [
        ("20130524/", "20130525/"),
        ("us-east-1", "eu-west-1"),
        ("/s3/", "/ec2/"),
        ("aws4_request", "aws5_request"),
    ] {
        let fault =
            check(header.clone().tampered(from, to).verify(), Code::AuthorizationHeaderMalformed);
        assert_eq!(extra(&fault, "Region"), (to == "eu-west-1").then_some("us-east-1"));
        let (from, to) = (from.replace('/', "%2F"), to.replace('/', "%2F"));
        let (from, to) = (from.replace('-', "%2D"), to.replace('-', "%2D"));
        let (from, to) = (from.replace('_', "%5F"), to.replace('_', "%5F"));
        let outcome = query.clone().tampered(&from, &to).verify();
        check(outcome, Code::AuthorizationQueryParametersError);
    }
    let elsewhere = SignatureRules { region: "eu-central-1", ..rules() };
    check(header.verify_on(&elsewhere), Code::AuthorizationHeaderMalformed);
}

#[test]
fn s3_s2_each_unsigned_amz_header_is_refused() {
    for name in [
        "x-amz-copy-source",
        "x-amz-acl",
        "x-amz-meta-a",
        "x-amz-decoded-content-length",
        "x-amz-trailer",
        "x-amz-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-tagging",
        "x-amz-anything-new",
    ] {
        for sent in [put().signed(), plain("PUT", "/b/k").presigned(60)] {
            let fault = check(sent.with(name, "b/other").verify(), Code::AccessDenied);
            assert_eq!(extra(&fault, "HeadersNotSigned"), Some(name));
        }
    }
}

#[test]
fn s3_a5_an_absent_signed_header_is_refused() {
    let sent = put().with("x-amz-meta-a", "1").with("range", "bytes=0-1").signed();
    sent.verify().unwrap();
    for name in ["range", "x-amz-meta-a", "host"] {
        check(sent.clone().without(name).verify(), Code::SignatureDoesNotMatch);
    }
}

#[test]
fn s3_a5_signed_headers_must_name_host() {
    for sent in [put().signed(), plain("GET", "/b/k").presigned(60)] {
        for (from, to) in [("Headers=host;", "Headers="), ("Headers=host", "Headers=Host")] {
            if sent.query.is_empty() || !from.ends_with(';') {
                let code = check_malformed(&sent.clone().tampered(from, to));
                assert_eq!(code.status(), 400);
            }
        }
    }
}

fn check_malformed(sent: &SentRequest) -> Code {
    let code = sent.verify().unwrap_err().code;
    assert!(
        matches!(
            code,
            Code::AuthorizationHeaderMalformed | Code::AuthorizationQueryParametersError
        ),
        "{code:?}"
    );
    code
}

#[test]
fn s3_a5_the_authority_replaces_the_host_header() {
    let mut sent = put().signed().without("host");
    sent.authority = Some("localhost:9700".to_owned());
    sent.verify().unwrap();
    let both = sent.clone().with("host", "LOCALHOST:9700");
    check(both.verify(), Code::SignatureDoesNotMatch);
    check(sent.with("host", "elsewhere").verify(), Code::InvalidArgument);
}

#[test]
fn s3_a6_two_kinds_of_credentials_or_repeated_parts_are_refused() {
    let query = plain("GET", "/b/k").presigned(60);
    let both = query.clone().with("authorization", "AWS4-HMAC-SHA256 Credential=x");
    check(both.verify(), Code::InvalidArgument);
    let mut v2 = query.clone();
    v2.query.push_str("&AWSAccessKeyId=a&Signature=b&Expires=1");
    check(v2.verify(), Code::InvalidArgument);
    for name in [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
        "x-amz-signature",
    ] {
        let mut doubled = query.clone();
        doubled.query.extend(["&", name, "=60"]);
        check(doubled.verify(), Code::AuthorizationQueryParametersError);
    }
    for name in ["host", "authorization", "x-amz-date", "x-amz-content-sha256"] {
        let sent = put().signed();
        let again = sent.headers[name].to_str().unwrap().to_owned();
        check(sent.with(name, &again).verify(), Code::InvalidArgument);
    }
}

#[test]
fn s3_a6_a_presigned_url_without_a_required_parameter_is_refused() {
    for name in [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
    ] {
        let mut sent = plain("GET", "/b/k").presigned(60);
        let kept: Vec<&str> =
            sent.query.split('&').filter(|pair| !pair.starts_with(&format!("{name}="))).collect();
        sent.query = kept.join("&");
        check(sent.verify(), Code::AuthorizationQueryParametersError);
    }
}

#[test]
fn s3_a7_a_path_has_one_canonical_form_and_is_never_normalised() {
    let sent = plain("GET", "/b/a%2Fb%20c//./../d%7E").with("x-amz-content-sha256", EMPTY);
    let mut sent = SentRequest { path: "/b/a/b%20c//./../d~".to_owned(), ..sent }.signed();
    for path in ["/b/a%2fb%20c//./../d%7e", "/%62/a/b%20c//.%2F../d~"] {
        path.clone_into(&mut sent.path);
        sent.verify().unwrap();
    }
    for path in ["/b/d~", "/b/a/b%20c/./../d~", "/b/a/b%2520c//./../d~", "/b/a/b+c//./../d~"] {
        path.clone_into(&mut sent.path);
        check(sent.verify(), Code::SignatureDoesNotMatch);
    }
    for path in ["/b/%", "/b/%2", "/b/%zz", "/b/%+1"] {
        path.clone_into(&mut sent.path);
        check(sent.verify(), Code::InvalidURI);
    }
}

#[test]
fn s3_a8_hoisted_parameters_count_as_headers() {
    let sent = plain("PUT", "/b/k?x-amz-acl=private&X-Amz-Meta-A=a%20b&x-id=PutObject");
    let verified = sent.presigned(60).verify().unwrap();
    let hoisted: Vec<(&str, &str)> =
        verified.hoisted().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(hoisted, [("x-amz-acl", "private"), ("x-amz-meta-a", "a b")]);
    let sent = plain("PUT", "/b/k?x-amz-acl=private").with("x-amz-content-sha256", EMPTY);
    assert!(sent.signed().verify().unwrap().hoisted().is_empty(), "only presigned URLs hoist");
}

#[test]
fn s3_s5_other_schemes_are_refused() {
    for (value, code) in [
        ("AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", Code::InvalidRequest),
        (
            "AWS4-ECDSA-P256-SHA256 Credential=a, SignedHeaders=b, Signature=c",
            Code::InvalidArgument,
        ),
        ("Bearer token", Code::InvalidArgument),
        ("Basic YTpi", Code::InvalidArgument),
        ("", Code::InvalidArgument),
        ("AWS4-HMAC-SHA256", Code::InvalidArgument),
        ("AWS4-HMAC-SHA256 ", Code::InvalidArgument),
        ("AWS4-HMAC-SHA256 Credential=a/b/c/d/e", Code::AuthorizationHeaderMalformed),
        (
            "AWS4-HMAC-SHA256 Credential=/20130524/us-east-1/s3/aws4_request, \
          SignedHeaders=host, Signature=a",
            Code::AuthorizationHeaderMalformed,
        ),
        (
            "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, Credential=a/b/c/d/e, Signature=c",
            Code::AuthorizationHeaderMalformed,
        ),
    ] {
        let fault = check(put().with("authorization", value).verify(), code);
        assert!(!format!("{fault:?}").contains("token"), "no secret is repeated");
    }
    let ecdsa = plain("GET", "/b/k").presigned(60);
    let ecdsa = ecdsa.tampered("AWS4%2DHMAC%2DSHA256", "AWS4-ECDSA-P256-SHA256");
    check(ecdsa.verify(), Code::AuthorizationQueryParametersError);
}

#[test]
fn a_wrong_hash_of_an_empty_body_is_refused_before_the_body() {
    let hash = EMPTY.replace('e', "f");
    let sent = |method: &str, length: &str| {
        let sent = plain(method, "/b/k").with("x-amz-content-sha256", &hash);
        sent.with("content-length", length).signed().verify()
    };
    let fault = check(sent("PUT", "0"), Code::XAmzContentSHA256Mismatch);
    assert_eq!(extra(&fault, "ClientComputedContentSHA256"), Some(hash.as_str()));
    assert_eq!(extra(&fault, "S3ComputedContentSHA256"), Some(EMPTY));
    sent("PUT", "1").unwrap();
    sent("GET", "0").unwrap();
    put().with("content-length", "0").signed().verify().unwrap();
}

#[test]
fn a_malformed_header_is_refused_with_the_message_of_s3() {
    let scope = "20130524/us-east-1/s3/aws4_request";
    let signed = "SignedHeaders=host,Signature=s";
    for (value, why) in [
        (
            format!("Credential=k/{scope},Signature=s"),
            "the authorization header requires three components: Credential, SignedHeaders, and \
             Signature.",
        ),
        (
            format!("Credential=k/{scope},SignedHeaders-host,Signature=s"),
            "the authorization component \"SignedHeaders-host\" is malformed.",
        ),
        (format!("Other=k/{scope},{signed}"), "missing Credential."),
        (format!("Credential=k/{scope},Other=host,Signature=s"), "missing SignedHeaders."),
        (format!("Credential=k/{scope},SignedHeaders=host,Other=s"), "missing Signature."),
        (
            format!("Credential=k/{scope}/more/parts,{signed}"),
            "the Credential is mal-formed; expecting \
             \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
        ),
        (
            format!("Credential=k,{signed}"),
            "the Credential is mal-formed; expecting \
             \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
        ),
        (
            format!("Credential=k/32234/us-east-1/s3/aws4_request,{signed}"),
            "incorrect date format \"32234\". This date in the credential must be in the format \
             \"yyyyMMdd\".",
        ),
        (
            format!("Credential=k/20130525/us-east-1/s3/aws4_request,{signed}"),
            "Invalid credential date \"20130525\". This date is not the same as X-Amz-Date: \
             \"20130524\".",
        ),
    ] {
        let sent = put().signed().without("authorization");
        let sent = sent.with("authorization", &format!("AWS4-HMAC-SHA256 {value}"));
        let fault = check(sent.verify(), Code::AuthorizationHeaderMalformed);
        assert_eq!(fault.message, format!("The authorization header is malformed; {why}"));
    }
}

#[test]
fn s3_s1_an_upper_case_or_truncated_signature_does_not_match() {
    let sent = put().signed();
    let text = sent.headers["authorization"].to_str().unwrap().to_owned();
    let (head, signature) = text.split_once("Signature=").unwrap();
    for signature in [&signature.to_uppercase(), &signature[..62], "", "zz", &"0".repeat(64)] {
        let value = format!("{head}Signature={signature}");
        let sent = sent.clone().without("authorization").with("authorization", &value);
        check(sent.verify(), Code::SignatureDoesNotMatch);
    }
}

#[test]
fn s3_s3_each_value_of_the_content_hash_has_one_payload_mode() {
    use AuthKind::{Anonymous, Header, Query, QueryV2};
    use Code::{InvalidArgument, InvalidRequest, NotImplemented};
    let hashed = PayloadMode::choose(Some(EMPTY), Header, false).unwrap();
    assert!(matches!(hashed, PayloadMode::Hashed([0xe3, 0xb0, ..])));
    let signed = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let trailer = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
    let unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let ecdsa = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD";
    let ok = Ok::<PayloadMode, Code>;
    for (value, kind, accepts_aws_chunked, expected) in [
        (None, Header, true, Err(InvalidRequest)),
        (None, Query, true, ok(PayloadMode::Unsigned)),
        (None, QueryV2, true, ok(PayloadMode::Unsigned)),
        (None, Anonymous, true, ok(PayloadMode::Unsigned)),
        (Some(EMPTY), Anonymous, false, ok(hashed)),
        (Some("UNSIGNED-PAYLOAD"), Header, false, ok(PayloadMode::Unsigned)),
        (Some(signed), Header, true, ok(PayloadMode::SignedChunks { trailer: false })),
        (Some(trailer), Header, true, ok(PayloadMode::SignedChunks { trailer: true })),
        (Some(unsigned), Header, true, ok(PayloadMode::UnsignedTrailer)),
        (Some(unsigned), Anonymous, true, ok(PayloadMode::UnsignedTrailer)),
        (Some(signed), Header, false, Err(InvalidRequest)),
        (Some(trailer), Header, false, Err(InvalidRequest)),
        (Some(unsigned), Header, false, Err(InvalidRequest)),
        (Some(unsigned), Anonymous, false, Err(InvalidRequest)),
        (Some(signed), Query, true, Err(InvalidRequest)),
        (Some(trailer), Query, true, Err(InvalidRequest)),
        (Some(unsigned), Query, true, Err(InvalidRequest)),
        (Some(unsigned), QueryV2, true, Err(InvalidRequest)),
        (Some(signed), Anonymous, true, Err(InvalidRequest)),
        (Some(trailer), Anonymous, true, Err(InvalidRequest)),
        (Some(ecdsa), Header, true, Err(NotImplemented)),
        (Some(ecdsa), Query, true, Err(NotImplemented)),
        (Some(ecdsa), Anonymous, true, Err(InvalidRequest)),
        (Some(""), Header, true, Err(InvalidArgument)),
        (Some("unsigned-payload"), Anonymous, true, Err(InvalidArgument)),
        (Some(&EMPTY[1..]), Query, true, Err(InvalidArgument)),
    ] {
        let chosen =
            PayloadMode::choose(value, kind, accepts_aws_chunked).map_err(|fault| fault.code);
        assert_eq!(chosen, expected, "{value:?} {kind:?} {accepts_aws_chunked}");
    }
}

#[test]
fn s3_s3_an_unsigned_content_hash_cannot_change_a_presigned_put() {
    for value in ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"] {
        let sent = plain("PUT", "/b/k").presigned(60).with("x-amz-content-sha256", value);
        check(sent.verify(), Code::InvalidRequest);
    }
    let query = plain("PUT", "/b/k?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD").presigned(60);
    query.verify().unwrap();
    check(query.with("x-amz-content-sha256", EMPTY).verify(), Code::InvalidRequest);
}

#[test]
fn s3_d8_only_uploads_accept_chunked_bodies() {
    let rules = SignatureRules { accepts_aws_chunked: false, ..rules() };
    for value in ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"] {
        let sent = put().without("x-amz-content-sha256").with("x-amz-content-sha256", value);
        let sent = sent.signed();
        sent.verify().unwrap();
        check(sent.verify_on(&rules), Code::InvalidRequest);
    }
}

#[test]
fn s3_s1_wrong_credentials_of_each_kind_are_refused() {
    let header = put().signed();
    let query = plain("GET", "/b/k").presigned(60);
    let query_v2 = v2("/b/k", &format!("GET\n\n\n{DAY}\n/b/k"));
    for (sent, kind) in
        [(header, AuthKind::Header), (query, AuthKind::Query), (query_v2, AuthKind::QueryV2)]
    {
        let head = sent.head();
        let credentials = Credentials::parse(&head).unwrap();
        assert_eq!(credentials.kind(), kind);
        let outcome = |secret| credentials.verify(secret, &head, &rules());
        assert_eq!(outcome(Some(SECRET)).unwrap().kind(), kind);
        check(outcome(Some("")), Code::SignatureDoesNotMatch);
        check(outcome(Some(&SECRET[1..])), Code::SignatureDoesNotMatch);
        check(outcome(None), Code::InvalidAccessKeyId);
    }
    // The dummy secret of unknown keys authenticates no request.
    let sent = v2_by(DUMMY_SECRET, "/b/k", &format!("GET\n\n\n{DAY}\n/b/k"));
    let head = sent.head();
    let outcome = Credentials::parse(&head).unwrap().verify(None, &head, &rules());
    check(outcome, Code::InvalidAccessKeyId);
}

#[test]
fn s3_a10_session_tokens_with_a_permanent_key_are_refused() {
    let header = put().with("x-amz-security-token", "token").signed();
    check(header.verify(), Code::InvalidToken);
    let query = plain("GET", "/b/k?X-Amz-Security-Token=token").presigned(60);
    check(query.verify(), Code::InvalidToken);
}

fn v2(target: &str, string_to_sign: &str) -> SentRequest {
    v2_by(SECRET, target, string_to_sign)
}

fn v2_by(secret: &str, target: &str, string_to_sign: &str) -> SentRequest {
    use base64::Engine as _;
    let mac = hmac_sha1(secret.as_bytes(), string_to_sign.as_bytes());
    let mac = base64::engine::general_purpose::STANDARD.encode(mac);
    let mac = mac.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{separator}AWSAccessKeyId={KEY}&Expires={DAY}&Signature={mac}");
    let method = string_to_sign.split('\n').next().unwrap();
    plain(method, &target)
}

#[test]
fn s3_a12_sigv2_signs_subresources_and_hoisted_headers() {
    v2("/b/k", &format!("GET\n\n\n{DAY}\n/b/k")).verify().unwrap();
    let target = "/b/k%20l?versionId=7&response-content-type=a%2Fb&uploads";
    let text = format!("GET\n\n\n{DAY}\n/b/k%20l?response-content-type=a/b&uploads&versionId=7");
    v2(target, &text).verify().unwrap();
    let target = "/b/k?content-type=text%2Fplain&x-amz-meta-a=1";
    let text = format!("PUT\n\ntext/plain\n{DAY}\nx-amz-meta-a:1\n/b/k");
    let sent = v2(target, &text);
    let verified = sent.verify().unwrap();
    assert_eq!(verified.kind(), AuthKind::QueryV2);
    assert_eq!(verified.hoisted().len(), 2);
    sent.clone().with("content-type", "text/plain").verify().unwrap();
    check(sent.clone().with("content-type", "text/html").verify(), Code::AccessDenied);
    check(sent.with("x-amz-acl", "private").verify(), Code::SignatureDoesNotMatch);
}

#[test]
fn s3_a12_sigv2_accepts_only_objects_and_signed_parameters() {
    for target in ["/b/k?max-keys=1", "/b/k?prefix=a", "/b/k?Versionid=1"] {
        let text = format!("GET\n\n\n{DAY}\n/b/k");
        check(v2(target, &text).verify(), Code::AccessDenied);
    }
    for path in ["/", "/b", "/b/"] {
        check(v2(path, &format!("GET\n\n\n{DAY}\n{path}")).verify(), Code::AccessDenied);
    }
    check(v2("/b/k", &format!("POST\n\n\n{DAY}\n/b/k")).verify(), Code::AccessDenied);
    let good = v2("/b/k", &format!("GET\n\n\n{DAY}\n/b/k"));
    let later = format!("Expires={}", DAY + 1);
    let changed = good.clone().tampered(&format!("Expires={DAY}"), &later);
    check(changed.verify(), Code::SignatureDoesNotMatch);
    for expires in ["Expires=", "Expires=x", "Other=1"] {
        let changed = good.clone().tampered(&format!("Expires={DAY}"), expires);
        check(changed.verify(), Code::AccessDenied);
    }
    let head = good.head();
    let unknown = Credentials::parse(&head).unwrap().verify(None, &head, &rules());
    check(unknown, Code::InvalidAccessKeyId);
}

#[test]
fn s3_a12_a_signed_value_cannot_be_read_as_two() {
    let text = format!("GET\n\n\n{DAY}\n/b/k?response-content-type=a&versionId=3");
    v2("/b/k?response-content-type=a&versionId=3", &text).verify().unwrap();
    let merged = v2("/b/k?response-content-type=a%26versionId%3D3", &text);
    check(merged.verify(), Code::AccessDenied);
    let text = format!("PUT\n\n\n{DAY}\nx-amz-a:1\nx-amz-b:2\n/b/k");
    let merged = v2("/b/k?x-amz-a=1%0Ax-amz-b%3A2", &text);
    check(merged.verify(), Code::AccessDenied);
}

#[test]
fn s3_a12_parameter_names_of_a_sigv2_url_are_header_tokens() {
    // One string to sign, split into names and values as intended, and in other ways.
    let text = format!("PUT\n\n\n{DAY}\nx-amz-copy-source:/b/k\nx-amz-meta-a:1\n/b/l");
    let sent = v2("/b/l?x-amz-copy-source=%2Fb%2Fk&x-amz-meta-a=1", &text);
    assert_eq!(sent.verify().unwrap().hoisted().len(), 2);
    for name in [
        "x-amz-copy-source%3A%2Fb%2Fk%0Ax-amz-meta-a",
        "x-amz-copy-source:/b/k%0Ax-amz-meta-a",
        "X-Amz-Copy-Source%3A%2Fb%2Fk%0AX-Amz-Meta-A",
    ] {
        check(v2(&format!("/b/l?{name}=1"), &text).verify(), Code::AccessDenied);
    }
    for name in ["x-amz-meta-%C3%A4", "x-amz-meta-a%20b", "x-amz-meta-a%00", "x-amz-meta-(a)"] {
        let line = percent_encoding::percent_decode_str(name).decode_utf8().unwrap();
        let text = format!("PUT\n\n\n{DAY}\n{line}:1\n/b/l");
        check(v2(&format!("/b/l?{name}=1"), &text).verify(), Code::AccessDenied);
        let v4 = plain("PUT", &format!("/b/l?{name}=1")).presigned(60);
        check(v4.verify(), Code::AuthorizationQueryParametersError);
    }
}

#[test]
fn s3_a12_a_sigv2_url_uses_exactly_the_signed_values() {
    let text = format!("PUT\n\n\n{DAY}\nx-amz-meta-a:1\n/b/k");
    let used = |value: &str, text: &str| {
        let verified = v2(&format!("/b/k?x-amz-meta-a={value}"), text).verify()?;
        Ok::<_, crate::Fault>(verified.hoisted()[0].1.clone())
    };
    for value in ["1", "%201", "1%20%20", "+1+"] {
        assert_eq!(used(value, &text).unwrap(), "1", "{value}");
    }
    for blank in ["%C2%A0", "%E2%80%83", "%E3%80%80", "%E1%9A%80"] {
        for value in [format!("{blank}1"), format!("1{blank}"), format!("%20{blank}1")] {
            check(used(&value, &text), Code::SignatureDoesNotMatch);
        }
        let decoded = percent_encoding::percent_decode_str(blank).decode_utf8().unwrap();
        let text = format!("PUT\n\n\n{DAY}\nx-amz-meta-a:{decoded}1\n/b/k");
        assert_eq!(used(&format!("{blank}1"), &text).unwrap(), format!("{decoded}1"));
    }
    // C1 control characters break lines, too.
    check(used("1%C2%85", &text), Code::AccessDenied);
}

#[test]
fn s3_a12_a_sigv2_url_may_contain_the_body_hash() {
    let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let text = format!("PUT\n\n\n{DAY}\nx-amz-content-sha256:{hash}\n/b/k");
    let sent = v2(&format!("/b/k?x-amz-content-sha256={hash}"), &text);
    assert!(matches!(sent.verify().unwrap().payload(), PayloadMode::Hashed(_)));
    sent.clone().with("x-amz-content-sha256", hash).verify().unwrap();
    check(sent.with("x-amz-content-sha256", "UNSIGNED-PAYLOAD").verify(), Code::InvalidRequest);
    let mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let text = format!("PUT\n\n\n{DAY}\nx-amz-content-sha256:{mode}\n/b/k");
    check(v2(&format!("/b/k?x-amz-content-sha256={mode}"), &text).verify(), Code::InvalidRequest);
}

#[test]
fn s3_s19_signing_keys_do_not_print() {
    let sent = put()
        .without("x-amz-content-sha256")
        .with("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
        .signed();
    let printed = format!("{:?}", sent.verify().unwrap());
    assert!(printed.contains("SigningKey(…)"), "{printed}");
    assert!(!printed.contains(SECRET));
}
