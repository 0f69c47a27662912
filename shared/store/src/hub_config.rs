//! The configuration of the organization's hub, and the account's copy of it.
//!
//! One function of an account reads the hub, and keeps its copy: `reap-instances`. All others, and the command, read the copy alone, so that they
//! need no permission in another account, and no call to it.

use std::time::Duration;

use aws_config::SdkConfig;
use futures::future::{join, join3};
use jiff::Timestamp;
use model::config::{
    BYTES_MAX, Config, ConfigError, ConfigInForce, HUB_COPY_KEY, HubAnswer, HubConfig, HubCopy, HubDocument, HubStatus,
    KEY, Overlay,
};

use crate::bucket::WriteCondition;
use crate::config::TOML;
use crate::hub_figures::HubStore;
use crate::{ConfigLoadError, Store, StoreError};

/// The longest wait for the hub, which is another account's: the rest of the run has to have its time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Metadata of the copy: the hub bucket that it was read from.
const OF_HUB: &str = "hub";

/// Metadata of the copy: the account, which a reader of the bucket may not know.
const OF_ACCOUNT: &str = "account";

/// The hub of the organization, as a store knows it.
#[derive(Debug, Clone)]
pub(crate) struct HubConfigAccess {
    /// The name of its bucket; `None`: whatever hub the copy is of.
    name: Option<String>,
    /// The id of this account, by which the hub may name it; `None`: that of the copy.
    account: Option<String>,
    /// `None`: the copy alone is read.
    bucket: Option<HubStore>,
    /// `false` if there is a hub only where there is a copy.
    is_certain: bool,
}

/// The configuration in force with its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigWithHub {
    pub overlay: Overlay,
    pub hub: HubStatus,
}

/// The hub's configuration for this account, as far as it is known.
#[derive(Debug, Clone)]
pub struct HubLayer {
    document: HubDocument,
    /// The id of this account; empty if unknown.
    account: String,
}

impl Store {
    /// Store that reads the hub of that bucket for this account, and keeps a copy of its configuration.
    #[must_use]
    pub fn reading_hub(self, config: &SdkConfig, hub: String, account: String) -> Self {
        let bucket = Some(HubStore::new(config, hub.clone()));
        let access = HubConfigAccess { name: Some(hub), account: Some(account), bucket, is_certain: true };
        Self { hub_config: Some(access), ..self }
    }

    /// Store that reads the copy of the hub's configuration; `hub`: the bucket that it has to be of, and `account`: the id of this account, where
    /// they are known.
    #[must_use]
    pub fn reading_hub_copy(self, hub: Option<String>, account: Option<String>) -> Self {
        Self { hub_config: Some(HubConfigAccess { name: hub, account, bucket: None, is_certain: true }), ..self }
    }

    /// Store of which it is unknown whether there is a hub: there is one if the bucket has a copy of its configuration.
    #[must_use]
    pub fn reading_hub_copy_if_any(self, account: Option<String>) -> Self {
        Self { hub_config: Some(HubConfigAccess { name: None, account, bucket: None, is_certain: false }), ..self }
    }

    /// Returns `true` if lines of an organization's hub count beside the account's own.
    ///
    /// # Errors
    /// If that depends on the copy, and it could not be read.
    pub async fn has_hub(&self) -> Result<bool, StoreError> {
        match &self.hub_config {
            None => Ok(false),
            Some(hub) if hub.is_certain => Ok(true),
            Some(_) => Ok(self.read_hub_copy().await?.is_some()),
        }
    }

    /// The configuration in force by the copy of the hub's; `None` if this account has no hub, as far as is known.
    ///
    /// # Errors
    /// If the account's own document was refused, or could not be read.
    pub async fn read_config_with_hub(&self) -> Result<Option<ConfigWithHub>, ConfigLoadError> {
        let Some(hub) = &self.hub_config else { return Ok(None) };
        let (own, layer) = self.read_own_and_layer(hub).await?;
        let own = own.map_or_else(String::new, |(_, text)| text);
        layer.map(|layer| layer.combine(&own)).transpose().map_err(ConfigLoadError::Refused)
    }

    /// Layer of the hub's configuration over a document of the account, by the copy; `None` if the account has no hub, as far as is known.
    ///
    /// # Errors
    /// If the copy could not be read.
    pub async fn read_hub_layer(&self) -> Result<Option<HubLayer>, StoreError> {
        let Some(hub) = &self.hub_config else { return Ok(None) };
        Ok(hub.layer(Ok(self.read_hub_copy().await?)))
    }

    /// The account's own document, and what the copy of the hub's adds to it.
    async fn read_own_and_layer(
        &self,
        hub: &HubConfigAccess,
    ) -> Result<(Option<(Config, String)>, Option<HubLayer>), ConfigLoadError> {
        let (own, copy) = Box::pin(join(self.read_config_document(), self.read_hub_copy())).await;
        Ok((own?, hub.layer(copy)))
    }

    /// The configuration in force, by the copy alone.
    pub(crate) async fn read_in_force_by_copy(&self) -> Result<ConfigInForce, ConfigLoadError> {
        let (own, layer) = match &self.hub_config {
            Some(hub) => self.read_own_and_layer(hub).await?,
            None => (self.read_config_document().await?, None),
        };
        let (config, text) = own.unwrap_or_default();
        match layer {
            Some(layer) => layer.combine(&text).map(ConfigInForce::from).map_err(ConfigLoadError::Refused),
            None => Ok(config.into()),
        }
    }

    pub(crate) async fn read_in_force(&self, now: Timestamp) -> Result<ConfigInForce, ConfigLoadError> {
        let asked = self.hub_config.as_ref().and_then(|hub| Some((hub, hub.name.as_deref()?, hub.bucket.as_ref()?)));
        let Some((hub, name, bucket)) = asked else { return self.read_in_force_by_copy().await };
        let reads = join3(self.read_config_document(), Box::pin(ask(bucket)), self.read_hub_copy());
        let (own, answer, copy) = Box::pin(reads).await;
        let own = own?.map_or_else(String::new, |(_, text)| text);
        let answer = match (answer, &copy) {
            // There may be a copy all the same, which counts on.
            (HubAnswer::Absent, Err(error)) => HubAnswer::Failed(error.to_string()),
            (answer, _) => answer,
        };
        let mut document = HubDocument::from_answer(name, answer, copy.unwrap_or_default(), now);
        if let HubDocument::Known { document, problem, is_to_keep: true, .. } = &mut document {
            let account = hub.account.clone().map(|account| (OF_ACCOUNT.to_owned(), account));
            let metadata = [(OF_HUB.to_owned(), name.to_owned())].into_iter().chain(account).collect();
            let bytes = document.clone().into_bytes();
            let put = self.bucket.put_with_metadata(TOML, HUB_COPY_KEY, bytes, WriteCondition::None, metadata);
            if let Err(error) = Box::pin(put).await {
                *problem = Some(format!("the copy of the hub's configuration could not be kept: {error}"));
            }
        }
        let layer = HubLayer { document, account: hub.account.clone().unwrap_or_default() };
        layer.combine(&own).map(ConfigInForce::from).map_err(ConfigLoadError::Refused)
    }

    async fn read_hub_copy(&self) -> Result<Option<HubCopy>, StoreError> {
        let Some(found) = self.bucket.find(HUB_COPY_KEY, BYTES_MAX).await? else { return Ok(None) };
        let hub = found.metadata.get(OF_HUB).cloned().unwrap_or_default();
        let account = found.metadata.get(OF_ACCOUNT).cloned();
        Ok(found.bytes.ok().map(|document| HubCopy { hub, account, document, read_at: found.written_at }))
    }
}

impl HubConfigAccess {
    /// The layer by the copy; `None` if there is no hub, as far as is known.
    fn layer(&self, copy: Result<Option<HubCopy>, StoreError>) -> Option<HubLayer> {
        let copy = match copy {
            Ok(None) if !self.is_certain => return None,
            Ok(copy) => copy,
            Err(error) if !self.is_certain => {
                let problem = format!("it is unknown whether the account has a hub: {error}");
                let account = self.account.clone().unwrap_or_default();
                return Some(HubLayer { document: HubDocument::Unknown(problem), account });
            }
            Err(_) => None,
        };
        let account = self.account.clone().or_else(|| copy.as_ref()?.account.clone());
        if copy.is_some() && account.is_none() {
            let problem = "the hub may have lines for this account alone, and the copy of its configuration does not name the account; pass \
                           --topic-arn, or try again in an hour";
            return Some(HubLayer { document: HubDocument::Unknown(problem.to_owned()), account: String::new() });
        }
        let document = HubDocument::from_copy(self.name.as_deref(), copy);
        Some(HubLayer { document, account: account.unwrap_or_default() })
    }
}

impl HubLayer {
    /// The configuration in force with this document of the account.
    ///
    /// # Errors
    /// If the document is refused.
    pub fn combine(&self, own: &str) -> Result<ConfigWithHub, ConfigError> {
        let (text, hub) = match &self.document {
            HubDocument::Known { document, read_at, problem, .. } => {
                (document.as_str(), HubStatus::Known { read_at: *read_at, problem: problem.clone() })
            }
            HubDocument::Unknown(reason) => ("", HubStatus::Unknown(reason.clone())),
        };
        // It was legal a moment ago.
        let overlay = Overlay::new(&HubConfig::read(text)?, &self.account, own)?;
        Ok(ConfigWithHub { overlay, hub })
    }
}

impl From<ConfigWithHub> for ConfigInForce {
    fn from(ConfigWithHub { overlay, hub }: ConfigWithHub) -> Self {
        Self { config: overlay.config, hub }
    }
}

async fn ask(hub: &HubStore) -> HubAnswer {
    let read = async {
        // Whoever may not list the bucket is denied what is absent.
        let bucket = hub.bucket().await?.clone().asking_listing();
        bucket.get(KEY, BYTES_MAX).await
    };
    let Ok(read) = tokio::time::timeout(TIMEOUT, read).await else {
        return HubAnswer::Failed(format!("it did not answer within {} seconds", TIMEOUT.as_secs()));
    };
    match read {
        Ok(Some(object)) => HubAnswer::Document(object.bytes),
        Ok(None) => HubAnswer::Absent,
        Err(error) => HubAnswer::Failed(error.to_string()),
    }
}
