//! Accounts.
//!
//! For example, `PUT /accounts/lab` creates the account `lab` with a random number.

use admin::AdminError;
use policy::AdminAction;
use record::AccountId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::page::{ListPage, PageQuery};
use crate::{Actor, AdminApi, ApiError};

/// An account.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
#[schema(as = Account)]
pub struct AccountJson {
    /// The name.
    pub name: String,
    /// The number, 12 digits.
    pub number: String,
    /// The id by which S3 shows the account as an owner.
    pub canonical_id: String,
    /// True for the account that each volume has.
    pub built_in: bool,
}

fn shown((id, account): (AccountId, record::Account)) -> AccountJson {
    AccountJson {
        name: account.name,
        number: id.to_string(),
        canonical_id: account.canonical_id.to_string(),
        built_in: id == AccountId::MAIN,
    }
}

impl AdminApi {
    /// Returns a page of accounts in order of name.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListAccounts`.
    pub async fn accounts(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<AccountJson>, ApiError> {
        actor.require(AdminAction::ListAccounts)?;
        let mut accounts = self.admin.accounts().await?;
        accounts.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        Ok(query.range()?.of(accounts, |(_, account)| &account.name, shown))
    }

    /// Creates an account. Returns the account of this name if there is one.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CreateAccount`, `InvalidName`.
    pub async fn put_account(
        &self,
        actor: &Actor<'_>,
        name: &str,
    ) -> Result<AccountJson, ApiError> {
        actor.require(AdminAction::CreateAccount)?;
        match self.admin.add_account(name).await {
            Ok(made) => Ok(shown(made)),
            Err(AdminError::AccountExists) => {
                let accounts = self.admin.accounts().await?;
                let found = accounts.into_iter().find(|(_, account)| account.name == name);
                found.map(shown).ok_or_else(|| AdminError::Contended.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an account, by name or number.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:DeleteAccount`, `NoSuchAccount`, `InUse`, `BuiltIn`.
    pub async fn delete_account(&self, actor: &Actor<'_>, named: &str) -> Result<(), ApiError> {
        actor.require(AdminAction::DeleteAccount)?;
        Ok(self.admin.remove_account(named, None).await?)
    }
}
