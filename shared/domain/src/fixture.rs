//! Instances and usages for tests, by the verbs in which tests think. It is noon on Tuesday, 2026-09-01.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::budget::Standings;
use crate::config::Config;
use crate::instance::{Accelerator, Instance, Machine, Prepaid, Purchase, State};
use crate::job::{Gpu, Job, JobId, Launching, Lifecycle, MachineSpec, Phase, Placed, Terms};
use crate::mode::Mode;
use crate::money::Rate;
use crate::policy::claim::Jobs;
use crate::policy::{Policy, Subject, Verdict};
use crate::price::PriceBook;
use crate::usage::{Busy, PERIOD, Quiet, Unknown, Usage, Window};
use crate::vocabulary::Vocabulary;
use crate::volume::{Volume, VolumeState};

pub(crate) const NOW: &str = "2026-09-01T12:00:00Z";

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A running, tagged, on-demand g5.xlarge of team vision, launched a day ago, without instance storage.
pub(crate) fn instance() -> InstanceBuilder {
    untagged().tag("Team", "vision").tag("Owner", "ada")
}

/// The same without any tag.
pub(crate) fn untagged() -> InstanceBuilder {
    InstanceBuilder(Instance {
        id: "i-0abc".into(),
        region: "us-east-1".into(),
        zone: None,
        instance_type: "g5.xlarge".into(),
        state: State::Running,
        launched_at: time("2026-08-31T12:00:00Z"),
        tags: BTreeMap::new(),
        purchase: Purchase::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: Machine { accelerator: Accelerator::Nvidia, accelerators: 1, vcpus: 4, instance_storage_gb: 0 },
    })
}

/// An unattached gp3 volume of 500 GiB of team vision, created a month ago.
pub(crate) fn volume() -> VolumeBuilder {
    VolumeBuilder(Volume {
        id: "vol-0abc".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: "gp3".to_owned(),
        size_gib: 500,
        iops: Some(3000),
        throughput_mibps: Some(125),
        state: VolumeState::Available,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: time("2026-08-01T12:00:00Z"),
        tags: BTreeMap::new(),
        from_snapshot: None,
        operator: None,
    })
    .tag("Team", "vision")
    .tag("Owner", "ada")
}

pub(crate) struct VolumeBuilder(Volume);

impl VolumeBuilder {
    pub(crate) fn build(self) -> Volume {
        self.0
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Volume)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn id(self, id: &str) -> Self {
        self.with(|volume| volume.id = id.into())
    }

    pub(crate) fn tag(self, key: &str, value: &str) -> Self {
        self.with(|volume| {
            volume.tags.insert(key.to_owned(), value.to_owned());
        })
    }

    pub(crate) fn untagged(self) -> Self {
        self.with(|volume| volume.tags.clear())
    }

    pub(crate) fn on(self, instance: &str) -> Self {
        self.with(|volume| {
            volume.state = VolumeState::InUse;
            volume.attached_to = vec![instance.into()];
        })
    }
}

pub(crate) struct InstanceBuilder(Instance);

impl InstanceBuilder {
    pub(crate) fn build(self) -> Instance {
        self.0
    }

    fn with(mut self, change: impl FnOnce(&mut Instance)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn id(self, id: &str) -> Self {
        self.with(|instance| instance.id = id.into())
    }

    pub(crate) fn tag(self, key: &str, value: &str) -> Self {
        self.with(|instance| {
            instance.tags.insert(key.to_owned(), value.to_owned());
        })
    }

    pub(crate) fn region(self, region: &str) -> Self {
        self.with(|instance| instance.region = region.into())
    }

    pub(crate) fn in_zone(self, zone: &str) -> Self {
        self.with(|instance| instance.zone = Some(zone.to_owned()))
    }

    pub(crate) fn of_type(self, name: &str) -> Self {
        self.with(|instance| instance.instance_type = name.into())
    }

    pub(crate) fn state(self, state: State) -> Self {
        self.with(|instance| instance.state = state)
    }

    pub(crate) fn launched(self, at: &str) -> Self {
        self.with(|instance| instance.launched_at = time(at))
    }

    pub(crate) fn purchase(self, purchase: Purchase) -> Self {
        self.with(|instance| instance.purchase = purchase)
    }

    pub(crate) fn prepaid(self, prepaid: Prepaid) -> Self {
        self.with(|instance| instance.prepaid = Some(prepaid))
    }

    pub(crate) fn operator(self, principal: &str) -> Self {
        self.with(|instance| instance.operator = Some(principal.to_owned()))
    }

    pub(crate) fn root_on_instance_storage(self) -> Self {
        self.with(|instance| instance.root_on_instance_storage = true)
    }

    pub(crate) fn instance_storage(self, gb: u64) -> Self {
        self.with(|instance| instance.machine.instance_storage_gb = gb)
    }

    pub(crate) fn accelerators(self, accelerator: Accelerator, count: u32) -> Self {
        self.with(|instance| {
            instance.machine = Machine { accelerator, accelerators: count, ..instance.machine.clone() }
        })
    }

    pub(crate) fn host(self, host: &str) -> Self {
        self.with(|instance| instance.host = Some(host.to_owned()))
    }
}

/// What a rule is given; usage unknown, defaults, noon.
pub(crate) struct Given {
    instance: Instance,
    usage: Usage,
    config: Config,
    budgets: Standings,
    jobs: Jobs,
    now: Timestamp,
}

impl From<InstanceBuilder> for Given {
    fn from(builder: InstanceBuilder) -> Self {
        Self {
            instance: builder.build(),
            usage: unknown(),
            config: Config::default(),
            budgets: Standings::default(),
            jobs: Jobs::default(),
            now: time(NOW),
        }
    }
}

impl Given {
    pub(crate) fn usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    pub(crate) fn config(self, text: &str) -> Self {
        Self { config: Config::read(text).unwrap(), ..self }
    }

    pub(crate) fn budgets(self, budgets: Standings) -> Self {
        Self { budgets, ..self }
    }

    pub(crate) fn jobs(self, jobs: Jobs) -> Self {
        Self { jobs, ..self }
    }

    pub(crate) fn at(self, now: &str) -> Self {
        Self { now: time(now), ..self }
    }

    pub(crate) fn judge(&self, rule: impl Fn(Subject<'_>) -> Verdict) -> Verdict {
        let says = Vocabulary::read(&self.instance).unwrap();
        rule(Subject {
            instance: &self.instance,
            says: &says,
            usage: &self.usage,
            config: &self.config,
            budgets: &self.budgets,
            claim: self.jobs.claim(&self.instance),
            now: self.now,
        })
    }
}

pub(crate) fn enforcing(config: &str) -> Policy {
    Policy {
        config: Config::read(config).unwrap(),
        ceiling: Mode::Enforce,
        prices: PriceBook::dated(),
        budgets: Standings::default(),
        jobs: Jobs::default(),
    }
}

fn quiet() -> Quiet {
    let window = Window::ending_before(time(NOW), jiff::SignedDuration::from_hours(1));
    Quiet {
        from: window.from,
        to: window.to,
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: 0.0,
        cpu_max_vcpus: 0.1,
        network_max_mbps: 0.1,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved: false,
    }
}

pub(crate) fn idle() -> Usage {
    Usage::Idle(quiet())
}

pub(crate) fn reserved() -> Usage {
    Usage::Idle(Quiet { gpu_memory_held_mib: Some(20_000.0), reserved: true, ..quiet() })
}

pub(crate) fn busy() -> Usage {
    Usage::Busy(Busy { until: time(NOW) - PERIOD, shown: None })
}

pub(crate) fn unknown() -> Usage {
    Usage::Unknown(Unknown::Uninstrumented { reporting: 0, devices: 1 })
}

/// The jobs that could be looked up: `vision/llama-0123abcd` alone, which is in that phase.
pub(crate) fn jobs(phase: Phase) -> Jobs {
    let id = JobId::read("vision/llama-0123abcd").unwrap();
    let terms = Terms {
        tags: BTreeMap::new(),
        gpu: Gpu { count: 1, memory_gib_min: 0, types: Vec::new() },
        spot: None,
        max_runtime_seconds: 8 * 3600,
        finish_by: None,
        max_usd: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    let job = Job { attempt: 2, phase, ..Job::submitted(id.clone(), None, terms, time(NOW)) };
    Jobs(BTreeMap::from([(id, Some(job))]))
}

/// A machine is asked for.
pub(crate) fn launching() -> Phase {
    let at = time(NOW);
    Phase::Launching(Launching {
        candidate: 0,
        pass: 1,
        at,
        ends_at: at,
        quotas: Vec::new(),
        avoid: None,
        unanswered: false,
    })
}

/// The machine of its second attempt.
pub(crate) fn placed(instance: &str, region: &str) -> Placed {
    Placed {
        instance: instance.into(),
        region: region.into(),
        zone: format!("{region}a"),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::OnDemand,
        rate_max: Rate::from_usd_micros_per_hour(1_006_000),
        rate: Rate::from_usd_micros_per_hour(1_006_000),
        attempt: 2,
        candidate: 0,
        launched_at: time("2026-08-31T12:00:00Z"),
        ends_at: time("2026-09-02T12:00:00Z"),
    }
}
