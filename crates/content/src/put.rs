//! The put of one block.

use block::{BlockError, BlockErrorKind, SealedBlock, Sealer, Stored, sealed};
use keyring::ObjectEncryptionKey;

use crate::ContentError;
use crate::claim::Claim;
use crate::object_cipher::PieceCipher;
use crate::staging::Staging;

/// Puts a block, which `claim` owns until a record references it. If the store answers that other
/// bytes have the block's id, it seals the content under a new id and puts that once. Returns the
/// block as it was stored, and the store's answer.
/// `key` is the key of the object (SSE-C), if the content is encrypted under one.
pub(crate) async fn put(
    staging: &Staging,
    claim: &Claim,
    block: SealedBlock,
    key: Option<&ObjectEncryptionKey>,
) -> Result<(SealedBlock, Stored), ContentError> {
    let put = match try_put(staging, claim, &block).await {
        Err(error) if error.kind() == BlockErrorKind::Conflict => {
            staging.traffic.conflicts.add(1);
            // A new id is tried once only: two conflicts in a row mean that the session's ids are
            // not unique, which a retry does not mend.
            let renamed = rename(staging, &block, key)?;
            drop(block);
            try_put(staging, claim, &renamed).await.map(|stored| (renamed, stored))
        }
        other => other.map(|stored| (block, stored)),
    };
    match put {
        Ok((block, stored)) => {
            staging.traffic.puts.add(1);
            staging.traffic.put_bytes.add(u64::from(block.length()));
            Ok((block, stored))
        }
        Err(error) => {
            staging.traffic.failed_puts.add(1);
            Err(match ContentError::from(error) {
                // A failed put damages nothing that is stored, so a retry may succeed.
                ContentError::Corrupt(why) => ContentError::Unavailable(why),
                other => other,
            })
        }
    }
}

async fn try_put(
    staging: &Staging,
    claim: &Claim,
    block: &SealedBlock,
) -> Result<Stored, BlockError> {
    claim.add(block.id());
    match tokio::time::timeout(staging.deadlines.block, staging.blocks.put(block)).await {
        Ok(Err(error)) if error.kind() == BlockErrorKind::Conflict => {
            // Another writer's bytes have this id, so this writer must not delete them.
            claim.disown(block.id());
            Err(error)
        }
        Ok(Err(error)) => {
            claim.mark_uncertain(block.id());
            Err(error)
        }
        Ok(stored) => stored,
        Err(late) => {
            claim.mark_uncertain(block.id());
            let doing = format!("writing block {}", block.id());
            Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, late))
        }
    }
}

/// Returns the same content under a new id of the same kind. The checksums cover the id, so the
/// block is sealed again.
fn rename(
    staging: &Staging,
    block: &SealedBlock,
    key: Option<&ObjectEncryptionKey>,
) -> Result<SealedBlock, BlockError> {
    let pieces = sealed::open(block.reference(), 0..block.length(), block.to_bytes())?;
    let (ring, length) = (block.ring(), block.length());
    let mut sealer = match block.id() {
        taken if taken.is_pack() => staging.pack_sealer(ring, length),
        taken if taken.is_bare() => Sealer::new(staging.ids.allocate_bare(), length),
        _ => staging.sealer(ring, length),
    };
    // The cipher of an object key depends on the id of the block.
    let mut ciphers = key.map(|key| {
        let of = |id| PieceCipher::of_block(key, id, 0);
        [of(block.id()), of(sealer.id())]
    });
    for mut piece in pieces {
        for cipher in ciphers.iter_mut().flatten() {
            piece = cipher.apply(&piece);
        }
        sealer.push(piece);
    }
    Ok(sealer.finish())
}
