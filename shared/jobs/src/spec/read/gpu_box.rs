//! `[box]` of a spec.

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::duration;

use crate::ATTEMPT_MIN;
use crate::boxes::report::is_public_key;
use crate::boxes::{BoxRemoval, BoxTerms, HOME_GIB};
use crate::spec::judge::SpecValidator;
use crate::spec::written::RawSpec;

/// The life of a box whose spec names no end: a working day.
const LASTS: SignedDuration = SignedDuration::from_hours(10);

/// The longest life of a machine of a box, and the default.
pub(super) const BOX_RUNTIME_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The idle time after which a box ends, if its spec names none: longer than a lunch.
const IDLE: SignedDuration = SignedDuration::from_hours(1);

/// Shorter, it would end while somebody reads; longer, it is no limit.
const IDLE_MIN: SignedDuration = SignedDuration::from_mins(15);
const IDLE_MAX: SignedDuration = SignedDuration::from_hours(4);

/// The largest home, in GiB. It is a ceiling of Curfew's: EBS would take 64 TiB.
const HOME_GIB_MAX: u32 = 1_024;

impl SpecValidator<'_> {
    /// Reads the terms of a box, and refuses what only a job with a command has.
    pub(super) fn gpu_box(&mut self, written: &RawSpec, now: Timestamp) -> Option<BoxTerms> {
        let gpu_box = written.gpu_box.as_ref()?;
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
        let lasts = gpu_box.lasts.unwrap_or(LASTS);
        if gpu_box.lasts.is_some() && gpu_box.until.is_some() {
            self.refuse(&["box", "for"], "`until` says the same in another way; leave one of them out");
        }
        self.between(&["box", "for"], gpu_box.lasts, [ATTEMPT_MIN, BOX_RUNTIME_MAX]);
        if let Some(until) = until.filter(|until| until.duration_since(now) > BOX_RUNTIME_MAX) {
            let most = duration::format_exact_duration(BOX_RUNTIME_MAX);
            self.refuse(
                &["box", "until"],
                &format!("{until} is too late (it is {now:.0}); a box lasts {most} at most"),
            );
        }
        self.between(&["limits", "max_runtime"], written.limits.max_runtime, [ATTEMPT_MIN, BOX_RUNTIME_MAX]);
        self.between(&["box", "idle"], gpu_box.idle, [IDLE_MIN, IDLE_MAX]);
        let home_gib = self.some(&["box", "home_gib"], gpu_box.home_gib, HOME_GIB, [1, HOME_GIB_MAX]);
        let until = until.or_else(|| now.checked_add(lasts).ok()).unwrap_or(now);
        Some(BoxTerms {
            public_key: gpu_box.public_key.clone().or(remove.map(|_| String::new()))?,
            home_gib,
            idle_seconds: gpu_box.idle.unwrap_or(IDLE).as_secs(),
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

    /// Reads a duration between two, both included.
    pub(super) fn between(
        &mut self,
        path: &[&str],
        length: Option<SignedDuration>,
        [least, most]: [SignedDuration; 2],
    ) -> Option<SignedDuration> {
        let out_of_range = length.filter(|length| !(least..=most).contains(length));
        if let Some(written) = out_of_range {
            let [written, least, most] = [written, least, most].map(duration::format_exact_duration);
            self.refuse(path, &format!("{written} is not possible; write {least} to {most}, or leave it out"));
        }
        length
    }
}

/// The limit of a box that names none.
pub(super) fn default_box_runtime(config: &Config) -> SignedDuration {
    BOX_RUNTIME_MAX.min(config.lifetime.max)
}
