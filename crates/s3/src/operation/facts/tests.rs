use super::*;
use crate::name::{BucketName, ObjectKey};
use crate::operation::{Demand, Permission, S3Resource};
use crate::request::DeleteObjects;

fn demand(
    operation: Operation,
    query: &str,
    list: &[(&'static str, &'static str)],
) -> Vec<Permission> {
    let headers = list.iter();
    let headers: HeaderMap = headers
        .map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect();
    let line = operation.request_line();
    let target = line.split([' ', '?']).nth(1).unwrap();
    let resource = S3Resource::parse(None, target, &[]).unwrap();
    let query = Query::parse(query).unwrap();
    match operation.demand(&resource, &query, Fields::new(&headers, &[])).expect("a demand") {
        Demand::All(all) | Demand::WithBody(all) | Demand::WithUpload(all) => all,
        Demand::FromBody | Demand::Nothing => Vec::new(),
    }
}

fn facts(operation: Operation, query: &str, list: &[(&'static str, &'static str)]) -> RequestFacts {
    demand(operation, query, list).swap_remove(0).facts
}

#[test]
fn preconditions_have_values_only_for_operations_that_use_them() {
    let decides = [
        Operation::PutObject,
        Operation::CopyObject,
        Operation::CompleteMultipartUpload,
        Operation::RenameObject,
        Operation::DeleteObject,
    ];
    for &operation in Operation::ALL {
        if operation.needs_no_permission() || operation == Operation::DeleteObjects {
            continue;
        }
        let list = [("x-amz-copy-source", "src/k"), ("x-amz-rename-source", "k")];
        let with = |name, value| {
            let list: Vec<_> = list.into_iter().chain([(name, value)]).collect();
            facts(operation, "", &list).condition
        };
        let used = decides.contains(&operation);
        assert_eq!(with("if-match", "\"1\"").if_match().is_some(), used, "{operation:?}");
        let star = with("if-none-match", "*").if_none_match();
        assert_eq!(star.is_some(), used, "{operation:?}");
        // A list of entity tags does not mean "write once".
        assert_eq!(with("if-none-match", "\"1\"").if_none_match(), None, "{operation:?}");
    }
}

#[test]
fn a_condition_value_equals_the_parsed_precondition() {
    let value = |text| facts(Operation::PutObject, "", &[("if-match", text)]).condition.if_match();
    for (sent, value_of) in
        [("*", "*"), ("\"1\"", "\"1\""), ("1", "\"1\""), ("W/\"1\",\"2\"", "W/\"1\", \"2\"")]
    {
        assert_eq!(value(sent).as_deref(), Some(value_of));
    }
}

#[test]
fn a_rename_source_has_the_preconditions_of_the_source() {
    let of = |list: &[(&'static str, &'static str)]| {
        let all = [&[("x-amz-rename-source", "from")][..], list].concat();
        let mut all = demand(Operation::RenameObject, "", &all);
        all.retain(|one| matches!(one.action, "s3:PutObject" | "s3:DeleteObject"));
        let values = all.into_iter().map(|one| (one.action, one.facts.condition.if_match()));
        values.collect::<Vec<_>>()
    };
    let tag = || Some("\"1\"".to_owned());
    assert_eq!(of(&[("if-match", "\"1\"")]), [("s3:PutObject", tag()), ("s3:DeleteObject", None)]);
    assert_eq!(
        of(&[("x-amz-rename-source-if-match", "\"1\"")]),
        [("s3:PutObject", None), ("s3:DeleteObject", tag())]
    );
}

#[test]
fn each_entry_of_delete_objects_has_its_own_values() {
    let body = b"<Delete><Object><Key>a</Key></Object>\
                 <Object><Key>b</Key><VersionId>null</VersionId><ETag>\"1\"</ETag></Object></Delete>";
    let bucket = BucketName::parse("bucket").unwrap();
    let deletions = DeleteObjects::parse(body).unwrap().deletions;
    let [plain, exact] = deletions.as_slice() else { panic!("two entries") };
    let plain = Permission::for_deletion(&bucket, plain);
    assert_eq!((plain.len(), plain[0].action), (1, "s3:DeleteObject"));
    assert_eq!((plain[0].facts.condition.if_match(), &plain[0].version), (None, &None));
    let exact = Permission::for_deletion(&bucket, exact);
    let actions: Vec<_> = exact.iter().map(|one| one.action).collect();
    assert_eq!(actions, ["s3:DeleteObjectVersion", "s3:GetObjectVersion"]);
    assert_eq!(exact[0].facts.condition.if_match().as_deref(), Some("\"1\""));
    assert!(exact.iter().all(|one| one.version == Some(crate::VersionId::Null)));
}

#[test]
fn a_copy_source_has_one_canonical_value() {
    for sent in ["src/a%20b", "/src/a+b", "%2Fsrc%2Fa%20b", "src/a b?versionId=null"] {
        for operation in [Operation::CopyObject, Operation::UploadPartCopy] {
            let all = demand(operation, "", &[("x-amz-copy-source", sent)]);
            assert_eq!(all[0].facts.copy_source.as_deref(), Some("src/a b"), "{sent}");
            let versioned = sent.contains("versionId");
            assert_eq!(all[1].version.is_some(), versioned, "the source's own version: {sent}");
            assert_eq!(all[1].facts, RequestFacts::default(), "the source is only read");
        }
    }
}

#[test]
fn tags_have_values_only_for_operations_that_set_them() {
    let tags = ("x-amz-tagging", "class=open");
    let set = |operation, list: &[(&'static str, &'static str)]| {
        facts(operation, "", &[&[tags, ("x-amz-copy-source", "src/k")][..], list].concat()).tags
    };
    let some = TagSet::parse_header("class=open").ok();
    assert_eq!(set(Operation::PutObject, &[]), some);
    assert_eq!(set(Operation::CreateMultipartUpload, &[]), some);
    assert_eq!(set(Operation::PutObject, &[("x-amz-write-offset-bytes", "0")]), some);
    assert_eq!(set(Operation::PutObject, &[("x-amz-write-offset-bytes", "7")]), None);
    assert_eq!(set(Operation::CopyObject, &[]), None, "the tags of the source are copied");
    assert_eq!(set(Operation::CopyObject, &[("x-amz-tagging-directive", "REPLACE")]), some);
    for operation in [Operation::UploadPart, Operation::CompleteMultipartUpload] {
        assert_eq!(set(operation, &[]), None, "{operation:?}");
    }
}

#[test]
fn a_lock_value_equals_the_lock_that_is_set() {
    let list = [
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-object-lock-retain-until-date", "2030-01-01T00:00:00Z"),
        ("x-amz-object-lock-legal-hold", "ON"),
    ];
    for permission in demand(Operation::PutObject, "", &list) {
        let lock = permission.facts.lock.expect("a lock");
        assert_eq!(lock.mode, Some(LockMode::Compliance), "{}", permission.action);
        assert_eq!(lock.until.map(OffsetDateTime::year), Some(2030));
        assert_eq!(lock.legal_hold, Some(true));
    }
    let plain = facts(Operation::PutObject, "", &[]);
    assert_eq!(plain.lock, Some(LockFacts::default()));
    assert_eq!(facts(Operation::DeleteObject, "", &list).lock, None);
}

#[test]
fn an_append_to_an_existing_object_has_no_values_of_a_new_object() {
    let list = [
        ("x-amz-acl", "public-read"),
        ("x-amz-tagging", "class=open"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("if-match", "\"1\""),
    ];
    let at = |offset| [&list[..], &[("x-amz-write-offset-bytes", offset)]].concat();
    // Each of these offsets is 0, at which an append creates a missing object.
    for zero in ["0", "00", "000000"] {
        for permission in demand(Operation::PutObject, "", &at(zero)) {
            if permission.action == "s3:GetObject" {
                continue;
            }
            let facts = permission.facts;
            assert_eq!(facts.header("x-amz-acl"), Some("public-read"), "{zero}");
            assert_eq!(facts.header("x-amz-server-side-encryption"), Some("AES256"), "{zero}");
            assert!(facts.tags.is_some() && facts.lock.is_some(), "{zero}");
            // The operation has found an object, and asks again.
            let facts = facts.of_append();
            assert!(list.iter().all(|(name, _)| facts.header(name).is_none()), "{zero}");
            assert_eq!((&facts.tags, facts.lock), (&None, None), "{zero}");
            assert_eq!(facts.condition.if_match().as_deref(), Some("\"1\""), "{zero}");
            assert_eq!(facts.creates_object, Some(true), "{zero}");
        }
    }
    for offset in ["7", "07"] {
        let facts = facts(Operation::PutObject, "", &at(offset));
        assert_eq!(facts, facts.of_append(), "{offset}");
        assert!(facts.condition.if_match().is_some(), "{offset}");
    }
}

#[test]
fn the_precondition_of_a_rename_is_write_once_only_if_the_operation_understands_it() {
    let once = |value| {
        let list = [("x-amz-rename-source", "from"), ("if-none-match", value)];
        facts(Operation::RenameObject, "", &list).condition.if_none_match()
    };
    assert_eq!(once("*"), Some("*"));
    for refused in ["\"*\"", "*, *", "*,", "W/\"*\""] {
        assert_eq!(once(refused), None, "{refused}");
    }
}

#[test]
fn headers_have_values_only_where_they_have_an_effect() {
    let list = [("x-amz-acl", "private"), ("x-amz-storage-class", "STANDARD")];
    let put = facts(Operation::PutObject, "", &list);
    assert_eq!(put.header("x-amz-acl"), Some("private"));
    assert_eq!(put.header("x-amz-storage-class"), Some("STANDARD"));
    let acl = facts(Operation::PutObjectAcl, "", &list);
    assert_eq!(
        (acl.header("x-amz-acl"), acl.header("x-amz-storage-class")),
        (Some("private"), None)
    );
    for operation in [Operation::UploadPart, Operation::DeleteObject, Operation::GetObject] {
        assert_eq!(facts(operation, "", &list), facts(operation, "", &[]), "{operation:?}");
    }
    // For an existing bucket, the ownership in the document counts.
    let header = [("x-amz-object-ownership", "ObjectWriter")];
    let mut settings = facts(Operation::PutBucketOwnershipControls, "", &header);
    assert_eq!(settings.header(OWNERSHIP), None);
    settings.set_ownership("BucketOwnerEnforced");
    assert_eq!(settings.header(OWNERSHIP), Some("BucketOwnerEnforced"));
}

#[test]
fn listing_parameters_have_values_only_for_listings() {
    let query = "prefix=a&delimiter=&max-keys=7";
    let listed = facts(Operation::ListObjectVersions, query, &[]).listing;
    assert_eq!(listed.prefix.as_deref(), Some("a"));
    assert_eq!((listed.delimiter, listed.max_keys.as_deref()), (None, Some("7")));
    assert_eq!(facts(Operation::GetObject, query, &[]).listing, ListingFacts::default());
}

#[test]
fn creates_object_is_false_for_steps_of_an_upload() {
    let creates = |operation| {
        let list = [("x-amz-copy-source", "src/k"), ("x-amz-rename-source", "k")];
        facts(operation, "", &list).creates_object
    };
    assert_eq!(creates(Operation::CompleteMultipartUpload), Some(true));
    assert_eq!(creates(Operation::UploadPart), Some(false));
    assert_eq!(creates(Operation::DeleteObject), None);
}

#[test]
fn a_permission_keeps_the_key_of_its_object() {
    let key = ObjectKey::parse("key").unwrap();
    let all = demand(Operation::GetObjectAttributes, "versionId=7", &[]);
    for permission in all {
        let named = permission.version.as_ref().map(crate::VersionId::as_str);
        assert_eq!(named, Some("7"), "{}", permission.action);
        assert_eq!(permission.resource.key(), Some(&key));
    }
}

#[test]
fn encryption_has_values_only_for_actions_that_make_an_object() {
    const MODE: &str = "x-amz-server-side-encryption";
    const KMS_KEY: &str = "x-amz-server-side-encryption-aws-kms-key-id";
    const ALGORITHM: &str = "x-amz-server-side-encryption-customer-algorithm";
    let list = [(MODE, "aws:kms"), (KMS_KEY, "k"), (ALGORITHM, "AES256")];
    for &operation in Operation::ALL {
        if operation.needs_no_permission() || operation == Operation::DeleteObjects {
            continue;
        }
        let others = [("x-amz-copy-source", "src/k"), ("x-amz-rename-source", "k")];
        let all = demand(operation, "", &[&list[..], &others].concat());
        let [own, others @ ..] = all.as_slice() else { panic!("{operation:?}") };
        let makes = operation.makes_an_object();
        for (name, value) in list {
            let expected = makes.then_some(value);
            assert_eq!(own.facts.header(name), expected, "{operation:?}");
        }
        let sources = others.iter().filter(|one| one.action.starts_with("s3:Get"));
        assert!(sources.into_iter().all(|one| one.facts.header(MODE).is_none()));
    }
    // An append keeps the encryption of the object.
    let appended =
        facts(Operation::PutObject, "", &[(MODE, "AES256"), ("x-amz-write-offset-bytes", "7")]);
    assert_eq!(appended.header(MODE), None);
}

#[test]
fn the_stored_headers_of_an_upload_contain_no_key_of_a_client() {
    let headers: HeaderMap = [
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-server-side-encryption-customer-key", "secret"),
        ("x-amz-server-side-encryption-customer-key-md5", "sum"),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect();
    let stored = RequestFacts::upload_headers(Fields::new(&headers, &[]));
    let algorithm = "x-amz-server-side-encryption-customer-algorithm";
    assert_eq!(stored, [(algorithm.to_owned(), "AES256".to_owned())]);
    let mut facts = RequestFacts::default();
    facts.continue_upload(&stored);
    assert_eq!(facts.header(algorithm), Some("AES256"));
}
