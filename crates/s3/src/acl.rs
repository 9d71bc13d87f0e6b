//! Access control lists: canned ones, rows from headers and documents, and what a row permits.
//!
//! Who an id stands for is not known here: the caller resolves it.

use crate::request::Fields;
use crate::xml::{Element, XmlLimits};
use crate::{Code, Fault};

/// What a row of a list permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclPermission {
    /// All of the others.
    FullControl,
    /// To list a bucket, to read an object.
    Read,
    /// To write and delete objects of a bucket.
    Write,
    /// To read the list.
    ReadAcp,
    /// To replace the list.
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

    /// The element's text.
    pub const fn as_str(self) -> &'static str {
        match self {
            AclPermission::FullControl => "FULL_CONTROL",
            AclPermission::Read => "READ",
            AclPermission::Write => "WRITE",
            AclPermission::ReadAcp => "READ_ACP",
            AclPermission::WriteAcp => "WRITE_ACP",
        }
    }

    /// The header that grants it.
    pub(crate) const fn header(self) -> &'static str {
        match self {
            AclPermission::FullControl => "x-amz-grant-full-control",
            AclPermission::Read => "x-amz-grant-read",
            AclPermission::Write => "x-amz-grant-write",
            AclPermission::ReadAcp => "x-amz-grant-read-acp",
            AclPermission::WriteAcp => "x-amz-grant-write-acp",
        }
    }

    /// Whether a row with this permission permits what `wanted` does.
    pub fn covers(self, wanted: AclPermission) -> bool {
        self == AclPermission::FullControl || self == wanted
    }
}

/// Everybody whom S3 has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AclGroup {
    /// Everybody, also whoever sends no credentials.
    AllUsers,
    /// Whoever signs requests with any access key.
    AuthenticatedUsers,
    /// Whoever delivers logs.
    LogDelivery,
}

impl AclGroup {
    const ALL: [AclGroup; 3] =
        [AclGroup::AllUsers, AclGroup::AuthenticatedUsers, AclGroup::LogDelivery];

    /// The name of it on the wire.
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

/// To whom a row grants something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclGrantee {
    /// An account, by its canonical id.
    Account(String),
    /// A group.
    Group(AclGroup),
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclGrant {
    /// To whom.
    pub grantee: AclGrantee,
    /// What.
    pub permission: AclPermission,
}

/// The lists that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CannedAcl {
    /// The owner alone.
    Private,
    /// Everybody reads.
    PublicRead,
    /// Everybody reads and writes.
    PublicReadWrite,
    /// Whoever has an access key reads.
    AuthenticatedRead,
    /// Amazon's machines read; nobody here.
    AwsExecRead,
    /// The bucket's owner reads the object.
    BucketOwnerRead,
    /// The bucket's owner has full control of the object.
    BucketOwnerFullControl,
    /// Whoever delivers logs writes them.
    LogDeliveryWrite,
}

impl CannedAcl {
    /// Reads the name of one. Fault: `InvalidArgument`.
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

    /// The rows of the list for something that belongs to `owner`, in a bucket that belongs to
    /// `bucket_owner`: canonical ids.
    pub fn grants(self, owner: &str, bucket_owner: &str) -> Vec<AclGrant> {
        let account = |id: &str, permission| AclGrant {
            grantee: AclGrantee::Account(id.to_owned()),
            permission,
        };
        let group = |group, permission| AclGrant { grantee: AclGrantee::Group(group), permission };
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

/// The list that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedAcl {
    /// One that has a name.
    Canned(CannedAcl),
    /// Rows in headers.
    Grants(Vec<AclGrant>),
}

impl RequestedAcl {
    /// Reads `x-amz-acl` and `x-amz-grant-…`; nothing if there is neither.
    ///
    /// Faults: `InvalidArgument`, `InvalidRequest` for both at once, and
    /// `UnresolvableGrantByEmailAddress`, since accounts have no addresses here.
    pub fn parse(fields: Fields<'_>) -> Result<Option<RequestedAcl>, Fault> {
        let canned = fields.get("x-amz-acl")?;
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
        check_count(grants.len())?;
        Ok(match canned {
            Some(canned) => Some(RequestedAcl::Canned(canned)),
            None if grants.is_empty() => None,
            None => Some(RequestedAcl::Grants(grants)),
        })
    }

    /// Whether a request has any header that asks for a list, whatever it says.
    pub(crate) fn is_present(fields: Fields<'_>) -> bool {
        fields.has("x-amz-acl") || AclPermission::ALL.iter().any(|one| fields.has(one.header()))
    }

    /// Whether it says no more than what holds in every bucket where lists do not count: that the
    /// owner has full control.
    pub fn grants_only_owners(&self) -> bool {
        matches!(self, RequestedAcl::Canned(CannedAcl::Private | CannedAcl::BucketOwnerFullControl))
    }
}

/// The most rows of a list.
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

/// Reads `id="…", uri="…"`. A value may stand without quotes.
fn grantees(header: &str) -> Result<Vec<AclGrantee>, Fault> {
    let mut found = Vec::new();
    for item in header.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let invalid = || {
            Fault::because(Code::InvalidArgument, "Argument format not recognized")
                .with("ArgumentName", "grantee")
                .with("ArgumentValue", item)
        };
        let (kind, value) = item.split_once('=').ok_or_else(invalid)?;
        let value = value.trim().trim_matches('"');
        if value.is_empty() {
            return Err(invalid());
        }
        found.push(match kind.trim().to_ascii_lowercase().as_str() {
            "id" => AclGrantee::Account(value.to_owned()),
            "uri" => AclGrantee::Group(AclGroup::parse(value)?),
            "emailaddress" => return Err(no_such_address(value)),
            _ => return Err(invalid()),
        });
    }
    Ok(found)
}

fn no_such_address(address: &str) -> Fault {
    Fault::new(Code::UnresolvableGrantByEmailAddress).with("EmailAddress", address)
}

/// A list with the owner that it names: the document of `PutBucketAcl` and its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclDocument {
    /// The owner's canonical id.
    pub owner: String,
    /// The rows.
    pub grants: Vec<AclGrant>,
}

impl AclDocument {
    /// Reads the document. Fault: `MalformedACLError`.
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
        let document = read().map_err(|fault| match fault.code {
            Code::MalformedXML => malformed(),
            _ => fault,
        })?;
        check_count(document.grants.len())?;
        Ok(document)
    }
}

fn malformed() -> Fault {
    Fault::new(Code::MalformedACLError)
}

/// Of a row the grantee. Its type stands in an attribute, and again in which element it has.
fn grantee(row: &Element) -> Result<AclGrantee, Fault> {
    const KINDS: [&str; 3] = ["CanonicalUser", "Group", "AmazonCustomerByEmail"];
    let grantee = row.child("Grantee")?.ok_or_else(malformed)?;
    if grantee.xsi_type().is_some_and(|kind| !KINDS.contains(&kind)) {
        return Err(malformed());
    }
    if let Some(address) = grantee.value("EmailAddress")? {
        return Err(no_such_address(address));
    }
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

/// Whose list decides about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclScope {
    /// The bucket's.
    Bucket,
    /// The object's.
    Object,
}

/// Which list permits an action, and by which permission; nothing if none does (S3's user guide,
/// "Mapping of ACL permissions and access policy permissions").
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
