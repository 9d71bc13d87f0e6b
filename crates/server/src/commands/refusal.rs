//! The table of the errors of administrative commands, each with its remedy.

use admin::{AdminError, JobError};

use problem::Problem;

/// Returns the problem for an error of the action `doing`.
pub(super) fn problem(doing: impl Into<String>, error: AdminError) -> Problem {
    match error {
        AdminError::UserExists => Problem::new(doing, error)
            .remedy("remove it first, or change its policies with `ashlar user policy`"),
        AdminError::NoSuchAccount(_) => {
            Problem::new(doing, error).remedy("`ashlar account list` prints all accounts")
        }
        AdminError::AccountHasUsers(_) => Problem::new(doing, error)
            .remedy("remove those access keys first, with `ashlar user remove`"),
        AdminError::AccountHasBuckets(_) => Problem::new(doing, error)
            .remedy("delete those buckets first, with an access key of the account"),
        AdminError::NoSuchUser => {
            Problem::new(doing, error).remedy("`ashlar user list` prints all access keys")
        }
        AdminError::NoSuchPolicy(name) => {
            Problem::new(format!("use the policy {name:?}"), "there is no policy of this name")
                .remedy("use readwrite, readonly, writeonly, or a policy of `ashlar policy list`")
        }
        AdminError::NotUser(Some(parent)) => {
            let remedy = format!("give the user {parent:?}, or use `ashlar key`");
            Problem::new(doing, AdminError::NotUser(Some(parent))).remedy(remedy)
        }
        AdminError::IsUser => Problem::new(doing, error).remedy(
            "use `ashlar user`; `ashlar key set NAME --expires 0s` ends this access key alone",
        ),
        AdminError::NoSuchGroup => {
            Problem::new(doing, error).remedy("`ashlar group list` prints all groups")
        }
        AdminError::GroupExists => {
            Problem::new(doing, error).remedy("change it with `ashlar group set`")
        }
        AdminError::NoSuchMember(_) => {
            Problem::new(doing, error).remedy("`ashlar user list` prints all users")
        }
        AdminError::GroupHasMembers(_) => {
            Problem::new(doing, error).remedy("remove them first with `ashlar group leave`")
        }
        AdminError::PolicyOfGroups(_) => Problem::new(doing, error)
            .remedy("give those groups other policies first, with `ashlar group set`"),
        AdminError::TooMany(..) => {
            Problem::new(doing, error).remedy("remove some that are not used any more")
        }
        AdminError::PolicyInUse(_) => Problem::new(doing, error)
            .remedy("assign other policies to those access keys first, with `ashlar user policy`"),
        AdminError::BucketExists => {
            Problem::new(doing, error).remedy("give another name, or delete that bucket first")
        }
        AdminError::HasNoTrash => Problem::new(doing, error)
            .remedy("give it one with `ashlar bucket trash NAME --trash-days DAYS`"),
        AdminError::KeepsVersions => Problem::new(doing, error)
            .remedy("deleted objects stay as noncurrent versions; lifecycle rules can expire them"),
        AdminError::TrashLeft => {
            Problem::new(doing, error).remedy("empty it first with `ashlar trash empty`")
        }
        AdminError::NotInTrash => {
            Problem::new(doing, error).remedy("`ashlar trash list` prints the items of the trash")
        }
        AdminError::NoSuchNode => Problem::new(doing, error)
            .remedy("give a file or directory on a mount, or BUCKET/KEY of the volume"),
        AdminError::Job(JobError::NoSuchJob) => {
            Problem::new(doing, error).remedy("`ashlar job list` prints all jobs")
        }
        AdminError::Contended | AdminError::Late => Problem::new(doing, error).remedy("try again"),
        AdminError::Unread(error) => Problem::new("read the metadata store", error),
        AdminError::Corrupt(wrong) => Problem::new("read the metadata store", wrong),
        AdminError::Unchanged(error) => Problem::new("change the metadata store", error),
        AdminError::Unknown(_) => Problem::new("change the metadata store", error)
            .remedy("check whether the change was made, and try again if not"),
        AdminError::Random(wrong) => Problem::new("get random bytes", wrong),
        error => Problem::new(doing, error),
    }
}
