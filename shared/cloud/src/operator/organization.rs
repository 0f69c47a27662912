//! The accounts of an organization, and a connection to one of them by a role there.

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_sts::types::AssumedRoleUser;
use aws_smithy_runtime::client::identity::IdentityCache;
use operator::organization::{
    ACCOUNTS_MAX, AccountId, CallerIdentity, ExternalId, ListedAccount, RoleName, check_session,
};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};
use crate::http_call::{AwsService, HttpCall};
use crate::observe::pages::all_pages;

const LIST_ACCOUNTS: &str = "organizations:ListAccounts";
const ASSUME_ROLE: &str = "sts:AssumeRole";
/// Accounts of a page, the most that it may have (AWS Organizations API reference, `ListAccounts`).
const PAGE_SIZE: usize = 20;
/// Validity of the credentials of an account, in seconds: longer than the timeout of its scan, and no longer than any role allows (IAM user
/// guide, "Update the maximum session duration for a role": an hour at least).
const SESSION_SECONDS: i32 = 3_600;

/// The role that is assumed in each account.
#[derive(Debug, Clone, Copy)]
pub struct AssumedRole<'a> {
    pub caller: &'a CallerIdentity,
    pub role: &'a RoleName,
    pub external_id: Option<&'a ExternalId>,
}

/// The accounts of the caller's organization, by id; needs `organizations:ListAccounts`, which only the management account and delegated
/// administrators have.
///
/// # Errors
/// If Organizations refused, an account cannot be read, or there are more than [`ACCOUNTS_MAX`].
pub async fn list_accounts(aws: &Aws) -> Result<Vec<ListedAccount>, CallError> {
    let home = aws.home();
    let name = ("AWSOrganizationsV20161128", "ListAccounts");
    let call = HttpCall::json_1_1(LIST_ACCOUNTS, home, AwsService::Organizations, name);
    let misread = |problem: String| CallError::new(LIST_ACCOUNTS, home, CallErrorKind::Other, problem);
    let mut accounts: Vec<ListedAccount> = Vec::new();
    all_pages(LIST_ACCOUNTS, home, async |token| {
        let mut request = json!({ "MaxResults": PAGE_SIZE });
        if let Some(token) = token {
            request["NextToken"] = json!(token);
        }
        let page = call.send(aws, &request).await?;
        let listed = page["Accounts"].as_array().ok_or_else(|| misread("the answer has no list".to_owned()))?;
        for account in listed {
            accounts.push(listed_account(account).ok_or_else(|| misread("an account lacks its id".to_owned()))?);
        }
        if accounts.len() > ACCOUNTS_MAX {
            let problem = format!("more than {ACCOUNTS_MAX} accounts; name some of them by --accounts");
            return Err(misread(problem));
        }
        Ok(page["NextToken"].as_str().map(str::to_owned))
    })
    .await?;
    accounts.sort_by(|one, other| one.account.cmp(&other.account));
    accounts.dedup_by(|one, other| one.account == other.account);
    Ok(accounts)
}

/// `State` takes the place of `Status`, which AWS retired on 2026-09-09 (AWS Organizations API reference, `Account`). One without either is not
/// known to be closed.
fn listed_account(account: &Value) -> Option<ListedAccount> {
    let text = |key: &str| account[key].as_str().filter(|text| !text.is_empty());
    let state = text("State").or_else(|| text("Status"));
    Some(ListedAccount {
        account: AccountId::parse(text("Id")?).ok()?,
        name: text("Name").map(str::to_owned),
        inactive: state.filter(|state| *state != "ACTIVE").map(str::to_owned),
    })
}

/// A connection to an account by its role. Neither credentials nor retries are shared with another account: one that is throttled takes no
/// retry from the others.
///
/// # Errors
/// If STS refused, or answered with credentials of another account.
pub async fn assume_role(aws: &Aws, role: AssumedRole<'_>, account: &AccountId) -> Result<Aws, CallError> {
    let AssumedRole { caller, role, external_id } = role;
    let call = aws
        .sts()
        .assume_role()
        .role_arn(role.arn(&caller.partition, account))
        .role_session_name(&caller.session_name)
        .duration_seconds(SESSION_SECONDS)
        .set_external_id(external_id.map(|id| id.as_str().to_owned()));
    let answer = Box::pin(call.send()).await.map_err(|error| call_error(ASSUME_ROLE, aws.home(), &error))?;
    let wrong = |problem: String| CallError::new(ASSUME_ROLE, aws.home(), CallErrorKind::Other, problem);
    let arn = answer.assumed_role_user().map(AssumedRoleUser::arn).unwrap_or_default();
    check_session(arn, &caller.partition, account).map_err(|problem| wrong(problem.to_string()))?;
    let session = answer.credentials().ok_or_else(|| wrong("the answer has no credentials".to_owned()))?;
    let token = Some(session.session_token().to_owned());
    let credentials = Credentials::new(session.access_key_id(), session.secret_access_key(), token, None, "AssumeRole");
    Ok(Aws::with(with_credentials(aws.sdk_config(), credentials)).with_own_retries())
}

fn with_credentials(config: &SdkConfig, credentials: Credentials) -> SdkConfig {
    let builder = config.to_builder().identity_cache(IdentityCache::lazy().build());
    builder.credentials_provider(SharedCredentialsProvider::new(credentials)).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn every_page_of_accounts_is_read() {
        let pages = |call: &crate::replay::ReplayedCall| {
            let page = if call.parameters[0].contains("NextToken") {
                r#"{"Accounts":[{"Id":"222222222222","Name":"b","Status":"SUSPENDED"},{"Id":"111122223333","Name":"again"}]}"#
            } else {
                r#"{"Accounts":[{"Id":"333333333333","State":"CLOSED","Status":"ACTIVE"},{"Id":"111122223333","Name":"a","State":"ACTIVE"}],"NextToken":"x"}"#
            };
            ReplayAnswer::Raw(200, page.as_bytes().to_vec())
        };
        let (aws, calls) = aws(pages);
        let listed = list_accounts(&aws).await.unwrap();
        let rows: Vec<_> =
            listed.iter().map(|one| (one.account.as_str(), one.name.as_deref(), one.inactive.as_deref())).collect();
        let expect = [
            ("111122223333", Some("a"), None),
            ("222222222222", Some("b"), Some("SUSPENDED")),
            ("333333333333", None, Some("CLOSED")),
        ];
        assert_eq!(rows, expect);
        assert_eq!(
            calls.said(),
            [r#"ListAccounts {"MaxResults":20}"#, r#"ListAccounts {"MaxResults":20,"NextToken":"x"}"#]
        );
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_read_is_an_error() {
        for (page, words) in [("{}", "has no list"), (r#"{"Accounts":[{"Id":"1"}]}"#, "lacks its id")] {
            let (aws, _) = aws(|_| ReplayAnswer::Raw(200, page.as_bytes().to_vec()));
            assert!(list_accounts(&aws).await.unwrap_err().to_string().contains(words), "{page}");
        }
    }

    #[tokio::test]
    async fn the_role_is_that_of_the_account_and_so_are_its_credentials() {
        let answer = |of: &str| {
            format!(
                "<AssumeRoleResult><AssumedRoleUser><AssumedRoleId>A:me</AssumedRoleId>\
                 <Arn>arn:aws:sts::{of}:assumed-role/look/me</Arn></AssumedRoleUser><Credentials><AccessKeyId>ASIAMEMBER</AccessKeyId>\
                 <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-09-01T13:00:00Z</Expiration>\
                 </Credentials></AssumeRoleResult>"
            )
        };
        let caller = CallerIdentity::from_arn("arn:aws:iam::999999999999:user/ada").unwrap();
        let (role, external_id) = (RoleName::parse("look").unwrap(), ExternalId::parse("xyz").unwrap());
        let role = AssumedRole { caller: &caller, role: &role, external_id: Some(&external_id) };
        let account = AccountId::parse("111122223333").unwrap();
        let (hub, calls) = aws(move |_| ReplayAnswer::ok(answer("111122223333")));
        let member = assume_role(&hub, role, &account).await.unwrap();
        assert!(member.retries.is_some() && member.home() == hub.home());
        let parameters = calls.recorded().remove(0).parameters;
        for expect in [
            "RoleArn=arn:aws:iam::111122223333:role/look",
            "RoleSessionName=curfew-scan-ada",
            "DurationSeconds=3600",
            "ExternalId=xyz",
        ] {
            assert!(parameters.iter().any(|one| one == expect), "{parameters:?}");
        }
        let (hub, _) = aws(move |_| ReplayAnswer::ok(answer("444455556666")));
        let why = assume_role(&hub, role, &account).await.unwrap_err().to_string();
        assert!(why.contains("STS answered with credentials of the account 444455556666"), "{why}");
    }
}
