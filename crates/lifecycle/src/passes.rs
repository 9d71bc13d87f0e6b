//! The loop over buckets, and the passes of one process.
//!
//! All actions of rules are due at midnight. Once a day, and after each change of a bucket's rules,
//! the processes of a volume make a *pass* over the bucket: a listing of the versions that the
//! rules may remove, page by page. A record of the bucket holds the position of the pass. Each
//! process reads the record from time to time and does the next page. If two processes do the same
//! page, the commit of the record lets one of them continue. A page may be done twice, because the
//! commit that removes a version checks the version again.
//!
//! For example, two gateways and a mount look at a bucket in the same minute. All three list its
//! first page, and each object is removed once. The first that commits the position continues, and
//! the others look again a minute later.
//!
//! Two rules keep a pass from delaying others:
//!
//! - Each page moves the pass forward, however few entries it has; see `Page::expire`.
//! - A process leaves a bucket after [`TURN_PAGES`] pages and continues with the next bucket. For
//!   example, a bucket with a billion keys does not delay the passes of the others.
//!
//! `schedule` decides when a pass begins, even if the clocks of processes differ.
//!
//! The pass lists versions instead of keeping an index by time. So rules cost nothing in writes,
//! and the pass applies the directories, tags and rules as they are when it reaches a key.

use std::sync::Arc;
use std::time::Duration;

use record::{BucketConfig, BucketConfigKind, LifecyclePass, PassPosition};
use rules::{BucketRules, RulesCache, RulesError};
use runtime::{Metered, Metric};
use s3::BucketName;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use volume::{BucketStat, NamedBucket, Volume, VolumeError};

use crate::expire::{Page, Walk};
use crate::meters::{LifecycleCounters, LifecycleMeters, count};
use crate::schedule::{Decision, KnownPasses, OwnPass, day_of};

/// The time between two checks for due passes, that is, listings of a bucket that remove the
/// expired versions. If a day is shorter than four minutes, as in tests, there are four checks a
/// day.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// The shortest time between two checks for due passes.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// The number of buckets that one read lists when the process looks for due passes.
const BUCKETS_AT_ONCE: usize = 1_000;

/// The number of pages of one bucket's pass that the process does in one turn. Then the next bucket
/// has its turn. A turn ends only after the pass has completed a key, because the next turn
/// continues with the first version of a key.
const TURN_PAGES: usize = 16;

/// The longest pause of a pass after a page. The pause is as long as the work on the page, so that
/// requests have priority.
const REST_MAX: Duration = Duration::from_secs(2);

/// The result of a bucket's turn: the pages of its lifecycle pass that the process did before it
/// went to the next bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No pass is due, another process does it, it is complete, or the bucket or its rules have
    /// changed, so that a new pass begins later.
    Over,
    /// The pass over the bucket has more pages and continues when the other buckets have had their
    /// turns.
    Paused,
}

/// The options of lifecycle passes. All processes of a volume must have the same `day`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// The length of a day in lifecycle rules: 24 hours, shorter in tests.
    pub day: Duration,
    /// The limit of versions or uploads in one page of a pass: 1,000, fewer in tests.
    pub page: usize,
}

impl Default for LifecycleOptions {
    fn default() -> LifecycleOptions {
        LifecycleOptions { day: Duration::from_hours(24), page: 1_000 }
    }
}

/// The lifecycle passes that this process makes over the buckets of its volume.
#[derive(Debug)]
pub struct Lifecycle {
    volume: Arc<Volume>,
    rules: Arc<RulesCache>,
    options: LifecycleOptions,
    meters: LifecycleMeters,
    known_passes: KnownPasses,
}

impl Lifecycle {
    /// Returns the passes of a process over the buckets of `volume`. They begin with
    /// [`Lifecycle::follow`]. `rules` is the cache of the process, which a gateway shares with its
    /// requests.
    pub fn new(
        volume: Arc<Volume>,
        rules: Arc<RulesCache>,
        options: LifecycleOptions,
    ) -> Lifecycle {
        let (meters, known_passes) = (LifecycleMeters::default(), KnownPasses::default());
        Lifecycle { volume, rules, options, meters, known_passes }
    }

    /// Follows the rules of all buckets until `stop` is cancelled. Stops within a pass, also
    /// between the steps of a page; the next process continues at the recorded position. A commit
    /// in flight continues in a task of the volume.
    pub async fn follow(&self, stop: CancellationToken) {
        tokio::select! {
            () = self.follow_forever() => {}
            () = stop.cancelled() => {}
        }
    }

    /// Returns the counts of the removals, passes and failures of this process since its start.
    pub fn counters(&self) -> LifecycleCounters {
        self.meters.read()
    }

    async fn follow_forever(&self) {
        let interval = (self.options.day / 4).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL);
        loop {
            tokio::time::sleep(interval).await;
            if let Err(error) = self.follow_now().await {
                count(&self.meters.failures, 1);
                warn!(%error, "cannot list buckets for lifecycle passes");
            }
        }
    }

    /// Does all due passes of all buckets, to their ends. Fails if the buckets cannot be listed; a
    /// failure in one bucket is logged and counted instead.
    pub async fn follow_now(&self) -> Result<(), VolumeError> {
        let today = day_of(self.volume.passed(), self.options.day);
        // Buckets that were deleted must not stay in memory for ever.
        self.known_passes.keep_only(today);
        while self.give_turns().await? == Turn::Paused {}
        Ok(())
    }

    /// Gives each bucket one turn, that is, at most `TURN_PAGES` pages of its due pass. Returns
    /// [`Turn::Paused`] if the pass of a bucket has more pages.
    async fn give_turns(&self) -> Result<Turn, VolumeError> {
        let (mut after, mut all): (Option<String>, _) = (None, Turn::Over);
        loop {
            let page = self.volume.buckets("", after.as_deref(), BUCKETS_AT_ONCE).await?;
            let is_last = page.len() < BUCKETS_AT_ONCE;
            after = page.last().map(|bucket| bucket.name.clone());
            for bucket in page.iter().filter(|bucket| bucket.bucket.configs_version > 0) {
                match self.take_turn(bucket).await {
                    Ok(Turn::Over) => {}
                    Ok(Turn::Paused) => all = Turn::Paused,
                    // A failure in one bucket must not stop the passes over the others.
                    Err(error) => {
                        count(&self.meters.failures, 1);
                        let bucket = &bucket.name;
                        warn!(bucket, %error, "a lifecycle pass failed and will be retried");
                    }
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Continues the pass over a bucket for one turn, if one is due.
    async fn take_turn(&self, bucket: &BucketStat) -> Result<Turn, RulesError> {
        let Ok(name) = BucketName::parse(&bucket.name) else { return Ok(Turn::Over) };
        let rules = self.rules.get(&self.volume, &name).await?;
        if rules.lifecycle.is_none() && rules.trash_days.is_none() {
            return Ok(Turn::Over);
        }
        let named = NamedBucket { name: name.as_str().as_bytes(), ino: Some(rules.ino) };
        let Some(mut pass) = self.due(&name, &rules).await? else { return Ok(Turn::Over) };
        if pass.next.position == PassPosition::KeysAfter(None) {
            let page = self.page(named, &rules);
            // Uploads and trash are done once, at the beginning of a pass.
            page.abort_uploads(&name).await?;
            self.empty_trash(named, &rules).await?;
        }
        let (key_at_start, mut pages) = (pass.walk.complete_key.clone(), 0);
        loop {
            let begun = Instant::now();
            let more = match rules.lifecycle {
                Some(_) => self.page(named, &rules).expire(&mut pass.walk).await?,
                None => false,
            };
            count(&self.meters.pages, 1);
            // A process that continues from the record begins with the first version of a key.
            let after_complete_key = || PassPosition::KeysAfter(pass.walk.complete_key.clone());
            pass.next.position = if more { after_complete_key() } else { PassPosition::Finished };
            let config = pass.next.to_config();
            let saved =
                self.volume.save_lifecycle_position(named, pass.stored.as_ref(), &config).await;
            // If another process has written the record, it continues the pass.
            if !saved? {
                return Ok(Turn::Over);
            }
            pass.stored = Some(config);
            self.known_passes.note(rules.ino, &pass.next);
            if !more {
                count(&self.meters.passes, 1);
                debug!(bucket = %name, day = pass.next.day, "a lifecycle pass is complete");
                return Ok(Turn::Over);
            }
            tokio::time::sleep(begun.elapsed().min(REST_MAX)).await;
            // The next page must follow the current rules. If they have changed, a new pass begins.
            let seen = self.rules.get(&self.volume, &name).await?;
            if seen.ino != rules.ino || seen.settings != rules.settings {
                return Ok(Turn::Over);
            }
            pages += 1;
            if pages >= TURN_PAGES && pass.walk.complete_key != key_at_start {
                return Ok(Turn::Paused);
            }
        }
    }

    /// Removes the items in a bucket's trash that have been there for the number of days that the
    /// bucket keeps them. Without a trash, does nothing.
    async fn empty_trash(
        &self,
        bucket: NamedBucket<'_>,
        rules: &BucketRules,
    ) -> Result<(), VolumeError> {
        let Some(days) = rules.trash_days else { return Ok(()) };
        let (volume, day) = (&self.volume, self.options.day);
        let stays = (day.saturating_mul(days), day);
        let removed = volume.expire_trash(bucket, stays, volume.passed()).await?;
        count(&self.meters.trash, removed);
        Ok(())
    }

    fn page<'a>(&'a self, bucket: NamedBucket<'a>, rules: &'a BucketRules) -> Page<'a> {
        let rules = rules.lifecycle.as_ref().map_or(&[][..], |lifecycle| &lifecycle.rules);
        let day = self.options.day.try_into().unwrap_or(time::Duration::DAY);
        let (volume, meters) = (&self.volume, &self.meters);
        let limit = self.options.page;
        Page { volume, bucket, rules, day, limit, meters }
    }

    /// Returns the due pass over a bucket, at the position that the bucket's record of the pass
    /// has; `None` if no pass is due now.
    async fn due(
        &self,
        name: &BucketName,
        rules: &BucketRules,
    ) -> Result<Option<Pass>, VolumeError> {
        let (volume, kind) = (&self.volume, BucketConfigKind::LifecyclePass);
        let stored = volume.bucket_config(name.as_str(), kind).await?;
        // A record that cannot be decoded is replaced by a new pass.
        let noted = stored.as_ref().and_then(|stored| LifecyclePass::of_config(stored).ok());
        let configs_version = rules.settings.configs_version;
        let own = OwnPass::at(volume.passed(), self.options.day, configs_version);
        let next = match self.known_passes.decide(rules.ino, noted.as_ref(), own) {
            Decision::Wait => return Ok(None),
            Decision::Continue(pass) => pass,
            Decision::Begin => LifecyclePass {
                configs_version,
                day: own.day,
                position: PassPosition::KeysAfter(None),
            },
        };
        let complete_key = match &next.position {
            PassPosition::Finished => return Ok(None),
            PassPosition::KeysAfter(key) => key.clone(),
        };
        Ok(Some(Pass { stored, next, walk: Walk::after_key(complete_key) }))
    }
}

impl Metered for Lifecycle {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.meters.visit_metrics(visit);
    }
}

/// A pass over one bucket in progress: the process lists the versions, page by page, and removes
/// the expired ones.
struct Pass {
    /// The record of the pass as it is in the metadata store, which the next commit must find
    /// unchanged; `None` if the bucket has none.
    stored: Option<BucketConfig>,
    /// The record of the pass that the commit of the next page will write, with the position after
    /// that page.
    next: LifecyclePass,
    /// The position of the pass among the versions of the bucket.
    walk: Walk,
}

#[cfg(test)]
mod tests;
