//! Policies as AWS has them: what their JSON says, and the law by which several of them decide.
//!
//! Nothing is allowed by default, and an explicit deny wins over any allow. A document with
//! anything that is not evaluated here is refused when it is added, because ignoring a condition
//! would allow more than its author meant.
//!
//! Where policies are stored, whom they belong to, which principals exist and what a request's
//! headers say is not known here: the first two arrive as arguments, the others are asked for.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod actions;
mod addresses;
mod arn;
mod canned;
mod conditions;
mod document;
mod error;
mod evaluation;
mod glob;
mod holes;
mod json;
mod keys;
mod law;
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

pub use document::{POLICY_BYTES_MAX, PolicyKind};
pub use error::PolicyError;
pub use evaluation::Decision;
pub use keys::{ConditionKey, KeySource, PrincipalKey};
pub use law::{BucketSide, Ruling, Source, Sources, authorise};
pub use policy::Policy;
pub use principals::PrincipalName;
pub use question::{ConditionValues, NoValues, Principal, Question, RoleSession, Values};
pub use template::ResolvedPatterns;
