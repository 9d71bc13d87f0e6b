//! Reaping what is left of bytes that were moved to another pack: that their owner owned the pack
//! which they were moved from. Readers that found them there have ended by now.

use futures::StreamExt;
use futures::stream;
use record::Orphan;
use session::{Priority, VolumeError, closing};
use store::{Plan, Write};

use super::owners::Held;
use super::release::let_go;
use super::{Dead, progress};
use crate::upkeep::Upkeep;

/// Orphans whose owners are read together.
const ORPHANS_AT_ONCE: usize = 64;

impl Upkeep {
    /// Lets files go of the packs that their bytes were moved from.
    pub(super) async fn reap_moved(
        &self,
        dead: &[Dead],
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let moved = |dead: &'_ Dead| match dead.orphan {
            Orphan::Moved { pack: block, owner, length } => {
                let bytes = i64::try_from(length).unwrap_or(i64::MAX);
                Some(Held { block, owner, bytes, block_length: 0 })
            }
            _ => None,
        };
        let moved: Vec<(&Dead, Held)> =
            dead.iter().filter_map(|dead| Some((dead, moved(dead)?))).collect();
        let mut reaped = 0;
        for moved in moved.chunks(ORPHANS_AT_ONCE) {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let step = self.session.throttle().begin_step(priority);
            let held: Vec<Held> = moved.iter().map(|(_, held)| *held).collect();
            let owners = self.owners(&held).await?;
            let plans = moved.iter().zip(&owners).map(|((dead, held), owners)| {
                let mut plan = Plan {
                    guards: vec![dead.guard()],
                    writes: vec![Write::Delete(dead.key.clone())],
                };
                let_go(&mut plan, *held, owners);
                plan
            });
            let outcomes: Vec<_> = stream::iter(plans.collect::<Vec<_>>())
                .map(|plan| self.session.commit_plan(plan))
                .buffered(ORPHANS_AT_ONCE)
                .collect()
                .await;
            for outcome in outcomes {
                reaped += progress(outcome)?;
            }
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }
}
