//! A subset of MinIO's administration protocol, so that `mc admin`, Terraform and other clients of
//! MinIO manage users, policies, groups, keys and quotas.
//!
//! Clients reach it at the S3 endpoint below `/minio/admin/v3`, and the metrics at
//! `/minio/v2/metrics/cluster`. For example, `mc admin user add ALIAS anna SECRET` becomes a PUT of
//! `/minio/admin/v3/add-user?accessKey=anna`, whose body is encrypted with the secret of the
//! sender.
//!
//! - `call` is the table of the calls. A call that is not in the table gets `NotImplemented`.
//! - `sealed` encrypts and decrypts bodies as MinIO's clients do.
//! - `calls` translates each call to functions of [`adminapi::AdminApi`], and its values to MinIO's
//!   JSON.
//! - `trace` and `metrics` are the two calls that are not about resources.
//!
//! The invariant: this crate grants nothing. Each change and each answer passes a function of
//! `AdminApi`, with its permission checks and its limit for the rights that a sender can give. The
//! signature is verified before a body is read or decrypted. The crate knows no record and no
//! socket.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod authenticate;
mod body;
mod call;
mod calls;
mod documents;
mod duration;
mod error;
mod handle;
mod hints;
mod metrics;
mod minio_admin;
mod query;
mod sealed;
mod sealing;
mod trace;

pub use call::is_ours;
pub use handle::{BODY_BYTES_MAX, LOG_RESOURCE};
pub use minio_admin::{MetricsText, MinioAdmin, MinioParts};
pub use trace::TRACES_MAX;
