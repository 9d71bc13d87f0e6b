//! Buckets: what `CreateBucket` and the ACL operations carry.

use super::{Arguments, unserved};
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// `CreateBucket`, in our region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateBucket;

impl CreateBucket {
    /// Reads the request. `region` is ours; no location, an empty one and ours are accepted.
    ///
    /// Faults: `InvalidLocationConstraint`, `NotImplemented` for object lock, tags, ACLs and
    /// directory buckets, and those of XML.
    pub fn parse(
        arguments: &Arguments<'_>,
        body: &[u8],
        region: &str,
    ) -> Result<CreateBucket, Fault> {
        let fields = arguments.fields;
        unserved::refuse_acl(fields)?;
        if fields
            .get("x-amz-bucket-object-lock-enabled")?
            .is_some_and(|value| !value.eq_ignore_ascii_case("false"))
        {
            return Err(unserved::not_implemented("x-amz-bucket-object-lock-enabled"));
        }
        if fields.get("x-amz-object-ownership")?.is_some_and(|value| value != "BucketOwnerEnforced")
        {
            return Err(unserved::not_implemented("x-amz-object-ownership"));
        }
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(CreateBucket);
        }
        let root = Element::parse(body, "CreateBucketConfiguration", XmlLimits::SMALL)?;
        if let Some(other) =
            root.children().iter().find(|child| child.name() != "LocationConstraint")
        {
            return Err(Fault::new(Code::NotImplemented).with("Element", other.name()));
        }
        match root.value("LocationConstraint")? {
            None | Some("") => Ok(CreateBucket),
            Some(location) if location == region => Ok(CreateBucket),
            Some(location) => {
                Err(Fault::new(Code::InvalidLocationConstraint)
                    .with("LocationConstraint", location))
            }
        }
    }
}

/// Reads `PutBucketAcl` and `PutObjectAcl`. They may only state what holds anyway: the owner, and
/// nobody else, has full control.
///
/// Faults: `NotImplemented` for any other list, and those of XML.
pub fn parse_acl(arguments: &Arguments<'_>, body: &[u8]) -> Result<(), Fault> {
    unserved::refuse_acl(arguments.fields)?;
    if body.iter().all(u8::is_ascii_whitespace) {
        return if arguments.fields.has("x-amz-acl") {
            Ok(())
        } else {
            Err(malformed("an access control list is missing"))
        };
    }
    let root = Element::parse(body, "AccessControlPolicy", XmlLimits::SMALL)?;
    let Some(list) = root.child("AccessControlList")? else { return Ok(()) };
    for grant in list.children() {
        let grantee = grant.child("Grantee")?.ok_or_else(|| malformed("Grantee is missing"))?;
        let is_group = grantee.value("URI")?.is_some() || grantee.value("EmailAddress")?.is_some();
        if is_group || grant.required("Permission")? != "FULL_CONTROL" {
            return Err(Fault::new(Code::NotImplemented).with("Element", "Grant"));
        }
    }
    // Ids of owners are not known here, so a single grantee is taken for the owner. Two cannot be.
    if list.children().len() > 1 {
        return Err(Fault::new(Code::NotImplemented).with("Element", "Grant"));
    }
    Ok(())
}
