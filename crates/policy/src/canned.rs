//! The built-in policies, for example `readonly`.
//!
//! For example, a user with `writeonly` uploads objects and lists the parts of uploads, but reads
//! no object.

use crate::admin_actions::is_admin_only;
use crate::glob::Glob;
use crate::pattern::Pattern;
use crate::statement::{List, Statement};

const CONSOLE_ADMIN: &[&str] = &["admin:*", "s3:*"];

const DIAGNOSTICS: &[&str] = &[
    "admin:DataUsageInfo",
    "admin:ListJobs",
    "admin:ListSessions",
    "admin:Prometheus",
    "admin:ServerInfo",
    "admin:ServerTrace",
];

const READ_WRITE: &[&str] = &["s3:*"];

const READ_ONLY: &[&str] = &[
    "s3:GetBucketLocation",
    "s3:GetBucketTagging",
    "s3:GetBucketVersioning",
    "s3:GetObject",
    "s3:GetObjectAttributes",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAttributes",
    "s3:GetObjectVersionTagging",
    "s3:ListAllMyBuckets",
    "s3:ListBucket",
    "s3:ListBucketVersions",
];

const WRITE_ONLY: &[&str] = &[
    "s3:AbortMultipartUpload",
    "s3:GetBucketLocation",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
];

/// Returns the actions of the built-in policy of this name. `None` if there is no such policy.
fn actions(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "consoleAdmin" => Some(CONSOLE_ADMIN),
        "diagnostics" => Some(DIAGNOSTICS),
        "readwrite" => Some(READ_WRITE),
        "readonly" => Some(READ_ONLY),
        "writeonly" => Some(WRITE_ONLY),
        _ => None,
    }
}

/// Returns the statement of the built-in policy of this name. `None` if there is no such policy.
pub(crate) fn statement(name: &str) -> Option<Statement> {
    // Patterns of actions are in lower case, as those of parsed documents.
    let actions = actions(name)?.iter().map(|action| action.to_ascii_lowercase());
    let patterns = actions.clone().map(|action| Glob::new(&action));
    let of_admin = actions.filter(|action| is_admin_only(action));
    Some(Statement {
        denies: false,
        principals: None,
        admin_actions: of_admin.map(|action| Glob::new(&action)).collect(),
        actions: List { negated: false, patterns: patterns.collect() },
        resources: List { negated: false, patterns: vec![Pattern::Fixed(Glob::All)] },
        conditions: Vec::new(),
    })
}

/// Returns a document that means the same as the built-in policy of this name. `None` if there is
/// no such policy.
pub(crate) fn document(name: &str) -> Option<String> {
    let actions: Vec<String> = actions(name)?.iter().map(|it| format!("        {it:?}")).collect();
    let lines = [
        "{",
        r#"  "Version": "2012-10-17","#,
        r#"  "Statement": ["#,
        "    {",
        r#"      "Effect": "Allow","#,
        r#"      "Action": ["#,
        &actions.join(",\n"),
        "      ],",
        r#"      "Resource": "*""#,
        "    }",
        "  ]",
        "}",
    ];
    Some(lines.join("\n"))
}
