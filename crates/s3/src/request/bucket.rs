//! Buckets: what `CreateBucket` carries, and the documents of their configurations.

use super::Arguments;
use crate::acl::{AclDocument, RequestedAcl};
use crate::tagging::{TagSet, Tagged};
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// Whom the objects of a bucket belong to, and whether access control lists count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipRule {
    /// All to the bucket's owner; lists do not count.
    BucketOwnerEnforced,
    /// To the bucket's owner if the writer grants it full control, else to the writer.
    BucketOwnerPreferred,
    /// To whoever writes them.
    ObjectWriter,
}

impl OwnershipRule {
    /// All of them.
    pub const ALL: [OwnershipRule; 3] = [
        OwnershipRule::BucketOwnerEnforced,
        OwnershipRule::BucketOwnerPreferred,
        OwnershipRule::ObjectWriter,
    ];

    /// The name of it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            OwnershipRule::BucketOwnerEnforced => "BucketOwnerEnforced",
            OwnershipRule::BucketOwnerPreferred => "BucketOwnerPreferred",
            OwnershipRule::ObjectWriter => "ObjectWriter",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<OwnershipRule> {
        OwnershipRule::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// `CreateBucket`, in our region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateBucket {
    /// The list that it is to have.
    pub acl: Option<RequestedAcl>,
    /// Whom its objects are to belong to; if it does not say, as the gateway is set.
    pub ownership: Option<OwnershipRule>,
    /// Its tags.
    pub tags: TagSet,
    /// The region that it is to be in, as the request names it; none if it names none.
    pub location: Option<String>,
}

impl CreateBucket {
    /// Reads the request. `region` is ours; no location, an empty one and ours are accepted, even
    /// `us-east-1`, which S3 itself knows only as the one without a name: clients send it.
    ///
    /// Faults: `InvalidLocationConstraint`, `InvalidArgument`, `NotImplemented` for
    /// directory buckets, and those of ACLs, tags and XML.
    pub fn parse(
        arguments: &Arguments<'_>,
        body: &[u8],
        region: &str,
    ) -> Result<CreateBucket, Fault> {
        let fields = arguments.fields;
        let ownership = fields.get("x-amz-object-ownership")?;
        let ownership = ownership.map(|name| {
            OwnershipRule::parse(name).ok_or_else(|| {
                Fault::because(
                    Code::InvalidArgument,
                    format!("Invalid x-amz-object-ownership header: {name}"),
                )
                .with("ArgumentName", "x-amz-object-ownership")
                .with("ArgumentValue", name)
            })
        });
        let ownership = ownership.transpose()?;
        let acl = RequestedAcl::parse(fields)?;
        let (tags, location) = configuration(body, region)?;
        Ok(CreateBucket { acl, ownership, tags, location })
    }
}

/// Reads the document of `CreateBucket`, if there is one: its tags, and the region that it names.
fn configuration(body: &[u8], region: &str) -> Result<(TagSet, Option<String>), Fault> {
    if is_blank(body) {
        return Ok((TagSet::default(), None));
    }
    let root = Element::parse(body, "CreateBucketConfiguration", XmlLimits::SMALL)?;
    let known = ["LocationConstraint", "Tags"];
    if let Some(other) = root.children().iter().find(|child| !known.contains(&child.name())) {
        return Err(Fault::new(Code::NotImplemented).with("Element", other.name()));
    }
    let location = root.value("LocationConstraint")?.filter(|location| !location.is_empty());
    if let Some(location) = location
        && location != region
    {
        return Err(
            Fault::new(Code::InvalidLocationConstraint).with("LocationConstraint", location)
        );
    }
    let tags = match root.child("Tags")? {
        Some(tags) => TagSet::of_elements(tags, Tagged::Bucket)?,
        None => TagSet::default(),
    };
    Ok((tags, location.map(str::to_owned)))
}

/// Whether a body holds no document.
fn is_blank(body: &[u8]) -> bool {
    body.iter().all(u8::is_ascii_whitespace)
}

/// What `PutBucketAcl` and `PutObjectAcl` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutAcl {
    /// A list in headers.
    Headers(RequestedAcl),
    /// A document.
    Document(AclDocument),
}

impl PutAcl {
    /// Reads the request. Faults: `MissingSecurityHeader` for neither headers nor a document,
    /// `UnexpectedContent` for both, and those of either.
    pub fn parse(arguments: &Arguments<'_>, body: &[u8]) -> Result<PutAcl, Fault> {
        if is_blank(body) {
            RequestedAcl::parse(arguments.fields)?.map(PutAcl::Headers).ok_or_else(|| {
                Fault::new(Code::MissingSecurityHeader).with("MissingHeaderName", "x-amz-acl")
            })
        } else if RequestedAcl::is_present(arguments.fields) {
            Err(Code::UnexpectedContent.into())
        } else {
            AclDocument::parse(body).map(PutAcl::Document)
        }
    }
}

/// Reads the document of `PutBucketOwnershipControls`. Fault: `MalformedXML`.
pub fn parse_ownership_controls(body: &[u8]) -> Result<OwnershipRule, Fault> {
    let root = Element::parse(body, "OwnershipControls", XmlLimits::SMALL)?;
    let rule = root.child("Rule")?.ok_or_else(|| malformed("there is no Rule"))?;
    let name = rule.required("ObjectOwnership")?;
    OwnershipRule::parse(name).ok_or_else(|| malformed("the ObjectOwnership is not known"))
}

/// What keeps a bucket from being public.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "S3 has these four switches")]
pub struct PublicAccessBlockConfiguration {
    /// Lists that grant something to everybody are refused when they come.
    pub block_public_acls: bool,
    /// What lists grant to everybody does not count.
    pub ignore_public_acls: bool,
    /// A policy that allows something to everybody is refused when it comes.
    pub block_public_policy: bool,
    /// A policy that allows something to everybody counts for the bucket's own account alone.
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlockConfiguration {
    /// Reads the document of `PutPublicAccessBlock`; what it does not name is off.
    ///
    /// Fault: `MalformedXML`.
    pub fn parse(body: &[u8]) -> Result<PublicAccessBlockConfiguration, Fault> {
        let root = Element::parse(body, "PublicAccessBlockConfiguration", XmlLimits::SMALL)?;
        let switch = |name: &str| match root.value(name)? {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(malformed("a switch is neither true nor false")),
        };
        Ok(PublicAccessBlockConfiguration {
            block_public_acls: switch("BlockPublicAcls")?,
            ignore_public_acls: switch("IgnorePublicAcls")?,
            block_public_policy: switch("BlockPublicPolicy")?,
            restrict_public_buckets: switch("RestrictPublicBuckets")?,
        })
    }
}
