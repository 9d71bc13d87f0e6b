//! The table of what commands say when the volume refuses something, and what to do about it.

use admin::AdminError;

use crate::problem::Problem;

/// The problem for an error that happened while doing `doing`.
pub(super) fn problem(doing: impl Into<String>, error: AdminError) -> Problem {
    match error {
        AdminError::UserExists => Problem::new(doing, error)
            .remedy("remove it first, or change its policies with `ashlar user policy`"),
        AdminError::NoSuchAccount(_) => {
            Problem::new(doing, error).remedy("`ashlar account list` shows all of them")
        }
        AdminError::AccountHasUsers(_) => {
            Problem::new(doing, error).remedy("remove them with `ashlar user remove` first")
        }
        AdminError::AccountHasBuckets(_) => {
            Problem::new(doing, error).remedy("delete them with an access key of the account first")
        }
        AdminError::NoSuchUser => {
            Problem::new(doing, error).remedy("`ashlar user list` shows all of them")
        }
        AdminError::NoSuchPolicy(name) => {
            Problem::new(format!("use the policy {name:?}"), "there is none of this name").remedy(
                "there are readwrite, readonly, writeonly, and those of `ashlar policy list`",
            )
        }
        AdminError::PolicyInUse(_) => {
            Problem::new(doing, error).remedy("give them others with `ashlar user policy` first")
        }
        AdminError::BucketExists => {
            Problem::new(doing, error).remedy("name another one, or delete that one first")
        }
        AdminError::HasNoTrash => Problem::new(doing, error)
            .remedy("give it one with `ashlar bucket trash NAME --trash-days DAYS`"),
        AdminError::KeepsVersions => Problem::new(doing, error)
            .remedy("what is deleted stays there as versions; lifecycle rules end them"),
        AdminError::TrashLeft => {
            Problem::new(doing, error).remedy("empty it first with `ashlar trash empty`")
        }
        AdminError::NotInTrash => {
            Problem::new(doing, error).remedy("`ashlar trash list` shows what is in it")
        }
        AdminError::NoSuchNode => Problem::new(doing, error)
            .remedy("name a file or directory on a mount, or BUCKET/KEY of the volume"),
        AdminError::Contended | AdminError::Late => Problem::new(doing, error).remedy("try again"),
        AdminError::Unread(error) => Problem::new("read the metadata store", error),
        AdminError::Corrupt(wrong) => Problem::new("read the metadata store", wrong),
        AdminError::Unchanged(error) => Problem::new("change the metadata store", error),
        AdminError::Unknown(_) => Problem::new("change the metadata store", error)
            .remedy("see whether it did, and try again if not"),
        AdminError::Random(wrong) => Problem::new("draw random bytes", wrong),
        error => Problem::new(doing, error),
    }
}
