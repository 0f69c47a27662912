//! The bucket of the simulated account.

use std::collections::BTreeSet;

use billing::budget::{Budget, BudgetHolder, BudgetSums};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price::PriceDocument;
use jiff::Timestamp;
use jobs::backlog::{Backlog, Bookmarks};
use jobs::boxes::{ExtendRequest, GpuBox};
use jobs::inbox::{AnswerKind, InboxAnswers, Submission, answer_key};
use jobs::keys::{active_key, jobs_folder};
use jobs::node_gang::{DocumentSight, GangDocument, GangLaunch, GangListing, Listed, Node};
use jobs::takeover::Takeover;
use jobs::trigger::TriggerListing;
use jobs::{
    CancelRequest, ExitRecord, Head, InboxAnswer, Job, JobId, JobName, ScheduleState, Sweep, TriggerState,
    TriggeredDocument, WorkdirDigest,
};
use model::account::AccountId;
use model::config::Config;
use model::id::{Region, RunId, TeamName};
use model::listing::{ListPart, ListedObject};
use model::notification_log::NotificationLog;
use model::reply_link::LinkDocument;
use model::usage::ActivityCache;
use plan::report::RunRecord;
use ports::{
    ActivityDocuments, AuditDocuments, BacklogDocuments, BudgetDocuments, ConfigLoadError, Documents, FiguresDocuments,
    InboxDocuments, JobDocuments, LedgerDocuments, MachineDocument, MachineDocuments, ReceivedHeartbeat,
    ReconcilerDocuments, StoreError, SweepDocuments, TriggerDocuments, Versioned,
};
use report::{AccountFigures, Publisher};
use serde::Serialize;

use crate::account::{Account, NO_BOXES};
use crate::world::Stored;

const BUCKET: &str = "curfew-state";

type Read<T> = Result<T, StoreError>;

fn versioned<T: Clone>(stored: Option<&Stored<T>>, absent: T) -> Versioned<T> {
    match stored.filter(|(version, _)| *version > 0) {
        Some((version, value)) => Versioned { value: value.clone(), etag: Some(version.to_string()) },
        None => Versioned { value: absent, etag: None },
    }
}

fn write<T: Clone>(stored: &mut Stored<T>, value: &T, last: Option<&str>) -> Read<Option<String>> {
    let there = (stored.0 > 0).then(|| stored.0.to_string());
    if there.as_deref() != last {
        return Err(StoreError::Lost { address: "a document".to_owned() });
    }
    *stored = (stored.0 + 1, value.clone());
    Ok(Some(stored.0.to_string()))
}

fn listed(key: String, written_at: Timestamp) -> ListedObject {
    ListedObject { key, written_at, bytes: 1 }
}

fn believed<T>(found: Option<T>) -> MachineDocument<T> {
    found.map_or(MachineDocument::Absent, MachineDocument::Believed)
}

impl Documents for Account<'_> {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        self.store_call().await.map_err(ConfigLoadError::Unreachable)?;
        Ok(self.world.borrow().config.clone())
    }

    async fn read_notices(&self, function: &str, _: &Region) -> Read<Versioned<NotificationLog>> {
        self.store_call().await?;
        Ok(versioned(self.world.borrow().notices.get(function), NotificationLog::default()))
    }

    async fn write_notices(
        &self,
        function: &str,
        _: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Read<Option<String>> {
        self.store_call().await?;
        write(self.world.borrow_mut().notices.entry(function.to_owned()).or_default(), notices, last)
    }

    async fn restart_notices(&self, _: &str, _: &Region) -> Read<bool> {
        unreachable!("each document can be understood")
    }

    async fn write_audit(&self, _: &str, _: &impl Serialize) -> Read<()> {
        self.store_call().await
    }

    async fn write_reply_link(&self, _: &str, _: &LinkDocument, _: Option<&str>) -> Read<()> {
        unreachable!("these accounts have no links")
    }

    async fn read_prices(&self) -> Read<Versioned<PriceDocument>> {
        self.store_call().await?;
        Ok(versioned(Some(&self.world.borrow().prices), PriceDocument::default()))
    }

    async fn write_prices(&self, prices: &PriceDocument, last: Option<&str>) -> Read<Option<String>> {
        self.store_call().await?;
        Ok(write(&mut self.world.borrow_mut().prices, prices, last).unwrap_or_default())
    }
}

impl ActivityDocuments for Account<'_> {
    async fn read_activity(&self, _: &Region) -> Read<Versioned<ActivityCache>> {
        Ok(Versioned { value: ActivityCache::default(), etag: None })
    }

    async fn write_activity(&self, _: &Region, _: &ActivityCache, _: Option<&str>) -> Read<()> {
        unreachable!("a beat only reads it")
    }
}

impl AuditDocuments for Account<'_> {
    async fn read_newest_audit(&self, _: &str, _: Timestamp) -> Read<Option<RunRecord>> {
        unreachable!("no metrics are asked for")
    }
}

impl BudgetDocuments for Account<'_> {
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Read<Versioned<Budget>> {
        self.store_call().await?;
        Ok(versioned(self.world.borrow().budgets.get(&(holder.clone(), month.to_owned())), Budget::default()))
    }

    async fn write_budget(&self, holder: &BudgetHolder, month: &str, budget: &Budget, last: Option<&str>) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        let written = write(world.budgets.entry((holder.clone(), month.to_owned())).or_default(), budget, last);
        world.tally.lost_swaps += u64::from(written.is_err());
        written.map(drop)
    }
}

impl FiguresDocuments for Account<'_> {
    fn publishes_figures(&self) -> bool {
        false
    }

    async fn publish_figures(&self, _: Publisher, _: &AccountId, _: &AccountFigures) -> Read<()> {
        unreachable!("it has no hub")
    }

    async fn read_budget_sums(&self, _: &AccountId, _: &str) -> Read<Option<BudgetSums>> {
        unreachable!("it has no hub")
    }
}

impl LedgerDocuments for Account<'_> {
    async fn list_ledgers(&self, month: &CalendarMonth) -> Read<Vec<Region>> {
        self.store_call().await?;
        let world = self.world.borrow();
        Ok(world.ledgers.contains_key(&month.to_string()).then(|| world.home.clone()).into_iter().collect())
    }

    async fn read_ledger(&self, month: &CalendarMonth, region: &Region) -> Read<Versioned<Ledger>> {
        self.store_call().await?;
        Ok(versioned(self.world.borrow().ledgers.get(&month.to_string()), Ledger::new(month, region)))
    }

    async fn write_ledger(
        &self,
        month: &CalendarMonth,
        region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        let stored = world.ledgers.entry(month.to_string()).or_insert_with(|| (0, Ledger::new(month, region)));
        write(stored, ledger, last).map(drop)
    }
}

impl JobDocuments for Account<'_> {
    async fn read_job(&self, job: &JobId) -> Read<Versioned<Option<Job>>> {
        self.store_call().await?;
        let world = self.world.borrow();
        let found = world.states.get(job);
        Ok(Versioned { value: found.map(|(_, job)| job.clone()), etag: found.map(|(version, _)| version.to_string()) })
    }

    async fn is_active(&self, _: &str) -> Read<bool> {
        unreachable!("only reapers ask")
    }
}

impl MachineDocuments for Account<'_> {
    async fn read_head(&self, job: &JobId) -> Read<MachineDocument<Head>> {
        self.store_call().await?;
        Ok(believed(self.world.borrow().heads.get(job).cloned()))
    }

    async fn read_heartbeat(&self, job: &JobId, attempt: u32) -> Read<MachineDocument<ReceivedHeartbeat>> {
        self.store_call().await?;
        Ok(believed(self.world.borrow().beats.get(&(job.clone(), attempt)).cloned()))
    }

    async fn read_exit(&self, job: &JobId, attempt: u32) -> Read<MachineDocument<ExitRecord>> {
        self.store_call().await?;
        Ok(believed(self.world.borrow().exits.get(&(job.clone(), attempt)).cloned()))
    }

    async fn read_gang(&self, gang: &GangLaunch, _: &GangListing) -> Read<GangListing> {
        self.store_call().await?;
        let (world, mut listing) = (self.world.borrow(), GangListing::default());
        for node in 0..gang.nodes {
            let place = (gang.job.clone(), gang.attempt, node);
            if let Some(beat) = world.node_beats.get(&place) {
                listing.add(GangDocument::Beat(node), beat.at);
            }
            if let Some(exit) = world.node_exits.get(&place) {
                let content = DocumentSight::Read(exit.clone());
                listing.exits.insert(node, Listed { at: exit.at, content });
            }
        }
        Ok(listing)
    }

    async fn read_node_heartbeat(&self, gang: &GangLaunch, node: Node) -> Read<MachineDocument<ReceivedHeartbeat>> {
        self.store_call().await?;
        Ok(believed(self.world.borrow().node_beats.get(&(gang.job.clone(), gang.attempt, node)).cloned()))
    }
}

impl ReconcilerDocuments for Account<'_> {
    fn bucket_name(&self) -> &str {
        BUCKET
    }

    /// The state may have been written although the answer is lost.
    async fn read_takeover(&self) -> Read<Option<Takeover>> {
        Ok(self.world.borrow().takeover.clone())
    }

    async fn write_job(&self, job: &Job, last: Option<&str>) -> Read<Option<String>> {
        self.store_call().await?;
        let written = {
            let mut world = self.world.borrow_mut();
            let stored = world.states.entry(job.job.clone()).or_insert_with(|| (0, job.clone()));
            let written = write(stored, job, last);
            world.tally.lost_swaps += u64::from(written.is_err());
            written?
        };
        self.store_call().await?;
        Ok(written)
    }

    async fn keep_spec(&self, job: &JobId, text: &[u8]) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        let kept = world.specs.entry(job.clone()).or_insert_with(|| text.to_vec());
        assert_eq!(kept, text, "{job} has one document");
        Ok(())
    }

    async fn read_cancel(&self, job: &JobId) -> Read<Option<CancelRequest>> {
        self.store_call().await?;
        Ok(self.world.borrow().cancels.get(job).cloned())
    }

    async fn read_extend(&self, _: &JobId) -> Read<Option<ExtendRequest>> {
        unreachable!("{NO_BOXES}")
    }

    async fn boxes_of_team(&self, _: &TeamName) -> Read<Vec<String>> {
        unreachable!("{NO_BOXES}")
    }

    async fn read_box(&self, _: &TeamName, _: &str) -> Read<Versioned<Option<GpuBox>>> {
        unreachable!("{NO_BOXES}")
    }

    async fn write_box(&self, _: &TeamName, _: &GpuBox, _: Option<&str>) -> Read<Option<String>> {
        unreachable!("{NO_BOXES}")
    }

    async fn forget_box(&self, _: &TeamName, _: &str) -> Read<()> {
        unreachable!("{NO_BOXES}")
    }

    async fn remember_active(&self, job: &JobId) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        let now = world.now;
        world.index.insert(job.clone(), now);
        Ok(())
    }

    async fn forget_active(&self, job: &JobId) -> Read<()> {
        self.store_call().await?;
        self.world.borrow_mut().index.remove(job);
        Ok(())
    }

    async fn teams_with_jobs(&self) -> Read<Vec<TeamName>> {
        self.store_call().await?;
        let teams: BTreeSet<TeamName> = self.world.borrow().states.keys().map(|job| job.team.clone()).collect();
        Ok(teams.into_iter().collect())
    }

    async fn keep_agent(&self, _: &str, _: &[u8]) -> Read<()> {
        self.store_call().await
    }
}

impl InboxDocuments for Account<'_> {
    async fn read_submission(&self, key: &str) -> Read<Option<Submission>> {
        self.store_call().await?;
        let world = self.world.borrow();
        let Some((object, bytes, _)) = world.inbox.get(key) else { return Ok(None) };
        let (object, bytes) = (object.clone(), Ok(bytes.clone()));
        Ok(Submission::from_key(key).map(|place| Submission { object, bytes, ..place }))
    }

    async fn read_answers(&self, submission: &str) -> Read<InboxAnswers> {
        self.store_call().await?;
        let world = self.world.borrow();
        let answer = |kind| world.answers.get(&answer_key(submission, kind)).map(|(answer, _)| answer.clone());
        Ok(InboxAnswers { accepted: answer(AnswerKind::Accepted), rejected: answer(AnswerKind::Rejected) })
    }

    async fn write_answer(&self, submission: &str, answer: &InboxAnswer) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        let now = world.now;
        world.answers.insert(answer_key(submission, AnswerKind::from_answer(answer)), (answer.clone(), now));
        Ok(())
    }

    async fn forget_answer(&self, submission: &str, outdated: &InboxAnswer) -> Read<()> {
        self.store_call().await?;
        self.world.borrow_mut().answers.remove(&answer_key(submission, AnswerKind::from_answer(outdated)));
        Ok(())
    }
}

impl BacklogDocuments for Account<'_> {
    async fn list_backlog(&self, backlog: Backlog) -> Read<Option<Vec<ListedObject>>> {
        self.store_call().await?;
        let world = self.world.borrow();
        let mut all: Vec<ListedObject> = match backlog {
            Backlog::Inbox => {
                let submitted = world.inbox.iter().map(|(key, (.., at))| listed(key.clone(), *at));
                submitted.chain(world.answers.iter().map(|(key, (_, at))| listed(key.clone(), *at))).collect()
            }
            Backlog::Active => world.index.iter().map(|(job, at)| listed(active_key(job), *at)).collect(),
            Backlog::Jobs => unreachable!("each team's jobs are listed by themselves"),
        };
        all.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Some(all))
    }

    async fn list_team_folders(&self, _: Backlog, _: Option<&str>) -> Read<ListPart<String>> {
        self.store_call().await?;
        let folders: BTreeSet<String> = self.world.borrow().states.keys().map(|job| jobs_folder(&job.team)).collect();
        Ok(ListPart { items: folders.into_iter().collect(), stopped_at: None })
    }

    async fn list_team_part(&self, _: Backlog, folder: &str, _: Option<&str>) -> Read<ListPart<ListedObject>> {
        self.store_call().await?;
        let world = self.world.borrow();
        let jobs = world.states.keys().filter(|job| jobs_folder(&job.team) == folder);
        let items = jobs.map(|job| listed(format!("{folder}{}/", job.job), Timestamp::MIN)).collect();
        Ok(ListPart { items, stopped_at: None })
    }

    async fn read_bookmarks(&self, _: &str) -> Read<Versioned<Bookmarks>> {
        self.store_call().await?;
        Ok(versioned(Some(&self.world.borrow().bookmarks), Bookmarks::default()))
    }

    async fn write_bookmarks(&self, _: &str, bookmarks: &Versioned<Bookmarks>) -> Read<()> {
        self.store_call().await?;
        let mut world = self.world.borrow_mut();
        // If another run was faster, its bookmarks are as good.
        drop(write(&mut world.bookmarks, &bookmarks.value, bookmarks.etag.as_deref()));
        Ok(())
    }
}

impl SweepDocuments for Account<'_> {
    async fn read_sweep(&self, _: &JobId) -> Read<Option<Sweep>> {
        self.store_call().await?;
        Ok(None)
    }

    async fn begin_sweep(&self, _: &Sweep, _: &[u8]) -> Read<(Sweep, bool)> {
        unreachable!("nobody submits a sweep")
    }

    async fn remember_sweep(&self, _: &JobId, _: &RunId) -> Read<Option<Timestamp>> {
        unreachable!("there is no sweep")
    }

    async fn is_remembered(&self, _: &JobId) -> Read<bool> {
        unreachable!("there is no sweep")
    }

    async fn forget_sweep(&self, _: &JobId) -> Read<()> {
        unreachable!("there is no sweep")
    }

    async fn unfinished_members(&self, _: &JobId) -> Read<BTreeSet<u32>> {
        unreachable!("there is no sweep")
    }
}

impl TriggerDocuments for Account<'_> {
    async fn list_triggers(&self) -> Read<TriggerListing> {
        unreachable!("no bucket has triggers")
    }

    async fn read_trigger(&self, _: &str) -> Read<Option<Result<Vec<u8>, usize>>> {
        unreachable!("no bucket has triggers")
    }

    async fn read_trigger_state(&self, _: &str) -> Read<(Versioned<TriggerState>, Option<StoreError>)> {
        unreachable!("no bucket has triggers")
    }

    async fn write_trigger_state(&self, _: &str, _: &TriggerState, _: Option<&str>) -> Read<Option<String>> {
        unreachable!("no bucket has triggers")
    }

    async fn read_schedule_state(&self, _: &str) -> Read<(Versioned<ScheduleState>, Option<StoreError>)> {
        unreachable!("schedules are off")
    }

    async fn write_schedule_state(&self, _: &str, _: &ScheduleState, _: Option<&str>) -> Read<Option<String>> {
        unreachable!("schedules are off")
    }

    async fn unfinished_named(&self, _: &TeamName, _: &JobName) -> Read<Vec<JobId>> {
        unreachable!("schedules are off")
    }

    async fn submit_triggered(&self, _: &TeamName, _: &TriggeredDocument) -> Read<()> {
        unreachable!("no bucket has triggers")
    }

    async fn workdir_uploaded_at(&self, _: &TeamName, _: &WorkdirDigest) -> Read<Option<Timestamp>> {
        unreachable!("schedules are off")
    }
}
