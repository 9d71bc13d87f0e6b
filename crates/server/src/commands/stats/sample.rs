//! The counters of a mount at one moment, parsed from the text of its metrics.
//!
//! For example, the line `ashlar_fuse_operations_total{operation="READ",errno="OK"} 7` adds 7 to
//! the operation `READ`. Lines of other metrics are ignored.

use std::collections::BTreeMap;

/// The counters of one operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperationSample {
    pub(super) count: u64,
    /// The part of `count` that failed.
    pub(super) errors: u64,
    /// The sum of the latencies in seconds.
    pub(super) seconds: f64,
    /// The upper bounds of the latencies in seconds, and the operations up to each.
    buckets: Vec<(f64, u64)>,
}

/// The counters of a mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) operations: BTreeMap<String, OperationSample>,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
    /// The values of the moment, not counters.
    pub(super) dirty_bytes: u64,
    pub(super) dirty_limit_bytes: u64,
    pub(super) open_handles: u64,
}

impl OperationSample {
    /// Returns the latency in seconds that this part of the operations does not exceed: the upper
    /// bound of the bucket in which it is. Returns 0 without operations.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let all = self.buckets.last().map_or(0, |(_, count)| *count);
        let wanted = as_float(all) * part;
        let found = self.buckets.iter().find(|(_, count)| all > 0 && as_float(*count) >= wanted);
        let slowest = self.buckets.iter().rev().map(|(bound, _)| *bound).find(|b| b.is_finite());
        found.map_or(
            0.0,
            |(bound, _)| {
                if bound.is_finite() { *bound } else { slowest.unwrap_or(0.0) }
            },
        )
    }

    fn add(&mut self, other: &OperationSample) {
        self.count += other.count;
        self.errors += other.errors;
        self.seconds += other.seconds;
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
    }

    fn since(&self, before: &OperationSample) -> OperationSample {
        // A new worker has smaller counters.
        if self.count < before.count {
            return self.clone();
        }
        let mut change = self.clone();
        change.count -= before.count;
        change.errors = change.errors.saturating_sub(before.errors);
        change.seconds = (change.seconds - before.seconds).max(0.0);
        for ((_, count), (_, less)) in change.buckets.iter_mut().zip(&before.buckets) {
            *count = count.saturating_sub(*less);
        }
        change
    }
}

impl Sample {
    /// Returns the counters in a text of metrics; `None` if it has none of a mount.
    pub(super) fn parse(text: &str) -> Option<Sample> {
        let (mut sample, mut is_mount) = (Sample::default(), false);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let Ok(number) = value.parse::<f64>() else { continue };
            // A negative or broken value counts as 0, and one beyond the range as the largest.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the conversion saturates"
            )]
            let whole = number as u64;
            is_mount |= name == "ashlar_files_dirty_limit_bytes";
            match name {
                "ashlar_fuse_operations_total" => {
                    let of = sample.operation(labels);
                    of.count += whole;
                    if label(labels, "errno") != "OK" {
                        of.errors += whole;
                    }
                }
                "ashlar_fuse_operation_seconds_sum" => sample.operation(labels).seconds = number,
                "ashlar_fuse_operation_seconds_bucket" => {
                    let bound = label(labels, "le").parse().unwrap_or(f64::INFINITY);
                    sample.operation(labels).buckets.push((bound, whole));
                }
                "ashlar_fuse_read_bytes_total" => sample.read_bytes = whole,
                "ashlar_fuse_written_bytes_total" => sample.written_bytes = whole,
                "ashlar_files_dirty_bytes" => sample.dirty_bytes = whole,
                "ashlar_files_dirty_limit_bytes" => sample.dirty_limit_bytes = whole,
                "ashlar_files_open_handles" => sample.open_handles = whole,
                "ashlar_cache_page_lookups_total" => match label(labels, "result") {
                    "miss" => sample.cache_misses += whole,
                    _ => sample.cache_hits += whole,
                },
                _ => {}
            }
        }
        is_mount.then_some(sample)
    }

    fn operation(&mut self, labels: &str) -> &mut OperationSample {
        self.operations.entry(label(labels, "operation").to_owned()).or_default()
    }

    /// Returns the difference to an earlier sample. Values of the moment stay.
    pub(super) fn since(&self, before: &Sample) -> Sample {
        let none = OperationSample::default();
        let change = |(name, of): (&String, &OperationSample)| {
            (name.clone(), of.since(before.operations.get(name).unwrap_or(&none)))
        };
        let less = |now: u64, before: u64| if now < before { now } else { now - before };
        Sample {
            operations: self.operations.iter().map(change).collect(),
            read_bytes: less(self.read_bytes, before.read_bytes),
            written_bytes: less(self.written_bytes, before.written_bytes),
            cache_hits: less(self.cache_hits, before.cache_hits),
            cache_misses: less(self.cache_misses, before.cache_misses),
            ..self.clone()
        }
    }

    /// Returns the sum over all operations.
    pub(super) fn all(&self) -> OperationSample {
        let mut all = OperationSample::default();
        self.operations.values().for_each(|of| all.add(of));
        all
    }

    /// Returns the part of the lookups in the block cache that found their page, from 0 to 1;
    /// `None` without lookups.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        let all = self.cache_hits + self.cache_misses;
        (all > 0).then(|| as_float(self.cache_hits) / as_float(all))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
pub(super) fn as_float(count: u64) -> f64 {
    count as f64
}

/// Returns the value of a label in `a="x",b="y"}`; empty if it is absent.
fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let pairs = labels.trim_end_matches('}').split(',');
    let mut found = pairs.filter_map(|pair| pair.split_once('='));
    found.find(|(known, _)| *known == name).map_or("", |(_, value)| value.trim_matches('"'))
}
