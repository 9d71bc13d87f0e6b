//! Access control lists (ACLs): canned ACLs, grants in headers and documents, and the action that
//! each permission allows.
//!
//! For example, the canned ACL `public-read` has two grants: full control for the owner, and READ
//! for the group of all users.
//!
//! The module does not know which user an account id belongs to; the caller resolves ids.

use crate::request::Fields;
use crate::xml::{Element, XmlLimits};
use crate::{Code, Fault};

/// The permission that a grant of an access control list gives to its grantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclPermission {
    /// Includes all other permissions.
    FullControl,
    /// The grantee may list the bucket, or read the object.
    Read,
    /// The grantee may write and delete objects of the bucket. It has no effect on an object.
    Write,
    /// The grantee may read the access control list of the bucket or object.
    ReadAcp,
    /// The grantee may replace the access control list of the bucket or object.
    WriteAcp,
}

impl AclPermission {
    const ALL: [AclPermission; 5] = [
        AclPermission::FullControl,
        AclPermission::Read,
        AclPermission::Write,
        AclPermission::ReadAcp,
        AclPermission::WriteAcp,
    ];

    /// Returns the permission's name in XML documents, for example `READ_ACP`.
    pub const fn as_str(self) -> &'static str {
        match self {
            AclPermission::FullControl => "FULL_CONTROL",
            AclPermission::Read => "READ",
            AclPermission::Write => "WRITE",
            AclPermission::ReadAcp => "READ_ACP",
            AclPermission::WriteAcp => "WRITE_ACP",
        }
    }

    /// Returns the name of the request header that grants the permission, for example
    /// `x-amz-grant-read`.
    pub(crate) const fn header(self) -> &'static str {
        match self {
            AclPermission::FullControl => "x-amz-grant-full-control",
            AclPermission::Read => "x-amz-grant-read",
            AclPermission::Write => "x-amz-grant-write",
            AclPermission::ReadAcp => "x-amz-grant-read-acp",
            AclPermission::WriteAcp => "x-amz-grant-write-acp",
        }
    }

    /// Returns true if a grantee with this permission also has the permission `wanted`.
    pub fn covers(self, wanted: AclPermission) -> bool {
        self == AclPermission::FullControl || self == wanted
    }
}

/// A predefined group of users, to which an access control list can grant permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclGroup {
    /// All users, anonymous ones included.
    AllUsers,
    /// All users who sign requests with an access key.
    AuthenticatedUsers,
    /// The service that delivers access logs.
    LogDelivery,
}

impl AclGroup {
    const ALL: [AclGroup; 3] =
        [AclGroup::AllUsers, AclGroup::AuthenticatedUsers, AclGroup::LogDelivery];

    /// Returns the URI that names the group in headers and documents.
    pub const fn uri(self) -> &'static str {
        match self {
            AclGroup::AllUsers => "http://acs.amazonaws.com/groups/global/AllUsers",
            AclGroup::AuthenticatedUsers => {
                "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
            }
            AclGroup::LogDelivery => "http://acs.amazonaws.com/groups/s3/LogDelivery",
        }
    }

    fn parse(uri: &str) -> Result<AclGroup, Fault> {
        AclGroup::ALL.into_iter().find(|group| group.uri() == uri).ok_or_else(|| {
            Fault::because(Code::InvalidArgument, "Invalid group uri")
                .with("ArgumentName", "uri")
                .with("ArgumentValue", uri)
        })
    }
}

/// The grantee of a grant: the account or group that gets the permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclGrantee {
    /// An account, by its canonical id.
    Account(String),
    /// A predefined group.
    Group(AclGroup),
}

/// A grant of an access control list: a grantee and one permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclGrant {
    /// The account or group that gets the permission.
    pub grantee: AclGrantee,
    /// The permission that the grantee gets.
    pub permission: AclPermission,
}

/// A canned ACL: one of the access control lists that S3 predefines, selected by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CannedAcl {
    /// Full control for the owner only.
    Private,
    /// All users may read.
    PublicRead,
    /// All users may read and write.
    PublicReadWrite,
    /// All users with an access key may read.
    AuthenticatedRead,
    /// Amazon EC2 may read; here this adds no grant.
    AwsExecRead,
    /// The bucket owner may read the object.
    BucketOwnerRead,
    /// The bucket owner has full control of the object.
    BucketOwnerFullControl,
    /// The log delivery group may write objects and read the ACL.
    LogDeliveryWrite,
}

impl CannedAcl {
    /// Parses the name of a canned ACL. Fails with `InvalidArgument`.
    pub fn parse(name: &str) -> Result<CannedAcl, Fault> {
        Ok(match name {
            "private" => CannedAcl::Private,
            "public-read" => CannedAcl::PublicRead,
            "public-read-write" => CannedAcl::PublicReadWrite,
            "authenticated-read" => CannedAcl::AuthenticatedRead,
            "aws-exec-read" => CannedAcl::AwsExecRead,
            "bucket-owner-read" => CannedAcl::BucketOwnerRead,
            "bucket-owner-full-control" => CannedAcl::BucketOwnerFullControl,
            "log-delivery-write" => CannedAcl::LogDeliveryWrite,
            other => {
                return Err(Fault::new(Code::InvalidArgument)
                    .with("ArgumentName", "x-amz-acl")
                    .with("ArgumentValue", other));
            }
        })
    }

    /// Returns the grants of this canned ACL for a bucket or object that `owner` owns, in a bucket
    /// that `bucket_owner` owns. Both are canonical ids of accounts.
    pub fn grants(self, owner: &str, bucket_owner: &str) -> Vec<AclGrant> {
        let account = |id: &str, permission| AclGrant {
            grantee: AclGrantee::Account(id.to_owned()),
            permission,
        };
        let group = |group, permission| AclGrant { grantee: AclGrantee::Group(group), permission };
        // Each canned ACL begins with full control for the owner.
        let mut grants = vec![account(owner, AclPermission::FullControl)];
        match self {
            CannedAcl::PublicRead => grants.push(group(AclGroup::AllUsers, AclPermission::Read)),
            CannedAcl::PublicReadWrite => {
                grants.push(group(AclGroup::AllUsers, AclPermission::Read));
                grants.push(group(AclGroup::AllUsers, AclPermission::Write));
            }
            CannedAcl::AuthenticatedRead => {
                grants.push(group(AclGroup::AuthenticatedUsers, AclPermission::Read));
            }
            // If the object's owner is the bucket owner, the grant would repeat the first one.
            CannedAcl::BucketOwnerRead if owner != bucket_owner => {
                grants.push(account(bucket_owner, AclPermission::Read));
            }
            CannedAcl::BucketOwnerFullControl if owner != bucket_owner => {
                grants.push(account(bucket_owner, AclPermission::FullControl));
            }
            CannedAcl::LogDeliveryWrite => {
                grants.push(group(AclGroup::LogDelivery, AclPermission::Write));
                grants.push(group(AclGroup::LogDelivery, AclPermission::ReadAcp));
            }
            CannedAcl::Private
            | CannedAcl::AwsExecRead
            | CannedAcl::BucketOwnerRead
            | CannedAcl::BucketOwnerFullControl => {}
        }
        grants
    }
}

/// The access control list that the headers of a request set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedAcl {
    /// A canned ACL, that is, a predefined one that the request names.
    Canned(CannedAcl),
    /// Grants that the request has in headers, one for each grantee and permission.
    Grants(Vec<AclGrant>),
}

impl RequestedAcl {
    /// Parses the ACL headers of a request, `x-amz-acl` and `x-amz-grant-…`. Returns `None` if
    /// there is none of these headers.
    ///
    /// Fails with `InvalidArgument`; `InvalidRequest` for a canned ACL together with grants;
    /// `UnresolvableGrantByEmailAddress`, because accounts have no email addresses here.
    pub fn parse(fields: Fields<'_>) -> Result<Option<RequestedAcl>, Fault> {
        let canned = fields.get("x-amz-acl")?;
        // The combination is refused before the names are parsed.
        if canned.is_some() && AclPermission::ALL.iter().any(|one| fields.has(one.header())) {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Specifying both Canned ACLs and Header Grants is not allowed.",
            ));
        }
        let canned = canned.map(CannedAcl::parse).transpose()?;
        let mut grants = Vec::new();
        for permission in AclPermission::ALL {
            let Some(value) = fields.get(permission.header())? else { continue };
            for grantee in grantees(value)? {
                grants.push(AclGrant { grantee, permission });
            }
        }
        // The limit is that of S3 for grants in an ACL.
        check_count(grants.len())?;
        Ok(match canned {
            Some(canned) => Some(RequestedAcl::Canned(canned)),
            None if grants.is_empty() => None,
            None => Some(RequestedAcl::Grants(grants)),
        })
    }

    /// Returns true if a request has an ACL header, valid or not.
    pub(crate) fn is_present(fields: Fields<'_>) -> bool {
        fields.has("x-amz-acl") || AclPermission::ALL.iter().any(|one| fields.has(one.header()))
    }

    /// Returns true if the ACL grants only full control, and only to the owners of the bucket and
    /// object. This holds in each bucket where ACLs are disabled. Many clients send such an ACL
    /// with each request.
    pub fn grants_only_owners(&self) -> bool {
        matches!(self, RequestedAcl::Canned(CannedAcl::Private | CannedAcl::BucketOwnerFullControl))
    }
}

/// The maximum number of grants of an access control list, as in S3.
const GRANTS_MAX: usize = 100;

fn check_count(count: usize) -> Result<(), Fault> {
    if count <= GRANTS_MAX {
        return Ok(());
    }
    Err(Fault::because(
        Code::InvalidRequest,
        "The number of grants in the access control list exceeds the limit",
    ))
}

/// Parses the grantees in the value of a grant header: `id="…", uri="…"`. The quotes are optional.
fn grantees(header: &str) -> Result<Vec<AclGrantee>, Fault> {
    let mut found = Vec::new();
    for item in header.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let invalid = || {
            Fault::because(Code::InvalidArgument, "Argument format not recognized")
                .with("ArgumentName", "grantee")
                .with("ArgumentValue", item)
        };
        let (kind, value) = item.split_once('=').ok_or_else(invalid)?;
        // AWS documents the value in quotes, but clients also send it without.
        let value = value.trim().trim_matches('"');
        if value.is_empty() {
            return Err(invalid());
        }
        found.push(match kind.trim().to_ascii_lowercase().as_str() {
            "id" => AclGrantee::Account(value.to_owned()),
            "uri" => AclGrantee::Group(AclGroup::parse(value)?),
            // Accounts have no email addresses here, so no address can be resolved.
            "emailaddress" => return Err(no_such_address(value)),
            _ => return Err(invalid()),
        });
    }
    Ok(found)
}

fn no_such_address(address: &str) -> Fault {
    Fault::new(Code::UnresolvableGrantByEmailAddress).with("EmailAddress", address)
}

/// An ACL with its owner: the document of `PutBucketAcl` and `PutObjectAcl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclDocument {
    /// The owner's canonical id.
    pub owner: String,
    /// The grants of the access control list.
    pub grants: Vec<AclGrant>,
}

impl AclDocument {
    /// Parses the document of an ACL. Fails with `MalformedACLError`, or with the fault of an
    /// unknown group or of a grantee with an email address.
    pub fn parse(body: &[u8]) -> Result<AclDocument, Fault> {
        let read = || -> Result<AclDocument, Fault> {
            let root = Element::parse(body, "AccessControlPolicy", XmlLimits::SMALL)?;
            let owner = root.child("Owner")?.ok_or_else(malformed)?;
            let owner = owner.required("ID")?.to_owned();
            let list = root.child("AccessControlList")?.ok_or_else(malformed)?;
            let mut grants = Vec::with_capacity(list.children().len());
            for row in list.children() {
                grants.push(AclGrant { grantee: grantee(row)?, permission: permission(row)? });
            }
            Ok(AclDocument { owner, grants })
        };
        // S3 has its own code for malformed ACL documents. Other faults, such as an unknown group,
        // keep their code.
        let document = read()
            .map_err(|fault| if fault.code == Code::MalformedXML { malformed() } else { fault })?;
        check_count(document.grants.len())?;
        Ok(document)
    }
}

fn malformed() -> Fault {
    Fault::new(Code::MalformedACLError)
}

/// Returns the grantee of a `Grant` element. Its type is an attribute, and follows also from its
/// child element.
fn grantee(row: &Element) -> Result<AclGrantee, Fault> {
    const KINDS: [&str; 3] = ["CanonicalUser", "Group", "AmazonCustomerByEmail"];
    let grantee = row.child("Grantee")?.ok_or_else(malformed)?;
    if grantee.xsi_type().is_some_and(|kind| !KINDS.contains(&kind)) {
        return Err(malformed());
    }
    // The address is reported even if the document has an id, too.
    if let Some(address) = grantee.value("EmailAddress")? {
        return Err(no_such_address(address));
    }
    // Exactly one of both must be present: otherwise the grantee would be ambiguous.
    match (grantee.value("ID")?, grantee.value("URI")?) {
        (Some(id), None) if !id.is_empty() => Ok(AclGrantee::Account(id.to_owned())),
        (None, Some(uri)) => Ok(AclGrantee::Group(AclGroup::parse(uri)?)),
        _ => Err(malformed()),
    }
}

fn permission(row: &Element) -> Result<AclPermission, Fault> {
    let text = row.required("Permission")?;
    AclPermission::ALL.into_iter().find(|one| one.as_str() == text).ok_or_else(malformed)
}

/// The resource whose access control list can allow an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclScope {
    /// The access control list of the bucket decides.
    Bucket,
    /// The access control list of the object decides.
    Object,
}

/// Returns the resource whose ACL can allow an action, and the permission that the sender needs in
/// this ACL. `None` if no ACL can allow the action (S3's user guide, "Mapping of ACL permissions
/// and access policy permissions").
pub fn required_acl(action: &str) -> Option<(AclScope, AclPermission)> {
    Some(match action {
        "s3:ListBucket" | "s3:ListBucketVersions" | "s3:ListBucketMultipartUploads" => {
            (AclScope::Bucket, AclPermission::Read)
        }
        "s3:PutObject" | "s3:DeleteObject" => (AclScope::Bucket, AclPermission::Write),
        "s3:GetBucketAcl" => (AclScope::Bucket, AclPermission::ReadAcp),
        "s3:PutBucketAcl" => (AclScope::Bucket, AclPermission::WriteAcp),
        "s3:GetObject" | "s3:GetObjectVersion" => (AclScope::Object, AclPermission::Read),
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => (AclScope::Object, AclPermission::ReadAcp),
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => (AclScope::Object, AclPermission::WriteAcp),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
