//! Connecting a session with its peers.

use std::sync::Arc;

use peering::{LinkEvents, Peering, PeeringOptions};
use record::{SessionRecord, key};
use runtime::Tasks;
use store::{Guard, Plan, Read, Write};

use crate::error::{VolumeError, corrupt};
use crate::leases::ReadsFrom;
use crate::session::Session;
use crate::state::value;

impl Session {
    /// Lets this session give leases to its peers and take leases of them, so that it answers reads
    /// from its cache beside other sessions. Its addresses are written to its session record. Until
    /// this call, and for a peer that cannot be reached, the session asks the store for each read
    /// while it has peers.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] if an address cannot be listened on; the sentence is for the
    /// operator. The errors of the store. [`VolumeError::Fenced`] if the session has ended.
    pub async fn connect_peers(
        self: &Arc<Self>,
        options: PeeringOptions,
    ) -> Result<(), VolumeError> {
        let peering = Peering::bind(options).await;
        let peering = peering.map_err(|error| VolumeError::Refused(error.to_string()))?;
        let at = key::session(self.nonce());
        let found = self.store.read(&[Read::Record { key: at.clone(), follow: None }]).await?;
        let found = value(found.first()).ok_or(VolumeError::Fenced)?;
        let record = SessionRecord::decode(&at, &found).map_err(|error| corrupt(&at, &error))?;
        let (reach, socket_secret) = (peering.reach().to_vec(), peering.socket_secret());
        let record = SessionRecord { reach, socket_secret, ..record };
        // Before the record names the addresses, so that a peer that dials at once is heard.
        let events: Arc<dyn LinkEvents> = self.leases.clone();
        // In a set of their own: the close of a session waits for its tasks, and their last commits
        // still give notice over the links.
        self.leases.connect(peering.start(self.nonce(), &Tasks::new(), events));
        let plan = Plan {
            guards: vec![Guard::Equals(at.clone(), found)],
            writes: vec![Write::Put(at.clone(), record.encode(&at))],
        };
        Result::from(self.commit_plan(plan).await)?;
        let asking = Arc::clone(&self.leases).ask(self.closing.clone());
        drop(self.tasks.spawn("leases", asking));
        Ok(())
    }

    /// Returns the place from which this session answers reads now, and the reason if that is the
    /// store.
    pub fn reads_from(&self) -> ReadsFrom {
        self.leases.reads_from()
    }
}
