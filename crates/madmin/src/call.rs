//! The table of the calls: each with its method and its path below `/minio/admin/v3`.
//!
//! For example, `GET /minio/admin/v3/list-users` is [`AdminCall::ListUsers`]. A new call is a row
//! here and an arm in `calls`, without which the crate does not compile.

use http::Method;

/// The prefixes of the paths of this protocol. Clients of the next version use the same calls.
const PREFIXES: [&str; 2] = ["/minio/admin/v3/", "/minio/admin/v4/"];

/// The prefixes of the paths of metrics.
const METRICS: [&str; 2] = ["/minio/v2/metrics/", "/minio/metrics/"];

/// The path of the metrics that the process has.
const METRICS_SERVED: &str = "/minio/v2/metrics/cluster";

macro_rules! calls {
    ($($name:ident = $method:ident $path:literal, $log_name:literal;)*) => {
        /// A call of the protocol that Ashlar has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum AdminCall { $($name,)* }

        impl AdminCall {
            /// All calls, in the order of the table.
            pub(crate) const ALL: &'static [AdminCall] = &[$(AdminCall::$name,)*];

            /// Returns the HTTP method.
            pub(crate) const fn method(self) -> Method {
                match self { $(AdminCall::$name => Method::$method,)* }
            }

            /// Returns the path below the prefix.
            pub(crate) const fn path(self) -> &'static str {
                match self { $(AdminCall::$name => $path,)* }
            }

            /// Returns the name in the access log.
            pub(crate) const fn log_name(self) -> &'static str {
                match self { $(AdminCall::$name => $log_name,)* }
            }
        }
    };
}

calls! {
    ServerInfo = GET "info", "MinioServerInfo";
    Trace = GET "trace", "MinioTrace";
    ListUsers = GET "list-users", "MinioListUsers";
    UserInfo = GET "user-info", "MinioUserInfo";
    AddUser = PUT "add-user", "MinioAddUser";
    SetUserStatus = PUT "set-user-status", "MinioSetUserStatus";
    RemoveUser = DELETE "remove-user", "MinioRemoveUser";
    AddKey = PUT "add-service-account", "MinioAddServiceAccount";
    UpdateKey = POST "update-service-account", "MinioUpdateServiceAccount";
    KeyInfo = GET "info-service-account", "MinioInfoServiceAccount";
    ListKeys = GET "list-service-accounts", "MinioListServiceAccounts";
    ListKeysOfUsers = GET "list-access-keys-bulk", "MinioListAccessKeysBulk";
    RemoveKey = DELETE "delete-service-account", "MinioDeleteServiceAccount";
    UpdateMembers = PUT "update-group-members", "MinioUpdateGroupMembers";
    GroupInfo = GET "group", "MinioGetGroup";
    ListGroups = GET "groups", "MinioListGroups";
    SetGroupStatus = PUT "set-group-status", "MinioSetGroupStatus";
    AddPolicy = PUT "add-canned-policy", "MinioAddCannedPolicy";
    PolicyInfo = GET "info-canned-policy", "MinioInfoCannedPolicy";
    ListPolicies = GET "list-canned-policies", "MinioListCannedPolicies";
    RemovePolicy = DELETE "remove-canned-policy", "MinioRemoveCannedPolicy";
    SetPolicies = PUT "set-user-or-group-policy", "MinioSetPolicy";
    AttachPolicies = POST "idp/builtin/policy/attach", "MinioAttachPolicy";
    DetachPolicies = POST "idp/builtin/policy/detach", "MinioDetachPolicy";
    PolicyEntities = GET "idp/builtin/policy-entities", "MinioListPolicyMappingEntities";
    GetQuota = GET "get-bucket-quota", "MinioGetBucketQuota";
    SetQuota = PUT "set-bucket-quota", "MinioSetBucketQuota";
}

/// The target of a request below the prefixes of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A call of the table.
    Call(AdminCall),
    /// The metrics of the process.
    Metrics,
    /// A call that MinIO may have and Ashlar does not: its path below the prefix.
    Missing(&'a str),
}

/// Returns true if a request with this path belongs to the protocol.
pub fn is_ours(path: &str) -> bool {
    PREFIXES.iter().chain(&METRICS).any(|prefix| path.starts_with(prefix))
}

/// Returns the target of a request.
pub(crate) fn target<'a>(method: &Method, path: &'a str) -> Target<'a> {
    if METRICS.iter().any(|prefix| path.starts_with(prefix)) {
        let is_served = path == METRICS_SERVED && *method == Method::GET;
        let rest = path.strip_prefix("/minio/").unwrap_or(path);
        return if is_served { Target::Metrics } else { Target::Missing(rest) };
    }
    let rest = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let found = AdminCall::ALL.iter().find(|call| call.path() == rest && call.method() == *method);
    found.map_or(Target::Missing(rest), |call| Target::Call(*call))
}

#[cfg(test)]
mod tests;
