//! One user: its state, policies and keys. The page `My access` has the same keys.

use adminapi::resources::keys::{KeyJson, KeyPatch, NewKeyJson, Rotation};
use adminapi::resources::users::{UserDetails, UserPatch};
use adminapi::{ApiError, IfMatch};
use maud::{Markup, html};
use policy::AdminAction;

use super::issued;
use super::users::names;
use crate::forms::Form;
use crate::layout::{self, Section};
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The times for which an old key is accepted after a rotation, in seconds.
const OVERLAPS: [(u64, &str); 4] =
    [(3_600, "1 hour"), (86_400, "1 day"), (604_800, "7 days"), (0, "not at all")];

/// Shows a user.
pub(crate) async fn show(visit: &Visit<'_>, name: &str) -> Result<Reply, ApiError> {
    let details = visit.api().user(&visit.actor, name).await?;
    let user = &details.user;
    let path = format!("/users/{}", escape(name));
    let content = html! {
        section.card {
            h2 { "User" }
            dl {
                dt { "State" }
                dd {
                    @if user.enabled { span.badge.good { "enabled" } }
                    @else { span.badge.bad { "disabled" } }
                }
                dt { "Account" } dd { code { (user.account) } }
                dt { "Created" } dd { (layout::time(&user.created)) }
                dt { "Files belong to" } dd { (user.uid) ":" (user.gid) " with umask " code { (user.umask) } }
                dt { "Groups" } dd { (list_or_none(&user.groups)) }
                dt { "Policies in force" } dd { (list_or_none(&details.effective_policies)) }
            }
            @if visit.may(AdminAction::EnableUser) || visit.may(AdminAction::DisableUser) {
                form.inline.actions method="post" action=(path) {
                    (layout::token(visit))
                    @if user.enabled {
                        button.quiet type="submit" name="action" value="disable" { "Disable the user" }
                    } @else {
                        button type="submit" name="action" value="enable" { "Enable the user" }
                    }
                    @if visit.may(AdminAction::DeleteUser) {
                        button.danger type="submit" name="action" value="remove" data-confirm="Remove this user with all its keys?" { "Remove the user" }
                    }
                }
            }
        }
        @if visit.may(AdminAction::AttachUserOrGroupPolicy) {
            section.card {
                h2 { "Policies" }
                form.stack method="post" action=(path) {
                    (layout::token(visit))
                    (layout::seen(&adminapi::etag::of_version(user.version)))
                    label for="policies" { "Policies of the user itself, separated by commas" }
                    input #policies name="policies" value=(user.policies.join(", "));
                    button type="submit" name="action" value="policies" { "Save" }
                }
            }
        }
        (keys(visit, &path, &details))
    };
    Ok(layout::show(visit, name, Section::Users, &content))
}

fn list_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the keys of a user, with their controls. `path` is the path that the forms post to.
pub(crate) fn keys(visit: &Visit<'_>, path: &str, details: &UserDetails) -> Markup {
    let user = &details.user;
    html! {
        section.card {
            h2 { "Access keys" }
            div.scroll tabindex="0" role="region" aria-label="Access keys" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Key" }
                            th scope="col" { "Description" }
                            th scope="col" { "State" }
                            th scope="col" { "Expires" }
                            th scope="col" { "Last used" }
                            th scope="col" { span.hidden { "Actions" } }
                        }
                    }
                    tbody {
                        tr {
                            th scope="row" { code { (user.name) } }
                            td { "own key" }
                            td { @if user.enabled { "enabled" } @else { "disabled" } }
                            td { (expiry(user.expires.as_deref())) }
                            td { (expiry(user.last_used.as_deref())) }
                            td { (controls(visit, path, &user.name, None)) }
                        }
                        @for key in &details.access_keys {
                            tr {
                                th scope="row" { code { (key.access_key) } }
                                td { (key.description) }
                                td { @if key.enabled { "enabled" } @else { "disabled" } }
                                td { (expiry(key.expires.as_deref())) }
                                td { (expiry(key.last_used.as_deref())) }
                                td { (controls(visit, path, &key.access_key, Some(key))) }
                            }
                        }
                    }
                }
            }
            form.stack.actions method="post" action=(path) {
                (layout::token(visit))
                label for="description" { "Description of a new key" }
                input #description name="description" maxlength="256";
                button type="submit" name="action" value="add-key" { "Make a key" }
            }
        }
    }
}

fn expiry(at: Option<&str>) -> Markup {
    html! { @match at { Some(at) => (layout::time(at)), None => "never" } }
}

/// Returns the controls of a key; `further` is `None` for the user's own key.
fn controls(visit: &Visit<'_>, path: &str, key: &str, further: Option<&KeyJson>) -> Markup {
    html! {
        form.inline method="post" action=(path) {
            (layout::token(visit))
            input type="hidden" name="key" value=(key);
            label.hidden for={ "old-" (key) } { "Time for which the old key is accepted" }
            select.short id={ "old-" (key) } name="old" {
                @for (seconds, name) in OVERLAPS { option value=(seconds) { (name) } }
            }
            button.quiet type="submit" name="action" value="rotate" { "Rotate" }
            @if let Some(further) = further {
                @if further.enabled {
                    button.quiet type="submit" name="action" value="disable-key" { "Disable" }
                } @else {
                    button.quiet type="submit" name="action" value="enable-key" { "Enable" }
                }
                button.danger type="submit" name="action" value="remove-key" data-confirm="Remove this key?" { "Remove" }
            }
        }
    }
}

/// Carries out a form of the page of a user.
pub(crate) async fn change(visit: &Visit<'_>, name: &str, form: &Form) -> Result<Reply, ApiError> {
    let (api, actor, seen) = (visit.api(), &visit.actor, form.seen());
    let path = format!("/users/{}", escape(name));
    let save = |changed: UserPatch| {
        let seen = seen.clone();
        async move { api.patch_user(actor, name, &changed, &seen).await }
    };
    let done = match form.text("action") {
        "enable" => {
            save(UserPatch { enabled: Some(true), ..UserPatch::default() }).await?;
            "user-enabled"
        }
        "disable" => {
            save(UserPatch { enabled: Some(false), ..UserPatch::default() }).await?;
            "user-disabled"
        }
        "policies" => {
            let policies = Some(names(form.text("policies")));
            save(UserPatch { policies, ..UserPatch::default() }).await?;
            "saved"
        }
        "remove" => {
            api.delete_user(actor, name, &seen).await?;
            return Ok(Reply::redirect("/users?done=user-removed"));
        }
        _ => return change_key(visit, (name, &path), form).await,
    };
    Ok(Reply::redirect(&format!("{path}?done={done}")))
}

/// Carries out a form about a key of a user. `path` is the path of the page.
pub(crate) async fn change_key(
    visit: &Visit<'_>,
    (name, path): (&str, &str),
    form: &Form,
) -> Result<Reply, ApiError> {
    let (api, actor, any) = (visit.api(), &visit.actor, IfMatch::default());
    let of = (name, form.text("key"));
    let enable = |enabled| KeyPatch { enabled: Some(enabled), ..KeyPatch::default() };
    let done = match form.text("action") {
        "add-key" => {
            let description = form.text("description").to_owned();
            let new = NewKeyJson { description, ..NewKeyJson::default() };
            let made = api.post_key(actor, name, &new).await?;
            return Ok(issued::show(visit, "The access key was created", &made, path));
        }
        "rotate" => {
            let rotation = Rotation { old_expires_seconds: form.number("old")? };
            let made = api.rotate_key(actor, of, rotation).await?;
            return Ok(issued::show(visit, "The access key was rotated", &made, path));
        }
        "enable-key" => {
            api.patch_key(actor, of, &enable(true), &any).await?;
            "key-enabled"
        }
        "disable-key" => {
            api.patch_key(actor, of, &enable(false), &any).await?;
            "key-disabled"
        }
        "remove-key" => {
            api.delete_key(actor, of, &any).await?;
            "key-removed"
        }
        _ => return Err(ApiError::bad_request("The form has no such action.")),
    };
    Ok(Reply::redirect(&format!("{path}?done={done}")))
}
