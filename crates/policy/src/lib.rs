//! Access policies in AWS's format: the parser of their JSON documents, and the evaluation of
//! several policies for one request.
//!
//! The caller parses a document once ([`Policy::parse`]), describes each permission of a request in
//! a [`Question`], and passes the policies of the user, the session and the bucket to
//! [`authorise`].
//!
//! The invariant: nothing is allowed by default, and an explicit Deny overrides each Allow. The
//! parser refuses a document with an element that is not evaluated here, because a condition that
//! is ignored allows more than its author intended. For example, a Deny by `aws:SourceVpc` is
//! refused: no request has a VPC here, so the Deny would never apply.
//!
//! The crate does not know where policies are stored, which principals exist, and the headers of
//! requests. The caller passes the policies as arguments, and answers the questions about
//! principals ([`PolicyKind::Bucket`]) and about requests ([`ConditionValues`]).

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod actions;
mod addresses;
mod admin_actions;
mod arn;
mod authorisation;
mod canned;
mod conditions;
mod document;
mod error;
mod evaluation;
mod glob;
mod holes;
mod json;
mod keys;
mod operators;
mod pattern;
mod policy;
mod principals;
mod public;
mod question;
mod statement;
mod template;

#[cfg(test)]
mod tests;

pub use admin_actions::AdminAction;
pub use authorisation::{BucketSide, Ruling, Source, Sources, authorise};
pub use document::{POLICY_BYTES_MAX, PolicyKind};
pub use error::PolicyError;
pub use evaluation::Decision;
pub use keys::{ConditionKey, KeySource, PrincipalKey};
pub use policy::Policy;
pub use principals::{LOG_DELIVERY, PrincipalName};
pub use question::{ConditionValues, NoValues, Principal, Question, RoleSession, Values};
pub use template::ResolvedPatterns;
