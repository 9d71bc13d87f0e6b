//! The pages. A page calls the API, which checks the permissions, and shows the result.

pub(crate) mod accounts;
mod activity;
pub(crate) mod browser;
pub(crate) mod bucket_access;
pub(crate) mod bucket_frame;
pub(crate) mod bucket_lifecycle;
pub(crate) mod bucket_settings;
pub(crate) mod bucket_trash;
pub(crate) mod bucket_versions;
pub(crate) mod buckets;
pub(crate) mod document_editor;
pub(crate) mod gateways;
pub(crate) mod groups;
pub(crate) mod issued;
pub(crate) mod jobs;
pub(crate) mod me;
pub(crate) mod object;
pub(crate) mod overview;
pub(crate) mod policies;
pub(crate) mod simulation;
pub(crate) mod trace;
pub(crate) mod user;
pub(crate) mod users;
