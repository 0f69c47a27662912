//! The connection to AWS: one configuration, one HTTP client, and a client per service and region, made on demand.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_ec2::config::SharedHttpClient;
use aws_smithy_runtime::client::retries::RetryPartition;
use model::id::Region;
use signed_call::APP_NAME;
use tokio::sync::OnceCell;

use crate::message_pace::MessagePace;
use crate::meter::UsageMeter;

/// The first attempt and its retries.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(100);

/// The default: every account has this region.
const HOME_UNSAID: &str = "us-east-1";

/// AWS, with the region and the credentials of the environment.
#[derive(Debug)]
pub struct Aws {
    config: SdkConfig,
    home: Region,
    ec2: RegionalClients<aws_sdk_ec2::Client>,
    cloudwatch: RegionalClients<aws_sdk_cloudwatch::Client>,
    sns: RegionalClients<aws_sdk_sns::Client>,
    /// The quota of retries of EC2 and `CloudWatch`; `None`: that of the process, one for each service and region.
    pub(crate) retries: Option<RetryPartition>,
    pub(crate) message_pace: MessagePace,
    pub(crate) meter: UsageMeter,
}

impl Aws {
    /// Reads the standard AWS variables, without any call.
    ///
    /// Retries are those of the SDKs' standard mode: each call backs off by itself, and a quota of retries ends a storm.
    /// Adaptive mode limits all calls of a service together, in every region and for the life of the process: one throttled
    /// call held a run of ten calls for 20 seconds, and a throttled region held all others (AWS SDKs and tools reference
    /// guide, "Retry behavior": it is experimental, and for clients of a single resource).
    pub async fn connect() -> Self {
        let (loader, http_client) = loader();
        let meter = UsageMeter::default();
        let loader = loader.http_client(meter.metered(http_client.clone()));
        let config = loader.credentials_provider(credentials(http_client)).load().await;
        Self { meter, ..Self::with(config) }
    }

    /// Connection with a configuration as it is.
    pub(crate) fn with(config: SdkConfig) -> Self {
        let home = config.region().map_or(HOME_UNSAID, |region| region.as_ref());
        if config.region().is_none() {
            tracing::error!("no AWS region is configured; set AWS_REGION, as Lambda does ({home} is assumed)");
        }
        let home = Region::from(home);
        let (ec2, cloudwatch) = (RegionalClients::default(), RegionalClients::default());
        let (message_pace, meter) = (MessagePace::default(), UsageMeter::default());
        Self { config, home, ec2, cloudwatch, sns: RegionalClients::default(), retries: None, message_pace, meter }
    }

    /// The connection with a quota of retries of its own: a throttled account takes none from the others.
    #[cfg(feature = "operator")]
    pub(crate) fn with_own_retries(self) -> Self {
        Self { retries: Some(RetryPartition::custom("account").build()), ..self }
    }

    /// The region that the environment names.
    #[must_use]
    pub const fn home(&self) -> &Region {
        &self.home
    }

    /// The configuration that all clients share, for those of the state bucket.
    #[must_use]
    pub const fn sdk_config(&self) -> &SdkConfig {
        &self.config
    }

    pub(crate) fn ec2(&self, region: &Region) -> aws_sdk_ec2::Client {
        self.ec2.client(region, |region| {
            let mut config = aws_sdk_ec2::config::Builder::from(&self.config).region(region);
            config.set_retry_partition(self.retries.clone());
            aws_sdk_ec2::Client::from_conf(config.build())
        })
    }

    pub(crate) fn cloudwatch(&self, region: &Region) -> aws_sdk_cloudwatch::Client {
        self.cloudwatch.client(region, |region| {
            let mut config = aws_sdk_cloudwatch::config::Builder::from(&self.config).region(region);
            config.set_retry_partition(self.retries.clone());
            aws_sdk_cloudwatch::Client::from_conf(config.build())
        })
    }

    #[cfg(feature = "operator")]
    pub(crate) fn sts(&self) -> aws_sdk_sts::Client {
        aws_sdk_sts::Client::new(&self.config)
    }

    pub(crate) fn sns(&self, region: &Region) -> aws_sdk_sns::Client {
        self.sns.client(region, |region| {
            let config = aws_sdk_sns::config::Builder::from(&self.config).region(region).build();
            aws_sdk_sns::Client::from_conf(config)
        })
    }
}

/// Returns the settings that every connection has, and its one HTTP client.
pub(crate) fn loader() -> (ConfigLoader, SharedHttpClient) {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    // One for all clients: each of its own would read the trusted certificates and open its own connections.
    let http_client = signed_call::http_client();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
        .timeout_config(timeouts)
        .http_client(http_client.clone());
    if let Ok(name) = AppName::new(APP_NAME) {
        loader = loader.app_name(name);
    }
    (loader, http_client)
}

/// Credentials from the environment, where Lambda puts them; otherwise from the SDK's own chain.
fn credentials(http_client: SharedHttpClient) -> CredentialsProviderChain {
    let environment = EnvironmentVariableCredentialsProvider::new();
    let elsewhere = SdkCredentialChain { http_client, chain: OnceCell::new() };
    CredentialsProviderChain::first_try("Environment", environment).or_else("Elsewhere", elsewhere)
}

/// The SDK's own chain, made when it is first needed: making it reads the trusted certificates, a quarter of the time to the
/// first poll of an event.
#[derive(Debug)]
struct SdkCredentialChain {
    http_client: SharedHttpClient,
    chain: OnceCell<DefaultCredentialsChain>,
}

impl SdkCredentialChain {
    async fn chain(&self) -> DefaultCredentialsChain {
        let config = ProviderConfig::without_region().with_http_client(self.http_client.clone());
        DefaultCredentialsChain::builder().configure(config).build().await
    }
}

impl ProvideCredentials for SdkCredentialChain {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            self.chain.get_or_init(|| self.chain()).await.provide_credentials().await
        })
    }
}

/// Clients of one service.
#[derive(Debug)]
struct RegionalClients<C>(Mutex<BTreeMap<Region, C>>);

impl<C> Default for RegionalClients<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Clone> RegionalClients<C> {
    fn client(&self, region: &Region, make: impl FnOnce(aws_config::Region) -> C) -> C {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || make(aws_config::Region::new(region.as_str().to_owned()));
        clients.entry(region.clone()).or_insert_with(first).clone()
    }
}
