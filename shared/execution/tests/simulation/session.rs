//! One run of a reaper: the run is the product's own, and the session connects it to the simulated account with all faults in between. A run is a
//! future. At each of its effects it lets another run continue, and may be cut off there.

#[path = "one_resource.rs"]
mod one_resource;
#[path = "under_way.rs"]
mod under_way;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use billing::price;
use execution::Run;
use jiff::{SignedDuration, Timestamp};
use model::channels::{MessageTopics, NotificationChannels};
use model::config::{Config, ConfigError};
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::observation::{Gap, GapKind, Observation};
use model::reply_link::LinkDocument;
use model::rule::Rule;
use model::sagemaker::SageMakerResource;
use model::subscriptions::TopicSubscriptions;
use model::volume::{Snapshot, Volume};
use notify::{Event, Message};
use plan::report::RunUsage;
use plan::report::StepOutcome;
use plan::{Action, Plan, SnapshotAction, Step};
use ports::{
    CallError, CallErrorKind, Cloud, ConfigLoadError, Documents, Ec2Write, SageMakerWrite, StoreError, Versioned,
};
use serde::Serialize;

use crate::account::SimulatedAccount;
use crate::chance::{region, stamp};
use crate::fault::Fault;
use crate::look::{self, FUNCTION};
use crate::settings::SimulatedConfig;

pub(crate) use one_resource::OneResource;
use one_resource::{looked_at_again, name_of};
pub(crate) use under_way::UnderWay;

/// Lambda's limit of one run.
const RUN_MAX: SignedDuration = SignedDuration::from_mins(10);

/// The inputs of a run.
pub(crate) struct Facts {
    pub(crate) id: u64,
    pub(crate) now: i64,
    pub(crate) settings: Rc<SimulatedConfig>,
    /// `CURFEW_MODE`, and observe once the run knows that the topic has no confirmed subscription.
    pub(crate) ceiling: Mode,
    pub(crate) fleet: usize,
}

/// The connection of one run to the account.
pub(crate) struct Session {
    account: Rc<RefCell<SimulatedAccount>>,
    facts: RefCell<Facts>,
    home: Region,
    /// Effects before the run is cut off.
    effects_left: Cell<Option<u32>>,
    is_cut: Cell<bool>,
    /// Steps until its time is over.
    steps_left: Cell<Option<u32>>,
    phase: Cell<Phase>,
    /// The rule of each step of its plan, and whether it only announces the expiry of a snapshot.
    pub(crate) steps: RefCell<BTreeMap<ResourceId, (Rule, bool)>>,
    /// Resources that a colleague may change just before the run acts on them.
    pub(crate) interfered: RefCell<Vec<ResourceId>>,
    /// Resources that were changed by a call whose response was lost.
    pub(crate) unanswered: RefCell<BTreeSet<ResourceId>>,
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Looks,
    /// It has decided, and waits.
    Planned,
    Acts,
}

impl Session {
    fn begin(account: &Rc<RefCell<SimulatedAccount>>, now: i64) -> Self {
        let mut borrowed = account.borrow_mut();
        let SimulatedAccount { faults, .. } = &mut *borrowed;
        let cut = faults.occurs(Fault::RunCut, now);
        let effects_left = cut.then(|| faults.effects_before_cut());
        let steps_left = faults.occurs(Fault::RunOutOfTime, now).then(|| u32::try_from(now % 3).unwrap_or(0));
        borrowed.runs += 1;
        let (settings, ceiling) = (Rc::clone(&borrowed.settings), borrowed.ceiling);
        let facts = RefCell::new(Facts { id: borrowed.runs, now, settings, ceiling, fleet: 0 });
        Self {
            account: Rc::clone(account),
            facts,
            home: region(0),
            effects_left: Cell::new(effects_left),
            is_cut: Cell::new(false),
            steps_left: Cell::new(steps_left),
            phase: Cell::new(Phase::Looks),
            steps: RefCell::default(),
            interfered: RefCell::default(),
            unanswered: RefCell::default(),
        }
    }

    /// Carries out one run, as a function does.
    async fn live(self: Rc<Self>) {
        let mode = self.account().ceiling;
        let clock = || self.clock();
        let channels = NotificationChannels::topic("arn:aws:sns:us-east-1:123456789012:curfew".to_owned());
        let progress = |step: &Step, outcome: &StepOutcome| self.account().log_step(step, outcome);
        let run = Run {
            cloud: &*self,
            store: &*self,
            channels: &channels,
            function: FUNCTION,
            id: format!("run-{}", self.facts.borrow().id).as_str().into(),
            mode,
            now: stamp(self.now()),
            deadline: stamp(self.now()) + RUN_MAX,
            clock: &clock,
            chosen: None,
            progress: &progress,
            halted: None,
            metrics: None,
            home: model::home::HomeStatus::default(),
        };
        look::live(&self, &run).await;
    }

    /// The clock stands still until the time is over after `steps`.
    fn clock(&self) -> Timestamp {
        let now = stamp(self.now());
        match self.steps_left.get() {
            Some(0) => now + RUN_MAX,
            left => {
                self.steps_left.set(left.map(|left| left - 1));
                now
            }
        }
    }

    pub(crate) fn account(&self) -> RefMut<'_, SimulatedAccount> {
        self.account.borrow_mut()
    }

    pub(crate) fn now(&self) -> i64 {
        self.facts.borrow().now
    }

    pub(crate) fn facts(&self) -> std::cell::Ref<'_, Facts> {
        self.facts.borrow()
    }

    pub(crate) fn occurs(&self, fault: Fault) -> bool {
        self.account().faults.occurs(fault, self.now())
    }

    /// Before each effect: lets another run continue, and may cut this one off.
    pub(crate) async fn effect(&self) {
        let mut has_waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.is_cut_here().await;
    }

    /// The same without a turn for another run.
    pub(crate) async fn is_cut_here(&self) {
        match self.effects_left.get() {
            Some(0) => {
                self.is_cut.set(true);
                pending::<()>().await;
            }
            left => self.effects_left.set(left.map(|left| left - 1)),
        }
    }

    /// Whether EC2 answers a second read.
    fn may_look_at(&self, id: &ResourceId) -> Result<(), CallError> {
        let was_unanswered = self.unanswered.borrow_mut().remove(id);
        if !self.occurs(Fault::SecondReadFailed) {
            return Ok(());
        }
        if was_unanswered {
            self.account().faults.forgotten_at = self.now();
        }
        Err(self.failed("ec2:Describe", CallErrorKind::Other, "the simulation refuses it"))
    }

    pub(crate) fn decided(&self, plan: &Plan, fleet: usize) {
        self.facts.borrow_mut().fleet = fleet;
        let only_labels = |step: &Step| matches!(step.action, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)));
        let fact = |step: &Step| (step.evidence.rule(), only_labels(step));
        let steps = plan.steps.iter().map(|step| (step.target.resource.clone(), fact(step)));
        *self.steps.borrow_mut() = steps.collect();
    }

    /// Waits until it may act.
    pub(crate) async fn may_act(&self) {
        self.phase.set(Phase::Planned);
        poll_fn(|_| if self.phase.get() == Phase::Acts { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// A call is carried out unless it is refused; then its response may be lost. `looked_at_again`: what only a second read then explains.
    async fn carry_out(
        &self,
        call: &'static str,
        looked_at_again: Option<&ResourceId>,
        change: impl FnOnce() -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        self.effect().await;
        if self.occurs(Fault::WriteRefused) {
            return Err(self.failed(call, CallErrorKind::Throttled, "RequestLimitExceeded"));
        }
        change()?;
        if self.occurs(Fault::WriteResponseLost) {
            self.unanswered.borrow_mut().extend(looked_at_again.cloned());
            return Err(self.failed(call, CallErrorKind::Unreached, "dispatch failure: no answer"));
        }
        Ok(())
    }

    /// AWS's error for a failed call.
    pub(crate) fn failed(&self, call: &'static str, kind: CallErrorKind, message: &str) -> CallError {
        CallError::new(call, &self.home, kind, message)
    }
}

impl Cloud for Session {
    fn home(&self) -> &Region {
        &self.home
    }

    async fn regions(&self, _config: &Config) -> Observation<Region> {
        Observation { items: (0..self.account().regions).map(region).collect(), gaps: Vec::new() }
    }

    async fn subscriptions(&self, _topics: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
        if self.occurs(Fault::NoConfirmedSubscription) {
            self.facts.borrow_mut().ceiling = Mode::Observe;
            return Ok(TopicSubscriptions::new(Vec::new(), true));
        }
        if self.occurs(Fault::SubscriptionsUnknown) {
            return Err(self.failed("sns:ListSubscriptionsByTopic", CallErrorKind::Other, "the simulation refuses it"));
        }
        Ok(model::fixture::subscriptions(&[None]))
    }

    async fn mail(&self, _sender: &str, _recipient: &str, _message: &Message) -> Result<(), CallError> {
        Err(CallError::new("ses:SendEmail", &self.home, CallErrorKind::Other, "this account mails nobody"))
    }

    async fn publish(&self, _topic_arn: &str, message: &Message) -> Result<(), CallError> {
        self.effect().await;
        let refused = |kind| Err(self.failed("sns:Publish", kind, "the simulation refuses it"));
        if self.occurs(Fault::MessageRefused) {
            return refused(CallErrorKind::Other);
        }
        self.account().deliver_message(message, &self.facts());
        if self.occurs(Fault::MessageResponseLost) { refused(CallErrorKind::Unanswered) } else { Ok(()) }
    }

    async fn put_events(&self, bus: &str, _events: &[Event]) -> Result<(), CallError> {
        unreachable!("there is no bus {bus}")
    }

    fn take_usage(&self) -> RunUsage {
        RunUsage::default()
    }

    // Nothing is billed here.
    fn add_usage(&self, _: RunUsage) {}

    async fn describe_instance(&self, _region: &Region, instance: &ResourceId) -> Result<Instance, CallError> {
        self.may_look_at(instance)?;
        self.find_instance(instance)
    }

    async fn describe_volume(&self, _region: &Region, volume: &ResourceId) -> Result<Volume, CallError> {
        self.may_look_at(volume)?;
        self.find_volume(volume)
    }

    async fn describe_snapshot(&self, _region: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        self.may_look_at(snapshot)?;
        self.find_snapshot(snapshot)
    }

    async fn describe_snapshots_of(&self, _region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        self.find_snapshots_of(volume)
    }

    async fn write(&self, _region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        let call = name_of(&write);
        self.carry_out(call, looked_at_again(&write), || self.change_ec2(call, &write)).await
    }

    async fn describe_sagemaker(&self, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
        self.may_look_at(&seen.id)?;
        self.find_sagemaker(seen)
    }

    async fn write_sagemaker(&self, resource: &SageMakerResource, write: SageMakerWrite<'_>) -> Result<(), CallError> {
        // The next run writes lost tags again.
        let looked_at_again = (!matches!(write, SageMakerWrite::AddTags(_))).then_some(&resource.id);
        let done = self.carry_out("sagemaker", looked_at_again, || self.change_sagemaker(resource, &write)).await;
        // The SDK has repeated some of the calls whose answers were lost, and was refused.
        done.map_err(|error| match (error.kind, looked_at_again) {
            (CallErrorKind::Unreached, Some(_)) if self.now() % 2 == 0 => {
                self.failed("sagemaker", CallErrorKind::Other, "ValidationException: it is not in the right state")
            }
            _ => error,
        })
    }
}

impl Documents for Session {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        if self.occurs(Fault::ConfigurationRefused) {
            let (key, problem) = ("idle.windw".to_owned(), "unknown".to_owned());
            return Err(ConfigLoadError::Refused(ConfigError { line: 3, column: 1, key, problem }));
        }
        Ok(Config::clone(&self.account().config))
    }

    async fn read_notices(&self, _function: &str, region: &Region) -> Result<Versioned<NotificationLog>, StoreError> {
        if self.occurs(Fault::LogUnreadable) {
            if self.phase.get() == Phase::Acts {
                // The run lost to another one, and cannot add what it owes.
                self.account().faults.forgotten_at = self.now();
            }
            return Err(refused_to_read());
        }
        let mut account = self.account();
        let (version, notices) = account.notices.entry(region.clone()).or_default();
        Ok(Versioned { value: notices.clone(), etag: Some(version.to_string()) })
    }

    /// Over the version that was read.
    async fn write_notices(
        &self,
        _function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.effect().await;
        let is_refused = self.occurs(Fault::LogUnwritten);
        let mut account = self.account();
        let (version, there) = account.notices.entry(region.clone()).or_default();
        if last != Some(version.to_string().as_str()) {
            account.lost_swaps += 1;
            return Err(StoreError::Lost { address: "notices".to_owned() });
        }
        if is_refused {
            return Err(refused_to_write());
        }
        (*version, *there) = (*version + 1, notices.clone());
        Ok(Some(version.to_string()))
    }

    async fn restart_notices(&self, _function: &str, _region: &Region) -> Result<bool, StoreError> {
        unreachable!("each document can be understood")
    }

    async fn write_audit(&self, _key: &str, _record: &impl Serialize) -> Result<(), StoreError> {
        self.effect().await;
        if self.occurs(Fault::AuditUnwritten) { Err(refused_to_write()) } else { Ok(()) }
    }

    async fn write_reply_link(&self, _hash: &str, _link: &LinkDocument, _last: Option<&str>) -> Result<(), StoreError> {
        unreachable!("these accounts have no links")
    }

    async fn read_prices(&self) -> Result<Versioned<price::PriceDocument>, StoreError> {
        Ok(Versioned { value: price::PriceDocument::default(), etag: None })
    }

    async fn write_prices(
        &self,
        _prices: &price::PriceDocument,
        _last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        unreachable!("no reaper asks for prices")
    }
}

pub(crate) fn refused_to_read() -> StoreError {
    StoreError::call("s3:GetObject", "s3://curfew".to_owned(), None, "the simulation refuses it")
}

pub(crate) fn refused_to_write() -> StoreError {
    StoreError::call("s3:PutObject", "s3://curfew".to_owned(), None, "the simulation refuses it")
}

pub(crate) fn gap(region: &Region, call: &str) -> Gap {
    let error = format!("{call} failed: the simulation refuses it");
    Gap::new(region, call, error, GapKind::Part)
}
