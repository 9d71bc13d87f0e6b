//! The simulator: it explains if a user may do an action.

use adminapi::ApiError;
use adminapi::resources::simulation::{Simulation, SimulationResult};
use maud::{Markup, html};

use crate::forms::Form;
use crate::layout::{self, Section};
use crate::reply::Reply;
use crate::visit::Visit;

/// Shows the form.
#[expect(clippy::unnecessary_wraps, reason = "the form of all pages")]
pub(crate) fn show(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let asked = Simulation {
        user: visit.actor.user().to_owned(),
        action: "s3:GetObject".to_owned(),
        resource: None,
    };
    Ok(layout::show(visit, "Simulator", Section::Policies, &form(visit, &asked, None)))
}

/// Answers the question of the form.
pub(crate) async fn answer(visit: &Visit<'_>, sent: &Form) -> Result<Reply, ApiError> {
    let asked = Simulation {
        user: sent.text("user").to_owned(),
        action: sent.text("action").to_owned(),
        resource: Some(sent.exact("resource").to_owned()),
    };
    let result = visit.api().simulate(&visit.actor, &asked).await?;
    let content = form(visit, &asked, Some(&result));
    Ok(layout::show(visit, "Simulator", Section::Policies, &content))
}

fn form(visit: &Visit<'_>, asked: &Simulation, result: Option<&SimulationResult>) -> Markup {
    html! {
        @if let Some(result) = result {
            div class=(if result.allowed { "done" } else { "problem" }) role="status" {
                p { strong { @if result.allowed { "Allowed. " } @else { "Refused. " } } (result.reason) }
                @for decision in &result.policies {
                    p { "Policy " code { (decision.policy) } ": " (decision.decision) }
                }
            }
        }
        form.stack method="post" action="/simulator" {
            (layout::token(visit))
            label for="user" { "User" }
            input #user name="user" required value=(asked.user);
            label for="action" { "Action" }
            input #action name="action" required value=(asked.action);
            label for="resource" { "Bucket, or bucket and key" }
            input #resource name="resource" value=(asked.resource.as_deref().unwrap_or_default());
            button type="submit" { "Ask" }
        }
        p.hint { "Conditions see a request without headers, from no address." }
    }
}
