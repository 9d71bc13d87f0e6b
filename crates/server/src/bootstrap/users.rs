//! Policies, users and groups. Each is read, compared with its declaration, and written if it
//! differs.
//!
//! For example, the user `anna` with `policies = ["readonly"]` keeps its umask, and gets the
//! declared secret only if its own one is another.

use std::collections::BTreeSet;

use adminapi::ApiError;
use adminapi::resources::groups::{GroupPatch, MEMBERS_AT_ONCE_MAX, NewGroup};
use adminapi::resources::policies::NewPolicy;
use adminapi::resources::users::{NewUserJson, UserJson, UserPatch};
use serde_json::Value;
use serde_json::value::RawValue;

use super::document::{Group, NamedPolicy, User};
use super::operator::{Operator, Refusal, Write};

/// Returns the object, or `None` if the error says that there is none.
fn found<T>(result: Result<T, ApiError>, absent: &str) -> Result<Option<T>, ApiError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == absent => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates or replaces a policy, unless its document is the declared one.
pub(super) async fn put_policy(
    operator: &Operator<'_>,
    declared: &NamedPolicy,
) -> Result<(), Refusal> {
    let Operator { api, actor, .. } = operator;
    let name = &declared.name.value;
    let refused = |error| {
        let place = Some(declared.document.place.clone());
        Refusal { part: "the document", place, error }
    };
    let known = found(api.policy(actor, name).await, "NoSuchPolicy").map_err(refused)?;
    let write = if known.is_some() { Write::Overwrite } else { Write::Creation };
    let known = known.and_then(|known| serde_json::from_str::<Value>(known.document.get()).ok());
    if known.as_ref() == Some(&declared.document.value) {
        return Ok(());
    }
    let document = RawValue::from_string(declared.document.value.to_string())
        .map_err(|error| refused(ApiError::bad_request(error.to_string())))?;
    let new = NewPolicy { document };
    let put = api.put_policy(actor, name, &new, &operator.any);
    put.await.map_err(refused)?;
    operator.wrote(write, "policy", name, "document");
    Ok(())
}

/// Creates a user, or changes the declared fields that differ.
pub(super) async fn put_user(operator: &Operator<'_>, declared: &User) -> Result<(), Refusal> {
    let Operator { api, actor, .. } = operator;
    let (name, fields) = (&declared.name.value, &declared.fields);
    let refused = |part| Refusal::of(part);
    let known = found(api.user(actor, name).await, "NoSuchUser").map_err(refused("the fields"))?;
    let Some(known) = known else {
        let new = NewUserJson {
            account: fields.account.clone(),
            secret: Some(declared.secret.expose().to_owned()),
            uid: fields.uid,
            gid: fields.gid,
            umask: fields.umask.clone(),
            policies: fields.policies.clone().unwrap_or_default(),
        };
        api.put_user(actor, name, &new).await.map_err(refused("the fields"))?;
        operator.wrote(Write::Creation, "user", name, "all fields");
        if fields.enabled == Some(false) {
            let patch = UserPatch { enabled: Some(false), ..UserPatch::default() };
            let put = api.patch_user(actor, name, &patch, &operator.any);
            put.await.map_err(refused("the field enabled"))?;
        }
        return Ok(());
    };
    // Before the user is enabled, so that an old secret is never accepted again.
    let put = api.put_user_secret(actor, name, declared.secret.expose());
    if put.await.map_err(refused("the secret"))? {
        operator.wrote(Write::Overwrite, "user", name, "secret");
    }
    let patch = differences(declared, &known.user);
    let changed = named_fields(&patch);
    if !changed.is_empty() {
        let put = api.patch_user(actor, name, &patch, &operator.any);
        put.await.map_err(refused("the fields"))?;
        operator.wrote(Write::Overwrite, "user", name, changed.join(", "));
    }
    Ok(())
}

/// Returns the declared fields of a user that differ from the known ones.
fn differences(declared: &User, known: &UserJson) -> UserPatch {
    let fields = &declared.fields;
    let octal = |text: &str| u32::from_str_radix(text, 8).ok();
    UserPatch {
        enabled: fields.enabled.filter(|enabled| *enabled != known.enabled),
        uid: fields.uid.filter(|uid| *uid != known.uid),
        gid: fields.gid.filter(|gid| *gid != known.gid),
        umask: fields.umask.clone().filter(|umask| octal(umask) != octal(&known.umask)),
        policies: fields.policies.clone().filter(|policies| !is_same(policies, &known.policies)),
    }
}

/// Returns the names of the fields of a change.
fn named_fields(patch: &UserPatch) -> Vec<&'static str> {
    let UserPatch { enabled, uid, gid, umask, policies } = patch;
    let fields = [
        ("enabled", enabled.is_some()),
        ("uid", uid.is_some()),
        ("gid", gid.is_some()),
        ("umask", umask.is_some()),
        ("policies", policies.is_some()),
    ];
    fields.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}

/// Returns true if two lists have the same names, in any order.
fn is_same(one: &[String], other: &[String]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
}

/// Creates a group, or changes the declared fields that differ, and adds missing members.
pub(super) async fn put_group(operator: &Operator<'_>, declared: &Group) -> Result<(), Refusal> {
    let Operator { api, actor, .. } = operator;
    let name = &declared.name.value;
    let fields = || Refusal::of("the fields");
    let known = found(api.group(actor, name).await, "NoSuchGroup").map_err(fields())?;
    let write = if known.is_some() { Write::Overwrite } else { Write::Creation };
    let differs = match &known {
        None => true,
        Some(known) => {
            declared.enabled.is_some_and(|enabled| enabled != known.enabled)
                || declared.policies.as_ref().is_some_and(|it| !is_same(it, &known.policies))
        }
    };
    if differs {
        let (enabled, policies) = (declared.enabled, declared.policies.clone());
        let new = NewGroup { enabled, policies };
        let put = api.put_group(actor, name, &new, &operator.any);
        put.await.map_err(fields())?;
        operator.wrote(write, "group", name, "fields");
    }
    let members = known.map(|known| known.members).unwrap_or_default();
    let missing: Vec<String> =
        declared.members.iter().filter(|member| !members.contains(member)).cloned().collect();
    for add in missing.chunks(MEMBERS_AT_ONCE_MAX) {
        let patch = GroupPatch { add: add.to_vec(), remove: Vec::new() };
        let put = api.patch_group(actor, name, &patch, &operator.any);
        put.await.map_err(Refusal::of("the members"))?;
        operator.wrote(write, "group", name, "members");
    }
    Ok(())
}
