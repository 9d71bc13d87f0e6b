//! Opening a volume: what the server must be, what it should keep, and the volume's own format.

use std::collections::HashMap;
use std::sync::Arc;

use store::{Durability, StoreError, StoreErrorKind};

use crate::connect::{Call, Links};
use crate::feed::ID_BYTES;
use crate::{error, reply};

/// The layout that `prelude.lua` describes.
const FORMAT: u32 = 4;

/// The first release of Redis that has what the scripts need. Valkey tells one that it stands for.
const OLDEST: u32 = 7;

const DOING: &str = "opening the metadata store";

/// What was found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) durability: Durability,
    pub(crate) id: [u8; ID_BYTES],
}

/// Looks at the server, then makes or recognises the volume.
pub(crate) async fn open(links: &Arc<Links>, relaxed: bool) -> Result<Opened, StoreError> {
    let server = about(links).await?;
    check_server(&server)?;
    let risks = risks(&server, settings(links).await?.as_ref());
    if !risks.is_empty() && !relaxed {
        return Err(unavailable(&format!(
            "{}; --metadata-durability=relaxed accepts that",
            risks.join("; ")
        )));
    }
    if !risks.is_empty() {
        tracing::warn!(
            risks = risks.join("; "),
            "the metadata store may lose what it acknowledged"
        );
    }
    let durability = if risks.is_empty() { Durability::Strict } else { Durability::Relaxed };
    Ok(Opened { durability, id: volume(links, server.get("run_id")).await? })
}

fn unavailable(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{DOING}: {why}"))
}

/// What the server says of itself.
async fn about(links: &Arc<Links>) -> Result<HashMap<String, String>, StoreError> {
    let answer = links.call(Call::command(redis::cmd("INFO"), DOING)).await?;
    let text: String = redis::from_redis_value(answer).map_err(|_| error::garbled(DOING))?;
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// What no option makes good.
fn check_server(server: &HashMap<String, String>) -> Result<(), StoreError> {
    let told = |name: &str| server.get(name).map_or("", String::as_str);
    let version = told("redis_version");
    let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major| major < OLDEST) {
        return Err(unavailable(&format!(
            "the server is Redis {version}; it must be 7.0 or later, or Valkey"
        )));
    }
    if told("role") != "master" {
        return Err(unavailable(
            "the server is a replica; the volume must be opened at the master, since a replica may \
             answer with what is no longer true",
        ));
    }
    if told("cluster_enabled") == "1" {
        return Err(unavailable(
            "the server is a node of a cluster; a volume lies in one slot and needs a server of \
             its own",
        ));
    }
    Ok(())
}

/// The settings that durability depends on; `None` if we may not ask for them.
async fn settings(links: &Arc<Links>) -> Result<Option<HashMap<String, String>>, StoreError> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("appendonly").arg("appendfsync");
    command.arg("no-appendfsync-on-rewrite").arg("maxmemory-policy");
    match links.ask(&command, DOING).await? {
        Ok(answer) => redis::from_redis_value(answer).map(Some).map_err(|_| error::garbled(DOING)),
        Err(refused) => {
            tracing::debug!(error = %refused, "the server does not tell its settings");
            Ok(None)
        }
    }
}

/// What may be lost, each a clause that names the setting.
fn risks(
    server: &HashMap<String, String>,
    settings: Option<&HashMap<String, String>>,
) -> Vec<String> {
    let Some(settings) = settings else {
        return vec![
            "the server does not let this user see its settings (CONFIG GET), so nobody knows \
             whether it keeps what it acknowledges"
                .to_owned(),
        ];
    };
    let set = |name: &str| settings.get(name).map_or("", String::as_str);
    let mut risks = Vec::new();
    if set("appendonly") != "yes" || server.get("aof_enabled").is_some_and(|on| on != "1") {
        risks.push(
            "appendonly is not yes, so that a restart of the server loses everything since its \
             last dump"
                .to_owned(),
        );
    } else if set("appendfsync") != "always" {
        let found = set("appendfsync");
        let loss =
            if found == "everysec" { "about the last second" } else { "the last half minute" };
        risks.push(format!(
            "appendfsync is {found} and not always, so that a crash loses {loss} of what was \
             acknowledged"
        ));
    }
    if set("appendonly") == "yes" && set("no-appendfsync-on-rewrite") == "yes" {
        risks.push(
            "no-appendfsync-on-rewrite is yes, so that a crash while the server rewrites its file \
             loses the last half minute of what was acknowledged"
                .to_owned(),
        );
    }
    if set("maxmemory-policy") != "noeviction" {
        let found = set("maxmemory-policy");
        risks.push(format!(
            "maxmemory-policy is {found} and not noeviction, so that the server throws records \
             away when memory runs short"
        ));
    }
    risks
}

/// Makes the volume if there is none, and says its id.
async fn volume(links: &Arc<Links>, run_id: Option<&String>) -> Result<[u8; ID_BYTES], StoreError> {
    let format = FORMAT.to_string();
    let run_id = run_id.map_or("", String::as_str);
    let arguments = [format.as_bytes(), run_id.as_bytes()];
    let call = Call::script(links, &links.scripts.open, arguments, DOING);
    let answer = links.call(call).await?;
    let foreign = |why: &str| StoreError::new(StoreErrorKind::Corrupt, format!("{DOING}: {why}"));
    let mut told = reply::list(answer).unwrap_or_default().into_iter().map(reply::text);
    let (Some(Some(found)), Some(Some(id))) = (told.next(), told.next()) else {
        return Err(foreign("there is something under its name that is no volume"));
    };
    match found.parse::<u32>() {
        Ok(FORMAT) => {}
        Ok(newer) if newer > FORMAT => {
            return Err(foreign(&format!(
                "the volume has format {newer}, and this release knows no format after {FORMAT}"
            )));
        }
        Ok(older) if older > 0 => {
            return Err(foreign(&format!(
                "the volume has format {older}, which this release no longer reads, only {FORMAT}: \
                 dump it with the release that wrote it, and load the dump into a new one"
            )));
        }
        _ => return Err(foreign(&format!("the volume has the unknown format {found:?}"))),
    }
    id.as_bytes()
        .first_chunk()
        .copied()
        .ok_or_else(|| foreign("there is something under its name that is no volume"))
}
