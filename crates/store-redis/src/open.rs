//! Opens a volume and checks its format.
//!
//! Each connection checks the server itself. For example, a volume of a newer format is refused
//! here, and a replica in `connect`.

use std::sync::Arc;

use store::{StoreError, StoreErrorKind};

use crate::connect::{Call, Links};
use crate::feed::ID_BYTES;
use crate::reply;

/// The format of a volume's keys at the server, which `prelude.lua` describes.
const FORMAT: u32 = 1;

const DOING: &str = "opening the metadata store";

/// Opens the volume, or creates it, over a connection that has passed the checks. Returns the
/// volume's id, with which positions in its change feed begin.
pub(crate) async fn open(links: &Arc<Links>) -> Result<[u8; ID_BYTES], StoreError> {
    // The server's run is a part of the new volume's id.
    let run = links.run(DOING).await?;
    volume(links, &run).await
}

/// Returns true if the volume exists. Creates nothing.
pub(crate) async fn is_made(links: &Arc<Links>) -> Result<bool, StoreError> {
    let call = Call::script(links, &links.scripts.is_made, [], DOING);
    Ok(matches!(links.call(call).await?, redis::Value::Int(found) if found > 0))
}

/// Creates the volume if it does not exist, and returns its id.
async fn volume(links: &Arc<Links>, run: &str) -> Result<[u8; ID_BYTES], StoreError> {
    let format = FORMAT.to_string();
    let arguments = [format.as_bytes(), run.as_bytes()];
    let call = Call::script(links, &links.scripts.open, arguments, DOING);
    let answer = links.call(call).await?;
    let foreign = |why: &str| StoreError::new(StoreErrorKind::Corrupt, format!("{DOING}: {why}"));
    let mut answers = reply::list(answer).unwrap_or_default().into_iter().map(reply::text);
    let (Some(Some(found)), Some(Some(id))) = (answers.next(), answers.next()) else {
        return Err(foreign("its name is used by keys that are not a volume"));
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
        .ok_or_else(|| foreign("its name is used by keys that are not a volume"))
}
