use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

use super::{CorsConfiguration, CorsHeaders, CorsResource, Preflight};
use crate::{Code, Fault};

fn document(rules: &[&[(&str, &str)]]) -> String {
    let mut out = crate::xml::Writer::document();
    out.root("CORSConfiguration", |out| {
        for rule in rules {
            out.element("CORSRule", |out| {
                for (name, text) in *rule {
                    out.text(name, text);
                }
            });
        }
    });
    out.finish()
}

fn parse(rules: &[&[(&str, &str)]]) -> Result<CorsConfiguration, Fault> {
    CorsConfiguration::parse(document(rules).as_bytes())
}

#[track_caller]
fn refused(rule: &[(&str, &str)], code: Code, message: &str) {
    let fault = parse(&[rule]).expect_err("must be refused");
    assert_eq!(fault.code, code, "{fault}");
    assert!(fault.message.contains(message), "{fault}");
}

fn sent(origin: &str, method: &str, requested: &str) -> Result<Preflight, Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", requested),
    ] {
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    Preflight::parse(&headers)
}

fn ask(
    configuration: &CorsConfiguration,
    origin: &str,
    method: &str,
    requested: &str,
) -> Result<CorsHeaders, Fault> {
    sent(origin, method, requested)?.respond(Some(configuration), CorsResource::Object)
}

fn value<'a>(headers: &'a CorsHeaders, name: &str) -> &'a str {
    let mut found = headers.as_slice().iter().filter(|(other, _)| other.as_str() == name);
    found.next().map_or("", |(_, value)| value.to_str().unwrap())
}

/// Returns origin, methods, headers, exposed headers, max age and credentials of a response.
fn header_values(headers: &CorsHeaders) -> [&str; 6] {
    [
        "allow-origin",
        "allow-methods",
        "allow-headers",
        "expose-headers",
        "max-age",
        "allow-credentials",
    ]
    .map(|name| value(headers, &format!("access-control-{name}")))
}

const GET: (&str, &str) = ("AllowedMethod", "GET");
const ANY: (&str, &str) = ("AllowedOrigin", "*");

#[test]
fn s3_b8_a_configuration_round_trips() {
    let text = document(&[
        &[
            ("ID", "my <id>"),
            ("AllowedOrigin", "http://origin.com"),
            ("AllowedOrigin", "http://*origin.com"),
            ("AllowedMethod", "POST"),
            ("AllowedMethod", "PUT"),
            ("AllowedHeader", "X-Amz-Date"),
            ("AllowedHeader", "Content-*"),
            ("ExposeHeader", "Authorization"),
            ("MaxAgeSeconds", "-200"),
        ],
        &[ANY, ("AllowedMethod", "DELETE"), GET, ("AllowedMethod", "HEAD")],
    ]);
    let configuration = CorsConfiguration::parse(text.as_bytes()).unwrap();
    assert_eq!(configuration.to_xml(), text);
}

#[test]
fn s3_b8_invalid_rules_are_refused() {
    refused(&[GET], Code::MalformedXML, "");
    refused(&[ANY], Code::MalformedXML, "");
    refused(&[ANY, GET, ("AllowedVerb", "x")], Code::MalformedXML, "");
    refused(&[ANY, GET, ("MaxAgeSeconds", "soon")], Code::MalformedXML, "");
    refused(&[ANY, GET, ("ID", "a"), ("ID", "b")], Code::MalformedXML, "");
    for origin in ["*example.com*", "https://*:7070/*", "http://***"] {
        let message = format!("AllowedOrigin \"{origin}\" can not have more than one wildcard.");
        refused(&[("AllowedOrigin", origin), GET], Code::InvalidRequest, &message);
    }
    for method in ["", "get", "delete", "PATCH", "OPTIONS", "invalid_method"] {
        let message = format!("in CORS config. Unsupported method is {method}");
        refused(&[ANY, GET, ("AllowedMethod", method)], Code::InvalidRequest, &message);
    }
    for name in
        ["invalid header", "X-Custom:Header", "X(Custom)", "Bad/Header", "X[Key]", "a=b", "X\"Q\""]
    {
        let message = format!("AllowedHeader \"{name}\" contains invalid character.");
        refused(&[ANY, GET, ("AllowedHeader", name)], Code::InvalidRequest, &message);
        refused(&[ANY, GET, ("ExposeHeader", name)], Code::InvalidRequest, &message);
    }
    refused(&[ANY, GET, ("AllowedHeader", "*-*")], Code::InvalidRequest, "one wildcard");
    refused(&[ANY, GET, ("ExposeHeader", "x-*")], Code::InvalidRequest, "contains wildcard");
    refused(&[ANY, GET, ("ID", &"ä".repeat(256))], Code::InvalidRequest, "ID length");
    assert!(parse(&[&[ANY, GET, ("ID", &"ä".repeat(255))]]).is_ok());
    // The response could not show it unchanged.
    let odd = document(&[&[ANY, GET, ("ID", "odd")]]).replace("odd", "\0");
    assert_eq!(CorsConfiguration::parse(odd.as_bytes()).unwrap_err().code, Code::MalformedXML);
}

#[test]
fn s3_b8_a_configuration_has_1_to_100_rules_and_64_kib() {
    let rule: &[(&str, &str)] = &[ANY, GET];
    assert_eq!(parse(&[]).unwrap_err().code, Code::MalformedXML);
    assert!(parse(&[rule; 100]).is_ok());
    assert_eq!(parse(&[rule; 101]).unwrap_err().code, Code::InvalidRequest);
    let long = document(&[rule]) + &" ".repeat(64 << 10);
    let fault = CorsConfiguration::parse(long.as_bytes()).unwrap_err();
    assert_eq!(fault.code, Code::MaxMessageLengthExceeded);
    let other = document(&[rule]).replace("CORSRule", "Rule");
    assert_eq!(CorsConfiguration::parse(other.as_bytes()).unwrap_err().code, Code::MalformedXML);
}

#[test]
fn s3_b8_an_incomplete_preflight_is_refused() {
    let fault = Preflight::parse(&HeaderMap::new()).unwrap_err();
    assert_eq!(fault.code, Code::BadRequest);
    assert_eq!(fault.message, "Insufficient information. Origin request header needed.");
    for method in ["get", "Get", "PATCH", "OPTIONS", "something"] {
        let fault = sent("www.my-origin.com", method, "").unwrap_err();
        assert_eq!(fault.code, Code::BadRequest);
        assert_eq!(fault.message, format!("Invalid Access-Control-Request-Method: {method}"));
    }
    for (name, list) in [
        ("invalid header", "X-Amz-Date,X-Amz-Content-Sha256,invalid header"),
        ("X-Custom:Header", "Authorization,X-Custom:Header"),
        (" Bad/Header", "Content-Encoding, Bad/Header"),
        ("NonAsciiŁ", "Content-Length,NonAsciiŁ"),
        ("tab\tchar", "tab\tchar,X-Something-Valid"),
        ("", "a,,b"),
    ] {
        let fault = sent("www.my-origin.com", "GET", list).unwrap_err();
        assert_eq!(fault.code, Code::BadRequest);
        assert_eq!(
            fault.message,
            format!("Access-Control-Request-Headers \"{name}\" contains invalid character.")
        );
    }
    let many = vec!["a"; 257].join(",");
    assert_eq!(sent("http://a", "GET", &many).unwrap_err().code, Code::BadRequest);
}

#[test]
fn s3_b8_without_a_configuration_a_preflight_is_forbidden() {
    let preflight = sent("http://example.com", "POST", "X-Amz-Date,Date").unwrap();
    let fault = preflight.respond(None, CorsResource::Object).unwrap_err();
    assert_eq!(fault.code, Code::AccessForbidden);
    assert_eq!(fault.message, "CORSResponse: CORS is not enabled for this bucket.");
    let extra = [("Method", "OPTIONS"), ("ResourceType", "BUCKET")];
    assert_eq!(fault.extra, extra.map(|(name, text)| (name, text.to_owned())));
}

#[test]
fn s3_b8_a_preflight_without_a_matching_rule_is_forbidden() {
    let configuration = parse(&[
        &[
            ("AllowedOrigin", "http://example.com"),
            ("AllowedOrigin", "https://example.com"),
            GET,
            ("AllowedHeader", "X-Amz-Date"),
            ("AllowedHeader", "X-Amz-Content-Sha256"),
        ],
        &[ANY, ("AllowedMethod", "HEAD")],
        &[
            ("AllowedOrigin", "http://origin*"),
            ("AllowedMethod", "POST"),
            ("AllowedHeader", "Authorization"),
        ],
        &[
            ("AllowedOrigin", "http://something.com"),
            ("AllowedMethod", "PUT"),
            ("AllowedHeader", "X-Amz-*"),
        ],
    ])
    .unwrap();
    for (origin, method, requested) in [
        ("http://non-matching-origin.net", "GET", "X-Amz-Date"),
        ("http://example.com", "PUT", "X-Amz-Content-Sha256"),
        ("http://example.com", "GET", "X-Amz-Expected-Bucket-Owner"),
        ("http://example.com", "GET", "X-Amz-Date,X-Amz-Content-Sha256,Extra-Header"),
        ("https://any-origin.com", "HEAD", "X-Amz-Extra-Header"),
        ("https://any-origin.com", "POST", ""),
        ("https://origin.com", "POST", "Authorization"),
        ("http://origin.com", "POST", "Authorization,Content-Disposition"),
        ("http://something.com", "PUT", "X-Amz"),
        ("http://something.com", "PUT", "X-Amz-Date,Content-Length"),
    ] {
        let fault = ask(&configuration, origin, method, requested).unwrap_err();
        assert_eq!(fault.code, Code::AccessForbidden, "{origin} {method} {requested}");
        assert_eq!(fault.extra[1], ("ResourceType", "OBJECT".to_owned()));
    }
    assert!(ask(&configuration, "http://something.com", "PUT", "x-amz-").is_ok());
}

/// The cases of `PreflightOPTIONS_access_granted` in versitygw.
#[test]
fn s3_b8_the_first_matching_rule_decides() {
    let configuration = parse(&[
        &[
            ("AllowedOrigin", "http://example.com"),
            ("AllowedOrigin", "https://example.com"),
            GET,
            ("AllowedMethod", "HEAD"),
            ("AllowedHeader", "X-Amz-Date"),
            ("AllowedHeader", "X-Amz-Content-Sha256"),
            ("ExposeHeader", "Content-Type"),
            ("ExposeHeader", "Content-Length"),
            ("MaxAgeSeconds", "100"),
        ],
        &[ANY, ("AllowedMethod", "HEAD"), ("AllowedHeader", "X-Amz-Meta-Something")],
        &[
            ("AllowedOrigin", "http://www*"),
            GET,
            ("AllowedHeader", "x-amz-server-side-encryption"),
            ("ExposeHeader", "X-Amz-Expected-Bucket-Owner"),
            ("MaxAgeSeconds", "5000"),
        ],
    ])
    .unwrap();
    let (first, third) =
        ("Content-Type, Content-Length, ETag", "X-Amz-Expected-Bucket-Owner, ETag");
    for (origin, method, requested, expected) in [
        (
            "https://example.com",
            "GET",
            "X-Amz-Date,X-Amz-Content-Sha256",
            [
                "https://example.com",
                "GET, HEAD",
                "x-amz-date, x-amz-content-sha256",
                first,
                "100",
                "true",
            ],
        ),
        (
            "http://example.com",
            "HEAD",
            "",
            ["http://example.com", "GET, HEAD", "", first, "100", "true"],
        ),
        (
            "http://anything.com",
            "HEAD",
            "X-Amz-Meta-Something",
            ["*", "HEAD", "x-amz-meta-something", "ETag", "", "false"],
        ),
        (
            "http://www.hello.world.com",
            "GET",
            "",
            ["http://www.hello.world.com", "GET", "", third, "5000", "true"],
        ),
    ] {
        let headers = ask(&configuration, origin, method, requested).unwrap();
        let got = header_values(&headers);
        assert_eq!(got, expected, "{origin} {method} {requested}");
        assert_eq!(
            value(&headers, "vary"),
            "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
        );
    }
}

#[test]
fn s3_b8_an_actual_request_gets_the_headers_of_the_first_matching_rule() {
    let configuration =
        parse(&[&[("AllowedOrigin", "http://a"), GET, ("AllowedHeader", "x")], &[ANY, GET]])
            .unwrap();
    let simple = |origin: &'static str, method| {
        configuration.response_headers(&HeaderValue::from_static(origin), &method)
    };
    let headers = simple("http://a", Method::GET).unwrap();
    assert_eq!(value(&headers, "access-control-allow-origin"), "http://a");
    assert_eq!(value(&headers, "access-control-allow-headers"), "");
    let headers = simple("http://b", Method::GET).unwrap();
    assert_eq!(value(&headers, "access-control-allow-origin"), "*");
    assert_eq!(simple("http://a", Method::PUT), None);
    assert_eq!(simple("http://a", Method::OPTIONS), None);
}

#[test]
fn s3_s18_an_origin_with_control_characters_cannot_be_configured() {
    for bad in ["http://a\r\nset-cookie: x", "http://a\0"] {
        // The writer replaces characters that XML cannot represent, so the reference is literal.
        let text = document(&[&[("AllowedOrigin", "AAA"), GET]])
            .replace("AAA", &bad.replace('\r', "&#13;").replace('\0', "&#0;"));
        let fault = CorsConfiguration::parse(text.as_bytes()).unwrap_err();
        assert_eq!(fault.code, Code::MalformedXML);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_s18_response_headers_have_no_control_characters(
        origins in proptest::collection::vec("[*a-z:/\\PC]{0,12}", 1..3),
        exposed in proptest::collection::vec("[a-zA-Z-]{0,9}|\\PC{0,9}", 0..3),
        origin in proptest::collection::vec(any::<u8>(), 0..12),
        requested in "[a-z-]{1,5}(,[a-z-]{1,5}){0,2}",
    ) {
        let mut rule = vec![GET, ("AllowedHeader", "*")];
        rule.extend(origins.iter().map(|text| ("AllowedOrigin", text.as_str())));
        rule.extend(exposed.iter().map(|text| ("ExposeHeader", text.as_str())));
        let Ok(configuration) = parse(&[&rule]) else { return Ok(()) };
        let Ok(origin) = HeaderValue::from_bytes(&origin) else { return Ok(()) };
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, origin);
        headers.insert("access-control-request-method", HeaderValue::from_static("GET"));
        headers.insert("access-control-request-headers", requested.parse().unwrap());
        let Ok(preflight) = Preflight::parse(&headers) else { return Ok(()) };
        if let Ok(answer) = preflight.respond(Some(&configuration), CorsResource::Bucket) {
            for (_, value) in answer.as_slice() {
                prop_assert!(!value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)));
            }
        }
    }

    #[test]
    fn s3_b8_a_wildcard_matches_any_text(
        start in "[ab]{0,3}", end in "[ab]{0,3}", text in "[ab]{0,8}"
    ) {
        let pattern = super::Pattern::parse(&format!("{start}*{end}")).unwrap();
        let expected = text.len() >= start.len() + end.len()
            && text.starts_with(&start)
            && text.ends_with(&end);
        prop_assert_eq!(pattern.matches(&text), expected);
        prop_assert_eq!(pattern.matches_name(&text.to_uppercase()), expected);
    }
}
