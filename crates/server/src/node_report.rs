//! The report on a node of `ashlar info`: JSON for programs, and text for people.
//!
//! A mount sends the JSON as an extended attribute of the file, and `ashlar info` makes the text
//! from it. For example, a file of 5 MiB in one block has the line `content  1 blocks, 1 slices`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use admin::{BlockUse, ContentPlace, Holder, NodeReport};
use mountd::MountState;
use record::{Content, InodeBody, SpecialKind, Timestamp};
use serde_json::{Map, Value, json};

/// Returns the report as JSON. `here` is the state of the file on the mount that makes the report;
/// `None` if a command makes the report from the metadata store.
pub(crate) fn json(report: &NodeReport, here: Option<MountState>) -> Value {
    let (inode, mut all) = (&report.node.inode, Map::new());
    let at = &inode.attributes;
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("inode", json!(report.node.ino.0));
    put("kind", json!(kind(&inode.body)));
    put("mode", json!(format!("{:04o}", at.mode)));
    put("uid", json!(at.uid));
    put("gid", json!(at.gid));
    put("links", json!(report.node.links()));
    put("modified", json!(time(at.modified)));
    put("last_modified", json!(time(at.changed)));
    if let InodeBody::File(file) = &inode.body {
        put("size_bytes", json!(file.size));
        put("etag", json!(file.tag.to_string()));
        put("data_version", json!(file.data_version));
        put("sparse", json!(file.sparse));
        // Inline content is in the record and has no blocks.
        let stored = match &file.content {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Slices(_) | Content::Pages(_) => report.stored_bytes,
        };
        put("stored_bytes", json!(stored));
    }
    let place = report.place.map(|place| match place {
        ContentPlace::Record => "record",
        ContentPlace::Staged => "staged",
        ContentPlace::Blocks => "blocks",
        ContentPlace::Pages(_) => "pages",
    });
    put("content", json!(place));
    if let Some(ContentPlace::Pages(pages)) = report.place {
        put("pages", json!(pages));
    }
    put("slices", json!(report.slices));
    put("blocks", json!(report.blocks_count));
    put("in_blocks", report.blocks.iter().map(block).collect());
    put("partial", json!(report.partial));
    put("holders", report.holders.iter().map(holder).collect());
    if let Some(here) = here {
        put("open_here", json!(here.open));
        put("unwritten_here", json!(here.unwritten));
        put("size_here", json!(here.size));
    }
    Value::Object(all)
}

/// Returns the JSON of a block with content of the file.
fn block(used: &BlockUse) -> Value {
    json!({
        "block": used.block.to_string(),
        "pack": used.block.is_pack(),
        "block_bytes": used.block_bytes,
        "bytes": used.bytes,
        "live_bytes": used.live_bytes,
    })
}

/// Returns the JSON of a session that delays the deletion of the node.
fn holder(holder: &Holder) -> Value {
    json!({ "session": holder.session.to_string(), "place": holder.place })
}

/// Returns the kind of a node as text.
fn kind(body: &InodeBody) -> &'static str {
    match body {
        InodeBody::Special(special) => match special.kind {
            SpecialKind::Fifo => "fifo",
            SpecialKind::Socket => "socket",
            SpecialKind::Character => "character device",
            SpecialKind::Block => "block device",
        },
        InodeBody::Directory(_) => "directory",
        InodeBody::Symlink(_) => "symbolic link",
        InodeBody::File(_) => "file",
    }
}

/// Returns a time in RFC 3339 with milliseconds. Times before 1970 are shown in nanoseconds,
/// because the formatter does not accept them.
pub(crate) fn time(at: Timestamp) -> String {
    let distance = Duration::from_nanos(at.0.unsigned_abs());
    let time =
        if at.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    let time: SystemTime = time.unwrap_or(UNIX_EPOCH);
    if time < UNIX_EPOCH {
        format!("{} ns", at.0)
    } else {
        humantime::format_rfc3339_millis(time).to_string()
    }
}

/// Returns the report as text, from the JSON of [`json()`].
pub(crate) fn text(report: &Value) -> String {
    let mut lines = Vec::new();
    let field = |name: &str| match &report[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    let mut line = |name: &str, value: String| lines.push(format!("{name:<14} {value}\n"));
    line("inode", field("inode"));
    line("kind", field("kind"));
    line("owner", format!("uid {} gid {} mode {}", field("uid"), field("gid"), field("mode")));
    line("links", field("links"));
    line("modified", field("modified"));
    line("last modified", field("last_modified"));
    if report["content"].is_null() {
        return lines.concat();
    }
    line("size", format!("{} bytes", number("size_bytes")));
    line("stored", format!("{} bytes", number("stored_bytes")));
    line("etag", field("etag"));
    let (blocks, slices) = (number("blocks"), number("slices"));
    let more = if report["partial"] == true { " at least" } else { "" };
    let place = match report["content"].as_str() {
        Some("record") => "in its record".to_owned(),
        Some("staged") => "in its record, until it is moved into a block".to_owned(),
        Some("pages") => {
            let pages = number("pages");
            format!("{blocks} blocks, {slices} slices{more}, in {pages} pages of a map")
        }
        _ => format!("{blocks} blocks, {slices} slices"),
    };
    line("content", place);
    let listed = report["in_blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for used in listed {
        let living = used["live_bytes"].as_u64().map(|count| format!(", {count} of them live"));
        let name = if used["pack"] == true { "pack" } else { "block" };
        let (id, bytes, all) = (used["block"].as_str(), &used["bytes"], &used["block_bytes"]);
        let living = living.unwrap_or_default();
        line("", format!("{name} {}  {bytes} of {all} bytes{living}", id.unwrap_or_default()));
    }
    if blocks > listed.len() as u64 {
        line("", format!("and {} more", blocks - listed.len() as u64));
    }
    for holder in report["holders"].as_array().into_iter().flatten() {
        let place = holder["place"].as_str().unwrap_or("a session that has ended");
        line("held by", format!("{place}  {}", holder["session"].as_str().unwrap_or_default()));
    }
    if !report["open_here"].is_null() {
        line("open here", format!("{} times", number("open_here")));
    }
    if report["unwritten_here"] == true {
        line("unwritten", format!("it will have {} bytes", number("size_here")));
    }
    lines.concat()
}
