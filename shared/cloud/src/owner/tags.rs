//! Tags that a person writes on one resource. Of the functions' roles only that of links may write some of these (policy `never` of all others).

use aws_sdk_ec2::types::Tag;
use model::observation::ObservedResource;
use ports::SageMakerWrite;

use crate::aws::Aws;
use crate::error::{CallError, call_error};
use crate::sagemaker;

/// Writes one tag, over its earlier value.
///
/// # Errors
/// If EC2 refused, or answered none of the SDK's attempts; the tag may be written all the same.
pub async fn write_tag(aws: &Aws, seen: &ObservedResource, key: &str, value: &str) -> Result<(), CallError> {
    let (region, resource) = (seen.region(), seen.id());
    if let ObservedResource::SageMaker(seen) = seen {
        return sagemaker::write(aws, seen, SageMakerWrite::AddTags(&[(key, value.to_owned())])).await;
    }
    let tag = Tag::builder().key(key).value(value).build();
    let answer = aws.ec2(region).create_tags().resources(resource.as_str()).tags(tag).send().await;
    answer.map(drop).map_err(|error| call_error("ec2:CreateTags", region, &error))
}

/// Removes these keys, whatever their values. Without any key `DeleteTags` would remove all tags (EC2 API reference), so then
/// it is not called.
///
/// # Errors
/// As [`write_tag`].
#[cfg(feature = "operator")]
pub async fn remove_tags(aws: &Aws, seen: &ObservedResource, keys: &[&str]) -> Result<(), CallError> {
    if keys.is_empty() {
        return Ok(());
    }
    let (region, resource) = (seen.region(), seen.id());
    if let ObservedResource::SageMaker(seen) = seen {
        return sagemaker::write(aws, seen, SageMakerWrite::DeleteTags(keys)).await;
    }
    let tags = keys.iter().map(|key| Tag::builder().key(*key).build()).collect();
    let answer = aws.ec2(region).delete_tags().resources(resource.as_str()).set_tags(Some(tags)).send().await;
    answer.map(drop).map_err(|error| call_error("ec2:DeleteTags", region, &error))
}

#[cfg(all(test, feature = "operator"))]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn one_tag_is_written_and_only_named_ones_are_removed() {
        let (aws, calls) = aws(|_| ReplayAnswer::ok("<return>true</return>"));
        let seen = ObservedResource::Instance(model::fixture::instance().build());
        write_tag(&aws, &seen, "curfew:protected", "").await.unwrap();
        remove_tags(&aws, &seen, &["curfew:protected", "curfew:keep-until"]).await.unwrap();
        remove_tags(&aws, &seen, &[]).await.unwrap();
        assert_eq!(
            calls.said(),
            [
                "CreateTags ResourceId.1=i-0abc Tag.1.Key=curfew:protected Tag.1.Value=",
                "DeleteTags ResourceId.1=i-0abc Tag.1.Key=curfew:protected Tag.2.Key=curfew:keep-until",
            ]
        );
    }

    #[tokio::test]
    async fn a_resource_of_sagemaker_is_tagged_by_its_arn() {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, b"{}".to_vec()));
        let seen = ObservedResource::SageMaker(model::fixture::endpoint().build());
        write_tag(&aws, &seen, "curfew:protected", "").await.unwrap();
        remove_tags(&aws, &seen, &["curfew:protected"]).await.unwrap();
        remove_tags(&aws, &seen, &[]).await.unwrap();
        let arn = r#""ResourceArn":"arn:aws:sagemaker:us-east-1:123456789012:endpoint/llm""#;
        assert_eq!(
            calls.said(),
            [
                format!(r#"AddTags {{{arn},"Tags":[{{"Key":"curfew:protected","Value":""}}]}}"#),
                format!(r#"DeleteTags {{{arn},"TagKeys":["curfew:protected"]}}"#)
            ]
        );
    }
}
