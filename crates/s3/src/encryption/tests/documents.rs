//! The documents of `PutBucketEncryption` and `GetBucketEncryption`.

use crate::encryption::{BucketEncryption, DefaultEncryption};
use crate::{Code, Fault};

fn parse(inside: &str) -> Result<BucketEncryption, Fault> {
    let document = format!(
        "<ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         {inside}</ServerSideEncryptionConfiguration>"
    );
    BucketEncryption::parse(document.as_bytes())
}

/// Returns the configuration of a rule with this default and these further elements.
fn rule(default: &str, more: &str) -> Result<BucketEncryption, Fault> {
    parse(&format!(
        "<Rule><ApplyServerSideEncryptionByDefault>{default}</ApplyServerSideEncryptionByDefault>\
         {more}</Rule>"
    ))
}

const AES256: &str = "<SSEAlgorithm>AES256</SSEAlgorithm>";
const KMS: &str = "<SSEAlgorithm>aws:kms</SSEAlgorithm>";

fn configuration(default: DefaultEncryption) -> BucketEncryption {
    BucketEncryption { default: Some(default), bucket_key: false, blocks_customer_keys: None }
}

#[test]
fn the_documents_of_clients_are_parsed() {
    // mc and aws-cli.
    assert_eq!(rule(AES256, "").unwrap(), configuration(DefaultEncryption::S3));
    // Terraform sends the flag, and some clients an empty id.
    let flag = "<BucketKeyEnabled>false</BucketKeyEnabled>";
    assert_eq!(
        rule(&format!("{AES256}<KMSMasterKeyID></KMSMasterKeyID>"), flag).unwrap(),
        configuration(DefaultEncryption::S3)
    );
    let key = "<KMSMasterKeyID>arn:aws:kms:k-1</KMSMasterKeyID>";
    let kms = rule(&format!("{key}{KMS}"), "<BucketKeyEnabled>true</BucketKeyEnabled>").unwrap();
    let expected = DefaultEncryption::Kms(Some("arn:aws:kms:k-1".to_owned()));
    assert_eq!(kms, BucketEncryption { bucket_key: true, ..configuration(expected) });
    assert_eq!(rule(KMS, "").unwrap(), configuration(DefaultEncryption::Kms(None)));
    let blocked = "<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType>\
                   </BlockedEncryptionTypes>";
    let blocks = rule(AES256, blocked).unwrap();
    assert_eq!(blocks.blocks_customer_keys, Some(true));
    let only = parse(&format!("<Rule>{}</Rule>", blocked.replace("SSE-C", "NONE"))).unwrap();
    assert_eq!((only.default, only.blocks_customer_keys), (None, Some(false)));
}

#[test]
fn a_document_is_returned_in_the_form_of_s3() {
    assert_eq!(
        rule(AES256, "").unwrap().to_xml(),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ServerSideEncryptionConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
         </ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>\
         </ServerSideEncryptionConfiguration>"
    );
    for default in [
        DefaultEncryption::S3,
        DefaultEncryption::Kms(None),
        DefaultEncryption::Kms(Some("a&b".to_owned())),
    ] {
        for bucket_key in [false, true] {
            for blocks_customer_keys in [None, Some(false), Some(true)] {
                let default = Some(default.clone());
                let all = BucketEncryption { default, bucket_key, blocks_customer_keys };
                assert_eq!(BucketEncryption::parse(all.to_xml().as_bytes()), Ok(all));
            }
        }
    }
}

#[test]
fn wrong_documents_are_refused() {
    let long = format!("{KMS}<KMSMasterKeyID>{}</KMSMasterKeyID>", "k".repeat(2049));
    let malformed = [
        parse(""),
        parse("<Rule/>"),
        parse("<Rule><BucketKeyEnabled>true</BucketKeyEnabled></Rule>"),
        parse(&format!("<Other/><Rule>{AES256}</Rule>")),
        rule("", ""),
        rule("<SSEAlgorithm>aes256</SSEAlgorithm>", ""),
        rule("<SSEAlgorithm>aws:fsx</SSEAlgorithm>", ""),
        rule(&format!("{KMS}<KMSKeyID>k</KMSKeyID>"), ""),
        rule(AES256, "<BucketKeyEnabled>1</BucketKeyEnabled>"),
        rule(AES256, "<BlockedEncryptionTypes/>"),
        rule(AES256, "<More/>"),
        rule(&long, ""),
        BucketEncryption::parse(b"<Other/>"),
    ];
    for (index, result) in malformed.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().code, Code::MalformedXML, "{index}");
    }
    // Exactly one rule.
    let one = format!(
        "<Rule><ApplyServerSideEncryptionByDefault>{AES256}\
         </ApplyServerSideEncryptionByDefault></Rule>"
    );
    assert!(parse(&one).is_ok());
    assert_eq!(parse(&one.repeat(2)).unwrap_err().code, Code::MalformedXML);
    let fault = rule(&format!("{AES256}<KMSMasterKeyID>k</KMSMasterKeyID>"), "").unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
    assert_eq!(
        fault.message,
        "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or \
         aws:kms:dsse"
    );
    let dsse = rule("<SSEAlgorithm>aws:kms:dsse</SSEAlgorithm>", "").unwrap_err();
    assert_eq!(dsse.code, Code::NotImplemented);
}
