//! The context of a command: credentials, region, deployment, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::BudgetMonth;
use billing::ledger::CalendarMonth;
use billing::price::{PriceBook, PriceDocument};
use cloud::Aws;
use cloud::operator::{ConnectionError, ConnectionOptions, Deployment, deployment, has_profile, read_stack};
use jiff::Timestamp;
use model::channels::{MessageTopics, account_of_topic};
use model::config::Config;
use model::foreign_text::shell_word;
use model::home::{HomeSettings, StateBucket};
use model::id::Region;
use model::instance::Instance;
use model::mode::Mode;
use operator::doctor::{DoctorFinding, configuration};
use plan::report::RunRecord;
use store::Store;

use crate::command_error::CommandError;
use crate::global_options::GlobalOptions;
use crate::list_prices::PriceCache;
use crate::screen;
use crate::world;

/// The context of every command that calls AWS.
pub(crate) struct CommandContext {
    pub(crate) aws: Aws,
    pub(crate) now: Timestamp,
    pub(crate) global: GlobalOptions,
    /// The credentials, for people.
    who: String,
}

/// The state bucket and the topic of a deployment, named by options or by its stack.
pub(crate) struct DeployedResources {
    pub(crate) store: Store,
    pub(crate) bucket: String,
    /// Absent if the bucket was named by an option, and the teams' topic was not.
    pub(crate) topics: Option<MessageTopics>,
    /// `CURFEW_CHAT_TOPIC_ARN`, or the stack's.
    pub(crate) chat_topic_arn: Option<String>,
    /// The copy of the state bucket in a second region.
    pub(crate) replica: Option<StateBucket>,
    /// The reason why the stack changes nothing, if another stack may act.
    pub(crate) standby: Option<String>,
}

/// The policy that a stack makes beside which another one can exist, and no other.
const HOME_POLICY: &str = "KnowHome";

/// The policy that a stack with a hub makes, and no other: it tells that there is one without a further call.
const HUB_POLICY: &str = "ReadHub";

/// The current mode of a function, as far as a command can know.
pub(crate) struct FunctionCeiling {
    /// `CURFEW_MODE` of the function's newest run, or of this command's environment: the lesser.
    pub(crate) mode: Mode,
    /// The record of the function's newest own run.
    pub(crate) newest: RunRecord,
}

impl FunctionCeiling {
    /// Reads the mode as of that moment: a question to a person may have taken time since the command began.
    ///
    /// # Errors
    /// If it is unknown.
    pub(crate) async fn read(store: &Store, function: &str, now: Timestamp) -> Result<Option<Self>, CommandError> {
        let own = own_ceiling()?.unwrap_or(Mode::Enforce);
        let newest = store.newest_plan(function, now).await?;
        Ok(newest.map(|newest| Self { mode: newest.mode.min(own), newest }))
    }
}

impl CommandContext {
    /// Connects, and loads the credentials, so that missing ones are reported once, before any call.
    ///
    /// # Errors
    /// If there is no region, a profile is missing, or there are no credentials.
    pub(crate) async fn connect(global: GlobalOptions) -> Result<Self, CommandError> {
        Self::connect_if_possible(global).await?
    }

    /// Connects a command that can do without AWS: the inner error means that there is neither a region nor credentials, and that no
    /// profile was named.
    ///
    /// # Errors
    /// All others.
    pub(crate) async fn connect_if_possible(global: GlobalOptions) -> Result<Result<Self, CommandError>, CommandError> {
        let named = named_profile(&global);
        let profile = named.as_deref().unwrap_or("default");
        let has_it = has_profile(profile).await.map_err(CommandError::new)?;
        if named.is_some() && !has_it {
            return Err(CommandError::with(
                format!("there is no profile {profile} in the AWS configuration files"),
                "aws configure list-profiles lists those that there are; name one by --profile or AWS_PROFILE",
            ));
        }
        let region = global.region.as_deref().map(Region::from);
        let identity = ConnectionOptions { profile: global.profile.clone(), region };
        let aws = match Aws::connect_as(&identity).await {
            Ok(aws) => aws,
            Err(why) => {
                let is_absent = matches!(why, ConnectionError::NoRegion | ConnectionError::NoCredentials);
                let error = unconnected(why, profile, has_it);
                return if is_absent && named.is_none() { Ok(Err(error)) } else { Err(error) };
            }
        };
        let who = if global.profile.is_none() && world::variable("AWS_ACCESS_KEY_ID").is_some() {
            "credentials of the environment (AWS_ACCESS_KEY_ID)".to_owned()
        } else if has_it {
            format!("profile {profile}")
        } else {
            "no profile".to_owned()
        };
        Ok(Ok(Self { aws, now: world::clock(), global, who }))
    }

    /// The credentials and the region, for errors.
    pub(crate) fn whereabouts(&self) -> String {
        format!("{}, home region {}", self.who, self.aws.home())
    }

    /// The options by which another process finds this deployment with these credentials.
    pub(crate) fn options(&self) -> Vec<String> {
        let GlobalOptions { stack, bucket, .. } = &self.global;
        let mut options = vec!["--region".to_owned(), self.aws.home().to_string()];
        let others = [
            ("--profile", named_profile(&self.global)),
            ("--stack", Some(stack.clone())),
            ("--bucket", bucket.clone()),
        ];
        for (option, value) in others {
            options.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        options
    }

    /// Adds the credentials to an error without advice.
    pub(crate) fn blame(&self, failure: CommandError) -> CommandError {
        match failure.advice {
            Some(_) => failure,
            None => CommandError { advice: Some(format!("({})", self.whereabouts())), ..failure },
        }
    }

    /// The deployment's stack; `None` if there is none.
    ///
    /// # Errors
    /// If `CloudFormation` refused.
    pub(crate) async fn stack(&self) -> Result<Option<Deployment>, CommandError> {
        Ok(deployment(&self.aws, &self.global.stack).await?)
    }

    /// The deployment; `None` if there is none.
    ///
    /// # Errors
    /// If it is unknown.
    pub(crate) async fn deployed(&self) -> Result<Option<DeployedResources>, CommandError> {
        let GlobalOptions { bucket, topic_arn, .. } = &self.global;
        if let Some(bucket) = bucket {
            return Ok(Some(self.deployed_resources(bucket.clone(), topic_arn.clone(), &BTreeMap::new())));
        }
        let Some(stack) = self.stack().await? else { return Ok(None) };
        let topic_arn = topic_arn.clone().unwrap_or(stack.topic_arn);
        let deployed = self.deployed_resources(stack.bucket, Some(topic_arn), &stack.made);
        if !stack.made.contains_key(HOME_POLICY) {
            return Ok(Some(deployed));
        }
        Ok(Some(Box::pin(self.with_standing(deployed)).await))
    }

    /// Reads which stack acts, and warns if it is not this one.
    async fn with_standing(&self, deployed: DeployedResources) -> DeployedResources {
        // A member of a team may not describe the stack, and has no need to know.
        let Ok(stack) = read_stack(&self.aws, &self.global.stack).await else { return deployed };
        let value = |name: &str| {
            let parameters = stack.as_ref().map(|stack| &stack.parameters)?;
            parameters.get(name).filter(|value| !value.is_empty())
        };
        let replica = value("ReplicaBucket").zip(value("ReplicaRegion"));
        let replica = replica
            .map(|(bucket, region)| StateBucket { bucket: bucket.clone(), region: Region::from(region.as_str()) })
            .filter(|replica| replica.check().is_ok());
        let own = StateBucket { bucket: deployed.bucket.clone(), region: self.aws.home().clone() };
        let is_restored = value("RestoreFrom").is_some();
        let settings = HomeSettings { own, replica: replica.clone(), is_restored };
        let store = deployed.store.knowing_home(self.aws.sdk_config(), settings, false);
        let standing = store.read_standing(self.now).await;
        let standby = standing.and_then(|(standing, _)| standing.standby_reason());
        if let Some(reason) = &standby {
            screen::warn(reason);
        }
        DeployedResources { store, replica, standby, ..deployed }
    }

    /// The GPU instances in the regions that the configuration leaves out, which no run sees. Regions that do not answer are left out here as
    /// well.
    pub(crate) async fn instances_left_out(&self, config: &Config, timeout: Duration) -> Vec<Instance> {
        if config.regions.is_empty() {
            return Vec::new();
        }
        let mut others = cloud::regions(&self.aws, &Config::default()).await.items;
        others.retain(|region| !config.regions.contains(region));
        cloud::instances(&self.aws, &others, timeout).await.items
    }

    /// Warns of GPU instances in regions that the configuration leaves out.
    pub(crate) async fn warn_of_left_out_regions(&self, config: &Config, timeout: Duration) {
        let left_out = self.instances_left_out(config, timeout).await;
        warn_of(configuration::check_regions(&left_out));
    }

    /// Warns of tag keys of GPU instances that only look like those of the configuration.
    pub(crate) async fn warn_of_tag_keys(&self, config: &Config, timeout: Duration) {
        let regions = cloud::regions(&self.aws, config).await.items;
        let instances = cloud::instances(&self.aws, &regions, timeout).await.items;
        warn_of(configuration::check_tag_keys(&instances, config));
    }

    fn deployed_resources(
        &self,
        bucket: String,
        topic_arn: Option<String>,
        resources: &BTreeMap<String, String>,
    ) -> DeployedResources {
        let store = Store::new(self.aws.sdk_config(), bucket.clone());
        let hub = world::variable("CURFEW_HUB_BUCKET").filter(|hub| !hub.is_empty());
        let account = topic_arn.as_deref().and_then(account_of_topic);
        let store = if hub.is_some() || resources.contains_key(HUB_POLICY) {
            store.reading_hub_copy(hub, account)
        } else if resources.is_empty() {
            store.reading_hub_copy_if_any(account)
        } else {
            store
        };
        let topic = |variable: &str, id: &str| world::variable(variable).or_else(|| resources.get(id).cloned());
        let account = topic("CURFEW_ACCOUNT_TOPIC_ARN", "AccountTopic");
        let topics = topic_arn.map(|teams| MessageTopics { teams, account });
        let chat_topic_arn = topic("CURFEW_CHAT_TOPIC_ARN", "ChatTopic");
        DeployedResources { store, bucket, topics, chat_topic_arn, replica: None, standby: None }
    }

    /// Prices: the live ones of a deployment and of the user's cache, if there are any.
    pub(crate) async fn prices(&self, store: Option<&Store>, config: &Config) -> PriceBook {
        PriceBook::from_document(self.known_prices(store).await, &config.prices, self.now)
    }

    /// The live prices of a deployment, and the younger list prices of the user's cache.
    pub(crate) async fn known_prices(&self, store: Option<&Store>) -> PriceDocument {
        let mut known = match store {
            Some(store) => execution::prices::load_document(store).await,
            None => PriceDocument::default(),
        };
        if let Some(cache) = PriceCache::locate(&self.aws) {
            known.merge(cache.load(self.now));
        }
        known
    }

    /// Keeps these list prices in the user's cache.
    pub(crate) fn cache_prices(&self, prices: &PriceDocument) {
        if let Some(cache) = PriceCache::locate(&self.aws) {
            cache.store(prices, self.now);
        }
    }

    /// The month of that name, `yyyy-mm`, or the current one, in the account's time zone.
    ///
    /// # Errors
    /// If it names none, or one that has not begun.
    pub(crate) fn month(&self, named: Option<&str>, config: &Config) -> Result<CalendarMonth, CommandError> {
        let first = match named {
            Some(named) => {
                let wrong = |why| CommandError::with(why, "without --month it is the present month");
                BudgetMonth::named(named, config).map_err(wrong)?.from
            }
            None => self.now,
        };
        let month = CalendarMonth::containing(first, &config.account.zone());
        if first > self.now {
            let problem = format!("{month} has not begun yet");
            return Err(CommandError::with(problem, "without --month it is the present month"));
        }
        Ok(month)
    }

    /// The deployment.
    ///
    /// # Errors
    /// If there is none, or it is unknown.
    pub(crate) async fn needs_deployed(&self) -> Result<DeployedResources, CommandError> {
        self.deployed().await?.ok_or_else(|| {
            CommandError::with(
                format!("there is no stack {} in {}", self.global.stack, self.aws.home()),
                "name the deployment's --region, its --stack, or its --bucket and --topic-arn",
            )
        })
    }

    /// The highest mode of a function: by its newest record, and by `CURFEW_MODE` of this command's own environment. `None` if it left no record
    /// today or yesterday.
    ///
    /// # Errors
    /// If it is unknown.
    pub(crate) async fn ceiling(&self, store: &Store, function: &str) -> Result<Option<FunctionCeiling>, CommandError> {
        FunctionCeiling::read(store, function, self.now).await
    }
}

fn warn_of(findings: Vec<DoctorFinding>) {
    for DoctorFinding { found, remedy, .. } in findings {
        screen::warn(format!("{found}; {remedy}"));
    }
}

/// The profile of the option or of the environment.
fn named_profile(global: &GlobalOptions) -> Option<String> {
    global.profile.clone().or_else(|| world::variable("AWS_PROFILE"))
}

/// Explains why AWS cannot be called. `has_it`: the profile is in the configuration files.
fn unconnected(why: ConnectionError, profile: &str, has_it: bool) -> CommandError {
    match why {
        ConnectionError::NoRegion => CommandError::with(
            "no AWS region is named",
            format!(
                "pass --region, set AWS_REGION, or give the profile {profile} one: aws configure set region REGION --profile {}",
                shell_word(profile)
            ),
        ),
        ConnectionError::Unsupported(refusal) => {
            CommandError::with(refusal, "name the home region of Curfew by --region or AWS_REGION")
        }
        ConnectionError::NoCredentials => {
            let looked = if has_it { format!("the profile {profile}") } else { "an AWS profile".to_owned() };
            CommandError::new(format!(
                "no credentials: neither the environment nor {looked} has any, nor has this machine; set AWS_PROFILE, or \
                 pass --profile"
            ))
        }
        ConnectionError::LoggedOut(profile) => CommandError::new(format!(
            "no credentials: the login of profile {profile} is missing or has expired: aws sso login --profile {}",
            shell_word(&profile)
        )),
        ConnectionError::Refused(cause) => {
            let whose = if has_it { format!(" of profile {profile}") } else { String::new() };
            CommandError::new(format!(
                "no credentials: those{whose} cannot be loaded: {cause}; correct that, or set AWS_PROFILE, or pass --profile"
            ))
        }
    }
}

/// `CURFEW_MODE` of this command's environment.
pub(crate) fn own_ceiling() -> Result<Option<Mode>, CommandError> {
    let Some(text) = world::variable("CURFEW_MODE") else { return Ok(None) };
    let mode = Mode::read(&text);
    mode.map(Some)
        .ok_or_else(|| CommandError::new(format!("CURFEW_MODE is {text:?}; set it to observe or enforce, or unset it")))
}
