//! `ashlar bucket` over the API.

use http::Method;
use problem::Problem;
use record::Quota;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Nothing, moment};
use crate::commands::bucket::{self, BucketCommand, BucketRow};
use crate::endpoint::{Endpoint, EndpointError};
use crate::table::Table;

/// A bucket of the API.
#[derive(Debug, Deserialize)]
struct BucketDocument {
    name: String,
    account: String,
    created: String,
    objects: u64,
    bytes: u64,
    quota: QuotaDocument,
    versioning: String,
}

/// A quota of the API.
#[derive(Clone, Copy, Debug, Deserialize)]
struct QuotaDocument {
    bytes: Option<u64>,
    objects: Option<u64>,
}

/// The setting of a trash of the API.
#[derive(Clone, Copy, Debug, Deserialize)]
struct TrashDocument {
    days: Option<u32>,
}

/// Runs an `ashlar bucket` command. Those that `BucketCommand::needs_store` names never come here.
pub(crate) async fn run(endpoint: &Endpoint, command: BucketCommand) -> Result<(), Problem> {
    let doing = command.doing();
    match command {
        BucketCommand::List { printing } => {
            let found: Result<Vec<BucketDocument>, _> = endpoint.list(&["buckets"], "").await;
            let mut table = Table::new(&bucket::COLUMNS);
            for found in found.map_err(|error| error.problem(doing))? {
                table.add(bucket::cells(BucketRow {
                    name: found.name.into_bytes(),
                    objects: found.objects,
                    bytes: found.bytes,
                    quota: Quota { bytes: found.quota.bytes, objects: found.quota.objects },
                    owner: &found.account,
                    versioning: &found.versioning,
                    made: moment(&found.created)?,
                }));
            }
            table.print(printing);
            Ok(())
        }
        BucketCommand::Quota { name, bytes, objects, none } => {
            let wanted = Quota { bytes: bytes.map(|size| size.0), objects };
            let used = set_quota(endpoint, &name, wanted, none).await;
            let used = used.map_err(|error| error.problem(doing))?;
            let quota = Quota { bytes: used.quota.bytes, objects: used.quota.objects };
            bucket::say_usage((used.objects, used.bytes), quota);
            Ok(())
        }
        BucketCommand::Trash { name, trash_days, none } => {
            let days = set_trash(endpoint, &name, trash_days, none).await;
            bucket::say_trash(days.map_err(|error| error.problem(doing))?);
            Ok(())
        }
        BucketCommand::Show { .. }
        | BucketCommand::Set { .. }
        | BucketCommand::Clear { .. }
        | BucketCommand::Fork(_) => Err(Problem::new(doing, "the API has no such endpoint")),
    }
}

/// Changes the quota of a bucket if one is given, and returns the bucket.
async fn set_quota(
    endpoint: &Endpoint,
    name: &str,
    wanted: Quota,
    none: bool,
) -> Result<BucketDocument, EndpointError> {
    let path = ["buckets", name, "quota"];
    if none {
        endpoint.call::<Nothing>(Method::DELETE, &path, &[], None).await?;
    } else if wanted != Quota::NONE {
        let now: QuotaDocument = endpoint.call(Method::GET, &path, &[], None).await?;
        // A limit that is not given stays.
        let body = json!({
            "bytes": wanted.bytes.or(now.bytes),
            "objects": wanted.objects.or(now.objects),
        });
        endpoint.call::<Nothing>(Method::PUT, &path, &[], Some(body)).await?;
    }
    endpoint.call(Method::GET, &["buckets", name], &[], None).await
}

/// Changes the trash of a bucket if `days` or `none` is given, and returns its days.
async fn set_trash(
    endpoint: &Endpoint,
    name: &str,
    days: Option<u32>,
    none: bool,
) -> Result<Option<u32>, EndpointError> {
    let path = ["buckets", name, "trash"];
    if none || days.is_some() {
        let body: Value = json!({ "days": days });
        endpoint.call::<Nothing>(Method::PUT, &path, &[], Some(body)).await?;
    }
    let found: TrashDocument = endpoint.call(Method::GET, &path, &[], None).await?;
    Ok(found.days)
}
