//! The policies that need no document.

use super::statement::{Patterns, Principal, Statement};

const READ_WRITE: &[&str] = &["s3:*"];

const READ_ONLY: &[&str] = &[
    "s3:getbucketlocation",
    "s3:getbuckettagging",
    "s3:getbucketversioning",
    "s3:getobject",
    "s3:getobjectattributes",
    "s3:getobjecttagging",
    "s3:getobjectversion",
    "s3:getobjectversionattributes",
    "s3:getobjectversiontagging",
    "s3:listallmybuckets",
    "s3:listbucket",
    "s3:listbucketversions",
];

const WRITE_ONLY: &[&str] = &[
    "s3:abortmultipartupload",
    "s3:getbucketlocation",
    "s3:listmultipartuploadparts",
    "s3:putobject",
    "s3:putobjecttagging",
];

/// The one statement of a policy of this name.
pub(super) fn statement(name: &str) -> Option<Statement> {
    let actions = match name {
        "readwrite" => READ_WRITE,
        "readonly" => READ_ONLY,
        "writeonly" => WRITE_ONLY,
        _ => return None,
    };
    let all = |list: &[&str]| Patterns {
        negated: false,
        list: list.iter().map(|&pattern| pattern.to_owned()).collect(),
    };
    Some(Statement {
        denies: false,
        principal: Principal::Implied,
        actions: all(actions),
        resources: all(&["*"]),
        conditions: Vec::new(),
    })
}
