//! The table of administrative actions, by which policies allow or deny the administration of a
//! volume.
//!
//! The names are those of MinIO where MinIO has the action, so that its policy documents work. For
//! example, a policy that allows `admin:ListUsers` and `admin:GetUser` lets a user see the list of
//! users and change nothing. The table also has actions of MinIO that Ashlar does not serve, such
//! as `admin:Heal`, because documents name them.
//!
//! Administrative actions are never part of a bucket policy: only the policies of users, groups and
//! sessions can name them.

use crate::glob::Glob;

/// Declares the actions that Ashlar serves, and the names of MinIO that it only knows.
macro_rules! admin_actions {
    (served { $($(#[doc = $doc:literal])* $name:ident;)* } known { $($known:literal,)* }) => {
        /// An action of the administration of a volume.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AdminAction { $($(#[doc = $doc])* $name,)* }

        impl AdminAction {
            /// All actions, in the order of the table.
            pub const ALL: &'static [AdminAction] = &[$(AdminAction::$name,)*];

            /// Returns the name by which policies allow or deny the action, for example
            /// `admin:ListUsers`.
            pub const fn name(self) -> &'static str {
                match self { $(AdminAction::$name => concat!("admin:", stringify!($name)),)* }
            }
        }

        const KNOWN: &[&str] = &[$($known,)*];
    };
}

admin_actions! {
    served {
        /// Log in to the console.
        ConsoleLogin;
        /// Read the version, the state of the stores, warnings and rates.
        ServerInfo;
        /// Read the configuration in force, without secrets.
        ExportConfig;
        /// Follow the requests of all clients.
        ServerTrace;
        /// Read the metrics.
        Prometheus;
        /// Read the usage of all buckets.
        DataUsageInfo;
        /// List users with their policies and groups.
        ListUsers;
        /// Read one user.
        GetUser;
        /// Create a user, or change the description, owner or secret of one.
        CreateUser;
        /// Remove a user.
        DeleteUser;
        /// Enable a user.
        EnableUser;
        /// Disable a user.
        DisableUser;
        /// List groups.
        ListGroups;
        /// Read one group.
        GetGroup;
        /// Create a group, or add members to it.
        AddUserToGroup;
        /// Remove members from a group, or remove the group.
        RemoveUserFromGroup;
        /// Enable a group.
        EnableGroup;
        /// Disable a group.
        DisableGroup;
        /// List the access keys of another user.
        ListServiceAccounts;
        /// Create an access key for another user.
        CreateServiceAccount;
        /// Change or rotate an access key of another user.
        UpdateServiceAccount;
        /// Remove an access key of another user.
        RemoveServiceAccount;
        /// List and read policies.
        GetPolicy;
        /// Create or replace a policy.
        CreatePolicy;
        /// Remove a policy.
        DeletePolicy;
        /// List policies together with the users that have them.
        ListUserPolicies;
        /// Set the policies of a user or a group.
        AttachUserOrGroupPolicy;
        /// List accounts.
        ListAccounts;
        /// Create an account.
        CreateAccount;
        /// Remove an account.
        DeleteAccount;
        /// Create, list and revoke one's own tokens of the administration API.
        ManageTokens;
        /// List the gateways and mounts that have the volume open.
        ListSessions;
        /// End the session of a gateway or mount.
        FenceSession;
        /// Read the inode, the blocks and the holders of a file.
        InspectData;
        /// Read the quota of a bucket.
        GetBucketQuota;
        /// Set the quota of a bucket.
        SetBucketQuota;
        /// Read the trash setting of a bucket and list its trash.
        GetBucketTrash;
        /// Set the trash of a bucket.
        SetBucketTrash;
        /// Restore objects from the trash of a bucket.
        RestoreTrash;
        /// Remove objects from the trash of a bucket permanently.
        EmptyTrash;
        /// Change the account that owns a bucket.
        SetBucketOwner;
        /// Create a bucket with the content of another one.
        ForkBucket;
        /// List jobs.
        ListJobs;
        /// Start a job, such as a check of the volume.
        StartJob;
        /// Stop a job.
        CancelJob;
    }
    known {
        "admin:Heal", "admin:DecommissionPool", "admin:RebalancePool", "admin:StorageInfo",
        "admin:TopLocksInfo", "admin:ConsoleLog", "admin:Profiling", "admin:KMSCreateKey",
        "admin:KMSKeyStatus", "admin:ServerUpdate", "admin:ServiceRestart", "admin:ServiceStop",
        "admin:ServiceFreeze", "admin:ConfigUpdate", "admin:ForceUnlock", "admin:BandwidthMonitor",
        "admin:OBDInfo", "admin:HealthInfo", "admin:LicenseInfo", "admin:ListTier",
        "admin:SetTier", "admin:SetBucketTarget", "admin:GetBucketTarget", "admin:ReplicationDiff",
        "admin:SiteReplicationAdd", "admin:SiteReplicationDisable", "admin:SiteReplicationRemove",
        "admin:SiteReplicationResync", "admin:SiteReplicationInfo",
        "admin:SiteReplicationOperation", "admin:ImportBucketMetadata",
        "admin:ExportBucketMetadata", "admin:ImportIAM", "admin:ExportIAM", "admin:ListBatchJobs",
        "admin:DescribeBatchJob", "admin:StartBatchJob", "admin:CancelBatchJob",
        "admin:ListTemporaryAccounts", "admin:TemporaryAccountInfo", "admin:UpdatePolicyAssociation",
    }
}

/// Returns the names of all administrative actions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    AdminAction::ALL.iter().map(|action| action.name()).chain(KNOWN.iter().copied())
}

/// Returns true if a pattern of actions, in lower case, matches the name of at least one
/// administrative action.
pub(crate) fn covers_any(pattern: &Glob) -> bool {
    names().any(|name| pattern.matches(&name.to_ascii_lowercase()))
}

/// Returns true if a pattern of actions, as written in a document, can only match administrative
/// actions. A statement with such patterns alone needs no `Resource`.
pub(crate) fn is_admin_only(text: &str) -> bool {
    text.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("admin:"))
}
