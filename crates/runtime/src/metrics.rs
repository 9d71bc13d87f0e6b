//! Counters that name their metrics, so that a new metric is one entry of a table.
//!
//! [`counters!`](crate::counters!) makes a struct of counters from a table of fields. A field with
//! a name of a metric appears in the metrics of the process: its owner implements [`Metered`], and
//! the listener for metrics encodes the values of every owner that it knows. This module does not
//! know the format of metrics. For example, the session counts its commits with a field of such a
//! struct, and nothing else in the program names that metric.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number for metrics that only grows, from 0. Any thread may add to it.
#[derive(Debug, Default)]
pub struct MetricCounter(AtomicU64);

impl MetricCounter {
    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds `more` to the value.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that grows and shrinks.
    Gauge,
}

/// The value of a metric at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name as operators see it. The name of a counter ends in `_total`.
    pub name: &'static str,
    /// The type of the metric.
    pub kind: MetricKind,
    /// The name and the value of the label. Metrics of one name differ in the value of their label.
    pub label: Option<(&'static str, &'static str)>,
    /// The value at this moment.
    pub value: u64,
    description: &'static str,
}

impl Metric {
    /// Returns the value of a counter. `description` is its help text; see [`Metric::help`].
    pub const fn counter(name: &'static str, description: &'static str, value: u64) -> Metric {
        Metric { name, kind: MetricKind::Counter, label: None, value, description }
    }

    /// Returns the value of a gauge. `description` is its help text; see [`Metric::help`].
    pub const fn gauge(name: &'static str, description: &'static str, value: u64) -> Metric {
        Metric { name, kind: MetricKind::Gauge, label: None, value, description }
    }

    /// Returns the same metric with a label. It has a bounded number of values.
    #[must_use]
    pub const fn with_label(self, label: &'static str, value: &'static str) -> Metric {
        Metric { label: Some((label, value)), ..self }
    }

    /// Returns the same metric with another help text.
    #[must_use]
    pub const fn with_help(self, description: &'static str) -> Metric {
        Metric { description, ..self }
    }

    /// Returns the help text in one line: the first paragraph of the description. The following
    /// paragraphs are for readers of the code.
    pub fn help(&self) -> String {
        let paragraph = self.description.lines().map(str::trim).take_while(|line| !line.is_empty());
        paragraph.collect::<Vec<_>>().join(" ")
    }
}

/// An owner of metrics.
pub trait Metered: Send + Sync {
    /// Passes the current value of each metric to `visit`. Values of one name need not be adjacent;
    /// the first of them gives the help text.
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric));
}

/// A function that passes metrics to its argument, for values that no struct of counters has.
impl<F: Fn(&mut dyn FnMut(Metric)) + Send + Sync> Metered for F {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self(visit);
    }
}

/// Defines a struct of counters, and the metrics that its fields are.
///
/// Each field has a documentation, whose first paragraph is the help text of its metric. The name
/// of the metric follows the field's name; a field without one is no metric. Fields that split one
/// quantity name the same metric, each with another value of the label, and the first of them gives
/// the help text of all in a string at its end.
///
/// The struct is generic over the type of its fields: it has [`MetricCounter`]s while it counts,
/// and `read` returns the same struct of `u64`. It implements [`Metered`].
///
/// ```
/// runtime::counters! {
///     /// Counters of a queue.
///     pub struct QueueMeters {
///         /// Items that were added.
///         added: "ashlar_queue_items_total" { change: "added" } "Items added and removed.",
///         /// Items that were removed.
///         removed: "ashlar_queue_items_total" { change: "removed" },
///         /// Times that the queue was full.
///         ///
///         /// Its caller waits then.
///         full: "ashlar_queue_full_total",
///     }
/// }
/// let meters: QueueMeters = QueueMeters::default();
/// meters.added.add(2);
/// assert_eq!(meters.read(), QueueMeters { added: 2, removed: 0, full: 0 });
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(: $metric:literal $({ $label:ident: $split:literal })? $($help:literal)?)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name<T = $crate::MetricCounter> {
            $($(#[doc = $doc])+ $vis $field: T,)+
        }

        impl $name {
            /// Returns the current values. They are read one after the other.
            $vis fn read(&self) -> $name<u64> {
                $name { $($field: self.$field.get(),)+ }
            }
        }

        impl $crate::Metered for $name {
            fn visit_metrics(&self, visit: &mut dyn FnMut($crate::Metric)) {
                $($crate::counters!(
                    @visit visit, self.$field, concat!($($doc, "\n"),+)
                    $(, $metric $({ $label: $split })? $($help)?)?
                );)+
            }
        }
    };
    (@visit $visit:ident, $counter:expr, $doc:expr) => {};
    (
        @visit $visit:ident, $counter:expr, $doc:expr,
        $metric:literal $({ $label:ident: $split:literal })? $($help:literal)?
    ) => {
        $visit(
            $crate::Metric::counter($metric, $doc, $counter.get())
                $(.with_label(stringify!($label), $split))?
                $(.with_help($help))?
        )
    };
}

#[cfg(test)]
mod tests;
