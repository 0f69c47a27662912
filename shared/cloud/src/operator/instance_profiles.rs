//! The instance profiles of machines of jobs, as IAM has them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::query_call::{NO_SUCH_ENTITY, QueryCall};
use crate::aws::Aws;
use crate::describe::XmlElement;
use crate::error::CallError;

const GET_PROFILE: &str = "iam:GetInstanceProfile";
const LIST_PROFILES: &str = "iam:ListInstanceProfiles";

/// The end of the path of every role and instance profile that `run-jobs` may give to a machine; before it comes the stack's `RolePath`.
const PATH_END: &str = "/curfew/";

/// Pages of 100 instance profiles; an account has 1,000 (IAM user guide, "IAM and AWS STS quotas").
const PAGES_MAX: usize = 50;

/// Returns `true` if IAM has this instance profile.
///
/// # Errors
/// If IAM refused.
pub async fn has_instance_profile(aws: &Aws, name: &str) -> Result<bool, CallError> {
    Ok(get_profile(aws, name).await?.is_some())
}

/// The ARN of the role of an instance profile; `None` if there is none.
///
/// # Errors
/// If IAM refused.
pub async fn profile_role_arn(aws: &Aws, name: &str) -> Result<Option<String>, CallError> {
    let answer = get_profile(aws, name).await?;
    let profile = answer.as_ref().and_then(|answer| answer.child("InstanceProfile"));
    let role = profile.and_then(|profile| profile.members("Roles").next());
    Ok(role.map(|role| role.text("Arn").unwrap_or_default().to_owned()))
}

async fn get_profile(aws: &Aws, name: &str) -> Result<Option<XmlElement>, CallError> {
    let call = QueryCall::iam(GET_PROFILE, aws.home());
    match call.read(aws, |form| form.prefix("InstanceProfileName").string(name)).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code.as_deref() == Some(NO_SUCH_ENTITY) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names of the instance profiles that `run-jobs` may give to machines.
///
/// # Errors
/// If IAM refused.
pub async fn machine_profiles(aws: &Aws) -> Result<BTreeSet<String>, CallError> {
    let mut names = BTreeSet::new();
    let read_page = |page: &XmlElement| {
        let profiles = page.members("InstanceProfiles");
        let allowed = profiles.filter(|profile| profile.text("Path").is_some_and(|path| path.ends_with(PATH_END)));
        names.extend(allowed.filter_map(|profile| profile.text("InstanceProfileName").map(str::to_owned)));
        ControlFlow::Continue(())
    };
    QueryCall::iam(LIST_PROFILES, aws.home()).read_pages(aws, PAGES_MAX, |_| {}, read_page).await?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn a_profile_has_a_role_or_is_missing() {
        let found = "<GetInstanceProfileResult><InstanceProfile><Roles><member><Arn>arn:role</Arn></member></Roles></InstanceProfile>\
                     </GetInstanceProfileResult>";
        let (found, _) = aws(move |_| ReplayAnswer::ok(found));
        assert_eq!(profile_role_arn(&found, "p").await, Ok(Some("arn:role".to_owned())));
        assert_eq!(has_instance_profile(&found, "p").await, Ok(true));
        let (missing, calls) = aws(|_| ReplayAnswer::query_error("NoSuchEntity", "none"));
        assert_eq!(profile_role_arn(&missing, "p").await, Ok(None));
        assert_eq!(has_instance_profile(&missing, "p").await, Ok(false));
        assert_eq!(calls.said(), ["GetInstanceProfile InstanceProfileName=p"; 2]);
    }

    #[tokio::test]
    async fn only_profiles_below_the_path_are_for_machines() {
        let profile = |path: &str, name: &str| {
            format!("<member><Path>{path}</Path><InstanceProfileName>{name}</InstanceProfileName></member>")
        };
        let (aws, _) = aws(move |call| {
            let is_first = !call.parameters.iter().any(|parameter| parameter == "Marker=2");
            let (profiles, next) = if is_first {
                (profile("/", "other") + &profile("/curfew/", "a"), "<IsTruncated>true</IsTruncated><Marker>2</Marker>")
            } else {
                (profile("/x/curfew/", "b"), "<IsTruncated>false</IsTruncated>")
            };
            let profiles = format!("<InstanceProfiles>{profiles}</InstanceProfiles>");
            ReplayAnswer::ok(format!("<ListInstanceProfilesResult>{profiles}{next}</ListInstanceProfilesResult>"))
        });
        let expect = ["a", "b"].map(str::to_owned).into();
        assert_eq!(machine_profiles(&aws).await, Ok(expect));
    }
}
