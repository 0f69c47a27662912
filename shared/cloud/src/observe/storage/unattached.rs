//! Only the unattached volumes of one region: all that a scan before a deployment needs.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_ec2::Client;
use model::id::{Region, ResourceId};
use model::observation::Observation;
use model::volume::{ObservedStorage, Volume};

use super::{gap_of, sources};
use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_VOLUMES};
use crate::error::CallError;
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// Every volume that EC2 calls available (EC2 API reference, `DescribeVolumes`, the filter `status`), and the tags of the snapshot it was
/// made from, if `source` wants them. One list instead of three: it reads neither instances nor Curfew's snapshots.
///
/// If those tags cannot be read, the volumes are returned with a gap. If a page of volumes could not be read, or not within `timeout`, the
/// region is a gap without volumes.
pub async fn unattached(
    aws: &Aws,
    region: &Region,
    timeout: Duration,
    source: impl Fn(&Volume) -> bool,
) -> ObservedStorage {
    let ec2 = aws.ec2(region);
    let look = tokio::time::timeout(timeout, of_region(&ec2, region, source)).await;
    let seen = look.unwrap_or_else(|_| Err(CallError::timed_out(DESCRIBE_VOLUMES, region, timeout)));
    seen.unwrap_or_else(|error| ObservedStorage {
        volumes: Observation::nothing_but(error.gap_of_region()),
        ..ObservedStorage::default()
    })
}

async fn of_region(
    ec2: &Client,
    region: &Region,
    source: impl Fn(&Volume) -> bool,
) -> Result<ObservedStorage, CallError> {
    let call = ec2.describe_volumes().filters(filter("status", ["available"])).max_results(PAGE_SIZE);
    let (mut seen, mut incomplete) = (ObservedStorage::default(), BTreeSet::<ResourceId>::new());
    all_pages(DESCRIBE_VOLUMES, region, async |token| {
        let page = describe::volumes_page(call.clone().set_next_token(token), region).await?;
        seen.volumes.items.extend(page.volumes);
        incomplete.extend(page.incomplete);
        Ok(page.next_token)
    })
    .await?;
    seen.volumes.gaps.extend((!incomplete.is_empty()).then(|| gap_of(region, &incomplete)));
    let of_interest = seen.volumes.items.iter().filter(|volume| volume.is_unattached() && source(volume));
    match sources(ec2, region, of_interest.filter_map(|volume| volume.from_snapshot.as_ref()).collect()).await {
        Ok(found) => seen.sources = found,
        Err(error) => seen.volumes.gaps.push(error.gap()),
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::observation::GapKind;

    use super::*;
    use crate::replay::{ReplayAnswer, ReplayedCall, aws, page_of, snapshot_xml, volume_xml};

    async fn seen(
        script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
    ) -> (ObservedStorage, Vec<String>) {
        let (aws, calls) = aws(script);
        let seen = unattached(&aws, &"us-east-1".into(), Duration::from_mins(1), |volume| volume.tags.is_empty()).await;
        let of_interest = |parameter: &&String| parameter.contains("status") || parameter.contains("available");
        let said = calls.recorded().into_iter().map(|call| {
            let filters: Vec<&str> = call.parameters.iter().filter(of_interest).map(String::as_str).collect();
            format!("{} {}", call.name, filters.join(" "))
        });
        (seen, said.collect())
    }

    fn volumes() -> ReplayAnswer {
        let from = |id: &str, tags: &[(&str, &str)]| {
            volume_xml(id, "available", tags, "").replace("<snapshotId/>", "<snapshotId>snap-1</snapshotId>")
        };
        page_of("volumeSet", &[from("vol-1", &[]), from("vol-2", &[("Team", "vision")])], None)
    }

    #[tokio::test]
    async fn one_list_and_whose_they_are() {
        let (seen, said) = seen(|call| match call.name.as_str() {
            "DescribeVolumes" => volumes(),
            _ => page_of("snapshotSet", &[snapshot_xml("snap-1", "vol-9", "completed", &[("Team", "audio")])], None),
        })
        .await;
        assert_eq!((seen.volumes.items.len(), seen.volumes.gaps.len()), (2, 0));
        let tags = BTreeMap::from([("Team".to_owned(), "audio".to_owned())]);
        assert_eq!(seen.sources, BTreeMap::from([("snap-1".into(), tags)]));
        assert_eq!(said, ["DescribeVolumes Filter.1.Name=status Filter.1.Value.1=available", "DescribeSnapshots "]);
    }

    #[tokio::test]
    async fn whose_they_are_may_stay_unknown_but_not_which_there_are() {
        let denied = |call: &'static str| {
            move |made: &ReplayedCall| match made.name.as_str() {
                name if name == call => ReplayAnswer::error("UnauthorizedOperation", "No"),
                _ => volumes(),
            }
        };
        let (of_snapshots, _) = seen(denied("DescribeSnapshots")).await;
        assert_eq!((of_snapshots.volumes.items.len(), of_snapshots.volumes.gaps[0].kind), (2, GapKind::Part));
        let (of_volumes, _) = seen(denied("DescribeVolumes")).await;
        assert_eq!((of_volumes.volumes.items.len(), of_volumes.volumes.gaps[0].kind), (0, GapKind::Region));
    }
}
