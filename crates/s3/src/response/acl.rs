//! The document of an ACL.

use super::Owner;
use crate::acl::{AclGrant, AclGrantee};
use crate::xml::Writer;

/// The access control list of a bucket or object, as a response shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessControlPolicy {
    /// The owner.
    pub owner: Owner,
    /// The grants, each with the display name of its grantee if that is an account.
    pub grants: Vec<(AclGrant, String)>,
}

impl AccessControlPolicy {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("AccessControlPolicy", |out| {
            self.owner.write(out, "Owner");
            out.element("AccessControlList", |out| {
                for (grant, name) in &self.grants {
                    out.element("Grant", |out| write_grant(out, grant, name));
                }
            });
        });
        out.finish()
    }
}

fn write_grant(out: &mut Writer, grant: &AclGrant, display_name: &str) {
    const SCHEMA: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";
    match &grant.grantee {
        AclGrantee::Account(id) => {
            // The type of a grantee is an attribute in S3's schema.
            out.open_with("Grantee", SCHEMA, "xsi:type=\"CanonicalUser\"");
            out.text("ID", id);
            out.text("DisplayName", display_name);
        }
        AclGrantee::Group(group) => {
            out.open_with("Grantee", SCHEMA, "xsi:type=\"Group\"");
            out.text("URI", group.uri());
        }
    }
    out.literal("</Grantee>");
    out.text("Permission", grant.permission.as_str());
}
