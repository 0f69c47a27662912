//! `FSx` for Lustre file systems and their use, for a run and for a scan.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use model::file_system::{FileSystemQuestion, LustreFileSystem};
use model::id::Region;
use model::observation::{Gap, Observation};
use ports::VolumeCloud;
use reaping::file_systems::{FileSystemUses, Inquiry, evaluate, questions};
use reaping::policy::Policy;

use crate::bugs::or_gap;

/// The `FSx` for Lustre file systems of some regions, and the use of those that were asked about.
#[derive(Default)]
pub struct FileSystemsObservation {
    pub items: Vec<LustreFileSystem>,
    pub uses: FileSystemUses,
    pub gaps: Vec<Gap>,
}

/// Observes the file systems of these regions. Where the configuration turns that off, none is looked at.
pub async fn observe_file_systems(
    cloud: &impl VolumeCloud,
    regions: &[Region],
    policy: &Policy,
    inquiry: Inquiry,
    now: Timestamp,
    timeout: Duration,
) -> FileSystemsObservation {
    let regions = if policy.config.file_systems.idle_after.is_zero() { &[] } else { regions };
    let Observation { items, mut gaps } = cloud.file_systems(regions, timeout).await;
    let by_region = regions.iter().map(|region| async {
        let in_region = || items.iter().filter(|one| one.region == *region);
        let mut bugs = Vec::new();
        let asked =
            in_region().filter_map(|one| or_gap((region, &one.id), &mut bugs, || questions(one, policy, inquiry, now)));
        let asked: Vec<FileSystemQuestion> = asked.flatten().collect();
        if asked.is_empty() {
            return (FileSystemUses::new(), bugs);
        }
        let (answers, mut gaps) = cloud.file_system_samples(region, &asked, timeout).await;
        let uses = in_region().filter_map(|one| {
            let usage = or_gap((region, &one.id), &mut bugs, || evaluate(one, &answers, policy, now))?;
            Some(((region.clone(), one.id.clone()), usage))
        });
        let uses = uses.collect();
        gaps.extend(bugs);
        (uses, gaps)
    });
    let mut uses = FileSystemUses::new();
    for (region_uses, region_gaps) in join_all(by_region).await {
        uses.extend(region_uses);
        gaps.extend(region_gaps);
    }
    FileSystemsObservation { items, uses, gaps }
}
