//! The table of the API: each endpoint with its method, path, permission, input and output.
//!
//! The router, the document of `OpenAPI` and the tests of permissions follow from the table. For
//! example, the row of `GetPolicy` says that `GET /policies/{policy}` needs `admin:GetPolicy` and
//! returns a `PolicyJson` with an entity tag. A new endpoint is a row here and an arm in
//! `dispatch`, without which the crate does not compile.

use http::Method;
use policy::AdminAction;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::page::{ListPage, PageQuery};
use crate::resources::{
    accounts, activity, archive, buckets, groups, jobs, keys, live, me, nodes, policies, public,
    quota, sessions, simulation, status, trash, users,
};

/// The permission that an endpoint needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointPermission {
    /// No permission and no credentials.
    Open,
    /// Valid credentials. The answer depends on the sender.
    Login,
    /// The administrative action. On a path with a bucket, the action concerns this bucket.
    Action(AdminAction),
    /// Permissions of S3 on the bucket of the path, which the gateway checks.
    S3,
}

/// The body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// No body, status 204.
    Empty,
    /// A ZIP file.
    Zip,
    /// Server-sent events.
    Events,
    /// A JSON document.
    Json(&'static str),
    /// A JSON document with an entity tag, which a change can name in `If-Match`.
    Tagged(&'static str),
}

/// A schema with its name.
pub(crate) type NamedSchema = (String, RefOr<Schema>);

/// Adds the schema of a type, and those of its parts, to a list. Returns its name.
fn component<T: ToSchema + PartialSchema>(all: &mut Vec<NamedSchema>) -> String {
    let name = T::name().into_owned();
    all.push((name.clone(), T::schema()));
    T::schemas(all);
    name
}

fn parameters<T: IntoParams>() -> Vec<Parameter> {
    T::into_params(|| None)
}

macro_rules! permission {
    (open) => {
        EndpointPermission::Open
    };
    (login) => {
        EndpointPermission::Login
    };
    (s3) => {
        EndpointPermission::S3
    };
    ($action:ident) => {
        EndpointPermission::Action(AdminAction::$action)
    };
}

macro_rules! input {
    (body, $all:ident, body($type:ty)) => {
        Some(component::<$type>($all))
    };
    (body, $all:ident, $other:ident $(($type:ty))?) => {{
        let _ = $all;
        None
    }};
    (query, query($type:ty)) => {
        parameters::<$type>()
    };
    (query, $other:ident $(($type:ty))?) => {
        Vec::new()
    };
}

macro_rules! output {
    (kind, empty) => {
        Output::Empty
    };
    (kind, zip) => {
        Output::Zip
    };
    (kind, stream) => {
        Output::Events
    };
    (kind, json($type:ty)) => {
        Output::Json(stringify!($type))
    };
    (kind, tagged($type:ty)) => {
        Output::Tagged(stringify!($type))
    };
    (schema, $all:ident, empty) => {{
        let _ = $all;
        None
    }};
    (schema, $all:ident, zip) => {{
        let _ = $all;
        None
    }};
    (schema, $all:ident, stream) => {{
        let _ = $all;
        None
    }};
    (schema, $all:ident, $kind:ident($type:ty)) => {
        Some(component::<$type>($all))
    };
}

macro_rules! endpoints {
    ($($name:ident = $method:ident $path:literal $permission:ident
        $input:ident $(($input_type:ty))? => $output:ident $(($output_type:ty))?, $summary:literal;)*)
    => {
        /// An endpoint of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Endpoint { $(#[doc = $summary] $name,)* }

        impl Endpoint {
            /// All endpoints, in the order of the table.
            pub const ALL: &'static [Endpoint] = &[$(Endpoint::$name,)*];

            /// Returns the name, for the access log and as `operationId` of `OpenAPI`.
            pub const fn name(self) -> &'static str {
                match self { $(Endpoint::$name => stringify!($name),)* }
            }

            /// Returns the HTTP method.
            pub const fn method(self) -> Method {
                match self { $(Endpoint::$name => Method::$method,)* }
            }

            /// Returns the path below `/api/v1`, with the names of its parameters in braces.
            pub const fn path(self) -> &'static str {
                match self { $(Endpoint::$name => $path,)* }
            }

            /// Returns the permission that the endpoint needs.
            pub const fn permission(self) -> EndpointPermission {
                match self { $(Endpoint::$name => permission!($permission),)* }
            }

            /// Returns a sentence about the endpoint.
            pub const fn summary(self) -> &'static str {
                match self { $(Endpoint::$name => $summary,)* }
            }

            /// Returns the kind of the response.
            pub const fn output(self) -> Output {
                match self { $(Endpoint::$name => output!(kind, $output $(($output_type))?),)* }
            }

            /// Adds the schema of the request body to `all`, and returns its name. `None` if the
            /// endpoint takes no body.
            pub(crate) fn body_schema(self, all: &mut Vec<NamedSchema>) -> Option<String> {
                match self {
                    $(Endpoint::$name => input!(body, all, $input $(($input_type))?),)*
                }
            }

            /// Returns the parameters of the query.
            pub(crate) fn query_parameters(self) -> Vec<Parameter> {
                match self { $(Endpoint::$name => input!(query, $input $(($input_type))?),)* }
            }

            /// Adds the schema of the response body to `all`, and returns its name.
            pub(crate) fn output_schema(self, all: &mut Vec<NamedSchema>) -> Option<String> {
                match self {
                    $(Endpoint::$name => output!(schema, all, $output $(($output_type))?),)*
                }
            }
        }
    };
}

endpoints! {
    GetHealth = GET "/health" open none => json(status::Liveness),
        "Returns that the process answers.";
    GetOpenApi = GET "/openapi.json" open none => json(serde_json::Value),
        "Returns this document.";
    GetVersion = GET "/version" login none => json(status::VersionJson),
        "Returns the version of the program.";
    GetMe = GET "/me" login none => json(me::Me),
        "Returns the sender, and the administrative actions that it may do.";
    GetStatus = GET "/status" ServerInfo none => json(status::StatusJson),
        "Returns the state of both stores and of this process, with warnings.";
    GetActivity = GET "/activity" ServerInfo query(activity::ActivityQuery) => json(activity::ActivityJson),
        "Returns the rates and latencies of the requests of S3 to this gateway.";
    GetStream = GET "/stream" login query(live::StreamQuery) => stream,
        "Returns live events as server-sent events: statistics, and each request.";
    GetConfig = GET "/config" ExportConfig none => json(status::Config),
        "Returns the configuration in force, without secrets.";

    ListBuckets = GET "/buckets" login query(PageQuery) => json(ListPage<buckets::BucketJson>),
        "Lists the buckets that the sender may see.";
    GetBucket = GET "/buckets/{bucket}" login none => tagged(buckets::BucketJson),
        "Returns a bucket with its usage and settings.";
    PutBucket = PUT "/buckets/{bucket}" s3 body(buckets::NewBucketJson) => tagged(buckets::BucketJson),
        "Creates a bucket. A bucket of the sender's account that exists stays as it is.";
    PatchBucket = PATCH "/buckets/{bucket}" s3 body(buckets::BucketPatch) => tagged(buckets::BucketJson),
        "Changes the versioning of a bucket.";
    DeleteBucket = DELETE "/buckets/{bucket}" s3 none => empty,
        "Deletes an empty bucket.";

    GetArchive = GET "/buckets/{bucket}/archive" s3 query(archive::ArchiveQuery) => zip,
        "Returns the objects of a folder as a ZIP file.";

    GetBucketQuota = GET "/buckets/{bucket}/quota" GetBucketQuota none => tagged(quota::QuotaJson),
        "Returns the quota of a bucket.";
    PutBucketQuota = PUT "/buckets/{bucket}/quota" SetBucketQuota body(quota::QuotaJson) => tagged(quota::QuotaJson),
        "Replaces the quota of a bucket. A limit that is null is removed.";
    DeleteBucketQuota = DELETE "/buckets/{bucket}/quota" SetBucketQuota none => empty,
        "Removes all limits of a bucket.";

    GetBucketTrash = GET "/buckets/{bucket}/trash" GetBucketTrash none => tagged(trash::TrashJson),
        "Returns the days of the trash of a bucket.";
    PutBucketTrash = PUT "/buckets/{bucket}/trash" SetBucketTrash body(trash::TrashJson) => tagged(trash::TrashJson),
        "Gives a bucket a trash, changes its days, or removes an empty trash.";
    ListTrashItems = GET "/buckets/{bucket}/trash/items" GetBucketTrash query(PageQuery) => json(ListPage<trash::TrashItem>),
        "Lists the objects in the trash of a bucket.";
    RestoreTrash = POST "/buckets/{bucket}/trash/restore" RestoreTrash body(trash::TrashSelection) => json(trash::TrashResult),
        "Restores one object, or all objects with a prefix.";
    EmptyTrash = POST "/buckets/{bucket}/trash/empty" EmptyTrash body(trash::TrashSelection) => json(trash::TrashResult),
        "Removes the objects with a prefix from the trash permanently.";

    GetBucketPolicy = GET "/buckets/{bucket}/policy" s3 none => tagged(serde_json::Value),
        "Returns the policy of a bucket.";
    PutBucketPolicy = PUT "/buckets/{bucket}/policy" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the policy of a bucket.";
    DeleteBucketPolicy = DELETE "/buckets/{bucket}/policy" s3 none => empty,
        "Removes the policy of a bucket.";
    GetBucketCors = GET "/buckets/{bucket}/cors" s3 none => tagged(serde_json::Value),
        "Returns the CORS rules of a bucket, in the form of the AWS CLI.";
    PutBucketCors = PUT "/buckets/{bucket}/cors" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the CORS rules of a bucket.";
    DeleteBucketCors = DELETE "/buckets/{bucket}/cors" s3 none => empty,
        "Removes the CORS rules of a bucket.";
    GetBucketLifecycle = GET "/buckets/{bucket}/lifecycle" s3 none => tagged(serde_json::Value),
        "Returns the lifecycle rules of a bucket, in the form of the AWS CLI.";
    PutBucketLifecycle = PUT "/buckets/{bucket}/lifecycle" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the lifecycle rules of a bucket.";
    DeleteBucketLifecycle = DELETE "/buckets/{bucket}/lifecycle" s3 none => empty,
        "Removes the lifecycle rules of a bucket.";
    GetBucketTags = GET "/buckets/{bucket}/tags" s3 none => tagged(serde_json::Value),
        "Returns the tags of a bucket, in the form of the AWS CLI.";
    PutBucketTags = PUT "/buckets/{bucket}/tags" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the tags of a bucket.";
    DeleteBucketTags = DELETE "/buckets/{bucket}/tags" s3 none => empty,
        "Removes the tags of a bucket.";
    GetBucketLock = GET "/buckets/{bucket}/object-lock" s3 none => tagged(serde_json::Value),
        "Returns the object lock of a bucket, in the form of the AWS CLI.";
    PutBucketLock = PUT "/buckets/{bucket}/object-lock" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the default retention of a bucket.";
    GetBucketPublicAccessBlock = GET "/buckets/{bucket}/public-access-block" s3 none => tagged(serde_json::Value),
        "Returns the public access block of a bucket, in the form of the AWS CLI.";
    PutBucketPublicAccessBlock = PUT "/buckets/{bucket}/public-access-block" s3 body(serde_json::Value) => tagged(serde_json::Value),
        "Replaces the public access block of a bucket.";
    DeleteBucketPublicAccessBlock = DELETE "/buckets/{bucket}/public-access-block" s3 none => empty,
        "Removes the public access block of a bucket.";
    GetBucketPublic = GET "/buckets/{bucket}/public" s3 none => tagged(public::PublicAccess),
        "Returns the access of anonymous clients to a bucket.";
    PutBucketPublic = PUT "/buckets/{bucket}/public" s3 body(public::PublicAccess) => tagged(public::PublicAccess),
        "Makes a bucket public or private.";

    ListUsers = GET "/users" ListUsers query(PageQuery) => json(ListPage<users::UserJson>),
        "Lists users.";
    GetUser = GET "/users/{user}" login none => tagged(users::UserDetails),
        "Returns a user with its keys. Another user than the sender needs `admin:GetUser`.";
    PutUser = PUT "/users/{user}" CreateUser body(users::NewUserJson) => json(keys::IssuedKeyJson),
        "Creates a user. The response has the secret.";
    PatchUser = PATCH "/users/{user}" login body(users::UserPatch) => tagged(users::UserJson),
        "Changes a user. Each property needs an action of its own.";
    DeleteUser = DELETE "/users/{user}" DeleteUser none => empty,
        "Removes a user with its keys.";
    ListKeys = GET "/users/{user}/keys" login query(PageQuery) => json(ListPage<keys::KeyJson>),
        "Lists the further keys of a user. Another user than the sender needs `admin:ListServiceAccounts`.";
    PostKey = POST "/users/{user}/keys" login body(keys::NewKeyJson) => json(keys::IssuedKeyJson),
        "Creates a further key of a user. Another user than the sender needs `admin:CreateServiceAccount`.";
    PatchKey = PATCH "/users/{user}/keys/{key}" login body(keys::KeyPatch) => tagged(keys::KeyJson),
        "Changes a key. Another user than the sender needs `admin:UpdateServiceAccount`.";
    DeleteKey = DELETE "/users/{user}/keys/{key}" login none => empty,
        "Removes a key. Another user than the sender needs `admin:RemoveServiceAccount`.";
    RotateKey = POST "/users/{user}/keys/{key}/rotate" login body(keys::Rotation) => json(keys::IssuedKeyJson),
        "Replaces a key; the old one is accepted for a while. Another user than the sender needs `admin:UpdateServiceAccount`.";
    ListTokens = GET "/tokens" ManageTokens query(PageQuery) => json(ListPage<keys::KeyJson>),
        "Lists the sender's tokens of this API.";
    PostToken = POST "/tokens" ManageTokens body(keys::NewTokenJson) => json(keys::IssuedTokenJson),
        "Creates a token of this API. The response has its text.";
    DeleteToken = DELETE "/tokens/{token}" ManageTokens none => empty,
        "Revokes a token.";
    ListGroups = GET "/groups" ListGroups query(PageQuery) => json(ListPage<groups::GroupJson>),
        "Lists groups.";
    GetGroup = GET "/groups/{group}" GetGroup none => tagged(groups::GroupJson),
        "Returns a group.";
    PutGroup = PUT "/groups/{group}" AddUserToGroup body(groups::NewGroup) => tagged(groups::GroupJson),
        "Creates a group, or changes its policies.";
    PatchGroup = PATCH "/groups/{group}" login body(groups::GroupPatch) => tagged(groups::GroupJson),
        "Adds and removes members. Needs `admin:AddUserToGroup` or `admin:RemoveUserFromGroup`.";
    DeleteGroup = DELETE "/groups/{group}" RemoveUserFromGroup none => empty,
        "Removes a group without members.";

    ListPolicies = GET "/policies" GetPolicy query(PageQuery) => json(ListPage<policies::PolicySummary>),
        "Lists policies, the built-in ones too.";
    GetPolicy = GET "/policies/{policy}" GetPolicy none => tagged(policies::PolicyJson),
        "Returns a policy.";
    PutPolicy = PUT "/policies/{policy}" CreatePolicy body(policies::NewPolicy) => tagged(policies::PolicyJson),
        "Creates or replaces a policy.";
    DeletePolicy = DELETE "/policies/{policy}" DeletePolicy none => empty,
        "Removes a policy that no user has.";
    ValidatePolicy = POST "/policies/validate" login body(policies::NewPolicy) => json(policies::Validation),
        "Checks a policy document, and changes nothing.";

    SimulatePolicy = POST "/policies/simulate" login body(simulation::Simulation) => json(simulation::SimulationResult),
        "Returns true if a user may do an action. Another user than the sender needs `admin:GetUser` and `admin:GetPolicy`.";

    ListAccounts = GET "/accounts" ListAccounts query(PageQuery) => json(ListPage<accounts::AccountJson>),
        "Lists accounts.";
    PutAccount = PUT "/accounts/{account}" CreateAccount none => json(accounts::AccountJson),
        "Creates an account with this name. An account that exists stays as it is.";
    DeleteAccount = DELETE "/accounts/{account}" DeleteAccount none => empty,
        "Removes an account that has neither users nor buckets.";

    ListSessions = GET "/sessions" ListSessions query(PageQuery) => json(ListPage<sessions::SessionJson>),
        "Lists the gateways and mounts that have the volume open.";
    ListJobs = GET "/jobs" ListJobs query(PageQuery) => json(ListPage<jobs::JobJson>),
        "Lists jobs, the newest first.";
    PostJob = POST "/jobs" login body(jobs::NewJobJson) => json(jobs::JobJson),
        "Starts a job. Each kind has its permissions; most need `admin:StartJob`.";
    GetJob = GET "/jobs/{job}" login none => json(jobs::JobJson),
        "Returns a job. A job of another user needs `admin:ListJobs`.";
    StopJob = POST "/jobs/{job}/stop" login none => json(jobs::JobJson),
        "Asks a job to stop. A job of another user needs `admin:CancelJob`.";
    DeleteJob = DELETE "/jobs/{job}" login none => empty,
        "Removes the record of a job that has ended. A job of another user needs `admin:CancelJob`.";
    GetNode = GET "/nodes" InspectData query(nodes::NodeQuery) => json(nodes::Node),
        "Returns the inode, the blocks and the holders of a file or object.";
}
