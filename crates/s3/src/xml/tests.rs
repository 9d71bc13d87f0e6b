use proptest::prelude::*;
use time::macros::datetime;

use super::{Element, Writer, XmlLimits, format_time, url_encode};
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
fn s3_s12_blow_ups_are_refused() {
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
fn what_is_not_well_formed_is_refused() {
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
fn s3_l4_url_encoding_keeps_slashes_only() {
    assert_eq!(url_encode("a/b c+d&é\u{1}"), "a/b%20c%2Bd%26%C3%A9%01");
    assert_eq!(url_encode("-._~*"), "-._~*");
}

#[test]
fn times_stand_in_milliseconds_of_utc() {
    let time = datetime!(2026-01-02 05:04:05.999 +2);
    assert_eq!(format_time(time), "2026-01-02T03:04:05.999Z");
}

proptest! {
    #[test]
    fn s3_l4_output_always_parses(text in any::<String>()) {
        let mut out = Writer::document();
        out.root("R", |out| out.text("Key", &text));
        let root = parse(&out.finish()).expect("our own document");
        let expected: String = text
            .chars()
            .map(|one| match one {
                '\t' | '\n' | '\r' => one,
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
                _ => one,
            })
            .collect();
        prop_assert_eq!(root.child("Key").unwrap().unwrap().text(), expected);
    }

    #[test]
    fn s3_s16_reading_never_panics(bytes in any::<Vec<u8>>(), markup in "[<>/&;!?'\"=Ra# \\[\\]-]{0,60}") {
        let _ = Element::parse(&bytes, "R", XmlLimits::SMALL);
        let _ = parse(&markup);
        let _ = parse(&format!("<R>{markup}</R>"));
    }
}
