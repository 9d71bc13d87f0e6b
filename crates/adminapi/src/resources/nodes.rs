//! A file or object with its file side: the inode, the places of its content, and its holders.
//!
//! For example, a file of 1 MiB after many overwrites has 40 slices in 7 blocks.

use admin::{BlockUse, ContentPlace, NodeReport};
use policy::AdminAction;
use record::{Ino, InodeBody};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::times;
use crate::{Actor, AdminApi, ApiError};

/// The name of a file or object: one of the two parameters.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeQuery {
    /// `BUCKET/KEY`, or the path below a mount of the whole volume.
    pub path: Option<String>,
    /// The inode number.
    pub inode: Option<u64>,
}

/// A file, directory, link or special file.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct Node {
    /// The inode number.
    pub inode: u64,
    /// `file`, `directory`, `link` or `special`.
    pub kind: String,
    /// The permission bits in octal, for example `0644`.
    pub mode: String,
    /// The user that owns the node.
    pub uid: u32,
    /// The group that owns the node.
    pub gid: u32,
    /// The number of names.
    pub links: u64,
    /// The time of the last change of the content.
    pub modified: String,
    /// The time of the last change of the inode, which S3 shows as `Last-Modified`.
    pub changed: String,
    /// The size in bytes. `null` if the node is not a file.
    pub size: Option<u64>,
    /// The entity tag. `null` if the node is not a file.
    pub etag: Option<String>,
    /// The number of the content's version, which grows with each change.
    pub data_version: Option<u64>,
    /// The place of the content: `record`, `staged`, `blocks` or `pages`.
    pub content: Option<String>,
    /// The bytes of the file that are in blocks.
    pub stored_bytes: u64,
    /// The number of slices of the content.
    pub slices: u64,
    /// The number of blocks.
    pub blocks_count: u64,
    /// The first blocks, at most 256.
    pub blocks: Vec<BlockPlace>,
    /// True if the figures leave out a part of the file, because it has very many slices.
    pub partial: bool,
    /// The gateways and mounts that have the node open.
    pub holders: Vec<NodeHolder>,
}

/// A block with content of a file.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct BlockPlace {
    /// The id of the block.
    pub block: String,
    /// The size of the block's content in bytes, of all files together.
    pub block_bytes: u64,
    /// The bytes of this file in the block.
    pub bytes: u64,
    /// The bytes of the block that files refer to. `null` if the block has content of one file.
    pub live_bytes: Option<u64>,
}

/// A process that has a node open.
#[derive(Clone, Debug, Serialize, ToSchema, PartialEq, Eq)]
pub struct NodeHolder {
    /// The unique name of the session.
    pub session: String,
    /// The host and the process id. `null` if the session has ended.
    pub place: Option<String>,
}

impl AdminApi {
    /// Returns the report about a file or object.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:InspectData`, `BadRequest` without a name, `NoSuchNode`.
    pub async fn node(&self, actor: &Actor<'_>, query: &NodeQuery) -> Result<Node, ApiError> {
        actor.require(AdminAction::InspectData)?;
        let ino = match (query.inode, &query.path) {
            (Some(ino), None) => Ino(ino),
            (None, Some(path)) => self.admin.find_node(path).await?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(ApiError::bad_request("Give either path or inode."));
            }
        };
        Ok(shown(&self.admin.node(ino).await?))
    }
}

fn shown(report: &NodeReport) -> Node {
    let (node, inode) = (&report.node, &report.node.inode);
    let at = &inode.attributes;
    let (kind, file) = match &inode.body {
        InodeBody::File(file) => ("file", Some(file)),
        InodeBody::Directory(_) => ("directory", None),
        InodeBody::Symlink(_) => ("link", None),
        InodeBody::Special(_) => ("special", None),
    };
    let content = report.place.map(|place| match place {
        ContentPlace::Record => "record",
        ContentPlace::Staged => "staged",
        ContentPlace::Blocks => "blocks",
        ContentPlace::Pages(_) => "pages",
    });
    let block = |used: &BlockUse| BlockPlace {
        block: used.block.to_string(),
        block_bytes: used.block_bytes,
        bytes: used.bytes,
        live_bytes: used.live_bytes,
    };
    let holder = |holder: &admin::Holder| NodeHolder {
        session: holder.session.to_string(),
        place: holder.place.clone(),
    };
    Node {
        inode: node.ino.0,
        kind: kind.to_owned(),
        mode: format!("{:04o}", at.mode),
        uid: at.uid,
        gid: at.gid,
        links: node.links(),
        modified: times::text(at.modified),
        changed: times::text(at.changed),
        size: file.map(|file| file.size),
        etag: file.map(|file| file.tag.to_string()),
        data_version: file.map(|file| file.data_version),
        content: content.map(str::to_owned),
        stored_bytes: report.stored_bytes,
        slices: report.slices,
        blocks_count: report.blocks_count,
        blocks: report.blocks.iter().map(block).collect(),
        partial: report.partial,
        holders: report.holders.iter().map(holder).collect(),
    }
}
