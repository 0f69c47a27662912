//! Documents of the machines of a gang, for decisions that know one machine.

use futures::future::join_all;
use jobs::node_gang::{GangLaunch, GangListing, GangReport, Node, gang_exit};
use jobs::{AgentWarning, AgentWarningKind, ExitReason, Heartbeat, HeartbeatSigns};
use ports::{JobCloud, MachineDocument, ReceivedHeartbeat};

use super::facts::KnownDocuments;
use super::{JobRunDocuments, JobsRun};

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Reads heartbeats and exits of a gang, once a run. A failed read leaves the facts unknown.
    pub(super) async fn read_gang(&self, gang: &GangLaunch, known: &mut KnownDocuments) {
        let attempt = gang.attempt;
        if known.heartbeat.is_some_and(|(of, _)| of == attempt) {
            return;
        }
        let listed = self.run.store.read_gang(gang, &GangListing::default()).await;
        let Some(listing) = self.read_or_report(Some(listed)) else { return };
        let exit = gang_exit(gang, &listing);
        let broken = exit.iter().filter(|exit| exit.reason == ExitReason::Broken);
        known.warnings.extend(broken.map(|exit| (attempt, AgentWarning::new(AgentWarningKind::Broken, &exit.why))));
        known.exit = Some((attempt, exit));
        known.gang_report = Some((attempt, GangReport::from_listing(gang, &listing, self.now())));
        known.heartbeat = Some((attempt, listing.oldest_sign(gang.nodes)));
        let reads =
            listing.beats.keys().map(|node| async { (*node, self.run.store.read_node_heartbeat(gang, *node).await) });
        for (node, read) in join_all(reads).await {
            if let Some(document) = self.read_or_report(Some(read)) {
                self.take_node_heartbeat(attempt, node, document, known);
            }
        }
    }

    fn take_node_heartbeat(
        &self,
        attempt: u32,
        node: Node,
        document: MachineDocument<ReceivedHeartbeat>,
        known: &mut KnownDocuments,
    ) {
        let (believed, refused) = document.into_parts();
        known.refused.extend(refused.map(|why| why.to_string()));
        let Some(ReceivedHeartbeat { at, heartbeat }) = believed else { return };
        if heartbeat.doing == Heartbeat::RUNNING {
            known.command_runs = Some(attempt);
        }
        // Each node would say the same of its own GPUs; the owner hears it once.
        if node == 0 {
            known.signs = Some(HeartbeatSigns { attempt, signs: heartbeat.work, at, now: self.now() });
        }
        known.warnings.extend(heartbeat.warnings.into_iter().map(|warning| (attempt, warning.of_node(node))));
    }
}
