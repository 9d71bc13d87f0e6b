//! Accounts, and the access control lists that name them.
//!
//! An access key belongs to an account, a bucket to the account that made it. A volume has one
//! account from its beginning, [`AccountId::MAIN`], so whoever needs no other never meets them.

use std::fmt;
use std::str::FromStr;

use crate::codec::{DecodeError, Reader, Writer, record};

/// The number of an account: at most twelve decimal digits, as in ARNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u64);

impl AccountId {
    /// Whoever sends no credentials. There is no record of it.
    pub const ANONYMOUS: AccountId = AccountId(0);
    /// The account that every volume has, and that the operator's own key belongs to.
    pub const MAIN: AccountId = AccountId(1);
    /// Behind the last one.
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

/// Twelve digits.
impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}

/// A text is no number of an account.
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

/// A text is no canonical id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a canonical id has 64 hexadecimal digits in lower case")]
pub struct CanonicalIdError;

/// 64 hexadecimal digits.
impl fmt::Display for CanonicalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for CanonicalId {
    type Err = CanonicalIdError;

    /// Reads what `Display` writes, and nothing else.
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

/// An account. Its key says its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// How people call it.
    pub name: String,
    /// How S3 shows it as an owner.
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

/// Whom an access control list grants something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grantee {
    /// An account.
    Account(CanonicalId),
    /// Everybody, also whoever sends no credentials.
    AllUsers,
    /// Every access key of whatever account.
    AuthenticatedUsers,
    /// Whoever delivers logs; nobody here.
    LogDelivery,
}

/// What an access control list grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclRight {
    /// All of the others.
    FullControl = 0,
    /// To list a bucket, to read an object.
    Read = 1,
    /// To write objects of a bucket.
    Write = 2,
    /// To read the list.
    ReadAcp = 3,
    /// To replace the list.
    WriteAcp = 4,
}

impl AclRight {
    /// All of them, by their numbers.
    pub const ALL: [AclRight; 5] = [
        AclRight::FullControl,
        AclRight::Read,
        AclRight::Write,
        AclRight::ReadAcp,
        AclRight::WriteAcp,
    ];
}

/// A row of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// To whom.
    pub grantee: Grantee,
    /// What.
    pub permission: AclRight,
}

/// The access control list of a bucket or object, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Acl {
    /// Its rows, in order.
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
            to.u8(kind | (*permission as u8) << 4);
            if let Grantee::Account(id) = grantee {
                to.fixed(&id.0);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<S3Acl, DecodeError> {
        let mut grants = Vec::new();
        while !from.is_empty() {
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
