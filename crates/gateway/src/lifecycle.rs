//! Following the lifecycle rules of buckets, and ending what has been in their trash for its days.
//!
//! All actions of rules are due at midnight, so once a day, and whenever its rules have changed, there
//! is a *pass* over the keys of each bucket that has some: a listing of what they may be about, page by
//! page. How far a pass has come is a record of the bucket. Every gateway looks at it now and then and
//! does the next page; of two that do the same one, the commit of the record lets one go on. Pages may
//! be done twice: whatever a rule ends is looked at again in the commit that ends it.
//!
//! A listing, and no index by time, finds what is due: writes cost nothing more where there are rules,
//! and what directories, tags and rules have become since counts as it is when the pass comes by.

mod expire;

use std::time::Duration;

use record::{BucketConfig, BucketConfigKind, LifecyclePass, PassLeft, Timestamp};
use s3::{BucketName, Fault};
use tokio::time::Instant;
use tracing::{debug, warn};
use volume::{BucketStat, NamedBucket, VolumeError};

use crate::gateway::Gateway;
use crate::lifecycle::expire::{Page, Walk};
use crate::lifecycle_meters::count;
use crate::rules::BucketRules;
use crate::translate;

/// How often it is looked for passes that are due. Shorter days are looked at four times each.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// The least of that.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Buckets that are looked at together.
const BUCKETS_AT_ONCE: usize = 1_000;

/// After each page a pass rests for as long as the page took, but no longer than this: requests come
/// first.
const REST_MAX: Duration = Duration::from_secs(2);

/// The day of an instant, of such length, counted from 1970.
fn day_of(now: Timestamp, day: Duration) -> i64 {
    let day = i64::try_from(day.as_nanos()).unwrap_or(i64::MAX).max(1);
    now.0.div_euclid(day)
}

impl Gateway {
    /// Follows the lifecycle rules of all buckets for as long as this is polled.
    pub async fn follow_lifecycles(&self) {
        let interval = (self.settings().lifecycle_day / 4).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL);
        loop {
            tokio::time::sleep(interval).await;
            if let Err(error) = self.follow_all().await {
                count(&self.lifecycles().failures, 1);
                warn!(%error, "buckets with lifecycle rules cannot be looked for");
            }
        }
    }

    async fn follow_all(&self) -> Result<(), VolumeError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.volume().buckets("", after.as_deref(), BUCKETS_AT_ONCE).await?;
            let is_last = page.len() < BUCKETS_AT_ONCE;
            after = page.last().map(|bucket| bucket.name.clone());
            for bucket in page.iter().filter(|bucket| bucket.bucket.configs_version > 0) {
                if let Err(fault) = self.follow(bucket).await {
                    count(&self.lifecycles().failures, 1);
                    let why = fault.detail.as_deref().unwrap_or_default();
                    warn!(bucket = bucket.name, %fault, why, "its lifecycle is not followed for now");
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Goes on with the pass over a bucket, if one is due, until it ends or another gateway is at it.
    async fn follow(&self, bucket: &BucketStat) -> Result<(), Fault> {
        let Ok(name) = BucketName::parse(&bucket.name) else { return Ok(()) };
        let rules = self.bucket_rules(&name).await?;
        if rules.lifecycle.is_none() && rules.trash_days.is_none() {
            return Ok(());
        }
        let named = NamedBucket { name: name.as_str().as_bytes(), ino: Some(rules.ino) };
        let Some(mut pass) = self.due(&name, &rules).await? else { return Ok(()) };
        if pass.next.left == PassLeft::Keys(None) {
            let page = self.page(named, &rules);
            page.abort_uploads(&name).await.map_err(translate::fault)?;
            self.empty_trash(named, &rules).await.map_err(translate::fault)?;
        }
        loop {
            let begun = Instant::now();
            let more = match rules.lifecycle {
                Some(_) => self.page(named, &rules).expire(&mut pass.walk).await,
                None => Ok(false),
            };
            let more = more.map_err(translate::fault)?;
            // Whoever goes on from the record begins with the first version of a key.
            let whole = || PassLeft::Keys(pass.walk.whole.clone());
            pass.next.left = if more { whole() } else { PassLeft::Nothing };
            let config = pass.next.to_config();
            let noted = self.volume().note_pass(named, pass.was.as_ref(), &config).await;
            if !noted.map_err(translate::fault)? {
                return Ok(());
            }
            pass.was = Some(config);
            if !more {
                count(&self.lifecycles().passes, 1);
                debug!(bucket = %name, day = pass.next.day, "a pass over its lifecycle is done");
                return Ok(());
            }
            tokio::time::sleep(begun.elapsed().min(REST_MAX)).await;
            // Whoever comes next begins anew by what they say now.
            let seen = self.bucket_rules(&name).await?;
            if seen.ino != rules.ino || seen.settings != rules.settings {
                return Ok(());
            }
        }
    }

    /// Ends what has been in the trash of a bucket for its days.
    async fn empty_trash(
        &self,
        bucket: NamedBucket<'_>,
        rules: &BucketRules,
    ) -> Result<(), VolumeError> {
        let Some(days) = rules.trash_days else { return Ok(()) };
        let stays = self.settings().lifecycle_day.saturating_mul(days);
        let stays = i64::try_from(stays.as_nanos()).unwrap_or(i64::MAX);
        let until = Timestamp(self.volume().passed().0.saturating_sub(stays));
        let removed = self.volume().empty_trash(bucket, b"", until).await?;
        count(&self.lifecycles().trash, removed);
        Ok(())
    }

    fn page<'a>(&'a self, bucket: NamedBucket<'a>, rules: &'a BucketRules) -> Page<'a> {
        let rules = rules.lifecycle.as_ref().map_or(&[][..], |lifecycle| &lifecycle.rules);
        let day = self.settings().lifecycle_day.try_into().unwrap_or(time::Duration::DAY);
        Page { volume: self.volume(), bucket, rules, day, meters: self.lifecycles() }
    }

    /// The pass over a bucket that is due, as far as it has come.
    async fn due(&self, name: &BucketName, rules: &BucketRules) -> Result<Option<Pass>, Fault> {
        let (volume, kind) = (self.volume(), BucketConfigKind::LifecyclePass);
        let was = volume.bucket_config(name.as_str(), kind).await.map_err(translate::fault)?;
        // What cannot be read is written anew.
        let noted = was.as_ref().and_then(|was| LifecyclePass::of_config(was).ok());
        let day = day_of(volume.passed(), self.settings().lifecycle_day);
        let configs_version = rules.settings.configs_version;
        let next = match noted {
            Some(noted) if noted.configs_version == configs_version && noted.day == day => noted,
            // This gateway has not yet heard of what another one follows, or its clock is behind.
            Some(noted) if noted.configs_version > configs_version => return Ok(None),
            Some(noted) if noted.configs_version == configs_version && noted.day > day => {
                return Ok(None);
            }
            _ => LifecyclePass { configs_version, day, left: PassLeft::Keys(None) },
        };
        Ok(match next.left.clone() {
            PassLeft::Nothing => None,
            PassLeft::Keys(whole) => Some(Pass { was, next, walk: Walk::behind(whole) }),
        })
    }
}

/// A pass under way.
struct Pass {
    /// What is noted of it.
    was: Option<BucketConfig>,
    /// What will be.
    next: LifecyclePass,
    walk: Walk,
}

#[cfg(test)]
mod tests;
