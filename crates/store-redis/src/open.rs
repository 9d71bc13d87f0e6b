//! Opening a volume: checks its format. Every connection checks the server itself.

use std::sync::Arc;

use store::{StoreError, StoreErrorKind};

use crate::connect::{Call, Links};
use crate::feed::ID_BYTES;
use crate::reply;

/// The layout that `prelude.lua` describes.
const FORMAT: u32 = 1;

const DOING: &str = "opening the metadata store";

/// Makes the volume or recognises it, over a connection that has passed the checks.
pub(crate) async fn open(links: &Arc<Links>) -> Result<[u8; ID_BYTES], StoreError> {
    let run = links.run(DOING).await?;
    volume(links, &run).await
}

/// Returns true if there is a volume. Makes nothing.
pub(crate) async fn is_made(links: &Arc<Links>) -> Result<bool, StoreError> {
    let call = Call::script(links, &links.scripts.is_made, [], DOING);
    Ok(matches!(links.call(call).await?, redis::Value::Int(found) if found > 0))
}

/// Makes the volume if there is none, and returns its id.
async fn volume(links: &Arc<Links>, run: &str) -> Result<[u8; ID_BYTES], StoreError> {
    let format = FORMAT.to_string();
    let arguments = [format.as_bytes(), run.as_bytes()];
    let call = Call::script(links, &links.scripts.open, arguments, DOING);
    let answer = links.call(call).await?;
    let foreign = |why: &str| StoreError::new(StoreErrorKind::Corrupt, format!("{DOING}: {why}"));
    let mut told = reply::list(answer).unwrap_or_default().into_iter().map(reply::text);
    let (Some(Some(found)), Some(Some(id))) = (told.next(), told.next()) else {
        return Err(foreign("there is something under its name that is no volume"));
    };
    match found.parse::<u32>() {
        Ok(FORMAT) => {}
        Ok(other) if other > 0 => {
            return Err(foreign(&format!(
                "the volume has format {other}, and this release reads {FORMAT} only"
            )));
        }
        _ => return Err(foreign(&format!("the volume has the unknown format {found:?}"))),
    }
    id.as_bytes()
        .first_chunk()
        .copied()
        .ok_or_else(|| foreign("there is something under its name that is no volume"))
}
