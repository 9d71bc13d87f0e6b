//! Lifecycle passes of a gateway. Each pass reads a limited number of pages, removes the versions
//! to which its rule applies, and keeps the others and the locked ones.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Lifecycle, LifecycleOptions};
use record::{BucketConfig, BucketConfigKind, ObjectHeaders, Timestamp};
use rules::RulesCache;
use volume::{FsError, NewUpload, UploadId, VersionsQuery};

use super::model::{BUCKETS, HELD, KEPT, KEYS, Name, Noncurrent, PLAIN, TRASH, VersionKind};
use super::{World, fs, owner};

/// The length of a day of rules, and the number of days from the operation before a pass to the
/// pass, after which everything is due.
const DAY: Duration = Duration::from_secs(1);
const DAYS_BEFORE: u32 = 10;

/// The number of days for which the trash keeps its items between two passes of this test.
const TRASH_DAYS: u32 = u32::MAX;

/// Limit of the listed entries that are not versions of keys: directories.
const DIRECTORIES_MAX: u64 = 40;

/// The time between two reads of the number of pages.
const LOOK: Duration = Duration::from_millis(5);

/// Number of uploads that exist when a pass begins.
const UPLOADS: usize = 3;

/// A rule with its actions.
#[derive(Clone, Copy, Debug)]
struct Rule {
    prefix: &'static str,
    /// True if current objects expire.
    expires: bool,
    /// True if the rule removes delete markers that hide no version.
    markers: bool,
    /// The number of newest noncurrent versions that the rule keeps; `None` if it removes none.
    spared: Option<usize>,
    aborts: bool,
}

/// The number of removals of a pass, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ended {
    expired: u64,
    noncurrent: u64,
    markers: u64,
    uploads: u64,
    trash: u64,
}

impl Rule {
    fn is_about(&self, key: &str) -> bool {
        key.starts_with(self.prefix)
    }

    fn config(&self) -> BucketConfig {
        let expiration = match (self.expires, self.markers) {
            (true, _) => "<Expiration><Days>1</Days></Expiration>",
            (false, true) => {
                "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
            }
            (false, false) => "",
        };
        let noncurrent = self.spared.map_or(String::new(), |spared| {
            let newer = match spared {
                0 => String::new(),
                _ => format!("<NewerNoncurrentVersions>{spared}</NewerNoncurrentVersions>"),
            };
            format!(
                "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>{newer}\
                 </NoncurrentVersionExpiration>"
            )
        });
        let uploads = if self.aborts {
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
             </AbortIncompleteMultipartUpload>"
        } else {
            ""
        };
        let text = format!(
            "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status>\
             <Filter><Prefix>{}</Prefix></Filter>{expiration}{noncurrent}{uploads}</Rule></LifecycleConfiguration>",
            self.prefix
        );
        BucketConfig { bytes: text.into_bytes().into() }
    }
}

impl World {
    /// Gives a bucket a rule, and runs the next pass.
    pub(crate) async fn lifecycle_operation(&mut self) {
        let bucket = self.dice.of(&[KEPT, KEPT, KEPT, HELD, HELD, TRASH, PLAIN]);
        let uploads = self.begin_uploads(bucket).await;
        let rule = self.rule();
        let days = self.dice.of(&[1, 10_000, 100_000]);
        let limit = self.dice.of(&[1, 1, 2, 5, 1_000]);
        self.record(format!("{}: a pass by {rule:?}, {limit} a page", BUCKETS[bucket]));
        self.model.now = Timestamp(self.model.now.0 + nanoseconds(DAYS_BEFORE));
        self.clock.set(self.model.now);
        self.configure(bucket, BucketConfigKind::Lifecycle, Some(&rule.config())).await;
        if bucket == TRASH {
            let days = BucketConfig::of_trash_days(days);
            self.configure(TRASH, BucketConfigKind::Trash, Some(&days)).await;
        }
        let done = self.pass(limit).await;
        self.configure(bucket, BucketConfigKind::Lifecycle, None).await;
        if bucket == TRASH {
            let days = BucketConfig::of_trash_days(TRASH_DAYS);
            self.configure(TRASH, BucketConfigKind::Trash, Some(&days)).await;
        }
        let mut expected = Ended::default();
        self.trash_has_days |= bucket == TRASH;
        if self.trash_has_days {
            let days = if bucket == TRASH { days } else { TRASH_DAYS };
            expected.trash = self.model.expire_trash(days);
        }
        for name in KEYS.map(|key| (bucket, key)).into_iter().filter(|it| rule.is_about(it.1)) {
            self.model.follow(name, &rule, &mut expected);
            if (rule.markers || rule.expires) && self.model.is_lone_marker(name) {
                self.follow_marker(name, &mut expected).await;
            }
        }
        for (name, id) in uploads {
            let goes = rule.aborts && rule.is_about(name.1);
            expected.uploads += u64::from(goes);
            let aborted = fs(self.gateway.abort(BUCKETS[bucket], name.1.as_bytes(), id).await);
            let gone = goes.then_some(FsError::NoSuchUpload);
            let found = fs(self.gateway.upload(BUCKETS[bucket], name.1.as_bytes(), id).await);
            assert_eq!(aborted.err().filter(|_| goes), gone, "the upload of {name:?}");
            assert_eq!(found.err(), Some(FsError::NoSuchUpload), "the upload of {name:?}");
        }
        assert_eq!(done, expected, "the removals of {rule:?}");
        self.counts.passes += 1;
        self.check_bucket(bucket).await;
    }

    /// Removes the last delete marker of a key from the model if the pass has removed it. The pass
    /// may have removed the versions below the marker in one turn, and have begun the key again in
    /// the next turn; then it has removed the marker, too.
    async fn follow_marker(&mut self, name: Name, ended: &mut Ended) {
        let (prefix, limit) = (name.1.as_bytes().to_vec(), 1);
        let query = VersionsQuery { prefix, delimiter: None, after: None, limit };
        let page = self.gateway.list_versions(BUCKETS[name.0].into(), &query).await;
        if page.expect("a page").entries.is_empty() {
            self.model.key_mut(name).older.clear();
            ended.markers += 1;
        }
    }

    fn rule(&mut self) -> Rule {
        let mut rule = Rule {
            prefix: self.dice.of(&["", "", "d/", "x/e/", "f"]),
            expires: self.dice.one_in(8),
            markers: self.dice.one_in(2),
            spared: (!self.dice.one_in(4)).then(|| self.dice.below(4)),
            aborts: self.dice.one_in(2),
        };
        if rule.expires {
            // Directories without keys would also expire, and the model does not know them.
            rule.prefix = self.dice.of(&["f", "g", "d/f", "x/e/f", "d/e/g"]);
        }
        // A rule needs at least one action.
        rule.markers |= !rule.expires && rule.spared.is_none() && !rule.aborts;
        rule
    }

    async fn begin_uploads(&mut self, bucket: usize) -> Vec<(Name, UploadId)> {
        let mut uploads = Vec::new();
        for _ in 0..UPLOADS {
            let name = self.key_of(bucket);
            let new = NewUpload {
                owner: owner(),
                headers: ObjectHeaders::default(),
                checksum: None,
                asked: Vec::new(),
                encryption: None,
            };
            let id = self.gateway.create_upload(BUCKETS[bucket], name.1.as_bytes(), new).await;
            uploads.push((name, fs(id).expect("an upload begins")));
        }
        uploads
    }

    async fn configure(&self, bucket: usize, kind: BucketConfigKind, to: Option<&BucketConfig>) {
        let set = self.gateway.set_bucket_config(BUCKETS[bucket], kind, to).await;
        set.expect("a configuration is set");
    }

    /// Runs the passes that are due, with a limit on their pages.
    async fn pass(&self, limit: usize) -> Ended {
        let (volume, rules) = (Arc::clone(&self.gateway), Arc::new(RulesCache::new()));
        let lifecycle = Lifecycle::new(volume, rules, LifecycleOptions { day: DAY, page: limit });
        let keys = self.model.buckets.iter().flat_map(|bucket| bucket.keys.values());
        let versions: usize = keys.map(|key| key.older.len() + 1).sum();
        let pages_max = versions as u64 + DIRECTORIES_MAX;
        let exceeds = async {
            while lifecycle.counters().pages <= pages_max {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            done = lifecycle.follow_now() => done.expect("the buckets are listed"),
            () = exceeds => panic!("a pass over {versions} versions has done over {pages_max} pages"),
        }
        let counters = lifecycle.counters();
        assert_eq!(counters.failures, 0, "failures of a pass");
        Ended {
            expired: counters.expired,
            noncurrent: counters.noncurrent,
            markers: counters.markers,
            uploads: counters.uploads,
            trash: counters.trash,
        }
    }
}

impl super::Model {
    /// Removes from a key the versions that a pass by this rule removes.
    fn follow(&mut self, name: Name, rule: &Rule, ended: &mut Ended) {
        let key = self.key(name);
        if self.is_lone_marker(name) && (rule.markers || rule.expires) {
            ended.markers += 1;
            self.key_mut(name).older.clear();
            return;
        }
        if let Some(spared) = rule.spared.filter(|_| self.versioning(name).is_shown()) {
            let hides = key.current.is_none()
                && key.older.first().is_some_and(|old| old.what == VersionKind::Marker);
            // True if a newer version stays. The newest entry that stays is the latest version, so
            // if it is a delete marker, it is not a noncurrent one.
            let mut newer_stays = key.current.is_some();
            let mut stays = |(place, old): (usize, &Noncurrent)| {
                let is_latest = old.what == VersionKind::Marker && !newer_stays;
                let stays = is_latest || place - usize::from(hides) < spared || self.is_kept(old);
                newer_stays |= stays;
                stays
            };
            let stay: Vec<Noncurrent> =
                key.older.iter().enumerate().filter(|it| stays(*it)).map(|it| *it.1).collect();
            ended.noncurrent += (key.older.len() - stay.len()) as u64;
            self.key_mut(name).older = stay;
        }
        if rule.expires && key.current.is_some() {
            ended.expired += 1;
            self.delete(name);
        }
    }

    /// Returns true if a delete marker is the only version of a key.
    fn is_lone_marker(&self, name: Name) -> bool {
        let key = self.key(name);
        key.current.is_none() && matches!(key.older[..], [old] if old.what == VersionKind::Marker)
    }

    /// Removes the items of the trash that a pass removes, and records that it saw the others.
    fn expire_trash(&mut self, days: u32) -> u64 {
        let (now, mut removed) = (self.now, 0);
        for name in KEYS.map(|key| (TRASH, key)) {
            self.key_mut(name).older.retain_mut(|old| {
                // The retention of an item begins when a pass first sees it. By then the item was
                // deleted more than a day before, so it counts as one day old.
                let seen = *old.seen.get_or_insert(now);
                let stays = seen == now || seen.0 - nanoseconds(1) + nanoseconds(days) >= now.0;
                removed += u64::from(!stays);
                stays
            });
        }
        removed
    }

    /// Returns true if a lock keeps a noncurrent version.
    fn is_kept(&self, old: &Noncurrent) -> bool {
        match old.what {
            VersionKind::Object(file) => self.is_locked(file, false),
            VersionKind::Marker => false,
        }
    }
}

fn nanoseconds(days: u32) -> i64 {
    i64::try_from((DAY * days).as_nanos()).expect("few days")
}
