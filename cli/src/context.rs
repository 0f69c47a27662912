//! Where a command works: whose credentials, which region, which deployment, and what time it is.

use cloud::Aws;
use cloud::operator::{Deployment, Identity, Unconnected, deployment, has_profile};
use domain::config::Config;
use domain::id::Region;
use domain::mode::Mode;
use domain::price::{self, PriceBook};
use domain::report::Recorded;
use jiff::Timestamp;
use store::Store;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::world;

/// What every command that speaks to AWS has.
pub(crate) struct Context {
    pub(crate) aws: Aws,
    pub(crate) now: Timestamp,
    pub(crate) global: Global,
    /// Whose credentials it has, in words.
    who: String,
}

/// The state bucket and the topic of a deployment, named by hand or by its stack.
pub(crate) struct Deployed {
    pub(crate) store: Store,
    pub(crate) bucket: String,
    /// Absent where the bucket was named by hand, and the topic was not.
    pub(crate) topic_arn: Option<String>,
}

/// What a function may do at present, as far as a command can know.
pub(crate) struct Ceiling {
    /// `CURFEW_MODE` as the function last had it, or as this command's environment has it: the lesser.
    pub(crate) mode: Mode,
    /// The record of the function's newest own run.
    pub(crate) newest: Recorded,
}

impl Ceiling {
    /// At that moment, which is not when the command began where a person was asked something since.
    ///
    /// # Errors
    /// Where nobody can say.
    pub(crate) async fn of(store: &Store, function: &str, now: Timestamp) -> Result<Option<Self>, Failure> {
        let own = own_ceiling()?.unwrap_or(Mode::Enforce);
        let newest = store.newest_plan(function, now).await?;
        Ok(newest.map(|newest| Self { mode: newest.mode.min(own), newest }))
    }
}

impl Context {
    /// Connects, and loads the credentials: whoever has none hears it once, before anything is asked.
    ///
    /// # Errors
    /// Where no region is named anywhere, a profile is not there, or there are no credentials.
    pub(crate) async fn connect(global: Global) -> Result<Self, Failure> {
        let named = named_profile(&global);
        let profile = named.as_deref().unwrap_or("default");
        let has_it = has_profile(profile).await.map_err(Failure::of)?;
        if named.is_some() && !has_it {
            return Err(Failure::with(
                format!("there is no profile {profile} in the AWS configuration files"),
                "aws configure list-profiles lists those that there are; name one by --profile or AWS_PROFILE",
            ));
        }
        let region = global.region.as_deref().map(Region::from);
        let identity = Identity { profile: global.profile.clone(), region };
        let aws = Aws::connect_as(&identity).await.map_err(|why| unconnected(why, profile, has_it))?;
        let who = if global.profile.is_none() && world::variable("AWS_ACCESS_KEY_ID").is_some() {
            "credentials of the environment (AWS_ACCESS_KEY_ID)".to_owned()
        } else if has_it {
            format!("profile {profile}")
        } else {
            "no profile".to_owned()
        };
        Ok(Self { aws, now: world::clock(), global, who })
    }

    /// Whose credentials and which region, for errors.
    pub(crate) fn whereabouts(&self) -> String {
        format!("{}, home region {}", self.who, self.aws.home())
    }

    /// A failure that does not say what to do says at least whose credentials it had.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        match failure.advice {
            Some(_) => failure,
            None => Failure { advice: Some(format!("({})", self.whereabouts())), ..failure },
        }
    }

    /// The deployment's stack; `None` where there is none.
    ///
    /// # Errors
    /// Where `CloudFormation` refused.
    pub(crate) async fn stack(&self) -> Result<Option<Deployment>, Failure> {
        Ok(deployment(&self.aws, &self.global.stack).await?)
    }

    /// The deployment; `None` where there is none.
    ///
    /// # Errors
    /// Where nobody can say.
    pub(crate) async fn deployed(&self) -> Result<Option<Deployed>, Failure> {
        let Global { bucket, topic_arn, .. } = &self.global;
        if let Some(bucket) = bucket {
            return Ok(Some(self.of(bucket.clone(), topic_arn.clone())));
        }
        let stack = self.stack().await?;
        Ok(stack.map(|stack| self.of(stack.bucket, Some(topic_arn.clone().unwrap_or(stack.topic_arn)))))
    }

    fn of(&self, bucket: String, topic_arn: Option<String>) -> Deployed {
        Deployed { store: Store::new(self.aws.sdk_config(), bucket.clone()), bucket, topic_arn }
    }

    /// What things cost, by a deployment's live prices where there are any.
    pub(crate) async fn prices(&self, store: Option<&Store>, config: &Config) -> PriceBook {
        match store {
            Some(store) => execution::prices::load(store, config, self.now).await,
            None => PriceBook::of(price::Document::default(), &config.prices, self.now),
        }
    }

    /// The deployment.
    ///
    /// # Errors
    /// Where there is none, or nobody can say.
    pub(crate) async fn needs_deployed(&self) -> Result<Deployed, Failure> {
        self.deployed().await?.ok_or_else(|| {
            Failure::with(
                format!("there is no stack {} in {}", self.global.stack, self.aws.home()),
                "name the deployment's --region, its --stack, or its --bucket and --topic-arn",
            )
        })
    }

    /// The most that a function does at present: by its newest record, and by `CURFEW_MODE` of this command's own environment.
    /// `None` where it left no record today or yesterday.
    ///
    /// # Errors
    /// Where nobody can say.
    pub(crate) async fn ceiling(&self, store: &Store, function: &str) -> Result<Option<Ceiling>, Failure> {
        Ceiling::of(store, function, self.now).await
    }
}

/// The profile that somebody named, here or for all commands of their shell.
fn named_profile(global: &Global) -> Option<String> {
    global.profile.clone().or_else(|| world::variable("AWS_PROFILE"))
}

/// Why nothing can be asked of AWS. `has_it`: the profile is in the configuration files.
fn unconnected(why: Unconnected, profile: &str, has_it: bool) -> Failure {
    match why {
        Unconnected::NoRegion => Failure::with(
            "no AWS region is named",
            format!(
                "pass --region, set AWS_REGION, or give the profile {profile} one: aws configure set region REGION --profile {profile}"
            ),
        ),
        Unconnected::NoCredentials => {
            let looked = if has_it { format!("the profile {profile}") } else { "an AWS profile".to_owned() };
            Failure::of(format!(
                "no credentials: neither the environment nor {looked} has any, nor has this machine; set AWS_PROFILE, or \
                 pass --profile"
            ))
        }
        Unconnected::LoggedOut(profile) => Failure::of(format!(
            "no credentials: the login of profile {profile} is missing or has expired: aws sso login --profile {profile}"
        )),
        Unconnected::Refused(cause) => {
            let whose = if has_it { format!(" of profile {profile}") } else { String::new() };
            Failure::of(format!(
                "no credentials: those{whose} cannot be loaded: {cause}; mend that, or set AWS_PROFILE, or pass --profile"
            ))
        }
    }
}

/// `CURFEW_MODE` of this command's environment.
pub(crate) fn own_ceiling() -> Result<Option<Mode>, Failure> {
    let Some(text) = world::variable("CURFEW_MODE") else { return Ok(None) };
    let mode = Mode::read(&text);
    mode.map(Some)
        .ok_or_else(|| Failure::of(format!("CURFEW_MODE is {text:?}; set it to observe or enforce, or unset it")))
}
