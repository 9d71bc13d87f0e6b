//! All records that decide about access: accounts, access keys, groups and policies, in one
//! snapshot.
//!
//! A view keeps them in memory and looks up the sender of each request there. The invariant: the
//! records of one answer belong together. For example, if an operator removes a policy from an
//! access key and then deletes the policy, no answer has the access key with the deleted policy.

use record::{Account, AccountId, Group, PolicyRecord, User};

use crate::Halt;
use crate::access::{policies, users};
use crate::account::accounts;
use crate::group::groups;
use crate::run::{Env, Planner, Step};
use crate::view::View;

/// The records of accounts, access keys, groups and policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRecords {
    /// Accounts, sorted by number.
    pub accounts: Vec<(AccountId, Account)>,
    /// Access keys and tokens by name, sorted.
    pub users: Vec<(String, User)>,
    /// Groups by name, sorted.
    pub groups: Vec<(String, Group)>,
    /// Policies by name, sorted.
    pub policies: Vec<(String, PolicyRecord)>,
}

/// Lists all accounts, access keys, groups and policies of a volume, in one round trip if there are
/// not very many.
#[derive(Clone, Copy, Debug)]
pub struct ListAccess;

impl Planner for ListAccess {
    type Output = AccessRecords;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        // All lists ask before the first one stops the pass, so that they share the round
        // trip.
        let (accounts, users, groups) = (accounts(view), users(view), groups(view));
        let policies = policies(view)?;
        let records =
            AccessRecords { accounts: accounts?, users: users?, groups: groups?, policies };
        Ok(Step::Done(records))
    }
}
