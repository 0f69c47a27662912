//! Credentials and region of a person.

use std::borrow::Cow;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::region::ProfileFileRegionProvider;
use aws_config::profile::{self, ProfileFileCredentialsProvider, ProfileSet};
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_ec2::error::ErrorMetadata;
use model::fault::{error_sentence, shortened};
use model::id::Region;
use model::partition::Partition;
use ports::aws_words::LOGIN_IS_OVER;

use crate::aws::{Aws, loader};

/// Profile and region as given on the command line; the AWS CLI's defaults apply to what is absent (AWS SDKs and tools reference guide,
/// "Settings reference").
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    /// A profile of the shared configuration files. Named, it comes before credentials of the environment, as with the AWS CLI.
    pub profile: Option<String>,
    /// The home region.
    pub region: Option<Region>,
}

/// Reason for a missing connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionError {
    /// No region is named anywhere.
    NoRegion,
    /// The region has no partition, or one that Curfew does not support: why.
    Unsupported(String),
    /// The SDK finds no credentials.
    NoCredentials,
    /// This profile has to log in: its `aws sso login` is missing or has expired.
    LoggedOut(String),
    /// Credentials are configured, but could not be loaded: why.
    Refused(String),
}

/// The shared configuration files cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableProfiles(String);

/// The longest cause that is shown, in characters: a credential process may write anything.
const CAUSE_MAX: usize = 300;
/// The longest chain of source profiles.
const SOURCES_MAX: usize = 10;

/// Returns `true` if the shared configuration files have such a profile.
///
/// Without it the SDK would look for credentials elsewhere, and fail at the first call.
///
/// # Errors
/// What is wrong with the files.
pub async fn has_profile(name: &str) -> Result<bool, UnreadableProfiles> {
    Ok(profiles(None).await?.get_profile(name).is_some())
}

/// The region of [`Aws::connect_as`], as far as option, environment and profile name it: without any call, and so without that of the
/// machine.
pub async fn named_region(options: &ConnectionOptions) -> Option<Region> {
    if let Some(region) = &options.region {
        return Some(region.clone());
    }
    let mut of_profile = ProfileFileRegionProvider::builder();
    if let Some(profile) = &options.profile {
        of_profile = of_profile.profile_name(profile);
    }
    let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new()).or_else(of_profile.build());
    chain.region().await.map(|region| Region::from(region.as_ref())).filter(|region| !region.as_str().is_empty())
}

#[expect(clippy::default_trait_access, reason = "the SDK keeps the names of these types to itself")]
async fn profiles(selected: Option<&str>) -> Result<ProfileSet, UnreadableProfiles> {
    let selected = selected.map(|name| Cow::Owned(name.to_owned()));
    // By default the real file system, the real environment, and the files that it names.
    let profiles = profile::load(&Default::default(), &Default::default(), &Default::default(), selected).await;
    profiles.map_err(|error| UnreadableProfiles(error_sentence(&error)))
}

impl Aws {
    /// The connection of a person. It loads the credentials once, before anything else, and makes no other call.
    ///
    /// # Errors
    /// If there is no region, or none in which Curfew works, or no credentials.
    pub async fn connect_as(identity: &ConnectionOptions) -> Result<Self, ConnectionError> {
        let (mut loader, http_client) = loader();
        if let Some(region) = &identity.region {
            loader = loader.region(aws_config::Region::new(region.as_str().to_owned()));
        }
        if let Some(profile) = &identity.profile {
            loader = loader.profile_name(profile);
        }
        let config = loader.load().await;
        let region = config.region().cloned().ok_or(ConnectionError::NoRegion)?;
        Partition::supported(region.as_ref()).map_err(|refusal| ConnectionError::Unsupported(refusal.to_string()))?;
        let provider = match &identity.profile {
            // The SDK's chain would prefer credentials of the environment.
            Some(profile) => {
                let of_profile =
                    ProviderConfig::without_region().with_region(Some(region)).with_http_client(http_client);
                let of_profile =
                    ProfileFileCredentialsProvider::builder().configure(&of_profile).profile_name(profile).build();
                SharedCredentialsProvider::new(of_profile)
            }
            None => config.credentials_provider().ok_or(ConnectionError::NoCredentials)?,
        };
        let first = match provider.provide_credentials().await {
            Ok(credentials) => Mutex::new(Some(credentials)),
            Err(error) => return Err(unconnected(&error, identity.profile.as_deref()).await),
        };
        let credentials = SharedCredentialsProvider::new(LoadedCredentials { first, provider });
        Ok(Self::with(config.into_builder().credentials_provider(credentials).build()))
    }
}

/// Credentials that are already loaded; the SDK keeps them until they expire. Asking their provider again would assume a role, or start a
/// process, twice.
#[derive(Debug)]
struct LoadedCredentials {
    first: Mutex<Option<Credentials>>,
    provider: SharedCredentialsProvider,
}

impl ProvideCredentials for LoadedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        match self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(first) => future::ProvideCredentials::ready(Ok(first)),
            None => self.provider.provide_credentials(),
        }
    }
}

async fn unconnected(error: &CredentialsError, profile: Option<&str>) -> ConnectionError {
    if let CredentialsError::CredentialsNotLoaded(_) = error {
        return ConnectionError::NoCredentials;
    }
    let profiles = if is_of_login(&error_sentence(error)) { profiles(profile).await.ok() } else { None };
    match profiles.as_ref().and_then(logs_in) {
        Some(profile) => ConnectionError::LoggedOut(profile),
        None => ConnectionError::Refused(last_cause(error)),
    }
}

fn is_of_login(said: &str) -> bool {
    LOGIN_IS_OVER.iter().any(|words| said.contains(words))
}

/// The profile that logs in: the selected one, or the source profile of its role (AWS SDKs and tools reference guide, "IAM Identity Center
/// credential provider" and "Assume role credential provider").
fn logs_in(profiles: &ProfileSet) -> Option<String> {
    let mut name = profiles.selected_profile();
    for _ in 0..SOURCES_MAX {
        let profile = profiles.get_profile(name)?;
        if ["sso_session", "sso_start_url"].iter().any(|key| profile.get(key).is_some()) {
            return Some(name.to_owned());
        }
        name = profile.get("source_profile")?;
    }
    None
}

/// The innermost error in one line: the outer ones only locate it in the SDK.
fn last_cause(error: &CredentialsError) -> String {
    let mut last: &dyn Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let said = match last.downcast_ref::<ErrorMetadata>().map(|of_aws| (of_aws.code(), of_aws.message())) {
        Some((Some(code), Some(message))) => format!("{code}: {message}"),
        _ => last.to_string(),
    };
    let words: Vec<&str> = said.split_whitespace().collect();
    shortened(words.join(" ").trim_end_matches('.'), CAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(deprecated, reason = "the SDK moved these types to a crate of its own")]
    #[expect(clippy::default_trait_access, reason = "the SDK keeps the names of these types to itself")]
    async fn check(config: &str, profile: &str, expect: Option<&str>) {
        use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
        let files = ProfileFiles::builder().with_contents(ProfileFileKind::Config, config).build();
        let profile = Cow::Owned(profile.to_owned());
        let profiles = profile::load(&Default::default(), &Default::default(), &files, Some(profile)).await.unwrap();
        assert_eq!(logs_in(&profiles).as_deref(), expect, "{config}");
    }

    #[tokio::test]
    async fn the_profile_that_logs_in_is_found() {
        const LOGS_IN: &str = "[profile people]\nsso_session = ours\n[profile old]\nsso_start_url = https://x\n\
            [profile role]\nrole_arn = a\nsource_profile = people\n\
            [profile keys]\naws_access_key_id = AKIA\n\
            [profile lost]\nsource_profile = none\n\
            [profile round]\nsource_profile = round\n";
        check(LOGS_IN, "people", Some("people")).await;
        check(LOGS_IN, "old", Some("old")).await;
        check(LOGS_IN, "role", Some("people")).await;
        for none in ["keys", "lost", "round", "default"] {
            check(LOGS_IN, none, None).await;
        }
    }

    #[test]
    fn only_the_last_cause_is_said_in_one_line() {
        let check = |error: CredentialsError, expect: &str| assert_eq!(last_cause(&error), expect);
        check(CredentialsError::provider_error("exited with 3.\n  No\tticket.\n"), "exited with 3. No ticket");
        let refused = ErrorMetadata::builder().code("AccessDenied").message("Not you.").build();
        let around = CredentialsError::provider_error(refused);
        check(CredentialsError::provider_error(around), "AccessDenied: Not you");
        check(CredentialsError::provider_error("x".repeat(1000)), &format!("{}…", "x".repeat(CAUSE_MAX)));
    }

    #[tokio::test]
    async fn what_is_loaded_is_used_once_and_then_loaded_again() {
        let credentials = |key: &str| Credentials::new(key, "secret", None, None, "test");
        let first = Mutex::new(Some(credentials("first")));
        let loaded = LoadedCredentials { first, provider: SharedCredentialsProvider::new(credentials("again")) };
        for expect in ["first", "again", "again"] {
            assert_eq!(loaded.provide_credentials().await.unwrap().access_key_id(), expect);
        }
    }
}
