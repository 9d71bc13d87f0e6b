use proptest::prelude::*;

use super::{VersioningConfiguration, VersioningStatus};
use crate::{Code, Fault};

const MALFORMED: &str = Code::MalformedXML.message();

fn parse(inside: &str) -> Result<VersioningConfiguration, Fault> {
    let text = format!(
        "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inside}\
         </VersioningConfiguration>"
    );
    VersioningConfiguration::parse(text.as_bytes())
}

#[track_caller]
fn refused(inside: &str, code: Code, message: &str) {
    let fault = parse(inside).expect_err("must be refused");
    assert_eq!((fault.code, &*fault.message), (code, message), "{inside}");
}

#[test]
fn s3_b9_a_status_round_trips() {
    for status in [VersioningStatus::Enabled, VersioningStatus::Suspended] {
        let configuration = VersioningConfiguration { status: Some(status) };
        let text = configuration.to_xml();
        assert!(text.contains(&format!("<Status>{}</Status>", status.as_str())), "{text}");
        assert_eq!(VersioningConfiguration::parse(text.as_bytes()), Ok(configuration));
    }
    assert_eq!(VersioningStatus::named("Disabled"), None);
}

#[test]
fn s3_b9_a_bucket_without_versioning_has_an_empty_document() {
    assert_eq!(
        VersioningConfiguration::default().to_xml(),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<VersioningConfiguration \
         xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"></VersioningConfiguration>"
    );
}

#[test]
fn s3_b9_an_unknown_status_is_malformed() {
    for inside in ["", "<Status/>", "<Status></Status>", "<MfaDelete>Disabled</MfaDelete>"] {
        let why = "The Versioning element must be specified";
        refused(inside, Code::IllegalVersioningConfigurationException, why);
    }
    for inside in [
        "<Status>Disabled</Status>",
        "<Status>enabled</Status>",
        "<Status>ENABLED</Status>",
        "<Status>NeverEnabled</Status>",
        "<Status>Enabled</Status><Status>Enabled</Status>",
        "<Status>Enabled</Status><Foo/>",
        "<Status>Enabled</Status>x",
        "<State>Enabled</State>",
    ] {
        refused(inside, Code::MalformedXML, MALFORMED);
    }
    for body in ["", " ", "Enabled", "<VersioningConfiguration>", "<Versioning/>"] {
        let fault = VersioningConfiguration::parse(body.as_bytes()).expect_err("no document");
        assert_eq!(fault.code, Code::MalformedXML, "{body}");
    }
    let long = vec![b' '; (1 << 20) + 1];
    let fault = VersioningConfiguration::parse(&long).expect_err("too long");
    assert_eq!(fault.code, Code::MaxMessageLengthExceeded);
}

#[test]
fn s3_b9_mfa_delete_is_refused() {
    for name in ["MfaDelete", "MFADelete"] {
        let with = |value: &str| format!("<Status>Enabled</Status><{name}>{value}</{name}>");
        for harmless in ["Disabled", ""] {
            let read = parse(&with(harmless)).expect("harmless");
            assert_eq!(read.status, Some(VersioningStatus::Enabled));
            assert!(!read.to_xml().contains("elete"));
        }
        let message = "Mfa Authentication must be used for this request";
        refused(&with("Enabled"), Code::AccessDenied, message);
        refused(&with("disabled"), Code::MalformedXML, MALFORMED);
        refused(&(with("Disabled") + &with("Disabled")), Code::MalformedXML, MALFORMED);
    }
    let both =
        "<Status>Enabled</Status><MfaDelete>Disabled</MfaDelete><MFADelete>Enabled</MFADelete>";
    refused(both, Code::AccessDenied, "Mfa Authentication must be used for this request");
}

proptest! {
    #[test]
    fn s3_s16_reading_never_panics(bytes in any::<Vec<u8>>(), inside in any::<String>()) {
        let _ = VersioningConfiguration::parse(&bytes);
        let _ = parse(&inside);
        let _ = parse(&format!("<Status>{inside}</Status>"));
    }
}
