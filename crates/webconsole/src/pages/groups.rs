//! Groups of users. For example, "Remove the group" appears only on the page of a group without
//! members.

use adminapi::page::PageQuery;
use adminapi::resources::groups::{GroupPatch, NewGroup};
use adminapi::{ApiError, IfMatch};
use maud::html;
use policy::AdminAction;
use serde::Deserialize;

use super::users::names;
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

/// Shows a page of groups.
pub(crate) async fn list(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let Query { page } = visit.query()?;
    let query = PageQuery { page, ..PageQuery::default() };
    let groups = visit.api().groups(&visit.actor, &query).await?;
    let content = html! {
        @if groups.items.is_empty() {
            p.empty { "There are no groups." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Groups" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th scope="col" { "State" }
                            th scope="col" { "Policies" }
                            th.number scope="col" { "Members" }
                        }
                    }
                    tbody {
                        @for group in &groups.items {
                            tr {
                                th scope="row" { a href={ "/groups/" (escape(&group.name)) } { (group.name) } }
                                td { @if group.enabled { "enabled" } @else { "disabled" } }
                                td { (group.policies.join(", ")) }
                                td.number { (group.members.len()) }
                            }
                        }
                    }
                }
            }
        }
        (layout::pager("/groups", query.page.as_deref(), groups.next.as_deref()))
        @if visit.may(AdminAction::AddUserToGroup) {
            details.make {
                summary { "Make a group" }
                form.stack method="post" action="/groups" {
                    (layout::token(visit))
                    label for="name" { "Name" }
                    input #name name="name" required maxlength="64";
                    label for="policies" { "Policies, separated by commas" }
                    input #policies name="policies";
                    button type="submit" { "Make the group" }
                }
            }
        }
    };
    Ok(layout::show(visit, "Groups", Section::Groups, &content))
}

/// Makes a group.
pub(crate) async fn make(visit: &Visit<'_>, form: &Form) -> Result<Reply, ApiError> {
    let (name, policies) = (form.text("name"), names(form.text("policies")));
    // A group without policies needs no permission to attach one.
    let policies = Some(policies).filter(|policies| !policies.is_empty());
    let new = NewGroup { enabled: None, policies };
    visit.api().put_group(&visit.actor, name, &new, &IfMatch::default()).await?;
    Ok(Reply::redirect(&format!("/groups/{}?done=group-made", escape(name))))
}

/// Shows a group.
pub(crate) async fn show(visit: &Visit<'_>, name: &str) -> Result<Reply, ApiError> {
    let group = visit.api().group(&visit.actor, name).await?;
    let path = format!("/groups/{}", escape(name));
    let content = html! {
        section.card {
            h2 { "Members" }
            @if group.members.is_empty() { p.hint { "The group has no members." } }
            form method="post" action=(path) {
                (layout::token(visit))
                @for member in &group.members {
                    label.check { input type="checkbox" name="member" value=(member); (member) }
                }
                @if !group.members.is_empty() && visit.may(AdminAction::RemoveUserFromGroup) {
                    div.actions { button.quiet type="submit" name="action" value="leave" { "Remove the selected members" } }
                }
            }
            @if visit.may(AdminAction::AddUserToGroup) {
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    label for="members" { "Users to add, separated by commas" }
                    input #members name="members" required;
                    button type="submit" name="action" value="join" { "Add" }
                }
            }
        }
        @if visit.may(AdminAction::AttachUserOrGroupPolicy) {
            section.card {
                h2 { "Policies" }
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    (layout::seen(&adminapi::etag::of_version(group.version)))
                    label for="policies" { "Policies, separated by commas" }
                    input #policies name="policies" value=(group.policies.join(", "));
                    label.check { input type="checkbox" name="enabled" value="1" checked[group.enabled]; "The policies of the group have effect" }
                    button type="submit" name="action" value="save" { "Save" }
                }
            }
        }
        @if visit.may(AdminAction::RemoveUserFromGroup) && group.members.is_empty() {
            form.inline method="post" action=(path) {
                (layout::token(visit))
                button.danger type="submit" name="action" value="remove" data-confirm="Remove this group?" { "Remove the group" }
            }
        }
    };
    Ok(layout::show(visit, name, Section::Groups, &content))
}

/// Carries out a form of the page of a group.
pub(crate) async fn change(visit: &Visit<'_>, name: &str, form: &Form) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    let path = format!("/groups/{}", escape(name));
    match form.text("action") {
        "join" => {
            let members = GroupPatch { add: names(form.text("members")), remove: Vec::new() };
            api.patch_group(actor, name, &members, &seen).await?;
        }
        "leave" => {
            let members = GroupPatch { add: Vec::new(), remove: form.all("member") };
            api.patch_group(actor, name, &members, &seen).await?;
        }
        "save" => {
            let enabled = Some(form.is_checked("enabled"));
            let new = NewGroup { enabled, policies: Some(names(form.text("policies"))) };
            api.put_group(actor, name, &new, &seen).await?;
        }
        "remove" => {
            api.delete_group(actor, name, &seen).await?;
            return Ok(Reply::redirect("/groups?done=group-removed"));
        }
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    }
    Ok(Reply::redirect(&format!("{path}?done=saved")))
}
