//! Reads the summaries of test runners: cargo's tests and pytest.
//!
//! For example, pytest's line `== 12 passed, 1 failed in 3.2s ==` gives 12 passed and 1 failed.

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u32,
    /// Tests that failed, and errors outside of tests.
    pub(crate) failed: u32,
    /// Tests that did not run.
    pub(crate) skipped: u32,
}

impl Counts {
    /// The counts as text.
    pub(crate) fn sentence(self) -> String {
        let Self { passed, failed, skipped } = self;
        match skipped {
            0 => format!("{passed} passed, {failed} failed"),
            _ => format!("{passed} passed, {failed} failed, {skipped} skipped"),
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            passed: a.passed + b.passed,
            failed: a.failed + b.failed,
            skipped: a.skipped + b.skipped,
        })
    }
}

/// The summary lines of a `cargo test` run: one for each test binary.
pub(crate) fn cargo_lines(log: &str) -> Vec<String> {
    log.lines().filter(|line| line.starts_with("test result: ")).map(str::to_owned).collect()
}

/// Returns the output of the failed tests of a `cargo test` run: for each test binary, the lines
/// from `failures:` to its result.
pub(crate) fn cargo_failures(log: &str) -> String {
    let mut report = String::new();
    let mut failing = false;
    for line in log.lines() {
        failing = (failing || line == "failures:") && !line.starts_with("test result: ");
        if failing {
            report.push_str(line);
            report.push('\n');
        }
    }
    report
}

/// Returns a line for each test that ran for over a minute and has no result: a test that hangs, if
/// the run was ended.
pub(crate) fn unfinished(log: &str) -> String {
    const SLOW: &str = " has been running for over 60 seconds";
    let mut report = String::new();
    let slow = log.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(SLOW));
    for name in slow {
        let result = format!("test {name} ... ");
        if !log.lines().any(|line| line.starts_with(&result)) {
            report.extend(["test ", name, " did not end\n"]);
        }
    }
    report
}

/// Adds up the counts in the summary lines of `cargo test`.
pub(crate) fn cargo_counts(lines: &[String]) -> Counts {
    lines.iter().map(|line| counts(line.split_once(". ").map_or("", |(_, rest)| rest))).sum()
}

/// Returns pytest's last line and its counts, or `None` if pytest did not complete.
pub(crate) fn pytest(log: &str) -> Option<(String, Counts)> {
    // Other lines of pytest also have `==` around them, so the last line with counts is the
    // summary.
    let line = log.lines().rev().find(|line| {
        line.starts_with("==") && line.ends_with("==") && line.contains(" in ") && has_count(line)
    })?;
    let inner = line.trim_matches(['=', ' ']);
    let (listed, _) = inner.split_once(" in ")?;
    Some((line.to_owned(), counts(listed)))
}

/// Returns the summaries of runners that tests start, such as pjdfstest. The suites print them at
/// the end of their report, after the word `told:`.
pub(crate) fn inner_summaries(log: &str) -> Vec<String> {
    log.lines().filter_map(|line| line.strip_prefix("told: ")).map(str::to_owned).collect()
}

/// Returns true if the line lists at least one result.
fn has_count(line: &str) -> bool {
    counts(line.trim_matches(['=', ' ']).split(" in ").next().unwrap_or("")) != Counts::default()
}

/// Adds up `12 passed, 1 failed; 3 ignored`.
fn counts(listed: &str) -> Counts {
    let mut found = Counts::default();
    for part in listed.split([',', ';']) {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<u32>().ok()) else { continue };
        match words.next() {
            Some("passed" | "xpassed") => found.passed += number,
            Some("failed" | "error" | "errors") => found.failed += number,
            Some("skipped" | "ignored" | "deselected" | "xfailed") => found.skipped += number,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
