//! The table of all S3 actions, with the kind of resource of each action.
//!
//! The table also has actions that the gateway does not serve, so that a policy that was written
//! for AWS is accepted. For example, `s3:CreateJob` is known, although the gateway has no jobs.

use AppliesTo::{Bucket, Elsewhere, Objects, ObjectsByName};

use crate::glob::Glob;

/// The kind of resource to which an S3 action, such as `s3:GetObject`, applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppliesTo {
    /// The action applies to objects. A statement of a bucket policy with this action needs a
    /// resource within the bucket.
    Objects,
    /// The action applies to the bucket itself.
    Bucket,
    /// The action applies to objects. A pattern that also covers an action on buckets counts as one
    /// on buckets. For example, `s3:*Bucket*` applies to the bucket.
    ObjectsByName,
    /// The action applies neither to a bucket nor to its objects, so a bucket policy cannot name
    /// it.
    Elsewhere,
}

/// Returns the names of all S3 actions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    S3.iter().map(|(action, _)| *action)
}

/// Returns true if a pattern of actions, in lower case, matches the name of at least one S3 action.
pub(crate) fn covers_any(pattern: &Glob) -> bool {
    S3.iter().any(|(action, _)| pattern.matches(&action.to_ascii_lowercase()))
}

/// Returns the kind of resource to which a pattern of actions, in lower case, applies: objects if
/// the pattern covers an action on objects. Returns `None` if the pattern covers no action that a
/// bucket policy can name.
pub(crate) fn applies_to(pattern: &Glob) -> Option<AppliesTo> {
    let covers = |wanted: AppliesTo| {
        let of_kind = S3.iter().filter(|(_, applies)| *applies == wanted);
        of_kind.into_iter().any(|(action, _)| pattern.matches(&action.to_ascii_lowercase()))
    };
    // S3 decides in this order: one action on objects makes a pattern one on objects.
    if covers(Objects) {
        Some(Objects)
    } else if covers(Bucket) {
        Some(Bucket)
    } else {
        covers(ObjectsByName).then_some(Objects)
    }
}

/// Returns true if the action, in lower case, applies to objects.
pub(crate) fn is_of_objects(action: &str) -> bool {
    S3.iter().any(|(known, applies)| {
        matches!(applies, Objects | ObjectsByName) && known.eq_ignore_ascii_case(action)
    })
}

/// The actions of "Actions, resources, and condition keys for Amazon S3" in AWS's Service
/// Authorization Reference, and the action of directory buckets.
const S3: &[(&str, AppliesTo)] = &[
    ("s3:AbortMultipartUpload", Objects),
    ("s3:AllowVendedLogDeliveryForResource", Elsewhere),
    ("s3:AssociateAccessGrantsIdentityCenter", Elsewhere),
    ("s3:BypassGovernanceRetention", Objects),
    ("s3:CreateAccessGrant", Elsewhere),
    ("s3:CreateAccessGrantsInstance", Elsewhere),
    ("s3:CreateAccessGrantsLocation", Elsewhere),
    ("s3:CreateAccessPoint", Elsewhere),
    ("s3:CreateAccessPointForObjectLambda", Elsewhere),
    ("s3:CreateBucket", Bucket),
    ("s3:CreateBucketMetadataTableConfiguration", Bucket),
    ("s3:CreateJob", Elsewhere),
    ("s3:CreateMultiRegionAccessPoint", Elsewhere),
    ("s3:CreateStorageLensGroup", Elsewhere),
    ("s3:DeleteAccessGrant", Elsewhere),
    ("s3:DeleteAccessGrantsInstance", Elsewhere),
    ("s3:DeleteAccessGrantsInstanceResourcePolicy", Elsewhere),
    ("s3:DeleteAccessGrantsLocation", Elsewhere),
    ("s3:DeleteAccessPoint", Elsewhere),
    ("s3:DeleteAccessPointForObjectLambda", Elsewhere),
    ("s3:DeleteAccessPointPolicy", Elsewhere),
    ("s3:DeleteAccessPointPolicyForObjectLambda", Elsewhere),
    ("s3:DeleteBucket", Bucket),
    ("s3:DeleteBucketMetadataTableConfiguration", Bucket),
    ("s3:DeleteBucketPolicy", Bucket),
    ("s3:DeleteBucketWebsite", Bucket),
    ("s3:DeleteJobTagging", Elsewhere),
    ("s3:DeleteMultiRegionAccessPoint", Elsewhere),
    ("s3:DeleteObject", Objects),
    ("s3:DeleteObjectAnnotation", Objects),
    ("s3:DeleteObjectTagging", Objects),
    ("s3:DeleteObjectVersion", Objects),
    ("s3:DeleteObjectVersionAnnotation", Objects),
    ("s3:DeleteObjectVersionTagging", Objects),
    ("s3:DeleteStorageLensConfiguration", Elsewhere),
    ("s3:DeleteStorageLensConfigurationTagging", Elsewhere),
    ("s3:DeleteStorageLensGroup", Elsewhere),
    ("s3:DescribeJob", Elsewhere),
    ("s3:DescribeMultiRegionAccessPointOperation", Elsewhere),
    ("s3:DissociateAccessGrantsIdentityCenter", Elsewhere),
    ("s3:GetAccelerateConfiguration", Bucket),
    ("s3:GetAccessGrant", Elsewhere),
    ("s3:GetAccessGrantsInstance", Elsewhere),
    ("s3:GetAccessGrantsInstanceForPrefix", Elsewhere),
    ("s3:GetAccessGrantsInstanceResourcePolicy", Elsewhere),
    ("s3:GetAccessGrantsLocation", Elsewhere),
    ("s3:GetAccessPoint", Elsewhere),
    ("s3:GetAccessPointConfigurationForObjectLambda", Elsewhere),
    ("s3:GetAccessPointForObjectLambda", Elsewhere),
    ("s3:GetAccessPointPolicy", Elsewhere),
    ("s3:GetAccessPointPolicyForObjectLambda", Elsewhere),
    ("s3:GetAccessPointPolicyStatus", Elsewhere),
    ("s3:GetAccessPointPolicyStatusForObjectLambda", Elsewhere),
    ("s3:GetAccountPublicAccessBlock", Elsewhere),
    ("s3:GetAnalyticsConfiguration", Bucket),
    ("s3:GetBucketAbac", Bucket),
    ("s3:GetBucketAcl", Bucket),
    ("s3:GetBucketCORS", Bucket),
    ("s3:GetBucketLocation", Bucket),
    ("s3:GetBucketLogging", Bucket),
    ("s3:GetBucketMetadataTableConfiguration", Bucket),
    ("s3:GetBucketNotification", Bucket),
    ("s3:GetBucketObjectLockConfiguration", Bucket),
    ("s3:GetBucketOwnershipControls", Bucket),
    ("s3:GetBucketPolicy", Bucket),
    ("s3:GetBucketPolicyStatus", Bucket),
    ("s3:GetBucketPublicAccessBlock", Bucket),
    ("s3:GetBucketRequestPayment", Bucket),
    ("s3:GetBucketTagging", Bucket),
    ("s3:GetBucketVersioning", Bucket),
    ("s3:GetBucketWebsite", Bucket),
    ("s3:GetDataAccess", Elsewhere),
    ("s3:GetEncryptionConfiguration", Bucket),
    ("s3:GetIntelligentTieringConfiguration", Bucket),
    ("s3:GetInventoryConfiguration", Bucket),
    ("s3:GetJobTagging", Elsewhere),
    ("s3:GetLifecycleConfiguration", Bucket),
    ("s3:GetMetricsConfiguration", Bucket),
    ("s3:GetMultiRegionAccessPoint", Elsewhere),
    ("s3:GetMultiRegionAccessPointPolicy", Elsewhere),
    ("s3:GetMultiRegionAccessPointPolicyStatus", Elsewhere),
    ("s3:GetMultiRegionAccessPointRoutes", Elsewhere),
    ("s3:GetObject", Objects),
    ("s3:GetObjectAcl", Objects),
    ("s3:GetObjectAnnotation", Objects),
    ("s3:GetObjectAttributes", Objects),
    ("s3:GetObjectLegalHold", Objects),
    ("s3:GetObjectRetention", Objects),
    ("s3:GetObjectTagging", Objects),
    ("s3:GetObjectTorrent", Objects),
    ("s3:GetObjectVersion", Objects),
    ("s3:GetObjectVersionAcl", Objects),
    ("s3:GetObjectVersionAnnotation", Objects),
    ("s3:GetObjectVersionAnnotationForReplication", Objects),
    ("s3:GetObjectVersionAttributes", Objects),
    ("s3:GetObjectVersionForReplication", Objects),
    ("s3:GetObjectVersionTagging", Objects),
    ("s3:GetObjectVersionTorrent", Objects),
    ("s3:GetReplicationConfiguration", Bucket),
    ("s3:GetStorageLensConfiguration", Elsewhere),
    ("s3:GetStorageLensConfigurationTagging", Elsewhere),
    ("s3:GetStorageLensDashboard", Elsewhere),
    ("s3:GetStorageLensGroup", Elsewhere),
    ("s3:InitiateReplication", Objects),
    ("s3:ListAccessGrants", Elsewhere),
    ("s3:ListAccessGrantsInstances", Elsewhere),
    ("s3:ListAccessGrantsLocations", Elsewhere),
    ("s3:ListAccessPoints", Elsewhere),
    ("s3:ListAccessPointsForObjectLambda", Elsewhere),
    ("s3:ListAllMyBuckets", Elsewhere),
    ("s3:ListBucket", Bucket),
    ("s3:ListBucketMultipartUploads", Bucket),
    ("s3:ListBucketVersions", Bucket),
    ("s3:ListCallerAccessGrants", Elsewhere),
    ("s3:ListJobs", Elsewhere),
    ("s3:ListMultiRegionAccessPoints", Elsewhere),
    ("s3:ListMultipartUploadParts", Objects),
    ("s3:ListObjectAnnotations", Objects),
    ("s3:ListObjectVersionAnnotations", Objects),
    ("s3:ListStorageLensConfigurations", Elsewhere),
    ("s3:ListStorageLensGroups", Elsewhere),
    ("s3:ListTagsForResource", Bucket),
    ("s3:ObjectOwnerOverrideToBucketOwner", ObjectsByName),
    ("s3:PauseReplication", Elsewhere),
    ("s3:PutAccelerateConfiguration", Bucket),
    ("s3:PutAccessGrantsInstanceResourcePolicy", Elsewhere),
    ("s3:PutAccessPointConfigurationForObjectLambda", Elsewhere),
    ("s3:PutAccessPointPolicy", Elsewhere),
    ("s3:PutAccessPointPolicyForObjectLambda", Elsewhere),
    ("s3:PutAccessPointPublicAccessBlock", Elsewhere),
    ("s3:PutAccountPublicAccessBlock", Elsewhere),
    ("s3:PutAnalyticsConfiguration", Bucket),
    ("s3:PutBucketAbac", Bucket),
    ("s3:PutBucketAcl", Bucket),
    ("s3:PutBucketCORS", Bucket),
    ("s3:PutBucketLogging", Bucket),
    ("s3:PutBucketNotification", Bucket),
    ("s3:PutBucketObjectLockConfiguration", Bucket),
    ("s3:PutBucketOwnershipControls", Bucket),
    ("s3:PutBucketPolicy", Bucket),
    ("s3:PutBucketPublicAccessBlock", Bucket),
    ("s3:PutBucketRequestPayment", Bucket),
    ("s3:PutBucketTagging", Bucket),
    ("s3:PutBucketVersioning", Bucket),
    ("s3:PutBucketWebsite", Bucket),
    ("s3:PutEncryptionConfiguration", Bucket),
    ("s3:PutIntelligentTieringConfiguration", Bucket),
    ("s3:PutInventoryConfiguration", Bucket),
    ("s3:PutJobTagging", Elsewhere),
    ("s3:PutLifecycleConfiguration", Bucket),
    ("s3:PutMetricsConfiguration", Bucket),
    ("s3:PutMultiRegionAccessPointPolicy", Elsewhere),
    ("s3:PutObject", Objects),
    ("s3:PutObjectAcl", Objects),
    ("s3:PutObjectAnnotation", Objects),
    ("s3:PutObjectLegalHold", Objects),
    ("s3:PutObjectRetention", Objects),
    ("s3:PutObjectTagging", Objects),
    ("s3:PutObjectVersionAcl", Objects),
    ("s3:PutObjectVersionAnnotation", Objects),
    ("s3:PutObjectVersionTagging", Objects),
    ("s3:PutReplicationConfiguration", Bucket),
    ("s3:PutStorageLensConfiguration", Elsewhere),
    ("s3:PutStorageLensConfigurationTagging", Elsewhere),
    ("s3:ReplicateDelete", Objects),
    ("s3:ReplicateObject", Objects),
    ("s3:ReplicateObjectAnnotation", Objects),
    ("s3:ReplicateTags", Objects),
    ("s3:RestoreObject", Objects),
    ("s3:SubmitMultiRegionAccessPointRoutes", Elsewhere),
    ("s3:TagResource", Bucket),
    ("s3:UntagResource", Bucket),
    ("s3:UpdateAccessGrantsLocation", Elsewhere),
    ("s3:UpdateBucketMetadataAnnotationTableConfiguration", Bucket),
    ("s3:UpdateBucketMetadataInventoryTableConfiguration", Bucket),
    ("s3:UpdateBucketMetadataJournalTableConfiguration", Bucket),
    ("s3:UpdateJobPriority", Elsewhere),
    ("s3:UpdateJobStatus", Elsewhere),
    ("s3:UpdateObjectEncryption", Objects),
    ("s3:UpdateStorageLensGroup", Elsewhere),
    ("s3express:CreateSession", Elsewhere),
];
