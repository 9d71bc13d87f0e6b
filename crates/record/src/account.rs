//! Accounts, and the access control lists that name them.
//!
//! An access key belongs to an account, and a bucket belongs to the account that created it. Each
//! volume has the account [`AccountId::MAIN`] from the start, so an operator who needs only one
//! account never sees accounts. For example, a grant of `Read` to the canonical id of another
//! account lets the access keys of that account read an object.

use std::fmt;
use std::str::FromStr;

use crate::codec::{DecodeError, Reader, Writer, record};
use crate::hex::write_hex;

/// The number of an account: at most twelve decimal digits, as in ARNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u64);

impl AccountId {
    /// The account of requests without credentials. It has no record.
    pub const ANONYMOUS: AccountId = AccountId(0);
    /// The account that every volume has. The operator's own key belongs to it.
    pub const MAIN: AccountId = AccountId(1);
    /// The first number that is not an account number.
    pub const END: u64 = 1_000_000_000_000;

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<AccountId, DecodeError> {
        let number = from.varint("account")?;
        (number < AccountId::END).then_some(AccountId(number)).ok_or(DecodeError::Field("account"))
    }
}

impl Default for AccountId {
    fn default() -> AccountId {
        AccountId::MAIN
    }
}

/// The form with twelve digits.
impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}

/// The error for a text that is not an account number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number of an account has twelve digits")]
pub struct AccountIdError;

impl FromStr for AccountId {
    type Err = AccountIdError;

    fn from_str(text: &str) -> Result<AccountId, AccountIdError> {
        let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.map(AccountId).ok_or(AccountIdError)
    }
}

/// The id by which S3 shows an account as an owner: 256 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalId(pub [u8; 32]);

/// The error for a text that is not a canonical id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a canonical id has 64 hexadecimal digits in lower case")]
pub struct CanonicalIdError;

/// 64 hexadecimal digits.
impl fmt::Display for CanonicalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl FromStr for CanonicalId {
    type Err = CanonicalIdError;

    /// Parses the form that `Display` writes, and no other.
    fn from_str(text: &str) -> Result<CanonicalId, CanonicalIdError> {
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|pair| {
            let [high, low] = pair.map(digit);
            u8::try_from(high? << 4 | low?).ok()
        });
        let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(CanonicalId).ok_or(CanonicalIdError)
    }
}

impl fmt::Debug for CanonicalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The record of an account. Its key has the account's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name for operators.
    pub name: String,
    /// The id by which S3 shows the account as an owner.
    pub canonical_id: CanonicalId,
}

record!(
    Account,
    1,
    |this, to| {
        to.bytes(this.name.as_bytes()).fixed(&this.canonical_id.0);
    },
    |from| {
        Account {
            name: from.string("name")?,
            canonical_id: CanonicalId(from.fixed("canonical id")?),
        }
    }
);

/// The subject of a grant: the clients that get the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grantee {
    /// All access keys of one account.
    Account(CanonicalId),
    /// All clients, including those without credentials.
    AllUsers,
    /// All access keys of all accounts.
    AuthenticatedUsers,
    /// The log delivery service of AWS, which does not exist here.
    LogDelivery,
}

/// A right that an access control list grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclRight {
    /// All rights of this list.
    FullControl = 0,
    /// List a bucket, or read an object.
    Read = 1,
    /// Write objects of a bucket.
    Write = 2,
    /// Read the access control list.
    ReadAcp = 3,
    /// Replace the access control list.
    WriteAcp = 4,
}

impl AclRight {
    /// All rights, by their numbers.
    pub const ALL: [AclRight; 5] = [
        AclRight::FullControl,
        AclRight::Read,
        AclRight::Write,
        AclRight::ReadAcp,
        AclRight::WriteAcp,
    ];
}

/// An entry of an access control list: one right for one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The subject.
    pub grantee: Grantee,
    /// The right.
    pub permission: AclRight,
}

/// The access control list of a bucket or object, as the client sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Acl {
    /// The entries, in the order of the request.
    pub grants: Vec<Grant>,
}

const ACCOUNT: u8 = 0;
const ALL_USERS: u8 = 1;
const AUTHENTICATED_USERS: u8 = 2;
const LOG_DELIVERY: u8 = 3;

impl S3Acl {
    pub(crate) fn write(&self, to: &mut Writer) {
        for Grant { grantee, permission } in &self.grants {
            let kind = match grantee {
                Grantee::Account(_) => ACCOUNT,
                Grantee::AllUsers => ALL_USERS,
                Grantee::AuthenticatedUsers => AUTHENTICATED_USERS,
                Grantee::LogDelivery => LOG_DELIVERY,
            };
            // The grantee is in the lower four bits, the right in the upper four.
            to.u8(kind | (*permission as u8) << 4);
            if let Grantee::Account(id) = grantee {
                to.fixed(&id.0);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<S3Acl, DecodeError> {
        let mut grants = Vec::new();
        while !from.is_empty() {
            // The entries have no count: the list ends with its section.
            let mark = from.u8("grant")?;
            let permission = AclRight::ALL.get(usize::from(mark >> 4));
            let permission = *permission.ok_or(DecodeError::Field("grant"))?;
            let grantee = match mark & 0x0f {
                ACCOUNT => Grantee::Account(CanonicalId(from.fixed("grantee")?)),
                ALL_USERS => Grantee::AllUsers,
                AUTHENTICATED_USERS => Grantee::AuthenticatedUsers,
                LOG_DELIVERY => Grantee::LogDelivery,
                _ => return Err(DecodeError::Field("grant")),
            };
            grants.push(Grant { grantee, permission });
        }
        Ok(S3Acl { grants })
    }
}
