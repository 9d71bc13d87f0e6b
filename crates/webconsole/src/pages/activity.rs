//! The requests of S3 to this gateway, as a part of the overview.

use adminapi::resources::activity::{ActivityJson, OperationCounts, RequestCounts};
use maud::{Markup, html};

use crate::layout;

/// The size of the chart, in its own units.
const WIDTH: u64 = 600;
const HEIGHT: u64 = 80;

/// Returns the card of an activity. It reads itself again while the page is open.
pub(super) fn card(hour: &ActivityJson, minute: &ActivityJson) -> Markup {
    let failed = hour.total.failed;
    html! {
        section.card #activity data-refresh="10" {
            h2 { "Requests of S3 to this gateway" }
            dl {
                dt { "Now" } dd { (rate(minute.total.requests, minute.seconds)) ", "
                    (layout::bytes(per_second(minute.total.bytes_in, minute.seconds))) "/s in, "
                    (layout::bytes(per_second(minute.total.bytes_out, minute.seconds))) "/s out" }
                dt { "Last hour" } dd { (hour.total.requests) " requests, " (hour.total.refused) " refused, " (failed) " failed" }
            }
            (chart(hour))
            @if hour.operations.is_empty() { p.hint { "There were no requests yet." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Requests by operation" {
                    table {
                        thead { tr {
                            th scope="col" { "Operation" }
                            th scope="col" { "Requests" }
                            th scope="col" { "Refused" }
                            th scope="col" { "Failed" }
                            th scope="col" { "Median" }
                            th scope="col" { "99 % within" }
                        } }
                        tbody { @for one in &hour.operations { (row(one)) } }
                    }
                }
            }
        }
    }
}

fn row(one: &OperationCounts) -> Markup {
    html! {
        tr {
            th scope="row" { (one.operation) }
            td { (one.counts.requests) }
            td { (one.counts.refused) }
            td { (one.counts.failed) }
            td { (latency(one.p50_us)) }
            td { (latency(one.p99_us)) }
        }
    }
}

/// Returns a chart of the requests over time. Screen readers get its largest value.
fn chart(activity: &ActivityJson) -> Markup {
    let points = &activity.series;
    let max = points.iter().map(|point| point.requests).max().unwrap_or(0);
    if max == 0 {
        return html! {};
    }
    let label =
        format!("Requests over the last hour, at most {}", rate(max, activity.step_seconds));
    let line = |count: fn(&RequestCounts) -> u64| {
        let count_of_gaps = points.len().saturating_sub(1).max(1) as u64;
        let places = points.iter().zip(0_u64..).map(|(point, at)| {
            let height = (HEIGHT - 2) * count(point) / max;
            format!("{},{}", at * WIDTH / count_of_gaps, HEIGHT - 1 - height)
        });
        places.collect::<Vec<_>>().join(" ")
    };
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(label) preserveAspectRatio="none" {
            polyline.requests points=(line(|point| point.requests)) {}
            @if points.iter().any(|point| point.failed > 0) {
                polyline.failed points=(line(|point| point.failed)) {}
            }
        }
        p.hint { (label) "." }
    }
}

fn per_second(count: u64, seconds: u64) -> u64 {
    count / seconds.max(1)
}

/// Returns a rate for people. A slow one has a digit behind the point.
fn rate(count: u64, seconds: u64) -> String {
    let tenths = 10 * count / seconds.max(1);
    if tenths < 100 {
        format!("{}.{}/s", tenths / 10, tenths % 10)
    } else {
        format!("{}/s", tenths / 10)
    }
}

/// Returns a latency for people.
fn latency(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        10_000..10_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}
