use super::*;

crate::counters! {
    /// Counters of a queue.
    pub(super) struct QueueMeters {
        /// Items that were added.
        added: "ashlar_queue_items_total" { change: "added" } "Items added and removed.",
        /// Items that were removed.
        removed: "ashlar_queue_items_total" { change: "removed" },
        /// Times that the queue was full,
        /// whether or not its caller waited.
        ///
        /// It has room for 3.
        full: "ashlar_queue_full_total",
        /// Items that were looked at.
        seen,
    }
}

#[test]
fn each_field_with_a_name_is_a_metric_with_its_documentation_as_help() {
    let meters: QueueMeters = QueueMeters::default();
    meters.added.add(2);
    meters.removed.add(1);
    meters.seen.add(7);
    assert_eq!(meters.read(), QueueMeters { added: 2, removed: 1, full: 0, seen: 7 });
    let mut found = Vec::new();
    meters.visit_metrics(&mut |metric| {
        found.push((metric.name, metric.label, metric.value, metric.help()));
    });
    let items = "ashlar_queue_items_total";
    let expected = [
        (items, Some(("change", "added")), 2, "Items added and removed."),
        (items, Some(("change", "removed")), 1, "Items that were removed."),
        (
            "ashlar_queue_full_total",
            None,
            0,
            "Times that the queue was full, whether or not its caller waited.",
        ),
    ];
    assert_eq!(found, expected.map(|(name, label, value, help)| (name, label, value, help.into())));
}
