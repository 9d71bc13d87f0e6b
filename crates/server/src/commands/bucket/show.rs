//! `ashlar bucket show`: the settings, the usage and the configurations of a bucket.
//!
//! For example, the line `public  policy` shows that the bucket policy lets clients in that send no
//! credentials.

use admin::{Admin, AdminError, BucketConfigs, BucketUsage};
use policy::Policy;
use record::{BucketConfigKind, Grantee, ObjectOwnership, Quota, Versioning};
use rules::BucketRules;
use s3::BucketName;

use crate::table::{Cell, Printing, Properties, print_properties};

/// Prints a bucket.
pub(super) async fn print(admin: &Admin, name: &str, printing: Printing) -> Result<(), AdminError> {
    let used = admin.bucket_usage(name).await?;
    let configs = admin.bucket_configs(name).await?;
    let parsed = BucketName::parse(name);
    let parsed = parsed.map_err(|fault| AdminError::BucketName(fault.message.into_owned()))?;
    let rules = BucketRules::of(&parsed, configs.clone());
    let rules = rules.map_err(|error| AdminError::Corrupt(error.to_string()))?;
    print_properties(&properties(&used, &configs, &rules), printing);
    Ok(())
}

fn properties(used: &BucketUsage, configs: &BucketConfigs, rules: &BucketRules) -> Properties {
    let (bucket, settings) = (&used.bucket, &configs.settings);
    let Quota { bytes, objects } = bucket.quota;
    let ownership = match settings.ownership {
        None => Cell::Absent,
        Some(ObjectOwnership::BucketOwnerPreferred) => Cell::text("BucketOwnerPreferred"),
        Some(ObjectOwnership::ObjectWriter) => Cell::text("ObjectWriter"),
        Some(ObjectOwnership::BucketOwnerEnforced) => Cell::text("BucketOwnerEnforced"),
    };
    let tags = configs.configs.iter().find(|(kind, _)| *kind == BucketConfigKind::Tags);
    let tags = tags.and_then(|(_, config)| config.tags().ok()).unwrap_or_default();
    let tags = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let document = |kind| document(configs, kind);
    vec![
        ("bucket", Cell::Name(bucket.name.clone())),
        ("owner", Cell::text(&settings.owner.to_string())),
        ("made", Cell::Time(bucket.made)),
        ("objects", Cell::Of(Box::new(Cell::Count(used.objects)), objects)),
        ("bytes", Cell::Of(Box::new(Cell::Bytes(used.bytes)), bytes)),
        ("opaque_etags", Cell::Flag(settings.opaque_tags)),
        ("versioning", Cell::text(versioning(configs.versioning))),
        ("trash_days", rules.trash_days.map_or(Cell::Absent, |days| Cell::Count(days.into()))),
        ("object_ownership", ownership),
        ("public", Cell::Names(public(rules))),
        ("tags", Cell::Names(tags)),
        ("object_lock", document(BucketConfigKind::ObjectLock)),
        ("policy", document(BucketConfigKind::Policy)),
        ("lifecycle", document(BucketConfigKind::Lifecycle)),
        ("cors", document(BucketConfigKind::Cors)),
    ]
}

/// Returns the versioning state in one word.
pub(super) fn versioning(state: Versioning) -> &'static str {
    match state {
        Versioning::Off => "off",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
        Versioning::Trash => "trash",
    }
}

/// Returns the configurations that let clients in that have no credentials: the policy, the ACL or
/// both.
fn public(rules: &BucketRules) -> Vec<String> {
    let block = rules.public_access();
    let by_policy = rules.policy.as_ref().is_some_and(Policy::is_public);
    let by_acl = rules.acls_enabled()
        && rules.acl.iter().flat_map(|acl| &acl.grants).any(|grant| match grant.grantee {
            Grantee::AllUsers => true,
            Grantee::Account(_) | Grantee::AuthenticatedUsers | Grantee::LogDelivery => false,
        });
    let sources = [
        ("policy", by_policy && !block.restrict_public_buckets),
        ("acl", by_acl && !block.ignore_public_acls),
    ];
    sources.into_iter().filter(|(_, lets_in)| *lets_in).map(|(name, _)| name.to_owned()).collect()
}

/// Returns a configuration as it was set.
fn document(configs: &BucketConfigs, kind: BucketConfigKind) -> Cell {
    let found = configs.configs.iter().find(|(known, _)| *known == kind);
    found.map_or(Cell::Absent, |(_, config)| {
        Cell::Document(String::from_utf8_lossy(&config.bytes).into_owned())
    })
}
