//! The text format 0.0.4 of Prometheus, made from `OpenMetrics`.
//!
//! The two differ in the names of counters in comments, in the comments for units, and in the mark
//! at the end. For example, `# TYPE ashlar_s3_panics counter` becomes `# TYPE
//! ashlar_s3_panics_total counter`.

/// Returns a text of the format `OpenMetrics` in the format 0.0.4 of Prometheus.
pub(super) fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 4096);
    // The help of a metric precedes its type, which decides the name of both.
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let kind = if kind == "unknown" { "untyped" } else { kind };
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                push(&mut text, &["# HELP ", name, suffix, " ", help]);
            }
            push(&mut text, &["# TYPE ", name, suffix, " ", kind]);
        } else if !line.starts_with('#') {
            push(&mut text, &[line]);
        }
    }
    text
}

fn push(text: &mut String, parts: &[&str]) {
    text.extend(parts.iter().copied());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::prometheus;

    #[test]
    fn counters_have_their_suffix_in_comments_and_units_are_left_out() {
        let openmetrics = "# HELP a_seconds Time \\n of a.\n# TYPE a_seconds counter\n\
                           # UNIT a_seconds seconds\na_seconds_total 1\n\
                           # HELP b Level.\n# TYPE b gauge\nb{x=\"# TYPE\"} 2\n# EOF\n";
        assert_eq!(
            prometheus(openmetrics),
            "# HELP a_seconds_total Time \\n of a.\n# TYPE a_seconds_total counter\n\
             a_seconds_total 1\n# HELP b Level.\n# TYPE b gauge\nb{x=\"# TYPE\"} 2\n"
        );
    }
}
