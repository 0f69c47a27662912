//! Tags that a person writes on one resource. The functions' roles may write none of these (policy `never`).

use aws_sdk_ec2::types::Tag;
use model::id::{Region, ResourceId};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

/// Writes one tag, over its earlier value.
///
/// # Errors
/// If EC2 refused, or answered none of the SDK's attempts; the tag may be written all the same.
pub async fn write_tag(
    aws: &Aws,
    region: &Region,
    resource: &ResourceId,
    key: &str,
    value: &str,
) -> Result<(), CallError> {
    let tag = Tag::builder().key(key).value(value).build();
    let answer = aws.ec2(region).create_tags().resources(resource.as_str()).tags(tag).send().await;
    answer.map(drop).map_err(|error| call_error("ec2:CreateTags", region, &error))
}

/// Removes these keys, whatever their values. Without any key `DeleteTags` would remove all tags (EC2 API reference), so then
/// it is not called.
///
/// # Errors
/// As [`write_tag`].
pub async fn remove_tags(aws: &Aws, region: &Region, resource: &ResourceId, keys: &[&str]) -> Result<(), CallError> {
    if keys.is_empty() {
        return Ok(());
    }
    let tags = keys.iter().map(|key| Tag::builder().key(*key).build()).collect();
    let answer = aws.ec2(region).delete_tags().resources(resource.as_str()).set_tags(Some(tags)).send().await;
    answer.map(drop).map_err(|error| call_error("ec2:DeleteTags", region, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn one_tag_is_written_and_only_named_ones_are_removed() {
        let (aws, calls) = aws(|_| ReplayAnswer::ok("<return>true</return>"));
        let (region, resource) = (Region::from("us-east-1"), ResourceId::from("i-0abc"));
        write_tag(&aws, &region, &resource, "curfew:protected", "").await.unwrap();
        remove_tags(&aws, &region, &resource, &["curfew:protected", "curfew:keep-until"]).await.unwrap();
        remove_tags(&aws, &region, &resource, &[]).await.unwrap();
        assert_eq!(
            calls.said(),
            [
                "CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:protected Tag.1.Value=",
                "DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:protected Tag.2.Key=curfew:keep-until",
            ]
        );
    }
}
