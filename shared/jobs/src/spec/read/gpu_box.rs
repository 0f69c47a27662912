//! `[box]` of a spec.

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::duration::format_exact_duration;
use model::id::TeamName;

use crate::ATTEMPT_MIN;
use crate::boxes::report::is_public_key;
use crate::boxes::{BoxLimits, BoxRemoval, BoxTerms, HOME_GIB};
use crate::machine_ceiling::Ceiling;
use crate::spec::judge::SpecValidator;
use crate::spec::written::RawSpec;

/// The life of a box whose spec names no end: a working day.
const LASTS: SignedDuration = SignedDuration::from_hours(10);

/// The idle time after which a box ends, if its spec names none: longer than a lunch.
const IDLE: SignedDuration = SignedDuration::from_hours(1);

/// The key of the limit of `idle` from below.
const IDLE_MIN: &str = "`[boxes] idle_min`";

const NO_SSH: &str =
    "`[jobs] ssh` of the configuration is false, so nobody could log in to a box; submit a job with a command";

impl SpecValidator<'_> {
    /// Reads the terms of a box, and refuses what only a job with a command has.
    pub(super) fn gpu_box(
        &mut self,
        written: &RawSpec,
        team: Option<&TeamName>,
        config: &Config,
        now: Timestamp,
    ) -> Option<BoxTerms> {
        let gpu_box = written.gpu_box.as_ref()?;
        let limits = BoxLimits::from_config(config, team);
        self.no_command_job(written);
        let remove = match gpu_box.remove.as_deref() {
            None => None,
            Some("volume") => Some(BoxRemoval::Volume),
            Some("everything") => Some(BoxRemoval::Everything),
            Some(other) => {
                self.refuse(&["box", "remove"], &format!("{other:?} is none of `volume`, `everything`"));
                None
            }
        };
        if remove.is_none() && !config.jobs.ssh {
            self.refuse(&["box"], NO_SSH);
        }
        match gpu_box.public_key.as_deref() {
            None if remove.is_some() => {}
            Some(key) if is_public_key(key) => {}
            Some(_) => self.refuse(
                &["box", "public_key"],
                "it is no public key of type ed25519; write the one line that `ssh-keygen -t ed25519` puts into the file `.pub`",
            ),
            None => {
                self.report_missing(&["box", "public_key"], "it is missing: write the public key that opens the box");
            }
        }
        let until = self.moment(&["box", "until"], gpu_box.until.as_deref(), now);
        let lasts = gpu_box.lasts.unwrap_or(LASTS.min(limits.runtime.most));
        if gpu_box.lasts.is_some() && gpu_box.until.is_some() {
            self.refuse(&["box", "for"], "`until` says the same in another way; leave one of them out");
        }
        self.within(&["box", "for"], gpu_box.lasts, (ATTEMPT_MIN, None), &limits.runtime);
        if let Some(until) = until.filter(|until| until.duration_since(now) > limits.runtime.most) {
            let Ceiling { most, key } = &limits.runtime;
            let most = format_exact_duration(*most);
            let problem = format!("{until} is too late (it is {now:.0}): {key} of the configuration is {most}");
            self.refuse(&["box", "until"], &problem);
        }
        self.within(&["limits", "max_runtime"], written.limits.max_runtime, (ATTEMPT_MIN, None), &limits.runtime);
        self.within(&["box", "idle"], gpu_box.idle, (limits.idle_min, Some(IDLE_MIN)), &limits.idle);
        let Ceiling { most, key } = &limits.home_gib;
        let home_gib = gpu_box.home_gib.unwrap_or(HOME_GIB.min(*most));
        if !(1..=*most).contains(&home_gib) {
            let problem =
                format!("a home of {home_gib} GiB is not possible; write 1 to {most}: {key} of the configuration");
            self.refuse(&["box", "home_gib"], &problem);
        }
        let until = until.or_else(|| now.checked_add(lasts).ok()).unwrap_or(now);
        Some(BoxTerms {
            public_key: gpu_box.public_key.clone().or(remove.map(|_| String::new()))?,
            home_gib,
            idle_seconds: gpu_box.idle.unwrap_or(IDLE.clamp(limits.idle_min, limits.idle.most)).as_secs(),
            until: Timestamp::from_second(until.as_second()).unwrap_or(until),
            remove,
        })
    }

    /// Refuses the keys of a job with a command, each where it stands.
    fn no_command_job(&mut self, written: &RawSpec) {
        let RawSpec { limits, spot, .. } = written;
        let keys: [(&[&str], bool); 13] = [
            (&["command"], written.command.is_some()),
            (&["container"], written.container.is_some()),
            (&["retries"], written.retries.is_some()),
            (&["after"], !written.after.is_empty()),
            (&["resume_from"], written.resume_from.is_some()),
            (&["sweep"], written.sweep.is_some()),
            (&["checkpoint"], written.checkpoint.is_some()),
            (&["machine", "outputs"], !written.machine.outputs.is_empty()),
            (&["limits", "idle"], limits.idle.is_some()),
            (&["limits", "finish_by"], limits.finish_by.is_some()),
            (&["limits", "within"], limits.within.is_some()),
            (&["limits", "estimated_runtime"], limits.estimated_runtime.is_some()),
            (&["spot", "fallback_to_on_demand_after"], spot.fallback_to_on_demand_after.is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, is_written)| *is_written) {
            self.refuse(key, "it belongs to a job with a command, and this is a box; leave it out");
        }
        if written.machine.regions.len() > 1 {
            self.refuse(&["machine", "regions"], "the home of a box lies in one region; name one");
        }
    }

    /// Refuses a duration that the configuration does not allow, with the key of the limit.
    fn within(
        &mut self,
        path: &[&str],
        length: Option<SignedDuration>,
        (least, least_key): (SignedDuration, Option<&str>),
        Ceiling { most, key }: &Ceiling<SignedDuration>,
    ) {
        let Some(length) = length.filter(|length| !(least..=*most).contains(length)) else { return };
        let key = if length > *most { Some(key.as_str()) } else { least_key };
        let limit = key.map(|key| format!(": {key} of the configuration")).unwrap_or_default();
        let [length, least, most] = [length, least, *most].map(format_exact_duration);
        self.refuse(path, &format!("{length} is not possible; write {least} to {most}, or leave it out{limit}"));
    }

    /// Reads a duration between two, both included.
    pub(super) fn between(
        &mut self,
        path: &[&str],
        length: Option<SignedDuration>,
        [least, most]: [SignedDuration; 2],
    ) -> Option<SignedDuration> {
        let out_of_range = length.filter(|length| !(least..=most).contains(length));
        if let Some(written) = out_of_range {
            let [written, least, most] = [written, least, most].map(format_exact_duration);
            self.refuse(path, &format!("{written} is not possible; write {least} to {most}, or leave it out"));
        }
        length
    }
}

/// The limit of a box that names none.
pub(super) fn default_box_runtime(config: &Config, team: Option<&TeamName>) -> SignedDuration {
    BoxLimits::from_config(config, team).runtime.most.min(config.lifetime.max)
}
