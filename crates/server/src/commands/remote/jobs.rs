//! `ashlar job` over the API.

use adminapi::resources::jobs::JobJson;
use http::Method;
use problem::Problem;

use crate::commands::job::{self, JobCommand};
use crate::endpoint::Endpoint;
use crate::outcome::Outcome;

/// Runs an `ashlar job` command.
pub(crate) async fn run(endpoint: &Endpoint, command: JobCommand) -> Result<Outcome, Problem> {
    let doing = command.doing();
    let read = async |number: &str| {
        let job = endpoint.call::<JobJson>(Method::GET, &["jobs", number], &[], None).await;
        job.map_err(|error| error.problem(doing.as_str()))
    };
    match command {
        JobCommand::List { printing } => {
            let jobs = endpoint.list(&["jobs"], "").await;
            let jobs: Vec<JobJson> = jobs.map_err(|error| error.problem(doing))?;
            job::table(&jobs).print(printing);
            Ok(Outcome::Success)
        }
        JobCommand::Show { number, output } => {
            let number = number.to_string();
            job::follow(read(&number).await?, output, async || read(&number).await).await
        }
        JobCommand::Start(start) => {
            let (new, output) = start.split();
            let body = serde_json::to_value(&new);
            let body = body.map_err(|error| Problem::new(doing.as_str(), error))?;
            let started = endpoint.call::<JobJson>(Method::POST, &["jobs"], &[], Some(body)).await;
            let started = started.map_err(|error| error.problem(doing.as_str()))?;
            let number = started.number.clone();
            job::follow(started, output, async || read(&number).await).await
        }
        JobCommand::Stop { number, printing } => {
            let number = number.to_string();
            let path = ["jobs", number.as_str(), "stop"];
            let stopped = endpoint.call::<JobJson>(Method::POST, &path, &[], None).await;
            job::print(&stopped.map_err(|error| error.problem(doing))?, printing);
            Ok(Outcome::Success)
        }
    }
}
