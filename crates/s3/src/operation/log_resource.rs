//! The kind of resource of an operation in S3's server access log.
//!
//! That log names an operation `REST.METHOD.RESOURCE`. For example, `PUT /bucket/key?tagging` is
//! `REST.PUT.OBJECT_TAGGING`.

use super::{Operation, Scope, TABLE};

impl Operation {
    /// Returns the resource of the operation in S3's server access log, such as `OBJECT`.
    pub fn log_resource(self) -> &'static str {
        let row = TABLE.iter().find(|row| row.operation == self);
        let Some(row) = row else { return "SERVICE" };
        match (row.scope, row.selector, row.method) {
            (_, _, "OPTIONS") => "PREFLIGHT",
            (Scope::Service, ..) => "SERVICE",
            (Scope::Bucket, "" | "list-type", _) => "BUCKET",
            (Scope::Object, "", _) => "OBJECT",
            (_, "versions", _) => "BUCKETVERSIONS",
            (_, "policy", _) => "BUCKETPOLICY",
            (_, "policyStatus", _) => "BUCKETPOLICYSTATUS",
            (_, "delete", _) => "MULTI_OBJECT_DELETE",
            (_, "uploads", _) => "UPLOADS",
            (_, "uploadId", "PUT") => "PART",
            (_, "uploadId", _) => "UPLOAD",
            (_, "logging", _) => "LOGGING_STATUS",
            (Scope::Bucket, "object-lock", _) => "OBJECT_LOCK_CONFIGURATION",
            (Scope::Object, "tagging", _) => "OBJECT_TAGGING",
            (Scope::Object, "retention", _) => "OBJECT_LOCK_RETENTION",
            (Scope::Object, "legal-hold", _) => "OBJECT_LOCK_LEGALHOLD",
            (Scope::Object, "attributes", _) => "OBJECT_ATTRIBUTES",
            (Scope::Object, "renameObject", _) => "RENAME",
            (_, "acl", _) => "ACL",
            (_, "location", _) => "LOCATION",
            (_, "tagging", _) => "TAGGING",
            (_, "versioning", _) => "VERSIONING",
            (_, "lifecycle", _) => "LIFECYCLE",
            (_, "cors", _) => "CORS",
            (_, "encryption", _) => "ENCRYPTION",
            (_, "replication", _) => "REPLICATION",
            (_, "website", _) => "WEBSITE",
            (_, "ownershipControls", _) => "OWNERSHIP_CONTROLS",
            (_, "publicAccessBlock", _) => "PUBLIC_ACCESS_BLOCK",
            (_, "notification", _) => "NOTIFICATION",
            (_, "accelerate", _) => "ACCELERATE",
            (_, "requestPayment", _) => "REQUEST_PAYMENT",
            (_, "inventory", _) => "INVENTORY",
            (_, "analytics", _) => "ANALYTICS",
            (_, "metrics", _) => "METRICS",
            (_, "intelligent-tiering", _) => "INTELLIGENT_TIERING",
            (_, "session", _) => "SESSION",
            (_, "restore", _) => "RESTORE",
            (_, "select", _) => "SELECT",
            (_, "torrent", _) => "OBJECT_TORRENT",
            // A test checks that no operation arrives here.
            (Scope::Bucket | Scope::Object, ..) => "OTHER",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Operation;

    #[test]
    fn every_operation_has_a_resource_in_the_access_log() {
        for operation in Operation::ALL {
            assert_ne!(operation.log_resource(), "OTHER", "{operation:?}");
        }
        for (operation, resource) in [
            (Operation::ListBuckets, "SERVICE"),
            (Operation::ListObjectsV2, "BUCKET"),
            (Operation::GetObject, "OBJECT"),
            (Operation::UploadPart, "PART"),
            (Operation::CompleteMultipartUpload, "UPLOAD"),
            (Operation::GetBucketTagging, "TAGGING"),
            (Operation::GetObjectTagging, "OBJECT_TAGGING"),
            (Operation::OptionsObject, "PREFLIGHT"),
        ] {
            assert_eq!(operation.log_resource(), resource);
        }
    }
}
