//! Requests about buckets: `CreateBucket` and the documents of ownership controls, ACLs and public
//! access blocks.

use super::Arguments;
use crate::acl::{AclDocument, RequestedAcl};
use crate::tagging::{TagSet, Tagged};
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// The object ownership rule of a bucket: it decides who owns new objects, and whether ACLs have an
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipRule {
    /// The bucket owner owns all objects. ACLs have no effect.
    BucketOwnerEnforced,
    /// The bucket owner owns an object if its writer grants the bucket owner full control;
    /// otherwise the writer owns it.
    BucketOwnerPreferred,
    /// The writer owns the object.
    ObjectWriter,
}

impl OwnershipRule {
    /// All ownership rules.
    pub const ALL: [OwnershipRule; 3] = [
        OwnershipRule::BucketOwnerEnforced,
        OwnershipRule::BucketOwnerPreferred,
        OwnershipRule::ObjectWriter,
    ];

    /// Returns the name of the ownership rule in requests and responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            OwnershipRule::BucketOwnerEnforced => "BucketOwnerEnforced",
            OwnershipRule::BucketOwnerPreferred => "BucketOwnerPreferred",
            OwnershipRule::ObjectWriter => "ObjectWriter",
        }
    }

    /// Returns the ownership rule with this name; `None` for any other text.
    pub fn parse(name: &str) -> Option<OwnershipRule> {
        OwnershipRule::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// A `CreateBucket` request for the gateway's region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateBucket {
    /// The ACL of the new bucket.
    pub acl: Option<RequestedAcl>,
    /// The ownership rule of the new bucket; `None` selects the gateway's default.
    pub ownership: Option<OwnershipRule>,
    /// The tags of the new bucket.
    pub tags: TagSet,
    /// The region in the request document; `None` if the document has none.
    pub location: Option<String>,
}

impl CreateBucket {
    /// Parses a `CreateBucket` request. `region` is the gateway's region. The request may name this
    /// region, an empty region or none. It may also name `us-east-1` if that is the gateway's
    /// region: S3 knows this region only as the empty one, but clients send its name.
    ///
    /// Fails with `InvalidLocationConstraint`; `InvalidArgument`; `NotImplemented` for directory
    /// buckets; or the faults of ACLs, tags and XML.
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

/// Parses the document of `CreateBucket`, if there is one. Returns its tags and its region.
fn configuration(body: &[u8], region: &str) -> Result<(TagSet, Option<String>), Fault> {
    if is_blank(body) {
        return Ok((TagSet::default(), None));
    }
    let root = Element::parse(body, "CreateBucketConfiguration", XmlLimits::SMALL)?;
    let known = ["LocationConstraint", "Tags"];
    // Other elements belong to directory buckets, which do not exist here. Ignoring them would
    // create another kind of bucket than the client requested.
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

/// Returns true if a request body has no document: it is empty or has only white space.
fn is_blank(body: &[u8]) -> bool {
    body.iter().all(u8::is_ascii_whitespace)
}

/// The ACL of a `PutBucketAcl` or `PutObjectAcl` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutAcl {
    /// The ACL is in the request headers.
    Headers(RequestedAcl),
    /// The ACL is an XML document in the request body.
    Document(AclDocument),
}

impl PutAcl {
    /// Parses a `PutBucketAcl` or `PutObjectAcl` request. Fails with `MissingSecurityHeader` if it
    /// has neither headers nor a document, with `UnexpectedContent` if it has both, or with the
    /// faults of either form.
    pub fn parse(arguments: &Arguments<'_>, body: &[u8]) -> Result<PutAcl, Fault> {
        // An empty body means that the ACL is in the headers.
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

/// Parses the document of `PutBucketOwnershipControls`. Fails with `MalformedXML`.
pub fn parse_ownership_controls(body: &[u8]) -> Result<OwnershipRule, Fault> {
    let root = Element::parse(body, "OwnershipControls", XmlLimits::SMALL)?;
    let rule = root.child("Rule")?.ok_or_else(|| malformed("Rule is missing"))?;
    let name = rule.required("ObjectOwnership")?;
    OwnershipRule::parse(name).ok_or_else(|| malformed("ObjectOwnership is unknown"))
}

/// Settings that prevent public access to a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "S3 has these four switches")]
pub struct PublicAccessBlockConfiguration {
    /// Refuse a request that sets an ACL with grants to everyone.
    pub block_public_acls: bool,
    /// Ignore ACL grants to everyone.
    pub ignore_public_acls: bool,
    /// Refuse a request that sets a policy that allows access to everyone.
    pub block_public_policy: bool,
    /// Apply a policy that allows access to everyone only to the bucket's own account.
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlockConfiguration {
    /// Parses the document of `PutPublicAccessBlock`. A setting that is absent is off.
    ///
    /// Fails with `MalformedXML`.
    pub fn parse(body: &[u8]) -> Result<PublicAccessBlockConfiguration, Fault> {
        let root = Element::parse(body, "PublicAccessBlockConfiguration", XmlLimits::SMALL)?;
        let switch = |name: &str| match root.value(name)? {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(malformed("a setting is neither true nor false")),
        };
        Ok(PublicAccessBlockConfiguration {
            block_public_acls: switch("BlockPublicAcls")?,
            ignore_public_acls: switch("IgnorePublicAcls")?,
            block_public_policy: switch("BlockPublicPolicy")?,
            restrict_public_buckets: switch("RestrictPublicBuckets")?,
        })
    }
}
