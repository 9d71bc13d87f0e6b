//! What S3 keeps with a file, item by item.
//!
//! S3 says all of it at once, with the object; here each item is found and changed by itself. The
//! content does not change with it, so entity tag and Last-Modified stay.

use record::{Header, Ino, InodeBody, ObjectHeaders};
use store::{Plan, Write};

use super::Known;
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// The most tags of an object.
pub const OBJECT_TAGS_MAX: usize = 10;

/// The most bytes of an object's user metadata, names and values together.
pub const USER_METADATA_BYTES_MAX: usize = 2 << 10;

/// The most bytes of an object's content headers, their values together: what S3 takes with one
/// request.
pub const CONTENT_HEADERS_BYTES_MAX: usize = 8 << 10;

/// Something that S3 keeps with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectItem {
    /// A content header.
    Header(Header),
    /// User metadata of this name, in lowercase.
    User(String),
    /// The tag of this key.
    Tag(String),
}

impl ObjectItem {
    /// What it says, if an object has it.
    pub fn value<'o>(&self, object: &'o ObjectHeaders) -> Option<&'o str> {
        match self {
            ObjectItem::Header(header) => object.header(*header),
            ObjectItem::User(name) => value(&object.user, name),
            ObjectItem::Tag(key) => value(&object.tags, key),
        }
    }

    /// Everything that S3 keeps with an object.
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

/// Changes something that S3 keeps with a file: one round trip when the file is remembered.
#[derive(Clone, Debug)]
pub struct SetObjectItem<'a> {
    /// The file.
    pub ino: Ino,
    /// What is changed.
    pub item: &'a ObjectItem,
    /// What it says; none takes it away.
    pub value: Option<&'a str>,
    /// Whether the file must have it before; none if that does not matter.
    pub must_exist: Option<bool>,
}

impl Planner for SetObjectItem<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = Known::find(view, self.ino)?;
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
    /// Refuses what would be more than S3 keeps of the kind of item that is changed.
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

/// Changes one of some pairs, which are in the order of their names.
fn put<K: Clone + Ord>(pairs: &mut Vec<(K, String)>, name: &K, value: Option<&str>) {
    let was = pairs.iter().position(|(other, _)| other == name);
    if let Some(place) = was {
        pairs.remove(place);
    }
    if let Some(value) = value {
        let behind = pairs.iter().position(|(other, _)| other > name);
        pairs.insert(was.or(behind).unwrap_or(pairs.len()), (name.clone(), value.to_owned()));
    }
}
