//! Parts of an upload that are ranges of other objects.
//!
//! For example, a client copies an object of 8 GB by two parts of 4 GB. No data moves: the parts
//! name the blocks of the source.

use std::ops::Range;

use futures::StreamExt;
use namespace::{PutPart, cut};
use record::{Content, Part, PartTag, Sum, SumKind, Tag, Timestamp};

use super::copy::{share, unchanged};
use super::multipart::{PartStat, UploadId, name};
use super::randomness::opaque_tag;
use super::{Object, ObjectMode};
use crate::{Volume, VolumeError};

impl Volume {
    /// Makes a part of a range of another object, in bytes. No data moves, except for inline
    /// content and for the holes of a sparse file, which are written to new blocks.
    ///
    /// The part's MD5 is the source's if the whole of a source with an MD5 is copied. Otherwise it
    /// is a value derived from the source's tag and the range, because nothing is read to hash it.
    /// `mode` is the mode of the upload: see [`ObjectMode::opened`]. `sum` is a checksum of the
    /// range that the caller has computed, in addition to those of the source.
    #[expect(clippy::too_many_arguments, reason = "the parameters of UploadPartCopy")]
    pub async fn copy_part(
        &self,
        bucket: &str,
        key: &[u8],
        id: UploadId,
        number: u16,
        mode: &ObjectMode,
        source: &Object,
        range: Range<u64>,
        sum: Option<Sum>,
    ) -> Result<PartStat, VolumeError> {
        // The stored checksums are of the whole source, so they fit only a copy of all of it.
        let whole = range == (0..source.size());
        // A tag that follows from that of the source would show that both have the same content.
        let tag = match mode.key() {
            Some(_) => PartTag::Opaque(opaque_tag()?),
            None => PartTag::Md5(part_md5(source.tag(), &range, whole)),
        };
        let computed = sum.as_ref().map(|sum| sum.algorithm);
        let full = |sum: &&Sum| {
            whole && sum.kind == SumKind::FullObject && Some(sum.algorithm) != computed
        };
        let kept = source.file().sums.iter().filter(full).cloned();
        let sums: Vec<Sum> = kept.chain(sum).collect();
        // The source is guarded, so that its blocks cannot be deleted before the part owns them.
        let assumptions = unchanged(source);
        let slices = cut(&self.slices(source).await?, range.start, range.end);
        // A part has no holes. Those of a sparse file are written as zeros.
        let held: u64 = slices.iter().map(|slice| u64::from(slice.length)).sum();
        let inline = matches!(source.file().content, Content::Inline(_));
        let may_share = source.is_shared_by(mode);
        if !may_share || inline || held < range.end - range.start {
            let hint = Some(range.end - range.start);
            let keys = self.object_keys(mode).await?;
            let mut writer = self.block_writer(Some(&keys), hint);
            let mut bytes = self.read(source, range);
            while let Some(bytes) = bytes.next().await {
                writer.write(bytes?).await?;
            }
            let body = writer.finish().await?;
            let put = self.put_part_if(bucket, key, id, number, body, tag, sums, &assumptions);
            return put.await;
        }
        // The part becomes an owner of the source's blocks, like a copied object.
        let [owner] = self.fresh().await?;
        let (size, arrived) = (range.end - range.start, Timestamp::default());
        let shares = share(&slices, Some(source.ino), owner);
        let part = Part { owner, size, arrived, tag, sums, shared: true, slices };
        let operation = PutPart {
            name: name(bucket, key, id),
            number,
            part: &part,
            assumptions: &assumptions,
            writes: &shares,
        };
        let part = self.session.run(&operation).await?;
        Ok(PartStat { number, part })
    }
}

/// Returns the MD5 of a part that was copied by reference: the source's if all of it is copied and
/// its tag is an MD5, else a value derived from the source's tag and the range.
fn part_md5(tag: &Tag, range: &Range<u64>, whole: bool) -> [u8; 16] {
    let (Tag::Md5(bytes) | Tag::Multipart(bytes, _) | Tag::Opaque(bytes, _)) = tag;
    if whole && matches!(tag, Tag::Md5(_)) {
        return *bytes;
    }
    let mark = [range.start.to_be_bytes(), range.end.to_be_bytes()].concat();
    std::array::from_fn(|index| bytes[index] ^ mark[index].rotate_left(3))
}
