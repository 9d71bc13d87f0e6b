use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::response::{AccessControlPolicy, Owner};

const ID: &str = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be";

fn asked(headers: &[(&'static str, &str)]) -> Result<Option<RequestedAcl>, Fault> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("a header's value"),
        );
    }
    RequestedAcl::parse(Fields::new(&map, &[]))
}

fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> Code {
    result.expect_err("a fault").code
}

fn account(id: &str, permission: AclPermission) -> AclGrant {
    AclGrant { grantee: AclGrantee::Account(id.to_owned()), permission }
}

fn group(group: AclGroup, permission: AclPermission) -> AclGrant {
    AclGrant { grantee: AclGrantee::Group(group), permission }
}

#[test]
fn headers_grant_to_ids_and_groups() {
    let granted = asked(&[
        ("x-amz-grant-read", &format!("id=\"{ID}\", uri=\"{}\"", AclGroup::AllUsers.uri())),
        ("x-amz-grant-write-acp", "id=abc"),
    ]);
    let rows = vec![
        account(ID, AclPermission::Read),
        group(AclGroup::AllUsers, AclPermission::Read),
        account("abc", AclPermission::WriteAcp),
    ];
    assert_eq!(granted, Ok(Some(RequestedAcl::Grants(rows))));
    assert_eq!(asked(&[]), Ok(None));
}

#[test]
fn headers_that_do_not_parse_or_contradict_each_other_are_refused() {
    let canned = ("x-amz-acl", "public-read");
    let email = ("x-amz-grant-read", "emailAddress=\"a@b.c\"");
    assert_eq!(code(asked(&[("x-amz-acl", "everybody")])), Code::InvalidArgument);
    assert_eq!(code(asked(&[("x-amz-grant-read", "someone")])), Code::InvalidArgument);
    assert_eq!(code(asked(&[("x-amz-grant-read", "id=\"\"")])), Code::InvalidArgument);
    assert_eq!(code(asked(&[("x-amz-grant-read", "uri=\"nowhere\"")])), Code::InvalidArgument);
    assert_eq!(code(asked(&[canned, ("x-amz-grant-read", "id=a")])), Code::InvalidRequest);
    assert_eq!(code(asked(&[email])), Code::UnresolvableGrantByEmailAddress);
    let many = vec!["id=a"; GRANTS_MAX + 1].join(",");
    assert_eq!(code(asked(&[("x-amz-grant-read", &many)])), Code::InvalidRequest);
}

#[test]
fn canned_acls_have_the_grants_of_s3() {
    let full = |id| account(id, AclPermission::FullControl);
    let read = |of| group(of, AclPermission::Read);
    let rows = |canned: &str| CannedAcl::parse(canned).expect("a name").grants("me", "owner");
    assert_eq!(rows("private"), [full("me")]);
    assert_eq!(rows("public-read"), [full("me"), read(AclGroup::AllUsers)]);
    let write = group(AclGroup::AllUsers, AclPermission::Write);
    assert_eq!(rows("public-read-write"), [full("me"), read(AclGroup::AllUsers), write]);
    assert_eq!(rows("authenticated-read"), [full("me"), read(AclGroup::AuthenticatedUsers)]);
    assert_eq!(rows("bucket-owner-full-control"), [full("me"), full("owner")]);
    assert_eq!(rows("bucket-owner-read"), [full("me"), account("owner", AclPermission::Read)]);
    let own = CannedAcl::BucketOwnerFullControl.grants("me", "me");
    assert_eq!(own, [full("me")], "one grant if owner and bucket owner are equal");
}

#[test]
fn an_acl_document_round_trips() {
    let rows = [
        account(ID, AclPermission::FullControl),
        group(AclGroup::LogDelivery, AclPermission::ReadAcp),
        account("b", AclPermission::Write),
    ];
    let owner = Owner { id: ID.to_owned(), display_name: "lab".to_owned() };
    let grants = rows.iter().map(|row| (row.clone(), "name".to_owned())).collect();
    let document = AccessControlPolicy { owner, grants }.to_xml();
    let read = AclDocument::parse(document.as_bytes()).expect("a document");
    assert_eq!(read, AclDocument { owner: ID.to_owned(), grants: rows.to_vec() });
}

#[test]
fn malformed_acl_documents_are_refused() {
    let document = |grants: &str| {
        format!(
            "<AccessControlPolicy><Owner><ID>{ID}</ID></Owner><AccessControlList>{grants}\
             </AccessControlList></AccessControlPolicy>"
        )
    };
    let parse = |text: String| AclDocument::parse(text.as_bytes());
    assert!(parse(document("")).is_ok(), "an empty list grants nothing");
    let row = |grantee: &str, permission: &str| {
        document(&format!(
            "<Grant><Grantee>{grantee}</Grantee><Permission>{permission}</Permission></Grant>"
        ))
    };
    assert!(parse(row("<ID>a</ID>", "READ")).is_ok());
    for bad in [
        "<AccessControlPolicy/>".to_owned(),
        "no xml".to_owned(),
        row("<ID>a</ID>", "EVERYTHING"),
        row("", "READ"),
        row("<ID>a</ID><URI>u</URI>", "READ"),
        document("<Grant><Permission>READ</Permission></Grant>"),
    ] {
        assert_eq!(code(parse(bad.clone())), Code::MalformedACLError, "{bad}");
    }
    let email = row("<EmailAddress>a@b.c</EmailAddress>", "READ");
    assert_eq!(code(parse(email)), Code::UnresolvableGrantByEmailAddress);
}

#[test]
fn full_control_covers_all_permissions_and_others_only_themselves() {
    for one in AclPermission::ALL {
        for other in AclPermission::ALL {
            let expected = one == other || one == AclPermission::FullControl;
            assert_eq!(one.covers(other), expected, "{one:?} {other:?}");
        }
    }
}
