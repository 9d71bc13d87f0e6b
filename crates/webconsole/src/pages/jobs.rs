//! Jobs: the list, the forms that start one, and the page of a job. For example, "Start a check"
//! starts a job of the kind `fsck` and shows its page.

use adminapi::ApiError;
use adminapi::page::PageQuery;
use adminapi::resources::jobs::{JobJson, NewJobJson};
use maud::{Markup, html};
use policy::AdminAction;
use serde::Deserialize;

use crate::forms::Form;
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The parameters of the list.
#[derive(Debug, Default, Deserialize)]
struct Query {
    page: Option<String>,
}

/// Returns the path of a job.
fn path_of(job: &JobJson) -> String {
    format!("/jobs/{}", escape(&job.number))
}

/// Shows a page of jobs.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let Query { page } = visit.query()?;
    let query = PageQuery { page, ..PageQuery::default() };
    let jobs = visit.api().list_jobs(&visit.actor, &query).await?;
    let content = html! {
        @if jobs.items.is_empty() { p.hint { "There are no jobs." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Jobs" {
                table {
                    thead { tr {
                        th scope="col" { "Job" } th scope="col" { "State" }
                        th scope="col" { "Progress" } th scope="col" { "Started" }
                        th scope="col" { "By" }
                    } }
                    tbody {
                        @for job in &jobs.items {
                            tr {
                                th scope="row" { a href=(path_of(job)) { (title(job)) } }
                                td { (job.state) }
                                td { (progress(job)) }
                                td { (layout::time(&job.began)) }
                                td { (job.user) }
                            }
                        }
                    }
                }
            }
        }
        (layout::pager("/jobs", query.page.as_deref(), jobs.next.as_deref()))
        @if visit.may(AdminAction::StartJob) { (starters(visit)) }
    };
    Ok(layout::show(visit, "Jobs", Section::Jobs, &content))
}

/// Returns the forms that start a job. A fork and a deletion start on the page of the bucket.
fn starters(visit: &Visit<'_>) -> Markup {
    html! {
        section.card {
            h2 { "Check the volume" }
            p { "Compares all records with each other and with the blocks, and changes nothing." }
            form.inline method="post" action="/jobs" {
                (layout::token(visit))
                button type="submit" name="action" value="fsck" { "Start a check" }
            }
        }
        section.card {
            h2 { "Collect garbage" }
            p { "Finds blocks that ended sessions left without a reference. Gateways do this by themselves once an hour." }
            form.stack method="post" action="/jobs" {
                (layout::token(visit))
                label.check { input type="checkbox" name="all" value="1"; "Look at all ended sessions once more" }
                div.actions {
                    button.quiet type="submit" name="action" value="gc-count" { "Count" }
                    button type="submit" name="action" value="gc-delete" { "Delete" }
                }
            }
        }
        section.card {
            h2 { "Dump the metadata" }
            p { "Writes a file to the data directory of this gateway. Together with a copy of the blocks it is a backup." }
            form.inline method="post" action="/jobs" {
                (layout::token(visit))
                button type="submit" name="action" value="dump" { "Start a dump" }
            }
        }
        section.card {
            h2 { "Warm up the cache" }
            form.stack method="post" action="/jobs" {
                (layout::token(visit))
                label for="bucket" { "Bucket" }
                input #bucket name="bucket" required;
                label for="prefix" { "Keys begin with (empty for all objects)" }
                input #prefix name="prefix";
                button type="submit" name="action" value="warmup" { "Read the objects" }
            }
        }
    }
}

/// Returns the kind and the arguments of a job.
fn title(job: &JobJson) -> String {
    let values: Vec<&str> = job
        .arguments
        .iter()
        .filter(|argument| !argument.value.is_empty())
        .map(|argument| argument.value.as_str())
        .collect();
    match (job.kind.as_str(), values.as_slice()) {
        ("fork", [source, target]) => format!("fork {source} as {target}"),
        ("gc", ["yes", ..]) => "gc: delete".to_owned(),
        ("gc", _) => "gc: count".to_owned(),
        (kind, values) => [&[kind], values].concat().join(" "),
    }
}

/// Returns the counts of the finished work as one line.
fn progress(job: &JobJson) -> String {
    let counts = job.progress.iter().map(|count| match count.name.as_str() {
        "bytes" => layout::bytes(count.count),
        name => format!("{} {name}", count.count),
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Shows a job. The page loads itself again while the job runs.
pub(crate) async fn show(visit: &Visit<'_>, number: &str) -> Result<Reply, ApiError> {
    let job = visit.api().job(&visit.actor, number).await?;
    let path = path_of(&job);
    let content = html! {
        section.card #job data-refresh=[(!job.has_ended()).then_some("2")] {
            dl {
                dt { "State" } dd #state { (job.state) }
                dt { "Progress" } dd #progress { (progress(&job)) }
                dt { "Started" } dd { (layout::time(&job.began)) " by " (job.user) }
                dt { "Last report" } dd { (layout::time(&job.changed)) }
                dt { "Gateway" } dd { (job.place) }
            }
            @if job.state == "interrupted" {
                p.caution { "The gateway that did the work has ended. Start the job again." }
            }
            @if !job.message.is_empty() {
                p.problem[job.state == "failed"].done[job.state == "done"] { (job.message) }
            }
            @if !job.lines.is_empty() {
                ul { @for line in &job.lines { li { (line) } } }
                @if job.has_more_lines { p.hint { "There are more lines than these." } }
            }
            form.inline method="post" action=(path) {
                (layout::token(visit))
                @if job.has_ended() {
                    button.quiet type="submit" name="action" value="remove" { "Forget this job" }
                } @else {
                    button.danger type="submit" name="action" value="stop" { "Stop" }
                }
            }
        }
    };
    Ok(layout::show(visit, &title(&job), Section::Jobs, &content))
}

/// Starts a job, and shows it.
pub(crate) async fn start(visit: &Visit<'_>, new: &NewJobJson) -> Result<Reply, ApiError> {
    let job = visit.api().post_job(&visit.actor, new).await?;
    Ok(Reply::redirect(&path_of(&job)))
}

/// Starts the job of a form of the list.
pub(crate) async fn make(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let all = form.is_checked("all");
    let new = match form.text("action") {
        "fsck" => NewJobJson::Fsck {},
        "gc-count" => NewJobJson::Gc { delete: false, all, delete_percent_max: None },
        "gc-delete" => NewJobJson::Gc { delete: true, all, delete_percent_max: None },
        "dump" => NewJobJson::Dump {},
        "warmup" => NewJobJson::Warmup {
            bucket: form.text("bucket").to_owned(),
            prefix: form.exact("prefix").to_owned(),
        },
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    start(visit, &new).await
}

/// Carries out a form of the page of a job.
pub(crate) async fn change(
    visit: &Visit<'_>,
    number: &str,
    form: &Form,
) -> Result<Reply, ApiError> {
    match form.text("action") {
        "stop" => {
            let job = visit.api().stop_job(&visit.actor, number).await?;
            Ok(Reply::redirect(&path_of(&job)))
        }
        "remove" => {
            visit.api().delete_job(&visit.actor, number).await?;
            Ok(Reply::redirect("/jobs?done=removed"))
        }
        _ => Err(ApiError::bad_request("The form has no such action.")),
    }
}
