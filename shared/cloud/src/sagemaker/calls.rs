//! The calls, page by page.

use jiff::Timestamp;
use model::id::{Arn, Region};
use model::instance::Tags;
use serde_json::{Value, json};

use super::read;
use crate::aws::Aws;
use crate::error::CallError;
use crate::http_call::{AwsService, HttpCall, JsonProtocol, Repeats};
use crate::observe::pages::all_pages;

/// The most that a page of `SageMaker` has (Amazon `SageMaker` API reference, `MaxResults` of each list), and one of `GetResources`.
const PAGE_SIZE: u32 = 100;

const GET_RESOURCES: &str = "tag:GetResources";
const DESCRIBE_SCALABLE_TARGETS: &str = "application-autoscaling:DescribeScalableTargets";

#[derive(Debug, Clone, Copy)]
pub(super) struct ListCall {
    /// IAM action of the call.
    pub(super) call: &'static str,
    /// Key of the items in the answer.
    pub(super) items: &'static str,
    pub(super) only: ListFilter,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ListFilter {
    All,
    /// Only what has this status. Of such a list the page size is not said: `ListTrainingJobs` filters after it has filled a page.
    Status(&'static str),
    /// Only what was changed since.
    ModifiedAfter(Timestamp),
}

/// One call of `SageMaker`, by its IAM action.
pub(super) async fn sagemaker(
    aws: &Aws,
    region: &Region,
    call: &'static str,
    body: &Value,
) -> Result<Value, CallError> {
    let operation = call.split_once(':').map_or(call, |(_, operation)| operation);
    let protocol = JsonProtocol::Target { prefix: "SageMaker", operation };
    let service = AwsService::SageMaker;
    HttpCall { call, region, service, protocol, repeats: Repeats::LikeTheSdk }.send(aws, body).await
}

pub(super) async fn list(aws: &Aws, region: &Region, list: ListCall) -> Result<Vec<Value>, CallError> {
    let mut items = Vec::new();
    all_pages(list.call, region, async |token| {
        let mut body = match list.only {
            ListFilter::All => json!({ "MaxResults": PAGE_SIZE }),
            ListFilter::Status(status) => json!({ "StatusEquals": status }),
            ListFilter::ModifiedAfter(at) => {
                json!({ "MaxResults": PAGE_SIZE, "LastModifiedTimeAfter": at.as_second() })
            }
        };
        with_token(&mut body, "NextToken", token);
        let mut page = sagemaker(aws, region, list.call, &body).await?;
        items.extend(read::take_items(&mut page, list.items));
        Ok(read::text(&page, "NextToken"))
    })
    .await?;
    Ok(items)
}

/// The tags of one resource, as `SageMaker` itself has them.
pub(super) async fn tags(aws: &Aws, region: &Region, arn: &Arn) -> Result<Tags, CallError> {
    let mut page = sagemaker(aws, region, "sagemaker:ListTags", &json!({ "ResourceArn": arn })).await?;
    Ok(read::tags(&read::take_items(&mut page, "Tags")))
}

/// The tags of all endpoints and notebook instances of a region that have any.
pub(super) async fn tags_of_all(aws: &Aws, region: &Region) -> Result<Vec<(Arn, Tags)>, CallError> {
    let protocol = JsonProtocol::Target { prefix: "ResourceGroupsTaggingAPI_20170126", operation: "GetResources" };
    let (service, repeats) = (AwsService::ResourceGroupsTagging, Repeats::LikeTheSdk);
    let call = HttpCall { call: GET_RESOURCES, region, service, protocol, repeats };
    let mut tagged = Vec::new();
    all_pages(GET_RESOURCES, region, async |token| {
        let types = ["sagemaker:endpoint", "sagemaker:notebook-instance"];
        let mut body = json!({ "ResourceTypeFilters": types, "ResourcesPerPage": PAGE_SIZE });
        with_token(&mut body, "PaginationToken", token);
        let mut page = call.send(aws, &body).await?;
        for mut one in read::take_items(&mut page, "ResourceTagMappingList") {
            let tags = read::tags(&read::take_items(&mut one, "Tags"));
            tagged.extend(read::text(&one, "ResourceARN").map(|arn| (Arn::new(arn), tags)));
        }
        Ok(read::text(&page, "PaginationToken"))
    })
    .await?;
    Ok(tagged)
}

/// The ids of what Application Auto Scaling scales: `endpoint/<name>/variant/<variant>`. All, or of these those that it knows.
pub(super) async fn scalable_targets(
    aws: &Aws,
    region: &Region,
    ids: Option<Vec<String>>,
) -> Result<Vec<String>, CallError> {
    let protocol = JsonProtocol::Target { prefix: "AnyScaleFrontendService", operation: "DescribeScalableTargets" };
    let (service, repeats) = (AwsService::ApplicationAutoScaling, Repeats::LikeTheSdk);
    let call = HttpCall { call: DESCRIBE_SCALABLE_TARGETS, region, service, protocol, repeats };
    let mut found = Vec::new();
    all_pages(DESCRIBE_SCALABLE_TARGETS, region, async |token| {
        let mut body = json!({ "ServiceNamespace": "sagemaker" });
        if let (Some(ids), Some(body)) = (&ids, body.as_object_mut()) {
            body.insert("ResourceIds".to_owned(), json!(ids));
        }
        with_token(&mut body, "NextToken", token);
        let mut page = call.send(aws, &body).await?;
        let targets = read::take_items(&mut page, "ScalableTargets");
        found.extend(targets.iter().filter_map(|target| read::text(target, "ResourceId")));
        Ok(read::text(&page, "NextToken"))
    })
    .await?;
    Ok(found)
}

fn with_token(body: &mut Value, key: &str, token: Option<String>) {
    if let (Some(token), Some(body)) = (token, body.as_object_mut()) {
        body.insert(key.to_owned(), Value::from(token));
    }
}
