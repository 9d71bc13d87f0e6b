use proptest::prelude::*;
use time::macros::datetime;

use super::{DECLARATION, Element, Writer, XmlLimits, format_time, parse_time, url_encode};
use crate::Code;

fn parse(text: &str) -> Result<Element, crate::Fault> {
    Element::parse(text.as_bytes(), "R", XmlLimits::SMALL)
}

#[track_caller]
fn refused(text: &str) {
    assert_eq!(parse(text).expect_err("must be refused").code, Code::MalformedXML, "{text:.80}");
}

#[test]
fn elements_text_and_references_are_read() {
    let root = parse(concat!(
        "\u{feff}<?xml version='1.0'?><!-- c --><n:R xmlns:n='x' a=\"1\">",
        "<Key> a&amp;b&#13;&#x41;<![CDATA[<&>]]></Key><E/><V>\n 1 \n</V></n:R>\n"
    ))
    .expect("a document");
    assert_eq!(root.child("Key").unwrap().unwrap().text(), " a&b\rA<&>");
    assert_eq!(root.value("V").unwrap(), Some("1"));
    assert_eq!(root.value("E").unwrap(), Some(""));
    assert_eq!(root.value("Absent").unwrap(), None);
    assert!(root.required("Absent").is_err());
}

#[test]
fn s3_s12_documents_that_expand_or_nest_deeply_are_refused() {
    refused("<!DOCTYPE R [<!ENTITY a 'b'>]><R>&a;</R>");
    refused("<R>&a;</R>");
    refused("<!DOCTYPE R><R/>");
    refused(&format!("{}{}", "<R>".repeat(17), "</R>".repeat(17)));
    assert!(parse(&format!("{}{}", "<R>".repeat(16), "</R>".repeat(16))).is_ok());
    let attributes = |count: usize| {
        let list = (0..count).map(|n| format!(" a{n}='x'")).collect::<Vec<_>>().concat();
        format!("<R{list}/>")
    };
    assert!(parse(&attributes(100)).is_ok());
    refused(&attributes(101));
    refused(&attributes(80_000));
    refused(&format!("<R>{}</R>", "<a/>".repeat(10_001)));
    let large = format!("<R>{}</R>", "x".repeat(1 << 20));
    assert_eq!(parse(&large).expect_err("too large").code, Code::MaxMessageLengthExceeded);
    assert!(Element::parse(large.as_bytes(), "R", XmlLimits::LARGE).is_ok());
}

#[test]
fn malformed_documents_are_refused() {
    for name in ["R/", "1", "-a", "a\0", "a!", "a&"] {
        refused(&format!("<R><{name}/></R>"));
        refused(&format!("<R><{name}>x</{name}></R>"));
    }
    for name in ["a:b", "_", "a-1.2", "é"] {
        assert!(parse(&format!("<R><{name}/></R>")).is_ok(), "{name}");
    }
    for text in [
        "",
        " ",
        "R",
        "<R>",
        "</R>",
        "<R></S>",
        "<R/><R/>",
        "<R/>x",
        "x<R/>",
        "<S/>",
        "<R>&#0;</R>",
        "<R>&</R>",
        "<R",
        "<R><a></R></a>",
        "<R><a/><a/></R",
        "<R a></R>",
    ] {
        refused(text);
    }
    assert!(Element::parse(b"<R>\xff</R>", "R", XmlLimits::SMALL).is_err());
    assert!(parse("<R><a/><a/></R>").unwrap().child("a").is_err());
}

#[test]
fn s3_l4_url_encoding_leaves_only_slashes_unescaped() {
    assert_eq!(url_encode("a/b c+d&é\u{1}"), "a/b%20c%2Bd%26%C3%A9%01");
    assert_eq!(url_encode("-._~*"), "-._~*");
}

#[test]
fn times_are_written_in_utc_with_milliseconds() {
    let time = datetime!(2026-01-02 05:04:05.999 +2);
    assert_eq!(format_time(time), "2026-01-02T03:04:05.999Z");
    assert_eq!(format_time(datetime!(0999-12-31 23:59:58.07 UTC)), "0999-12-31T23:59:58.070Z");
    assert_eq!(format_time(datetime!(-1-10-20 10:20:30 UTC)), "0000-10-20T10:20:30.000Z");
}

#[test]
fn numbers_are_written_with_all_their_digits() {
    for number in [0, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
        let mut out = Writer::document();
        out.number("N", number);
        assert_eq!(out.finish(), format!("{DECLARATION}<N>{number}</N>"));
    }
}

#[test]
fn times_are_parsed_in_xml_schema_format() {
    let noon = datetime!(2026-01-02 12:00 UTC);
    for text in [
        "2026-01-02T12:00:00Z",
        "2026-01-02T12:00:00z",
        "2026-01-02T12:00:00",
        "2026-01-02T12:00:00.000Z",
        "2026-01-02T12:00:00.0",
        "2026-01-02T18:30:00+06:30",
        "2026-01-01T23:00:00-13:00",
    ] {
        assert_eq!(parse_time(text), Some(noon), "{text}");
        assert!(parse_time(text).is_some_and(|time| time.offset().is_utc()), "{text}");
    }
    let exact = datetime!(2024-02-29 23:59:59.123456789 UTC);
    assert_eq!(parse_time("2024-02-29T23:59:59.123456789Z"), Some(exact));
    assert_eq!(parse_time("9999-12-31T23:59:59.999Z").map(format_time).as_deref(), {
        Some("9999-12-31T23:59:59.999Z")
    });
    for text in [
        "",
        "T",
        "abc",
        "2026-01-02",
        "2026-01-02T",
        "2026-01-02 12:00:00Z",
        "2026-01-02t12:00:00Z",
        "2026-01-02é12:00:00Z",
        "20260102T120000Z",
        "2026-1-2T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T12:00:00ZZ",
        "2026-01-02T12:00:00+34:00",
        "2026-01-02T12:00:00 ",
        "Fri, 02 Jan 2026 12:00:00 GMT",
        "1767355200",
        // These years do not have four digits.
        "9999-12-31T23:59:59-00:01",
        "0000-01-01T00:00:00+00:01",
    ] {
        assert_eq!(parse_time(text), None, "{text}");
    }
}

#[test]
fn s3_l4_characters_that_xml_cannot_represent_become_references() {
    let mut out = Writer::document();
    out.root("R", |out| out.text("Key", "\u{1}x\u{1f}\u{fffe}\u{ffff}\u{7f}"));
    let document = out.finish();
    assert!(document.contains("<Key>&#x1;x&#x1f;&#xfffe;&#xffff;\u{7f}</Key>"), "{document}");
}

proptest! {
    #[test]
    fn s3_s16_reading_a_time_never_panics(text in "[0-9TZ:+.-]{0,40}", any in any::<String>()) {
        for text in [&text, &any] {
            if let Some(time) = parse_time(text) {
                prop_assert_eq!(format_time(time).len(), 24);
            }
        }
    }

    #[test]
    fn s3_l4_output_always_parses(text in any::<String>()) {
        let mut out = Writer::document();
        out.root("R", |out| out.text("Key", &text));
        let root = parse(&out.finish()).expect("our own document");
        let expected = text.replace('\0', "\u{fffd}");
        prop_assert_eq!(root.child("Key").unwrap().unwrap().text(), expected);
    }

    #[test]
    fn s3_s16_reading_never_panics(bytes in any::<Vec<u8>>(), markup in "[<>/&;!?'\"=Ra# \\[\\]-]{0,60}") {
        let _ = Element::parse(&bytes, "R", XmlLimits::SMALL);
        let _ = parse(&markup);
        let _ = parse(&format!("<R>{markup}</R>"));
    }
}
