//! Accounts.

use namespace::{AddAccount, ListAccounts, RemoveAccount};
use record::{Account, AccountId, CanonicalId};

use crate::names::check_account_name;
use crate::{Admin, AdminError};

/// How often a number is drawn for a new account before that is given up.
const DRAWS: u32 = 8;

/// The first number that is drawn: shorter ones are easily mistyped.
const DRAWN_FROM: u64 = 100_000_000_000;

impl Admin {
    /// All accounts, by their numbers.
    pub async fn accounts(&self) -> Result<Vec<(AccountId, Account)>, AdminError> {
        self.run(&ListAccounts, None).await
    }

    /// The account with a name, or with a number of twelve digits.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn account(&self, named: &str) -> Result<AccountId, AdminError> {
        let accounts = self.accounts().await?;
        let number = named.parse::<AccountId>().ok();
        let found =
            accounts.iter().find(|(id, account)| Some(*id) == number || account.name == named);
        found.map(|(id, _)| *id).ok_or_else(|| AdminError::NoSuchAccount(named.to_owned()))
    }

    /// Makes an account. Its number is drawn at random, and so is its canonical id.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::AccountExists`], and if the store does not take it.
    pub async fn add_account(&self, name: &str) -> Result<(AccountId, Account), AdminError> {
        check_account_name(name)?;
        if self.accounts().await?.iter().any(|(_, account)| account.name == name) {
            return Err(AdminError::AccountExists);
        }
        let random = &*self.surroundings.random;
        let mut bytes = [0; 32];
        random.fill(&mut bytes).map_err(AdminError::Random)?;
        let account = Account { name: name.to_owned(), canonical_id: CanonicalId(bytes) };
        for _ in 0..DRAWS {
            let mut number = [0; 8];
            random.fill(&mut number).map_err(AdminError::Random)?;
            let number = u64::from_be_bytes(number) % (AccountId::END - DRAWN_FROM) + DRAWN_FROM;
            let (id, add) = (AccountId(number), &account);
            if self.run(&AddAccount { id, account: add }, None).await?.is_ok() {
                return Ok((id, account));
            }
        }
        Err(AdminError::AccountExists)
    }

    /// Removes an account that has neither access keys nor buckets.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::AccountHasUsers`],
    /// [`AdminError::AccountHasBuckets`], [`AdminError::AccountIsBuiltIn`], and if the store does not
    /// take it.
    pub async fn remove_account(&self, named: &str) -> Result<(), AdminError> {
        let id = self.account(named).await?;
        if id == AccountId::MAIN {
            return Err(AdminError::AccountIsBuiltIn);
        }
        Ok(self.run(&RemoveAccount { id }, None).await??)
    }
}
