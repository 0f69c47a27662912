//! Marks and tags that nothing owns any more, on whatever they are. A finding, if one of these holds of a tag:
//! - its key looks like one of Curfew's and is none, or its value cannot be read;
//! - Curfew wrote it on something of another kind, or on an instance without an accelerator: it was copied;
//! - it says that Curfew stopped an instance that has been running for an hour;
//! - it says since when a volume is unattached that has been attached for two hours;
//! - it names a job that is not active;
//! - it keeps something until a moment that has passed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{
    CurfewTags, DELETED_AT, JOB, KEEP_UNTIL, MARKED, RESTORE, SNAPSHOT_OF, STOPPED, UNATTACHED_SINCE, UnreadableTag,
    begins_with_curfew,
};
use model::foreign_text::shell_word;
use model::id::{Region, ResourceId};
use model::instance::{InstanceState, Tags};

use super::{DoctorFinding, FindingSeverity, ago, at_most};

/// The check's name.
pub const CHECK: &str = "tags";

/// The most that are shown.
const SHOWN_MAX: usize = 50;
/// The next run takes the tag off; instances are looked at every 5 minutes, volumes every hour.
const STARTED_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);
const ATTACHED_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(2);

/// Tags that Curfew writes itself, with the kinds of resources that carry them.
const OWN: [(&str, &[&str]); 6] = [
    (MARKED, &["instance", "volume"]),
    (STOPPED, &["instance"]),
    (UNATTACHED_SINCE, &["volume"]),
    (SNAPSHOT_OF, &["snapshot"]),
    (RESTORE, &["snapshot"]),
    (DELETED_AT, &["snapshot"]),
];

/// Values of EC2's filter `key` of `DescribeTags` that find every key whose reader sees `curfew` at its beginning, in usual
/// spellings: they are told from others by [`is_looked_at`].
pub const KEY_FILTER: [&str; 6] = ["?urf?w*", "?URF?W*", "??urf?w*", "??URF?W*", "curfew*", "Curfew*"];

/// Returns `true` if a tag with this key is judged.
#[must_use]
pub fn is_looked_at(key: &str) -> bool {
    begins_with_curfew(key)
}

/// Something that carries tags of `curfew`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedResource {
    /// The resource's region.
    pub region: Region,
    /// Its id.
    pub resource: ResourceId,
    /// EC2's name for the kind, such as `instance` or `launch-template`.
    pub kind: String,
    /// Its tags of `curfew`, and no others.
    pub tags: Tags,
}

/// An instance that carries tags of `curfew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedInstance {
    /// Time of the last launch or start.
    pub launched_at: Timestamp,
    /// The instance's state.
    pub state: InstanceState,
    /// `true` if the instance has an accelerator.
    pub accelerated: bool,
}

/// Facts about the tagged resources, in regions that were seen in full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownResources {
    /// Every tagged instance that is not gone.
    pub instances: BTreeMap<ResourceId, TaggedInstance>,
    /// Every volume that carries tags and is not gone: since when it is attached, where it is.
    pub volumes: BTreeMap<ResourceId, Option<Timestamp>>,
    /// The named jobs that are not active.
    pub inactive_jobs: BTreeSet<String>,
}

/// The tagged volumes; a look at them tells whether they are gone.
#[must_use]
pub fn tagged_volumes(tagged: &[TaggedResource]) -> BTreeSet<ResourceId> {
    tagged.iter().filter(|one| one.kind == "volume").map(|one| one.resource.clone()).collect()
}

/// The jobs that instances and volumes name.
#[must_use]
pub fn jobs_named(tagged: &[TaggedResource]) -> BTreeSet<String> {
    let machines = tagged.iter().filter(|one| matches!(one.kind.as_str(), "instance" | "volume"));
    machines.filter_map(|one| one.tags.get(JOB)).cloned().collect()
}

/// Judges all tags of `curfew`.
#[must_use]
pub fn check(tagged: &[TaggedResource], known: &KnownResources, now: Timestamp) -> Vec<DoctorFinding> {
    let findings = tagged.iter().flat_map(|one| TagCheck { one, known, now, findings: Vec::new() }.judge()).collect();
    at_most(SHOWN_MAX, findings, "tags like these")
}

struct TagCheck<'a> {
    one: &'a TaggedResource,
    known: &'a KnownResources,
    now: Timestamp,
    findings: Vec<DoctorFinding>,
}

impl TagCheck<'_> {
    fn judge(mut self) -> Vec<DoctorFinding> {
        let TaggedResource { resource, kind, tags, .. } = self.one;
        let read = match kind.as_str() {
            "instance" => match self.known.instances.get(resource) {
                Some(instance) => CurfewTags::read_instance(instance.launched_at, tags),
                None => return self.findings,
            },
            "volume" if !self.known.volumes.contains_key(resource) => return self.findings,
            _ => CurfewTags::read_volume(tags),
        };
        let (says, unreadable) = match read {
            Ok(says) => (says, Vec::new()),
            Err(unreadable) => (CurfewTags::default(), unreadable),
        };
        for one in &unreadable {
            self.unreadable(one);
        }
        for key in self.copied().collect::<Vec<_>>() {
            let (article, words) = if self.is_without_accelerator() {
                ("an", "instance without an accelerator".to_owned())
            } else {
                (if kind.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" }, kind.clone())
            };
            self.add_finding(
                FindingSeverity::Warning,
                key,
                format!("{key} has no meaning on {article} {words}: it was copied"),
            );
        }
        self.stale_labels();
        self.keep_and_job(&says);
        self.findings
    }

    /// Whoever wrote it meant something, most likely to have the resource skipped, which it would no more be without the tag.
    fn unreadable(&mut self, UnreadableTag { key, value, problem }: &UnreadableTag) {
        let delete = delete_tag(&self.one.region, &self.one.resource, key);
        let finding = if self.is_reaped() {
            let found = format!("{key}={value} cannot be read, so Curfew skips the resource: {problem}");
            DoctorFinding::warning(self.location(), found, format!("ask its owner to correct the value, or {delete}"))
        } else {
            DoctorFinding::note(self.location(), format!("{key}={value} has no meaning: {problem}"), delete)
        };
        self.findings.push(finding);
    }

    /// Returns `true` if Curfew judges resources of this kind.
    fn is_reaped(&self) -> bool {
        matches!(self.one.kind.as_str(), "instance" | "volume" | "snapshot") && !self.is_without_accelerator()
    }

    fn is_without_accelerator(&self) -> bool {
        self.known.instances.get(&self.one.resource).is_some_and(|instance| !instance.accelerated)
    }

    /// Returns the resource's own Curfew tags that mean nothing on its kind.
    fn copied(&self) -> impl Iterator<Item = &'static str> + use<'_> {
        let here = OWN.into_iter().filter(|(key, _)| self.one.tags.contains_key(*key));
        let copied =
            here.filter(|(_, kinds)| !kinds.contains(&self.one.kind.as_str()) || self.is_without_accelerator());
        copied.map(|(key, _)| key)
    }

    fn stale_labels(&mut self) {
        let TaggedResource { resource, kind, tags, .. } = self.one;
        let instance =
            self.known.instances.get(resource).filter(|one| one.state == InstanceState::Running && one.accelerated);
        if instance.is_some_and(|instance| self.now.duration_since(instance.launched_at) > STARTED_AGAIN_AFTER)
            && tags.contains_key(STOPPED)
        {
            let found = format!("{STOPPED} is on an instance that runs again");
            self.add_finding(FindingSeverity::Note, STOPPED, found);
        }
        let attached = self.known.volumes.get(resource).copied().flatten().filter(|_| kind == "volume");
        if let Some(since) = attached.filter(|_| tags.contains_key(UNATTACHED_SINCE))
            && self.now.duration_since(since) > ATTACHED_AGAIN_AFTER
        {
            let found =
                format!("{UNATTACHED_SINCE} is on a volume that has been attached for {}", ago(self.now, since));
            self.add_finding(FindingSeverity::Warning, UNATTACHED_SINCE, found);
        }
    }

    fn keep_and_job(&mut self, says: &CurfewTags) {
        if let Some(until) = says.keep_until.filter(|until| *until <= self.now) {
            let found = format!("{KEEP_UNTIL} kept it until {until}, {} ago", ago(self.now, until));
            self.add_finding(FindingSeverity::Note, KEEP_UNTIL, found);
        }
        let can_have_job = matches!(self.one.kind.as_str(), "instance" | "volume");
        let job = says.job.as_ref().filter(|job| can_have_job && self.known.inactive_jobs.contains(*job));
        if let Some(job) = job {
            self.add_finding(FindingSeverity::Warning, JOB, format!("{JOB} names {job}, which is not an active job"));
        }
    }

    fn location(&self) -> String {
        let TaggedResource { region, resource, kind, .. } = self.one;
        format!("{kind} {resource} in {region}")
    }

    fn add_finding(&mut self, severity: FindingSeverity, key: &str, found: String) {
        let remedy = delete_tag(&self.one.region, &self.one.resource, key);
        self.findings.push(DoctorFinding::new(severity, self.location(), found, remedy));
    }
}

/// The very command (AWS CLI command reference, "ec2 delete-tags"), to be pasted into a shell.
fn delete_tag(region: &Region, resource: &ResourceId, key: &str) -> String {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_./@".contains(&byte));
    // In the CLI's short form a comma or a quote would end the key.
    let tags =
        if is_plain { format!("Key={key}") } else { shell_word(&serde_json::json!([{ "Key": key }]).to_string()) };
    format!("aws ec2 delete-tags --region {region} --resources {resource} --tags {tags}")
}

#[cfg(test)]
mod tests;
