//! Reaps the shares of owners in packs from which the rewriter or the compactor moved their bytes.
//!
//! All readers that found the bytes in the old pack have ended before. For example, the rewriter
//! moved a file from pack P to pack Q and left an orphan for its share of P. This step removes the
//! share, and if it was the last one, P becomes pending.

use futures::StreamExt;
use futures::stream;
use record::Orphan;
use session::{Priority, VolumeError, closing};
use store::{Plan, Write};

use super::owners::Reference;
use super::release::add_release;
use super::{Dead, committed_steps};
use crate::upkeep::Upkeep;

/// Orphans (records of an owner's old pack) that are read together with the owners.
const ORPHANS_AT_ONCE: usize = 64;

impl Upkeep {
    /// Releases the shares of files in packs (blocks of several files) from which their bytes were
    /// moved. Returns the number of committed plans.
    pub(super) async fn reap_moved(
        &self,
        dead: &[Dead],
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        // The orphan has the number of bytes in the old pack, because the owner's record shows only
        // the new one.
        let moved = |dead: &'_ Dead| match dead.orphan {
            Orphan::Moved { pack: block, owner, length } => {
                let bytes = i64::try_from(length).unwrap_or(i64::MAX);
                Some(Reference { block, owner, bytes, block_length: 0 })
            }
            _ => None,
        };
        let moved: Vec<(&Dead, Reference)> =
            dead.iter().filter_map(|dead| Some((dead, moved(dead)?))).collect();
        let mut reaped = 0;
        for moved in moved.chunks(ORPHANS_AT_ONCE) {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let step = self.session.throttle().begin_step(priority);
            let references: Vec<Reference> =
                moved.iter().map(|(_, reference)| *reference).collect();
            let owners = self.owners(&references).await?;
            let plans = moved.iter().zip(&owners).map(|((dead, reference), owners)| {
                let mut plan = Plan {
                    guards: vec![dead.guard()],
                    writes: vec![Write::Delete(dead.key.clone())],
                };
                add_release(&mut plan, *reference, owners);
                plan
            });
            let outcomes: Vec<_> = stream::iter(plans.collect::<Vec<_>>())
                .map(|plan| self.session.commit_plan(plan))
                .buffered(ORPHANS_AT_ONCE)
                .collect()
                .await;
            for outcome in outcomes {
                reaped += committed_steps(outcome)?;
            }
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }
}
