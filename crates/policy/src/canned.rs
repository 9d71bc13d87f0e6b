//! The built-in policies, for example `readonly`. They have no document.
//!
//! For example, a user with `writeonly` uploads objects and lists the parts of uploads, but reads
//! no object.

use crate::glob::Glob;
use crate::pattern::Pattern;
use crate::statement::{List, Statement};

const CONSOLE_ADMIN: &[&str] = &["admin:*", "s3:*"];

const DIAGNOSTICS: &[&str] = &[
    "admin:datausageinfo",
    "admin:listjobs",
    "admin:listsessions",
    "admin:prometheus",
    "admin:serverinfo",
    "admin:servertrace",
];

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

/// Returns the statement of the built-in policy of this name. `None` if there is no such policy.
pub(crate) fn statement(name: &str) -> Option<Statement> {
    let actions = match name {
        "consoleAdmin" => CONSOLE_ADMIN,
        "diagnostics" => DIAGNOSTICS,
        "readwrite" => READ_WRITE,
        "readonly" => READ_ONLY,
        "writeonly" => WRITE_ONLY,
        _ => return None,
    };
    // The actions above are in lower case, like those of parsed documents.
    let actions = actions.iter().map(|action| Glob::new(action)).collect();
    Some(Statement {
        denies: false,
        principals: None,
        actions: List { negated: false, patterns: actions },
        resources: List { negated: false, patterns: vec![Pattern::Fixed(Glob::All)] },
        conditions: Vec::new(),
    })
}
