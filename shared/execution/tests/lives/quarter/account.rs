//! The world of a quarter as a beat observes it, through the traits of `ports`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::billed::{BilledDays, CostExplorerBill};
use billing::budget::{Budget, BudgetHolder, BudgetSums};
use billing::ledger::{CalendarMonth, InspectedInstance, Ledger, RegionObservation, SageMakerObservation};
use billing::price;
use billing::price::{PriceDocument, PriceQueries, PriceQuery};
use execution::{Run, budgets};
use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use model::account::AccountId;
use model::channels::{MessageTopics, NotificationChannels};
use model::config::Config;
use model::fixture;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::observation::{Gap, Observation};
use model::reply_link::LinkDocument;
use model::subscriptions::TopicSubscriptions;
use model::usage::{ActivityCache, LastInquiry};
use model::volume::{Snapshot, Volume};
use notify::{Event, Message};
use plan::report::{RunRecord, RunUsage};
use ports::{
    ActivityDocuments, AuditDocuments, BudgetCloud, BudgetDocuments, CallError, CallErrorKind, Cloud, ConfigLoadError,
    Documents, Ec2Write, FiguresDocuments, LedgerDocuments, NoHub, PriceCloud, StoreError, Versioned,
};
use report::{AccountFigures, Publisher};
use serde::Serialize;

use super::{QuarterWorld, RATES, stamp};

pub(super) const HOME: &str = "us-east-1";

struct Account<'a> {
    world: &'a RefCell<QuarterWorld>,
    now: i64,
    home: Region,
}

/// One beat, or two at once that take turns.
pub(super) fn beat(world: &RefCell<QuarterWorld>, now: i64, is_doubled: bool) {
    let account = Account { world, now, home: HOME.into() };
    let clock = || stamp(now);
    let channels = NotificationChannels::topic("arn:aws:sns:us-east-1:123456789012:curfew".to_owned());
    let run = |id: &str| Run {
        cloud: &account,
        store: &account,
        channels: &channels,
        function: "enforce-budgets",
        id: id.into(),
        mode: Mode::Enforce,
        now: stamp(now),
        deadline: stamp(now) + SignedDuration::from_mins(5),
        clock: &clock,
        chosen: None,
        progress: &|_, _| (),
        halted: None,
        metrics: None,
        home: model::home::HomeStatus::default(),
    };
    let (one, other) = (run("one"), run("other"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let gaps = runtime.block_on(async {
        if is_doubled {
            let (one, other) =
                join(budgets::enforce(&one, None::<&NoHub>), budgets::enforce(&other, None::<&NoHub>)).await;
            [one.unwrap().gaps, other.unwrap().gaps].concat()
        } else {
            budgets::enforce(&one, None::<&NoHub>).await.unwrap().gaps
        }
    });
    assert_eq!(gaps, [], "at {now}");
    if now % 7 == 0 {
        world.borrow_mut().check_documents(now);
    }
}

impl Account<'_> {
    /// The other of two beats continues.
    async fn give_way(&self) {
        tokio::task::yield_now().await;
    }
}

fn is_at(version: u64, last: Option<&str>) -> Result<(), StoreError> {
    let there = (version > 0).then(|| version.to_string());
    if there.as_deref() == last { Ok(()) } else { Err(StoreError::Lost { address: "a document".to_owned() }) }
}

fn versioned<T>(version: u64, value: T) -> Versioned<T> {
    Versioned { value, etag: (version > 0).then(|| version.to_string()) }
}

impl Cloud for Account<'_> {
    fn home(&self) -> &Region {
        &self.home
    }

    async fn regions(&self, _config: &Config) -> Observation<Region> {
        Observation { items: vec![self.home.clone()], gaps: Vec::new() }
    }

    async fn subscriptions(&self, _topics: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
        Ok(fixture::subscriptions(&[None]))
    }

    async fn mail(&self, _sender: &str, _recipient: &str, _message: &Message) -> Result<(), CallError> {
        Err(CallError::new("ses:SendEmail", &self.home, CallErrorKind::Other, "this account mails nobody"))
    }

    async fn publish(&self, _topic_arn: &str, _message: &Message) -> Result<(), CallError> {
        Ok(())
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
        unreachable!("a beat looks at no single instance: {instance}")
    }

    async fn describe_volume(&self, _region: &Region, volume: &ResourceId) -> Result<Volume, CallError> {
        unreachable!("a beat looks at no single volume: {volume}")
    }

    async fn describe_snapshot(&self, _region: &Region, snapshot: &ResourceId) -> Result<Snapshot, CallError> {
        unreachable!("a beat looks at no snapshot: {snapshot}")
    }

    async fn describe_snapshots_of(&self, _region: &Region, volume: &ResourceId) -> Result<Vec<Snapshot>, CallError> {
        unreachable!("a beat looks at no snapshot: {volume}")
    }

    async fn write(&self, _region: &Region, write: Ec2Write<'_>) -> Result<(), CallError> {
        unreachable!("a beat changes nothing of EC2: {write:?}")
    }
}

impl PriceCloud for Account<'_> {
    async fn prices(
        &self,
        known: &mut PriceDocument,
        wanted: &PriceQueries,
        now: Timestamp,
        _timeout: Duration,
    ) -> Vec<Gap> {
        for question in &wanted.listed {
            let PriceQuery::Instance(region, name) = question else { continue };
            let price = RATES.iter().find(|(of, _)| *of == name.as_str()).map(|(_, micros)| *micros);
            known.learn_listed(region.clone(), name.clone(), price, now);
        }
        Vec::new()
    }
}

impl BudgetCloud for Account<'_> {
    async fn looks(&self, _regions: &[Region], _timeout: Duration) -> Observation<RegionObservation> {
        let world = self.world.borrow();
        let instances = world.machines.iter().filter_map(|machine| machine.sighting(self.now, &world.jobs)).collect();
        let look = RegionObservation { region: self.home.clone(), whole: true, instances, volumes: Vec::new() };
        Observation { items: vec![look], gaps: Vec::new() }
    }

    async fn sagemaker_bills(&self, _: &[Region], _: Timestamp, _: Duration) -> Observation<SageMakerObservation> {
        Observation::default()
    }

    async fn billed(&self, days: BilledDays) -> Result<CostExplorerBill, CallError> {
        Ok(CostExplorerBill { days, by_type: BTreeMap::new() })
    }
}

impl Documents for Account<'_> {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        Ok(self.world.borrow().config.clone())
    }

    async fn read_notices(&self, _function: &str, _region: &Region) -> Result<Versioned<NotificationLog>, StoreError> {
        let (version, notices) = &self.world.borrow().notices;
        Ok(versioned(*version, notices.clone()))
    }

    async fn write_notices(
        &self,
        _function: &str,
        _region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let (version, there) = &mut self.world.borrow_mut().notices;
        is_at(*version, last)?;
        (*version, *there) = (*version + 1, notices.clone());
        Ok(Some(version.to_string()))
    }

    async fn restart_notices(&self, _function: &str, _region: &Region) -> Result<bool, StoreError> {
        unreachable!("each document can be understood")
    }

    async fn write_audit(&self, _key: &str, _record: &impl Serialize) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write_reply_link(&self, _hash: &str, _link: &LinkDocument, _last: Option<&str>) -> Result<(), StoreError> {
        unreachable!("these accounts have no links")
    }

    async fn read_prices(&self) -> Result<Versioned<price::PriceDocument>, StoreError> {
        let (version, prices) = &self.world.borrow().prices;
        Ok(versioned(*version, prices.clone()))
    }

    async fn write_prices(
        &self,
        prices: &price::PriceDocument,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let (version, there) = &mut self.world.borrow_mut().prices;
        if is_at(*version, last).is_err() {
            return Ok(None);
        }
        (*version, *there) = (*version + 1, prices.clone());
        Ok(Some(version.to_string()))
    }
}

impl ActivityDocuments for Account<'_> {
    /// Every machine of the family g5 is idle, and every other one busy.
    async fn read_activity(&self, _region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        let world = self.world.borrow();
        let seen = world.machines.iter().filter_map(|machine| machine.sighting(self.now, &world.jobs));
        let inquiry = |InspectedInstance { instance, .. }: InspectedInstance| {
            let (now, is_idle) = (stamp(self.now), instance.instance_type.as_str().starts_with("g5"));
            let inquiry = LastInquiry {
                at: now,
                busy_until: (!is_idle).then_some(now),
                shown_by: None,
                found_idle_reserved: is_idle.then_some(false),
                found_idle_by_power: false,
                looked_back: None,
                in_full_at: None,
                idle_not_before: now,
            };
            (instance.id, inquiry)
        };
        Ok(versioned(0, ActivityCache { instances: seen.map(inquiry).collect() }))
    }

    async fn write_activity(
        &self,
        _region: &Region,
        _activity: &ActivityCache,
        _last: Option<&str>,
    ) -> Result<(), StoreError> {
        unreachable!("a beat only reads it")
    }
}

impl AuditDocuments for Account<'_> {
    async fn read_newest_audit(&self, _: &str, _: Timestamp) -> Result<Option<RunRecord>, StoreError> {
        unreachable!("no metrics are asked for")
    }
}

impl BudgetDocuments for Account<'_> {
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Result<Versioned<Budget>, StoreError> {
        self.give_way().await;
        let world = self.world.borrow();
        let found = world.store.get(&(month.to_owned(), holder.clone()));
        Ok(found.map_or_else(
            || versioned(0, Budget::default()),
            |(version, json)| versioned(*version, serde_json::from_str(json).unwrap()),
        ))
    }

    /// Another run may write in between.
    async fn write_budget(
        &self,
        holder: &BudgetHolder,
        month: &str,
        budget: &Budget,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.give_way().await;
        let mut world = self.world.borrow_mut();
        if let Some(at) = world.interrupts_at.take() {
            world.somebody_wants(at);
        }
        let read = last.map_or(0, |last| last.parse().unwrap());
        let month = CalendarMonth::read(month, &world.config.account.zone()).unwrap();
        let written = world.write(&month, holder, read, budget);
        if written { Ok(()) } else { Err(StoreError::Lost { address: "a budget".to_owned() }) }
    }
}

impl FiguresDocuments for Account<'_> {
    fn publishes_figures(&self) -> bool {
        false
    }

    async fn publish_figures(&self, _: Publisher, _: &AccountId, _: &AccountFigures) -> Result<(), StoreError> {
        unreachable!("it has no hub")
    }

    async fn read_budget_sums(&self, _: &AccountId, _: &str) -> Result<Option<BudgetSums>, StoreError> {
        unreachable!("it has no hub")
    }
}

impl LedgerDocuments for Account<'_> {
    async fn list_ledgers(&self, month: &CalendarMonth) -> Result<Vec<Region>, StoreError> {
        let exists = self.world.borrow().ledgers.contains_key(&month.to_string());
        Ok(Vec::from_iter(exists.then(|| self.home.clone())))
    }

    async fn read_ledger(&self, month: &CalendarMonth, region: &Region) -> Result<Versioned<Ledger>, StoreError> {
        self.give_way().await;
        let world = self.world.borrow();
        let found = world.ledgers.get(&month.to_string());
        Ok(found.map_or_else(
            || versioned(0, Ledger::new(month, region)),
            |(version, ledger)| versioned(*version, ledger.clone()),
        ))
    }

    async fn write_ledger(
        &self,
        month: &CalendarMonth,
        _region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.give_way().await;
        let mut world = self.world.borrow_mut();
        let version = world.ledgers.get(&month.to_string()).map_or(0, |(version, _)| *version);
        is_at(version, last)?;
        world.ledgers.insert(month.to_string(), (version + 1, ledger.clone()));
        Ok(())
    }
}
