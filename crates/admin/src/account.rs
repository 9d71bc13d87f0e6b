//! Accounts.
//!
//! For example, `add_account("lab")` creates the account `lab` with a random number such as
//! `537281940162`, which ARNs contain.

use namespace::{AddAccount, ListAccounts, RemoveAccount};
use record::{Account, AccountId, CanonicalId, key};

use crate::names::check_account_name;
use crate::{Admin, AdminError, Etag};

/// The number of attempts to find a free random number for a new account.
const NUMBER_ATTEMPTS: u32 = 8;

/// The smallest random number of an account. Smaller numbers begin with zeros and are easily
/// mistyped.
const NUMBER_MIN: u64 = 100_000_000_000;

impl Admin {
    /// Returns all accounts in order of number.
    pub async fn accounts(&self) -> Result<Vec<(AccountId, Account)>, AdminError> {
        self.look(&ListAccounts).await
    }

    /// Returns the account with this name or this number of twelve digits.
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

    /// Creates an account with a random number and a random canonical id.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::AccountExists`], and if the store refuses the change.
    pub async fn add_account(&self, name: &str) -> Result<(AccountId, Account), AdminError> {
        check_account_name(name)?;
        if self.accounts().await?.iter().any(|(_, account)| account.name == name) {
            return Err(AdminError::AccountExists);
        }
        let random = &*self.surroundings.random;
        let mut bytes = [0; 32];
        random.fill(&mut bytes).map_err(AdminError::Random)?;
        let account = Account { name: name.to_owned(), canonical_id: CanonicalId(bytes) };
        for _ in 0..NUMBER_ATTEMPTS {
            let mut number = [0; 8];
            random.fill(&mut number).map_err(AdminError::Random)?;
            let number = u64::from_be_bytes(number) % (AccountId::END - NUMBER_MIN) + NUMBER_MIN;
            let (id, add) = (AccountId(number), &account);
            // The error is that the number is taken, so another number is tried.
            if self.change(&AddAccount { id, account: add }).await?.is_ok() {
                return Ok((id, account));
            }
        }
        Err(AdminError::AccountExists)
    }

    /// Removes an account that has neither access keys nor buckets.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::AccountHasUsers`],
    /// [`AdminError::AccountHasBuckets`], [`AdminError::AccountIsBuiltIn`],
    /// [`AdminError::Changed`] if the etag is not `expected`, and if the store refuses the change.
    pub async fn remove_account(
        &self,
        named: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let id = self.account(named).await?;
        if id == AccountId::MAIN {
            return Err(AdminError::AccountIsBuiltIn);
        }
        let expected = Etag::expected(expected);
        Ok(self.change(&RemoveAccount { id, expected }).await??)
    }

    /// Returns the etag of an account.
    pub fn account_etag(id: AccountId, account: &Account) -> Etag {
        Etag::of(&account.encode(&key::account(id)))
    }
}
