//! The truth: what runs under `SageMaker`, who uses it when, and what `SageMaker` and `CloudWatch` tell of that. It uses nothing of the policy.

use model::curfew_tags::MARKED;
use model::fixture::{app, endpoint, inference_component, notebook, training_job};
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::sagemaker::{ActivitySignal, ProductionSign, SageMakerKind, SageMakerResource, SageMakerStatus};
use model::usage::Sample;

use crate::chance::{DAY, HOUR, MINUTE, RandomStream, region, stamp};
use crate::settings::MANAGED_TAG;
use crate::tags::OwnerTags;

/// The longest delay of `CloudWatch`, unless it is late.
pub(crate) const LAG: i64 = 10 * MINUTE;
/// The period of its samples.
pub(crate) const PERIOD: i64 = 5 * MINUTE;
/// How often `SageMaker` looks at an app.
const CHECK: i64 = 10 * MINUTE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Notebook,
    App,
    Endpoint,
    Job,
    Component,
}

/// What each use of a resource shows: one of these is enough.
#[derive(Clone, Copy)]
pub(crate) struct ShownUse {
    pub(crate) requests: bool,
    pub(crate) concurrent: bool,
    /// The host whose GPUs work.
    pub(crate) gpu: Option<u32>,
}

/// Who stopped a notebook instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    Curfew,
    Owner,
}

/// A name and what runs under it: ids are names, and later lives have the same.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct SimulatedResource {
    pub(crate) id: ResourceId,
    pub(crate) region: Region,
    pub(crate) sort: Sort,
    pub(crate) status: SageMakerStatus,
    pub(crate) created: i64,
    /// Since when runs may remember what they told of its name: one that is made again at once was never missed.
    pub(crate) remembered_since: i64,
    pub(crate) modified: i64,
    pub(crate) says: OwnerTags,
    /// An app's owner tags its space: these tags stay when the app goes.
    pub(crate) on_space: bool,
    pub(crate) curfews_tags: Tags,
    pub(crate) foreign: Option<&'static str>,
    // Of an endpoint.
    pub(crate) sign: Option<ProductionSign>,
    pub(crate) variants: usize,
    pub(crate) is_autoscaled: bool,
    pub(crate) has_config: bool,
    /// Of an inference component, whose endpoint may keep its instances.
    pub(crate) copies: u32,
    pub(crate) frees_instances: bool,
    /// Of a job.
    pub(crate) hosts: u32,
    /// Whether `SageMaker` reports the activity of such an app at all, and whether only that of its own checks.
    pub(crate) is_measured: bool,
    pub(crate) is_checked_only: bool,
    pub(crate) shows: ShownUse,
    /// From when to when somebody uses it: the last one may lie ahead.
    pub(crate) uses: Vec<(i64, i64)>,
    /// From when to when nothing reports.
    pub(crate) silences: Vec<(i64, i64)>,
    pub(crate) next_use: i64,
    pub(crate) next_action: i64,
    /// `curfew:expires-at`, and since when it says so.
    pub(crate) expiry: (Option<i64>, i64),
    /// The last change of labels by the adversary.
    pub(crate) tampered_at: i64,
    /// The last change by people: tags, configuration, status.
    pub(crate) changed_at: i64,
    pub(crate) stopped_by: Option<StoppedBy>,
    /// `curfew:stopped` named that rule.
    pub(crate) was_stopped_for_hours: bool,
    pub(crate) stopped_at: i64,
    pub(crate) gone_at: Option<i64>,
}

impl SimulatedResource {
    pub(crate) fn new(number: usize, regions: usize, says: OwnerTags, now: i64, chance: &mut RandomStream) -> Self {
        let sort = chance.pick(&[
            Sort::Notebook,
            Sort::App,
            Sort::App,
            Sort::Endpoint,
            Sort::Endpoint,
            Sort::Job,
            Sort::Component,
        ]);
        // Names repeat from region to region.
        let name = number / regions;
        let id = match sort {
            Sort::Notebook => format!("notebook-instance/lab-{name}"),
            Sort::App => format!("app/d-1/space-of-a-long-name-{name}/jupyterlab/default"),
            Sort::Endpoint => format!("endpoint/llm-{name}"),
            Sort::Job => format!("training-job/bert-{number}"),
            Sort::Component => format!("inference-component/llama-{name}"),
        };
        let mut made = Self {
            id: id.as_str().into(),
            region: region(number % regions),
            sort,
            status: SageMakerStatus::Running,
            created: now,
            remembered_since: 0,
            modified: now,
            says,
            on_space: chance.one_in(2),
            curfews_tags: Tags::new(),
            foreign: None,
            sign: None,
            variants: 1,
            is_autoscaled: false,
            has_config: true,
            copies: 1,
            frees_instances: true,
            hosts: 1,
            is_measured: true,
            is_checked_only: false,
            shows: ShownUse { requests: true, concurrent: true, gpu: Some(0) },
            uses: Vec::new(),
            silences: Vec::new(),
            next_use: now,
            next_action: now,
            expiry: (None, now),
            tampered_at: 0,
            changed_at: now,
            stopped_by: None,
            was_stopped_for_hours: false,
            stopped_at: 0,
            gone_at: None,
        };
        made.begin_life(now, chance);
        made
    }

    /// Made, or made again under its name.
    pub(crate) fn begin_life(&mut self, now: i64, chance: &mut RandomStream) {
        const SIGNS: [ProductionSign; 4] = [
            ProductionSign::Serverless,
            ProductionSign::AsyncInference,
            ProductionSign::ShadowVariants,
            ProductionSign::InferenceComponents,
        ];
        const FOREIGN: [&str; 3] = ["aws:cloudformation:stack-name", "sagemaker:pipeline-execution-arn", MANAGED_TAG];
        self.foreign = chance.one_in(12).then(|| chance.pick(&FOREIGN));
        self.sign = chance.one_in(10).then(|| chance.pick(&SIGNS));
        self.variants = if chance.one_in(12) { chance.pick(&[0, 2]) } else { 1 };
        self.is_autoscaled = chance.one_in(12);
        self.has_config = !chance.one_in(10);
        (self.copies, self.frees_instances) = (if chance.one_in(2) { 2 } else { 1 }, !chance.one_in(5));
        self.hosts = if chance.one_in(3) { 2 } else { 1 };
        (self.is_measured, self.is_checked_only) = (!chance.one_in(8), chance.one_in(8));
        self.shows = match chance.below(4) {
            0 => ShownUse { requests: true, concurrent: false, gpu: None },
            1 => ShownUse { requests: false, concurrent: true, gpu: None },
            2 => ShownUse { requests: false, concurrent: false, gpu: Some(0) },
            _ => self.shows,
        };
        if self.sort == Sort::Job {
            self.shows.gpu = Some(u32::try_from(chance.below(2)).unwrap_or(0).min(self.hosts - 1));
        }
        if self.gone_at.is_none_or(|at| now - at > 2 * HOUR) {
            self.remembered_since = now - 2 * HOUR;
        }
        (self.created, self.modified, self.gone_at) = (now, now, None);
        (self.status, self.stopped_by) = (SageMakerStatus::Changing, None);
        self.curfews_tags.clear();
        self.uses = vec![(now, now + chance.between(MINUTE, 6 * HOUR))];
        self.silences.clear();
        self.next_use = now + chance.between(HOUR, 5 * DAY);
        self.next_action = now + chance.between(HOUR, 5 * DAY);
        self.changed_at = now;
        self.expiry = (self.says.expires_at, now);
    }

    /// Somebody may have written another expiry.
    pub(crate) fn note_expiry(&mut self, now: i64) {
        if self.says.expires_at != self.expiry.0 {
            self.expiry = (self.says.expires_at, now);
        }
    }

    /// What SageMaker was doing an hour ago is done.
    pub(crate) fn settle(&mut self, now: i64) {
        self.status = match self.status {
            SageMakerStatus::Pending | SageMakerStatus::Changing => {
                self.modified = now;
                SageMakerStatus::Running
            }
            SageMakerStatus::Stopping => SageMakerStatus::Stopped,
            SageMakerStatus::Deleting => SageMakerStatus::Deleted,
            settled => settled,
        };
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.status, SageMakerStatus::Running)
    }

    /// When its present life began.
    pub(crate) const fn since(&self) -> i64 {
        match self.sort {
            Sort::Notebook | Sort::Endpoint | Sort::Component => self.modified,
            Sort::App | Sort::Job => self.created,
        }
    }

    /// `SageMaker` begins to change it.
    pub(crate) fn change(&mut self, now: i64) {
        (self.status, self.modified, self.changed_at) = (SageMakerStatus::Changing, now, now);
    }

    pub(crate) fn stop(&mut self, by: StoppedBy, now: i64) {
        (self.status, self.stopped_by, self.stopped_at) = (SageMakerStatus::Stopping, Some(by), now);
        (self.modified, self.changed_at) = (now, now);
        if self.sort == Sort::Job {
            self.gone_at = Some(now);
        }
    }

    pub(crate) fn delete(&mut self, now: i64) {
        (self.status, self.gone_at, self.changed_at) = (SageMakerStatus::Deleting, Some(now), now);
    }

    /// Whether it answers requests, and so may be in production.
    pub(crate) const fn serves(&self) -> bool {
        matches!(self.sort, Sort::Endpoint | Sort::Component)
    }

    pub(crate) fn tags(&self) -> Tags {
        let mut tags = self.says.tags();
        tags.extend(self.foreign.map(|key| (key.to_owned(), "x".to_owned())));
        tags.extend(self.curfews_tags.clone());
        tags
    }

    /// Whether somebody uses it in the period that begins then, for any since `from`.
    pub(crate) fn is_used(&self, from: i64) -> impl Fn(i64) -> bool {
        let uses: Vec<(i64, i64)> = self.uses.iter().filter(|(_, end)| *end > from).copied().collect();
        move |start| uses.iter().any(|(begin, end)| *begin < start + PERIOD && *end > start)
    }

    /// The starts of the whole periods in a time that report.
    pub(crate) fn reports(&self, from: i64, until: i64) -> impl Iterator<Item = i64> + use<> {
        let first = (from.max(self.created) + PERIOD - 1).div_euclid(PERIOD) * PERIOD;
        let silences: Vec<(i64, i64)> = self.silences.iter().filter(|(_, end)| *end > from).copied().collect();
        let is_silent = move |start: &i64| silences.iter().any(|(begin, end)| (*begin..*end).contains(start));
        (first..=until - PERIOD).step_by(5 * 60).filter(move |start| !is_silent(start))
    }

    /// The samples of a metric that are available `lag` after their periods.
    pub(crate) fn samples(&self, signal: ActivitySignal, from: i64, until: i64, now: i64, lag: i64) -> Vec<Sample> {
        let shows = match signal {
            ActivitySignal::Requests => self.shows.requests,
            ActivitySignal::ConcurrentRequests => self.shows.concurrent,
            ActivitySignal::Gpu(host) => self.shows.gpu == Some(host),
        };
        let is_used = self.is_used(from);
        let value = |start| if shows && is_used(start) { 60.0 } else { 0.0 };
        let samples = self.reports(from, until.min(now - lag)).map(|start| (stamp(start), value(start)));
        // SageMaker emits no `Invocations` of zero.
        samples.filter(|(_, value)| signal != ActivitySignal::Requests || *value > 0.0).collect()
    }

    /// When `SageMaker` last looked at an app.
    pub(crate) fn last_check(&self, now: i64) -> i64 {
        let last = now.div_euclid(CHECK) * CHECK;
        let silence = self.silences.iter().find(|(begin, end)| (*begin..*end).contains(&last));
        silence.map_or(last, |(begin, _)| begin.div_euclid(CHECK) * CHECK)
    }

    /// When an app's user was last active, as `SageMaker` saw it then.
    pub(crate) fn last_activity(&self, now: i64) -> i64 {
        let check = self.last_check(now);
        let ends = self.uses.iter().filter(|(begin, _)| *begin < check).map(|(_, end)| (*end).min(check - MINUTE));
        if self.is_checked_only { check } else { ends.max().unwrap_or(self.created) }
    }

    /// The end of the last use that anything has shown.
    pub(crate) fn last_shown_use(&self, now: i64) -> i64 {
        if self.sort == Sort::App {
            return self.last_activity(now);
        }
        let is_shown =
            |(begin, end): &&(i64, i64)| self.reports(begin - PERIOD, (*end).min(now) + PERIOD).next().is_some();
        self.uses.iter().filter(is_shown).map(|(_, end)| (*end).min(now)).max().unwrap_or(self.created)
    }

    /// As `SageMaker` describes it, with everything.
    pub(crate) fn describe(&self, now: i64) -> SageMakerResource {
        let builder = match self.sort {
            Sort::Notebook => notebook(),
            Sort::App => {
                let at = |second| stamp(second).to_string();
                app().used(Some(&at(self.last_activity(now))), Some(&at(self.last_check(now))))
            }
            Sort::Endpoint => endpoint().facts(|facts| {
                facts.config = self.has_config.then(|| "llm-v1".to_owned());
                facts.variants = (0..self.variants).map(|number| format!("variant-{number}")).collect();
                facts.signs = self.sign.into_iter().collect();
                facts.is_autoscaled = Some(self.is_autoscaled);
            }),
            Sort::Job => training_job(),
            Sort::Component => inference_component().component(|component| {
                component.copies = self.copies;
                component.is_autoscaled = Some(self.is_autoscaled);
                component.frees_instances = self.frees_instances;
            }),
        };
        let mut described = SageMakerResource {
            id: self.id.clone(),
            arn: format!("arn:aws:sagemaker:{}:123456789012:{}", self.region, self.id).as_str().into(),
            region: self.region.clone(),
            status: self.status,
            created_at: stamp(self.created),
            modified_at: stamp(self.modified),
            tags: self.tags(),
            instances: Some(self.hosts),
            ..builder.build()
        };
        if let SageMakerKind::App(app) = &mut described.kind
            && !self.is_measured
        {
            "TensorBoard".clone_into(&mut app.app_type);
        }
        described
    }

    /// Whether the lists show it: jobs and apps only where they run.
    pub(crate) fn is_listed(&self) -> bool {
        match self.sort {
            Sort::Notebook | Sort::Endpoint => self.status != SageMakerStatus::Deleted,
            Sort::App | Sort::Job => self.is_running(),
            Sort::Component => matches!(self.status, SageMakerStatus::Running | SageMakerStatus::Stopped),
        }
    }

    /// Its label names the rule `idle`.
    pub(crate) fn is_marked_idle(&self) -> bool {
        self.curfews_tags.get(MARKED).is_some_and(|mark| mark.starts_with("idle="))
    }
}
