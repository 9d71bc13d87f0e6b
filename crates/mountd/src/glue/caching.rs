//! The times for which the kernel may cache a reply.
//!
//! For example, beside a gateway that gives notice of its changes, the kernel may cache the name of
//! a LOOKUP for half a second, and asks for the attributes with GETATTR.

use std::time::Duration;

use files::NodeStat;
use fuse::{FileOperation, NodeEntry, NodeId, Request};
use record::Ino;

use super::{Call, Glue};

impl Glue {
    /// Registers the node of a request before the validity of the reply is determined. Returns true
    /// if the kernel may cache the reply under leases.
    pub(super) fn register(&self, request: &Request) -> bool {
        let (nodes, root) = (&self.context.recent_nodes, self.files.root());
        let ino = |node: NodeId| if node == NodeId::ROOT { root } else { Ino(node.0) };
        let operation = request.operation();
        if let FileOperation::Rename { new_parent, .. } = operation {
            nodes.renames(ino(request.node()));
            nodes.renames(ino(new_parent));
        }
        let changes_names = matches!(
            operation,
            FileOperation::MkNod { .. }
                | FileOperation::MkDir { .. }
                | FileOperation::Symlink { .. }
                | FileOperation::Link { .. }
                | FileOperation::Unlink { .. }
                | FileOperation::RmDir { .. }
                | FileOperation::Rename { .. }
                | FileOperation::Create { .. }
        );
        nodes.asked(ino(request.node()), changes_names)
    }
}

impl Call {
    /// Returns a node's entry, with the times for which the kernel may cache it.
    pub(super) fn entry(&self, stat: &NodeStat) -> NodeEntry {
        NodeEntry {
            node: self.node_id(stat.ino),
            generation: 0,
            attributes: self.context.shown.attributes(stat),
            entry_timeout: if stat.volatile_name {
                Duration::ZERO
            } else {
                self.cache_validity.remaining()
            },
            // The kernel may apply the attributes of a node that it does not know yet after a
            // notification that they have changed.
            attributes_timeout: if stat.volatile_attributes {
                Duration::ZERO
            } else {
                self.cache_validity.remaining_if_unordered()
            },
        }
    }

    /// Returns the time for which the kernel may cache attributes. 0 if they may change without a
    /// notification, for example while the file has dirty data.
    pub(super) fn timeout(&self, stat: &NodeStat) -> Duration {
        if stat.volatile_attributes { Duration::ZERO } else { self.cache_validity.remaining() }
    }

    /// Returns the entry of a node that the kernel may already know. The kernel would overwrite
    /// newer attributes with those of this reply, also after a notification that they have changed,
    /// so it must not cache them.
    pub(super) fn known_entry(&self, stat: &NodeStat) -> NodeEntry {
        NodeEntry { attributes_timeout: Duration::ZERO, ..self.entry(stat) }
    }
}
