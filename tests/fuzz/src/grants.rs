//! Grants in headers: a parsed list, written again, parses to the same list.

use http::{HeaderMap, HeaderValue};
use s3::acl::{AclGrantee, AclPermission, RequestedAcl};
use s3::request::Fields;

use crate::faults;
use crate::message::Message;

/// The input: a request as text, of which the headers matter.
pub(crate) fn check(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    let fields = Fields::new(&message.headers, &[]);
    match RequestedAcl::parse(fields) {
        Ok(Some(RequestedAcl::Grants(grants))) => {
            assert!((1..=100).contains(&grants.len()));
            assert!(!message.headers.contains_key("x-amz-acl"));
            let mut headers = HeaderMap::new();
            for permission in PERMISSIONS {
                let items = grants.iter().filter(|grant| grant.permission == permission);
                let items: Vec<String> = items.map(|grant| spelt(&grant.grantee)).collect();
                if items.is_empty() {
                    continue;
                }
                let value = HeaderValue::from_bytes(items.join(", ").as_bytes());
                headers.insert(header(permission), value.expect("what a header held"));
            }
            let again = RequestedAcl::parse(Fields::new(&headers, &[]));
            assert_eq!(again, Ok(Some(RequestedAcl::Grants(grants))));
        }
        Ok(Some(RequestedAcl::Canned(canned))) => {
            for (owner, bucket_owner) in [("a", "a"), ("a", "b")] {
                let grants = canned.grants(owner, bucket_owner);
                assert_eq!(grants[0].grantee, AclGrantee::Account("a".to_owned()));
                assert_eq!(grants[0].permission, AclPermission::FullControl);
                assert!(grants.len() <= 3);
            }
        }
        // An empty header counts as absent.
        Ok(None) => {
            let asked = message.headers.get("x-amz-acl");
            assert!(asked.is_none_or(|value| value.as_bytes().trim_ascii().is_empty()));
        }
        Err(fault) => faults::are_told(&fault, input.len()),
    }
}

const PERMISSIONS: [AclPermission; 5] = [
    AclPermission::FullControl,
    AclPermission::Read,
    AclPermission::Write,
    AclPermission::ReadAcp,
    AclPermission::WriteAcp,
];

fn header(permission: AclPermission) -> &'static str {
    match permission {
        AclPermission::FullControl => "x-amz-grant-full-control",
        AclPermission::Read => "x-amz-grant-read",
        AclPermission::Write => "x-amz-grant-write",
        AclPermission::ReadAcp => "x-amz-grant-read-acp",
        AclPermission::WriteAcp => "x-amz-grant-write-acp",
    }
}

fn spelt(grantee: &AclGrantee) -> String {
    match grantee {
        AclGrantee::Account(id) => format!("id=\"{id}\""),
        AclGrantee::Group(group) => format!("URI=\"{}\"", group.uri()),
    }
}
