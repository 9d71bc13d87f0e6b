//! Items of S3 metadata of a file: content headers, user metadata and tags, one by one.
//!
//! S3 sets all items of an object at once. Programs see each item as an extended attribute, for
//! example `user.ashlar.tag.colour`, and change it alone. A change of an item does not change the
//! content, so the entity tag and Last-Modified stay.

use record::{Header, Ino, InodeBody, ObjectHeaders};
use store::{Plan, Write};

use super::KnownInode;
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// The most tags of an object.
pub const OBJECT_TAGS_MAX: usize = 10;

/// The most bytes of user metadata of an object: all names and values.
pub const USER_METADATA_BYTES_MAX: usize = 2 << 10;

/// The most bytes of content headers of an object: all values. It is the limit of S3 for the
/// headers of one request.
pub const CONTENT_HEADERS_BYTES_MAX: usize = 8 << 10;

/// An item of the S3 metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectItem {
    /// A content header, such as `Content-Type`.
    Header(Header),
    /// The user metadata of this name, in lowercase.
    User(String),
    /// The S3 tag with this key.
    Tag(String),
}

impl ObjectItem {
    /// The value of this item, or `None` if the object does not have it.
    pub fn value<'o>(&self, object: &'o ObjectHeaders) -> Option<&'o str> {
        match self {
            ObjectItem::Header(header) => object.header(*header),
            ObjectItem::User(name) => value(&object.user, name),
            ObjectItem::Tag(key) => value(&object.tags, key),
        }
    }

    /// All items that the object has.
    pub fn all(object: &ObjectHeaders) -> Vec<ObjectItem> {
        let headers = object.headers.iter().map(|(header, _)| ObjectItem::Header(*header));
        let user = object.user.iter().map(|(name, _)| ObjectItem::User(name.clone()));
        let tags = object.tags.iter().map(|(key, _)| ObjectItem::Tag(key.clone()));
        headers.chain(user).chain(tags).collect()
    }

    fn put(&self, object: &mut ObjectHeaders, value: Option<&str>) {
        match self {
            ObjectItem::Header(header) => put(&mut object.headers, header, value),
            ObjectItem::User(name) => put(&mut object.user, name, value),
            ObjectItem::Tag(key) => put(&mut object.tags, key, value),
        }
    }
}

/// Sets or removes an item of S3 metadata of a file. One round trip if the file is cached. Fails
/// with `NoObject` if the node is not a file, and with `MetadataTooLarge` or `TooManyTags` beyond
/// the limits of this module.
#[derive(Clone, Debug)]
pub struct SetObjectItem<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The item of S3 metadata to set or remove.
    pub item: &'a ObjectItem,
    /// The new value; `None` removes the item.
    pub value: Option<&'a str>,
    /// `Some(true)`: fails with `NoSuchAttribute` if the file does not have the item.
    /// `Some(false)`: fails with `AttributeExists` if the file has it. `None`: accepts both.
    pub must_exist: Option<bool>,
}

impl Planner for SetObjectItem<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        let mut inode = known.inode.clone();
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        let change = match self.item {
            ObjectItem::Header(_) | ObjectItem::User(_) => Change::ObjectItem,
            ObjectItem::Tag(_) => Change::VersionItem,
        };
        admit(view, env, (self.ino, &inode), change, &mut plan)?;
        let InodeBody::File(file) = &mut inode.body else { return Err(FsError::NoObject.into()) };
        match (self.must_exist, self.item.value(&file.object)) {
            (Some(true), None) => return Err(FsError::NoSuchAttribute.into()),
            (Some(false), Some(_)) => return Err(FsError::AttributeExists.into()),
            _ => {}
        }
        self.item.put(&mut file.object, self.value);
        if self.value.is_some() {
            self.check_limits(&file.object)?;
        }
        inode.attributes.status_changed = env.now;
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

impl SetObjectItem<'_> {
    /// Fails if items of the changed kind exceed their limit.
    fn check_limits(&self, object: &ObjectHeaders) -> Result<(), FsError> {
        let is_too_large = match self.item {
            ObjectItem::Header(_) => {
                let bytes: usize = object.headers.iter().map(|(_, value)| value.len()).sum();
                bytes > CONTENT_HEADERS_BYTES_MAX
            }
            ObjectItem::User(_) => {
                let bytes = object.user.iter().map(|(name, value)| name.len() + value.len());
                bytes.sum::<usize>() > USER_METADATA_BYTES_MAX
            }
            ObjectItem::Tag(_) if object.tags.len() > OBJECT_TAGS_MAX => {
                return Err(FsError::TooManyTags);
            }
            ObjectItem::Tag(_) => false,
        };
        if is_too_large { Err(FsError::MetadataTooLarge) } else { Ok(()) }
    }
}

fn value<'p>(pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
    pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

/// Sets or removes one of several pairs, which are sorted by name.
fn put<K: Clone + Ord>(pairs: &mut Vec<(K, String)>, name: &K, value: Option<&str>) {
    let was = pairs.iter().position(|(other, _)| other == name);
    if let Some(place) = was {
        pairs.remove(place);
    }
    if let Some(value) = value {
        let next = pairs.iter().position(|(other, _)| other > name);
        pairs.insert(was.or(next).unwrap_or(pairs.len()), (name.clone(), value.to_owned()));
    }
}
