mod due;
mod matching;
mod refusals;
mod round_trip;

use super::{LifecycleConfiguration, Rule};
use crate::Fault;

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// A configuration with these rules, as S3 would show it.
fn document(rules: &[&str]) -> String {
    let rules = rules.iter().map(|rule| format!("<Rule>{rule}</Rule>"));
    let rules = rules.collect::<Vec<_>>().concat();
    format!(
        "{DECLARATION}<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         {rules}</LifecycleConfiguration>"
    )
}

fn parse(rules: &[&str]) -> Result<LifecycleConfiguration, Fault> {
    LifecycleConfiguration::parse(document(rules).as_bytes())
}

/// Returns the only rule of an accepted configuration.
#[track_caller]
fn rule(text: &str) -> Rule {
    let mut rules = parse(&[text]).expect(text).rules;
    assert_eq!(rules.len(), 1);
    rules.remove(0)
}

/// A rule with this content of its filter.
fn filtered(filter: &str) -> String {
    format!(
        "<Filter>{filter}</Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration>"
    )
}

/// A rule for all objects with this action.
fn acting(action: &str) -> String {
    format!("<Filter></Filter><Status>Enabled</Status>{action}")
}
