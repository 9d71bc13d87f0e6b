//! How a file system is mounted.
//!
//! Well-formed options cannot become others when they are written as text. Who mounts, and where,
//! is not known here.

use std::fmt::Write as _;

/// How to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of mount(8)")]
pub struct MountOptions {
    /// What is mounted, as `mount` and `df` show it.
    pub source: String,
    /// Shows as the file system's type `fuse.SUBTYPE`; letters, digits and `-`.
    pub subtype: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Other users than the one who mounts may look inside.
    pub allow_other: bool,
    /// The kernel checks permissions by mode, owner and group.
    pub default_permissions: bool,
    /// Programs run with the set-user-id bit's rights. Root only.
    pub allow_suid: bool,
    /// Device files stand for devices. Root only.
    pub allow_devices: bool,
    /// The largest READ, in bytes.
    pub read_bytes_max: Option<u32>,
}

impl MountOptions {
    /// Options for a file system of this type: permissions checked by the kernel, for the user who
    /// mounts alone, without devices and set-user-id.
    pub fn new(source: impl Into<String>, subtype: impl Into<String>) -> MountOptions {
        MountOptions {
            source: source.into(),
            subtype: subtype.into(),
            read_only: false,
            allow_other: false,
            default_permissions: true,
            allow_suid: false,
            allow_devices: false,
            read_bytes_max: None,
        }
    }

    /// The options that both ways of mounting have in common, as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (wanted, option) in
            [(self.allow_other, ",allow_other"), (self.default_permissions, ",default_permissions")]
        {
            text.push_str(if wanted { option } else { "" });
        }
        if let Some(bytes) = self.read_bytes_max {
            write!(text, ",max_read={bytes}").expect("a string takes all that is written");
        }
        text
    }

    pub(super) fn is_well_formed(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !self.subtype.is_empty()
            && self.subtype.bytes().all(plain)
            && !self.source.is_empty()
            && !self.source.contains('\0')
    }
}
