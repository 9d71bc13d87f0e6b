//! Opening a store: the checks of the members, and the record of the store's format.
//!
//! For example, a member with the default `--max-txn-ops=128` is refused with the flags that cure
//! it.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use store::{StoreError, StoreErrorKind};
use tonic::{Code, Status};

use crate::error::{reason, unavailable};
use crate::feed::ID_BYTES;
use crate::keys::Keys;
use crate::limits::{REQUEST_BYTES, TXN_ITEMS};
use crate::members::Members;
use crate::rpc::{Compare, RANGE, Range, RangeAnswer, StatusAnswer, Step, Txn};

/// The first bytes of the record of the format, before the id of the store.
const FORMAT: &[u8] = b"ashlar-etcd-1 ";

/// The flags that each member needs.
const FLAGS: &str = "--max-txn-ops=8448 --max-request-bytes=10485760";

/// Bytes that a request has around the value with which the limit of requests is checked.
const AROUND: usize = 64 << 10;

const DOING: &str = "opening a store in etcd";

/// Checks all members that answer, and chooses the leader.
pub(crate) async fn check(members: &Members, keys: &Keys) -> Result<(), StoreError> {
    let statuses = members.statuses().await;
    let refused = |url: &str, why: &str| unavailable(format!("{DOING}: the member {url} {why}"));
    for (url, status) in &statuses {
        match status {
            Ok(status) => check_version(status).map_err(|why| refused(url, &why))?,
            // Wrong credentials are the same at each member.
            Err(status) if is_refusal(status) => return Err(refused(url, &reason(status))),
            Err(_) => {}
        }
    }
    if statuses.iter().all(|(_, status)| status.is_err()) {
        let each = |(url, status): &(&str, Result<StatusAnswer, Status>)| {
            format!("{url}: {}", status.as_ref().err().map(reason).unwrap_or_default())
        };
        let all: Vec<String> = statuses.iter().map(each).collect();
        return Err(unavailable(format!("{DOING}: no member answers ({})", all.join("; "))));
    }
    members.choose_by(&statuses);
    let needs = |(url, status): (String, Status)| {
        let remedy = if is_too_small(&status) {
            format!("allows too little: start its members with {FLAGS} ({})", reason(&status))
        } else {
            reason(&status)
        };
        refused(&url, &remedy)
    };
    // Both transactions are reads, and their first condition does not hold.
    let never = Compare::present(keys.never());
    members.ask_all(&many_conditions(&never)).await.map_err(needs)?;
    members.ask_all(&long_request(&never)).await.map_err(needs)
}

/// Returns a transaction with as many conditions as the largest batch.
fn many_conditions(never: &Compare) -> Txn {
    let compare = vec![never.clone(); TXN_ITEMS];
    Txn { compare, success: Vec::new(), failure: Vec::new() }
}

/// Returns a transaction that is as long as the largest request.
fn long_request(never: &Compare) -> Txn {
    let long = Bytes::from(vec![0; REQUEST_BYTES - AROUND]);
    let compare = vec![never.clone(), Compare::value(never.key.clone(), long)];
    Txn { compare, success: Vec::new(), failure: Vec::new() }
}

fn is_too_small(status: &Status) -> bool {
    let message = status.message();
    message.contains("too many operations")
        || message.contains("larger than max")
        || message.contains("too large")
}

fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated
            | Code::PermissionDenied
            | Code::InvalidArgument
            | Code::FailedPrecondition
    )
}

/// Refuses versions that lose consistency: before 3.4.22, and 3.5.0 to 3.5.5 (etcd issue 13766).
fn check_version(status: &StatusAnswer) -> Result<(), String> {
    let mut parts = status.version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let mut next = || parts.next().flatten().unwrap_or(0);
    let version = (next(), next(), next());
    let is_bad = version < (3, 4, 22) || ((3, 5, 0)..(3, 5, 6)).contains(&version);
    if is_bad {
        return Err(format!(
            "has the version {}, which can lose consistency: run 3.4.22 or later of 3.4, or 3.5.6 \
             or later",
            status.version
        ));
    }
    Ok(())
}

/// Reads the id of a store. `None` if there is no store.
pub(crate) async fn id(
    members: &Members,
    keys: &Keys,
) -> Result<Option<[u8; ID_BYTES]>, StoreError> {
    let range = Range::one(keys.format());
    let answer: RangeAnswer = members.ask(RANGE, &range, DOING).await?;
    answer.kvs.first().map(|kv| parse(&kv.value)).transpose()
}

/// Reads the id of a store, and creates the store with this id if there is none.
pub(crate) async fn create(
    members: &Members,
    keys: &Keys,
    fresh: [u8; ID_BYTES],
) -> Result<[u8; ID_BYTES], StoreError> {
    if let Some(id) = id(members, keys).await? {
        return Ok(id);
    }
    let mut format = BytesMut::from(FORMAT);
    format.put_slice(&fresh);
    let txn = Txn {
        compare: vec![Compare::absent(keys.format())],
        success: vec![Step::put(keys.format(), format.freeze())],
        failure: Vec::new(),
    };
    match members.commit(&txn, DOING).await {
        Ok(_) => {}
        // The record is read below. It may be that of another process.
        Err(error) if error.kind() == StoreErrorKind::Unknown => {}
        Err(error) => return Err(error),
    }
    id(members, keys).await?.ok_or_else(|| unavailable(format!("{DOING}: it was not created")))
}

fn parse(value: &Bytes) -> Result<[u8; ID_BYTES], StoreError> {
    let Some(mut id) = value.strip_prefix(FORMAT).filter(|id| id.len() == ID_BYTES) else {
        let doing = format!("{DOING}: it has a format that this program does not know");
        return Err(StoreError::new(StoreErrorKind::Corrupt, doing));
    };
    Ok(id.get_u64().to_be_bytes())
}

#[cfg(test)]
mod tests;
