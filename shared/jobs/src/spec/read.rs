//! Reading of a spec: the meaning of its document.

mod cpu_job;
mod gpu_box;
mod inputs;
mod limits;
mod machine;
mod network;
mod sized_model;
mod sweep;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::curfew_tags::{ATTEMPT, EXPIRES_AT, JOB, MARKED, MODE, TAGS_MAX};
use model::document::utf8;
use model::fault::InvalidValue;
use model::id::{Region, TeamName, TypeName};

use super::judge::SpecValidator;
use super::written::{self, RawSpec};
use super::{CheckpointSpec, GpuSpec, JobSpec, JobTerms, ModelSizing, SpotSpec, Workload, checks};
use crate::checkpoints::check_pattern;
use crate::gpu_type::check_gpu_name;
use crate::machine_ceiling::{Ceiling, MachineCeiling};
use crate::node_gang::NODES_MAX;
use crate::parameter_sweep::sweep_variable;
use crate::team_access::check_team;
use crate::{CHECKPOINTS_KEPT_MAX, ContainerImage, JobName, Shell, SpecMistake, WorkdirDigest};

const DIR: &str = "/var/curfew/checkpoints";
const EVERY: SignedDuration = SignedDuration::from_mins(15);
const SIGNAL: &str = "SIGTERM";

impl JobSpec {
    /// The largest document that is read, in bytes.
    pub const BYTES_MAX: usize = written::BYTES_MAX;

    /// Reads a spec. `file_name`: what it is called in the inbox, with or without its folder; a spec that has no name takes that. `team`:
    /// whose folder it lies in; without one it may name nothing that is allowed team by team. `bucket_region`: where its checkpoints are kept.
    ///
    /// # Errors
    /// Every mistake, in the order of the document: its line, its full key, and what is legal. What `config` requires, and that
    /// a moment is to come, is judged as of `now`: a spec that was accepted is read by [`JobSpec::accepted`].
    pub fn read(
        text: &str,
        file_name: &str,
        team: Option<&TeamName>,
        config: &Config,
        bucket_region: &Region,
        now: Timestamp,
    ) -> Result<Self, Vec<SpecMistake>> {
        let (mut judge, written) = SpecValidator::parse(text)?;
        judge.check(&[], team.map_or(Ok(()), |team| check_team(team, config)));
        let sweep = judge.sweep(&written);
        let parameters = judge.member(&written, sweep.as_ref());
        let name = judge.name(written.name.as_deref(), file_name);
        let name = if sweep.is_some() { name.and_then(|name| judge.name_in_sweep(name, written.member)) } else { name };
        let owner = judge.owner(&written, config);
        judge.tags(&written, config);
        let work = judge.work(&written, parameters, checks::own_directory);
        if written.gpu.count == Some(0) {
            judge.cpu_job(&written);
        } else {
            judge.no_cpu_job(&written.machine);
        }
        let (gpu, sizing) = judge.gpu(&written.gpu);
        let network = judge.network(&written);
        judge.gpu_ceiling(&gpu, team, config);
        let mut terms = JobTerms {
            gpu,
            network,
            spot: judge.spot(&written.spot),
            max_runtime_seconds: judge.max_runtime(&written, team, config),
            finish_by: judge.deadline(&written.limits, now),
            estimated_runtime_seconds: judge.estimated_runtime(&written, config),
            max_usd: judge.max_usd(&written.limits, sweep.as_ref()),
            max_rate: judge.rate(&["limits", "max_usd_per_hour"], written.limits.max_usd_per_hour),
            retries: judge.some(&["retries"], written.retries, 0, [0, checks::RETRIES_MAX]),
            checkpoint: judge.checkpoint(&written, config, checks::own_directory),
            gpu_box: judge.gpu_box(&written, team, config, now),
            machine: judge.machine(written.machine, team, config, bucket_region),
            tags: written.tags,
            bucket_region: Some(bucket_region.clone()),
        };
        if let Some(sizing) = &sizing {
            terms.machine.memory_gib = sizing.host_gib_min;
        }
        if let Some(problem) = terms.find_missing_size() {
            judge.report_missing(&["checkpoint", "size_gb"], &problem);
        }
        let sweep = sweep.filter(|_| written.member.is_none());
        judge.done((name, work), |(name, work)| Some(Self { name: name?, owner, work: work?, terms, sizing, sweep }))
    }

    /// Reads a spec from its bytes.
    ///
    /// # Errors
    /// As [`JobSpec::read`], and where a byte is no UTF-8.
    pub fn read_bytes(
        document: &[u8],
        file_name: &str,
        team: Option<&TeamName>,
        config: &Config,
        bucket_region: &Region,
        now: Timestamp,
    ) -> Result<Self, Vec<SpecMistake>> {
        let text = utf8(document).map_err(|wrong| vec![wrong.into()])?;
        Self::read(text, file_name, team, config, bucket_region, now)
    }

    /// The name of the job that a document becomes, whatever else stands in it. `None` if it was never accepted: it has no legal name.
    ///
    /// Whether a job exists for a document must not depend on what the configuration allows today, nor on the keys that this version knows.
    #[must_use]
    pub fn read_name(document: &[u8], file_name: &str) -> Option<JobName> {
        let document: toml::Table = toml::from_str(std::str::from_utf8(document).ok()?).ok()?;
        let name = match document.get("name") {
            Some(name) => name.as_str()?,
            None => default_name(file_name),
        };
        let name = JobName::read(name).ok()?;
        match document.get("member") {
            Some(member) => name.member(u32::try_from(member.as_integer()?).ok()?).ok(),
            None => Some(name),
        }
    }

    /// Reads the work of the machine from a spec that was accepted. The only key of the configuration that counts is the number of
    /// checkpoints that are kept, where the spec does not say.
    ///
    /// # Errors
    /// As [`JobSpec::read`], of what the machine does.
    pub fn accepted(text: &str, config: &Config) -> Result<(Workload, Option<CheckpointSpec>), Vec<SpecMistake>> {
        let (mut judge, written) = SpecValidator::parse(text)?;
        let sweep = judge.sweep(&written);
        let parameters = judge.member(&written, sweep.as_ref());
        // A directory that is refused today may have been accepted.
        let work = judge.work(&written, parameters, checks::path);
        let checkpoint = judge.checkpoint(&written, config, checks::path);
        judge.done(work, |work| Some((work?, checkpoint)))
    }
}

/// The file name of a document that a program hands over.
const STANDARD_INPUT: &str = "-";

/// The name of a spec that does not say one.
fn default_name(file_name: &str) -> &str {
    let file = file_name.rsplit('/').next().unwrap_or_default();
    file.strip_suffix(".toml").unwrap_or(file)
}

impl SpecValidator<'_> {
    fn name(&mut self, written: Option<&str>, file_name: &str) -> Option<JobName> {
        if let Some(name) = written {
            let read = JobName::read(name);
            return read.map_err(|problem| self.refuse(&["name"], &format!("{name:?}: {problem}"))).ok();
        }
        let name = default_name(file_name);
        let problem = |legal: InvalidValue| {
            if file_name == STANDARD_INPUT {
                return format!("the document comes from no file that names the job: {legal}; write `name`");
            }
            format!("the file is called {name:?}, which is not a valid name for a job: {legal}; write `name`")
        };
        JobName::read(name).map_err(|legal| self.report_missing(&["name"], &problem(legal))).ok()
    }

    /// Reads the owner by the key of its own, or by the account's owner tag.
    fn owner(&mut self, written: &RawSpec, config: &Config) -> Option<String> {
        let key = config.tags.owner.as_str();
        let by_tag = written.tags.get(key);
        if let Some(owner) = &written.owner {
            self.check(&["owner"], checks::tag_value(owner));
            if owner.trim().is_empty() {
                self.refuse(&["owner"], "it is empty; write who is notified about the job, or leave it out");
            }
            if by_tag.is_some_and(|tagged| tagged != owner) {
                self.refuse(&["tags", key], "it names another owner than `owner`; leave one of them out");
            }
        }
        written.owner.as_ref().or(by_tag).cloned()
    }

    fn tags(&mut self, written: &RawSpec, config: &Config) {
        let keys = &config.tags;
        for (key, value) in &written.tags {
            let path = ["tags", key.as_str()];
            if *key == keys.team {
                self.refuse(&path, "the folder that a job is submitted to names the team; leave it out");
                continue;
            }
            self.check(&path, checks::tag_key(key, &config.managed));
            self.check(&path, checks::tag_value(value));
        }
        let own = [keys.team.as_str(), &keys.owner, "Name", MODE, JOB, ATTEMPT, EXPIRES_AT, MARKED];
        let all: BTreeSet<&str> = own.into_iter().chain(written.tags.keys().map(String::as_str)).collect();
        if all.len() > TAGS_MAX {
            let problem = format!(
                "with Curfew's own they are {}; a resource has {TAGS_MAX} at most, so leave {} out",
                all.len(),
                all.len() - TAGS_MAX
            );
            self.refuse(&["tags"], &problem);
        }
        let launches = written.gpu_box.as_ref().is_none_or(|gpu_box| gpu_box.remove.is_none());
        for key in keys.required.iter().filter(|key| launches && **key != keys.team) {
            let is_set = written.tags.get(key).is_some_and(|value| !value.is_empty());
            if *key == keys.owner {
                if !is_set && written.owner.is_none() {
                    self.report_missing(
                        &["owner"],
                        &format!("this account requires the tag {key} of every GPU instance; write `owner`"),
                    );
                }
            } else if !is_set {
                let problem =
                    "this account requires this tag of every GPU instance; write it, with a value, under [tags]";
                self.report_missing(&["tags", key], problem);
            }
        }
    }

    fn work(
        &mut self,
        written: &RawSpec,
        parameters: Vec<(String, String)>,
        directory: impl Fn(&str) -> Result<(), InvalidValue>,
    ) -> Option<Workload> {
        let is_box = written.gpu_box.is_some();
        match &written.command {
            None if is_box => {}
            None => self.report_missing(
                &["command"],
                "it is missing: write the command to run, such as `command = \"python train.py\"`",
            ),
            Some(command) if command.trim().is_empty() => {
                self.refuse(&["command"], "it is empty; write the command to run");
            }
            Some(command) => self.check(&["command"], checks::text(command)),
        }
        self.check(&["setup"], written.setup.as_deref().map_or(Ok(()), checks::text));
        let shell = written.shell.as_deref().and_then(|written| {
            Shell::read(written).map_err(|problem| self.refuse(&["shell"], &problem.to_string())).ok()
        });
        let workdir = written.workdir.as_deref().and_then(|written| {
            WorkdirDigest::read(written).map_err(|problem| self.refuse(&["workdir"], &problem.to_string())).ok()
        });
        let container = written.container.as_deref().and_then(|written| {
            ContainerImage::read(written).map_err(|problem| self.refuse(&["container"], &problem.to_string())).ok()
        });
        let inputs = self.inputs(written, directory);
        for (name, value) in &written.env {
            self.check(&["env", name], checks::variable(name).and_then(|()| checks::text(value)));
        }
        for (name, arn) in &written.secrets {
            self.check(&["secrets", name], checks::variable(name).and_then(|()| checks::secret(arn)));
            if written.env.contains_key(name) {
                self.refuse(&["secrets", name], "`env` has this variable as well; leave one of them out");
            }
        }
        self.list(&["after"], &written.after, checks::job_name);
        if written.after.len() > checks::AFTER_MAX {
            self.refuse(&["after"], &format!("{} of them; write {} at most", written.after.len(), checks::AFTER_MAX));
        }
        let variables = parameters.into_iter().map(|(name, value)| (sweep_variable(&name), value));
        let machine = &written.machine;
        self.check(&["machine", "user"], machine.user.as_deref().map_or(Ok(()), checks::user));
        self.list(&["machine", "outputs"], &machine.outputs, checks::path);
        Some(Workload {
            command: if is_box { String::new() } else { written.command.clone()? },
            setup: written.setup.clone(),
            shell,
            container,
            workdir,
            inputs,
            env: written.env.clone().into_iter().chain(variables).collect(),
            secrets: written.secrets.clone(),
            user: machine.user.clone(),
            outputs: machine.outputs.clone(),
            has_gpus: written.gpu.count != Some(0),
            metadata: machine.metadata,
            after: written.after.clone(),
            idle_max: self.idle_max(&written.limits),
            is_box,
        })
    }

    fn gpu(&mut self, gpu: &written::RawGpu) -> (GpuSpec, Option<ModelSizing>) {
        self.list(&["gpu", "types"], &gpu.types, checks::instance_type);
        let count = gpu.count.map(|_| self.some(&["gpu", "count"], gpu.count, 1, [0, checks::TYPE_GPUS_MAX]));
        let memory_gib_min =
            self.some(&["gpu", "memory_gib_min"], gpu.memory_gib_min, 0, [0, checks::GPU_MEMORY_GIB_MAX]);
        let sizing = gpu.model.as_ref().filter(|_| count != Some(0)).and_then(|model| self.model(model, count));
        if gpu.model.is_some() && gpu.memory_gib_min.is_some() {
            self.refuse(
                &["gpu", "memory_gib_min"],
                "`gpu.model` says how much memory is needed; leave one of them out",
            );
        }
        self.check(&["gpu", "name"], gpu.name.as_deref().map_or(Ok(()), check_gpu_name));
        if gpu.name.is_some() && !gpu.types.is_empty() {
            self.refuse(&["gpu", "name"], "`gpu.types` says which machines; leave one of them out");
        }
        let types = gpu.types.iter().map(|name| TypeName::from(name.as_str())).collect();
        let by_model = sizing.as_ref().map(|sizing| (sizing.estimate.parallelism.gpus, sizing.gpu_gb_min));
        let (count, memory_gib_min) = by_model.unwrap_or((count.unwrap_or(1), memory_gib_min));
        let nodes = self.some(&["gpu", "nodes"], gpu.nodes, 1, [1, NODES_MAX]);
        (GpuSpec { count, nodes, name: gpu.name.clone(), memory_gib_min, types }, sizing)
    }

    /// Checks that the configuration lets a machine have so many GPUs.
    fn gpu_ceiling(&mut self, gpu: &GpuSpec, team: Option<&TeamName>, config: &Config) {
        let Some(Ceiling { most, key }) = MachineCeiling::from_config(config, team).gpus else { return };
        let all = gpu.count.saturating_mul(u32::from(gpu.nodes));
        if all > most {
            let machines = match gpu.nodes {
                1 => "on one machine".to_owned(),
                nodes => format!("on {nodes} machines"),
            };
            let problem = format!("{all} GPUs {machines} are too many: {key} of the configuration is {most}");
            self.refuse(&["gpu", if gpu.count > most { "count" } else { "nodes" }], &problem);
        }
    }

    fn spot(&mut self, spot: &written::RawSpot) -> Option<SpotSpec> {
        let max_rate = self.rate(&["spot", "max_usd_per_hour"], spot.max_usd_per_hour);
        let fallback = self.length(
            &["spot", "fallback_to_on_demand_after"],
            spot.fallback_to_on_demand_after,
            "write for how long Spot is tried first, or `enabled = false` for on demand only",
        );
        spot.enabled.unwrap_or(true).then(|| SpotSpec {
            max_rate,
            fallback_to_on_demand_after_seconds: fallback.map(|length| length.as_secs()),
        })
    }

    fn checkpoint(
        &mut self,
        written: &RawSpec,
        config: &Config,
        directory: impl Fn(&str) -> Result<(), InvalidValue>,
    ) -> Option<CheckpointSpec> {
        self.check(&["resume_from"], written.resume_from.as_deref().map_or(Ok(()), checks::job_name));
        let Some(checkpoint) = &written.checkpoint else {
            if written.resume_from.is_some() {
                self.refuse(&["resume_from"], "it needs a section `[checkpoint]`, which says where checkpoints are");
            }
            return None;
        };
        let dir = checkpoint.dir.as_deref().unwrap_or(DIR);
        self.check(&["checkpoint", "dir"], directory(dir));
        let every = self.length(&["checkpoint", "every"], checkpoint.every, "write how often the command writes one");
        let signal = checkpoint.signal.as_deref().unwrap_or(SIGNAL);
        self.check(&["checkpoint", "signal"], checks::signal(signal));
        self.list(&["checkpoint", "include"], &checkpoint.include, check_pattern);
        self.list(&["checkpoint", "exclude"], &checkpoint.exclude, check_pattern);
        Some(CheckpointSpec {
            dir: dir.to_owned(),
            every_seconds: every.unwrap_or(EVERY).as_secs(),
            // The configuration may say 0; without one there is nothing to resume from.
            keep: self.some(
                &["checkpoint", "keep"],
                checkpoint.keep,
                config.jobs.checkpoint_keep.clamp(1, CHECKPOINTS_KEPT_MAX),
                [1, CHECKPOINTS_KEPT_MAX],
            ),
            size_gb: checkpoint
                .size_gb
                .map(|size| self.some(&["checkpoint", "size_gb"], Some(size), size, [1, checks::CHECKPOINT_GB_MAX])),
            total_steps: checkpoint.total_steps.map(|steps| {
                self.some(&["checkpoint", "total_steps"], Some(steps), steps, [1, checks::TOTAL_STEPS_MAX])
            }),
            include: checkpoint.include.clone(),
            exclude: checkpoint.exclude.clone(),
            resume_from: written.resume_from.clone(),
            signal: signal.to_owned(),
        })
    }
}
