//! `FSx` for Lustre file systems of all regions, and their use.

use std::time::Duration;

use jiff::Timestamp;
use model::file_system::{FileSystemQuestion, FileSystemSignal, LustreFileSystem};
use model::id::Region;
use model::instance::Tags;
use model::observation::{Gap, GapKind, Observation};
use model::sagemaker::ActivitySamples;
use serde_json::{Value, json};

use super::look_at_each;
use super::pages::all_pages;
use super::signals::ask_in_batches;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};
use crate::http_call::{AwsService, HttpCall};

const DESCRIBE_FILE_SYSTEMS: &str = "fsx:DescribeFileSystems";
const OPERATION: (&str, &str) = ("AWSSimbaAPIService_v20180301", "DescribeFileSystems");

/// Items of a page. The API names no greatest number.
const PAGE_SIZE: u32 = 100;

/// The `FSx` for Lustre file systems of these regions, in one call a region.
///
/// A region that could not be read, or not within `timeout`, is a gap: what is remembered of its file systems stays. One without `FSx` has no
/// such host, and is none.
pub async fn file_systems(aws: &Aws, regions: &[Region], timeout: Duration) -> Observation<LustreFileSystem> {
    let look = async |region: &Region| of_region(aws, region).await;
    let mut seen = Observation::default();
    for look in look_at_each(regions, DESCRIBE_FILE_SYSTEMS, timeout, look).await {
        match look {
            Ok(items) => seen.items.extend(items),
            Err(error) if error.kind == CallErrorKind::Unreached => {}
            Err(error) => seen.gaps.push(error.gap_of_kind(GapKind::FileSystems)),
        }
    }
    seen
}

/// The answers to these questions about one region. A question without a full answer within `timeout` is left out, with a gap.
pub async fn file_system_samples(
    aws: &Aws,
    region: &Region,
    questions: &[FileSystemQuestion],
    timeout: Duration,
) -> (ActivitySamples<FileSystemSignal>, Vec<Gap>) {
    ask_in_batches(aws, region, questions, timeout).await
}

async fn of_region(aws: &Aws, region: &Region) -> Result<Vec<LustreFileSystem>, CallError> {
    let call = HttpCall::json_1_1(DESCRIBE_FILE_SYSTEMS, region, AwsService::Fsx, OPERATION);
    let mut all = Vec::new();
    all_pages(DESCRIBE_FILE_SYSTEMS, region, async |token| {
        let mut body = json!({ "MaxResults": PAGE_SIZE });
        if let (Some(token), Some(body)) = (token, body.as_object_mut()) {
            body.insert("NextToken".to_owned(), Value::from(token));
        }
        let page = call.send(aws, &body).await?;
        let items = page.get("FileSystems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        all.extend(items.iter().filter_map(|item| file_system(item, region)));
        Ok(text(&page, "NextToken"))
    })
    .await?;
    Ok(all)
}

/// A file system of Lustre that exists. One without id, creation or size is left out: it cannot be judged.
fn file_system(of: &Value, region: &Region) -> Option<LustreFileSystem> {
    let is_there = text(of, "Lifecycle").is_some_and(|state| !["CREATING", "DELETING", "FAILED"].contains(&&*state));
    if text(of, "FileSystemType")? != "LUSTRE" || !is_there {
        return None;
    }
    let lustre = of.get("LustreConfiguration").unwrap_or(&Value::Null);
    let tags = of.get("Tags").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let tag = |tag: &Value| Some((text(tag, "Key")?, text(tag, "Value").unwrap_or_default()));
    let throughput = lustre.get("PerUnitStorageThroughput").and_then(Value::as_u64);
    #[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest i64, and jiff checks the range")]
    let created_at = Timestamp::from_second(of.get("CreationTime")?.as_f64()? as i64).ok()?;
    Some(LustreFileSystem {
        id: text(of, "FileSystemId")?.as_str().into(),
        region: region.clone(),
        created_at,
        capacity_gib: of.get("StorageCapacity")?.as_u64()?,
        storage_type: text(of, "StorageType").unwrap_or_default(),
        deployment: text(lustre, "DeploymentType").unwrap_or_default(),
        throughput_mbps_per_tib: throughput.and_then(|throughput| u32::try_from(throughput).ok()),
        tags: tags.iter().filter_map(tag).collect::<Tags>(),
    })
}

fn text(of: &Value, key: &str) -> Option<String> {
    of.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    const REGION: &str = "us-east-1";

    async fn seen(answer: ReplayAnswer) -> Observation<LustreFileSystem> {
        let answer = std::sync::Mutex::new(Some(answer));
        let (aws, _) = aws(move |_| answer.lock().unwrap().take().unwrap());
        file_systems(&aws, &[REGION.into()], Duration::from_secs(9)).await
    }

    #[tokio::test]
    async fn only_file_systems_of_lustre_that_exist_are_seen() {
        let one = |id: &str, kind: &str, state: &str| {
            json!({
                "FileSystemId": id, "FileSystemType": kind, "Lifecycle": state, "CreationTime": 1_788_004_800.5, "StorageCapacity": 1200,
                "StorageType": "SSD", "Tags": [{ "Key": "Team", "Value": "vision" }],
                "LustreConfiguration": { "DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125 },
            })
        };
        let mut unsized_one = one("fs-5", "LUSTRE", "AVAILABLE");
        unsized_one.as_object_mut().unwrap().remove("StorageCapacity");
        let items = [
            one("fs-1", "LUSTRE", "AVAILABLE"),
            one("fs-2", "LUSTRE", "UPDATING"),
            one("fs-3", "WINDOWS", "AVAILABLE"),
            one("fs-4", "LUSTRE", "DELETING"),
            unsized_one,
        ];
        let found = seen(ReplayAnswer::Raw(200, json!({ "FileSystems": items }).to_string().into_bytes())).await;
        let ids: Vec<&str> = found.items.iter().map(|one| one.id.as_str()).collect();
        assert_eq!((ids, found.gaps.len()), (vec!["fs-1", "fs-2"], 0));
        let expect = LustreFileSystem {
            id: "fs-1".into(),
            region: REGION.into(),
            created_at: "2026-08-29T12:00:00Z".parse().unwrap(),
            capacity_gib: 1200,
            storage_type: "SSD".to_owned(),
            deployment: "PERSISTENT_2".to_owned(),
            throughput_mbps_per_tib: Some(125),
            tags: Tags::from([("Team".to_owned(), "vision".to_owned())]),
        };
        assert_eq!(found.items[0], expect);
    }

    #[tokio::test]
    async fn a_refusal_is_a_gap_about_file_systems_alone() {
        let refused = br#"{"__type":"AccessDeniedException","Message":"not authorized"}"#.to_vec();
        let found = seen(ReplayAnswer::Raw(400, refused)).await;
        assert_eq!((found.items.len(), found.gaps[0].kind), (0, GapKind::FileSystems));
    }
}
