//! The command of Ashlar that does what a missing call of MinIO does.

use adminapi::ApiError;

use crate::error;

/// The first parts of paths, the words for them, and the place that helps.
const HINTS: &[(&str, &str, &str)] = &[
    (
        "service",
        "control of its process",
        "the service manager, for example `systemctl restart ashlar`",
    ),
    ("update", "update of itself", "the package manager"),
    ("heal", "healing", "`ashlar fsck`"),
    ("background-heal", "healing", "`ashlar fsck`"),
    ("config", "configuration of MinIO", "`ashlar serve --help`"),
    ("get-config-kv", "configuration of MinIO", "`ashlar serve --help`"),
    ("set-config-kv", "configuration of MinIO", "`ashlar serve --help`"),
    ("del-config-kv", "configuration of MinIO", "`ashlar serve --help`"),
    ("help-config-kv", "configuration of MinIO", "`ashlar serve --help`"),
    ("export-iam", "export of users alone", "`ashlar dump`"),
    ("import-iam", "import of users alone", "`ashlar load`"),
    ("export-bucket-metadata", "export of buckets alone", "`ashlar dump`"),
    ("import-bucket-metadata", "import of buckets alone", "`ashlar load`"),
    ("storageinfo", "drives", "`ashlar info`"),
    ("datausageinfo", "usage document of MinIO", "`ashlar bucket list`"),
    ("temporary-account-info", "list of sessions of users", "`ashlar user show`"),
    ("v2", "metrics of this kind", "`/minio/v2/metrics/cluster`, which has all"),
    ("metrics", "metrics of this kind", "`/minio/v2/metrics/cluster`, which has all"),
];

/// Returns the error of a call that Ashlar does not have. `path` is the path below the prefix.
pub(crate) fn not_implemented(path: &str) -> ApiError {
    let first = path.split('/').next().unwrap_or(path);
    let known = HINTS.iter().find(|(name, ..)| *name == first);
    let (what, place) =
        known.map_or(("such call", "`ashlar --help`"), |(_, what, place)| (what, place));
    error::missing(format!("Ashlar has no {what}; see {place}."))
}

#[cfg(test)]
mod tests;
