//! Finds what stays of Curfew: in the home region, in the state bucket, and on resources of every region.

use std::collections::BTreeSet;

use cloud::CallError;
use cloud::operator::{Stack, agent_associations, read_stack, snapshots, stacks_named, tagged};
use futures::future::join_all;
use futures::join;
use jobs::JobId;
use model::config::Config;
use model::id::{Region, ResourceId};
use operator::doctor::channels::REPLY_URL_STACKS;
use operator::leftovers::{SnapshotLeftovers, has_tags_of_people, removable_labels, sort_snapshots, stopped_instances};
use store::{Documents as _, Store};

use super::{LeftoverItem, Removal};
use crate::command_error::{describe_call_error, describe_gap, describe_store_error};
use crate::context::CommandContext;
use crate::screen;

/// The function that makes snapshots.
const REAP_VOLUMES: &str = "reap-volumes";
/// Beginning of the names of team stacks.
const TEAM_STACKS: &str = "curfew-team-";
/// Beginning of the names of stacks of `deploy/forwarder.yaml`, as docs/job-machines.md names them.
const FORWARDERS: &str = "curfew-forwarder";
/// Two parameters that together only a stack of `deploy/reply-url.yaml` has.
const REPLY_URL_PARAMETERS: [&str; 2] = ["FunctionName", "ChatButtons"];
/// Two parameters that together only a stack of `template.yaml` has; one whose creation failed has no outputs.
const PARAMETERS: [&str; 2] = ["Mode", "AuditRetentionDays"];
/// The most names in a line.
const NAMES_MAX: usize = 5;

pub(super) struct Leftovers {
    pub(super) stack: Option<Stack>,
    /// False if the stack could not be read, or is one of somebody else.
    pub(super) is_stack_known: bool,
    pub(super) bucket: Option<String>,
    /// The unfinished jobs; `None` if they are unknown.
    pub(super) jobs: Option<Vec<JobId>>,
    pub(super) team_stacks: Vec<Stack>,
    /// Other stacks of Curfew in the home region, which get the events of the forwarders as well; `None` if they are unknown.
    pub(super) other_deployments: Option<Vec<String>>,
    /// Stacks with the public address of the function `reply` of this deployment.
    pub(super) reply_urls: Vec<Stack>,
    pub(super) regions: Vec<RegionLeftovers>,
    /// Failed reads.
    pub(super) gaps: Vec<String>,
}

pub(super) struct RegionLeftovers {
    pub(super) region: Region,
    pub(super) labelled: Vec<LabelledResource>,
    stopped: Vec<ResourceId>,
    tagged_by_people: usize,
    pub(super) snapshots: SnapshotLeftovers,
    pub(super) forwarders: Vec<Stack>,
    /// Associations of `curfew metrics install`.
    associations: usize,
    gaps: Vec<String>,
}

/// A resource with labels that may be taken away.
pub(super) struct LabelledResource {
    pub(super) resource: ResourceId,
    pub(super) labels: Vec<&'static str>,
}

impl Leftovers {
    pub(super) async fn find(context: &CommandContext) -> Self {
        Self::find_in(context, context.global.bucket.clone()).await
    }

    /// Finds the leftovers again after the stack is deleted: changes by its functions meanwhile count, and no snapshot is added to those
    /// that were confirmed.
    pub(super) async fn find_again(&self, context: &CommandContext) -> Self {
        let mut again = Self::find_in(context, self.bucket.clone()).await;
        let confirmed: BTreeSet<_> = self.own_snapshots().collect();
        for RegionLeftovers { region, snapshots, .. } in &mut again.regions {
            snapshots.own.retain(|snapshot| confirmed.contains(&(&*region, snapshot)));
        }
        again
    }

    async fn find_in(context: &CommandContext, bucket: Option<String>) -> Self {
        let mut gaps = Vec::new();
        let read = unless_failed(read_stack(&context.aws, &context.global.stack).await, &mut gaps);
        let is_of_curfew = |stack: &Stack| has_parameters(stack, &PARAMETERS);
        let (stack, is_stack_known) = match read {
            None => (None, false),
            Some(Some(stack)) if !is_of_curfew(&stack) => {
                gaps.push(format!("the stack {} is not one of Curfew; name another by --stack", stack.name));
                (None, false)
            }
            Some(stack) => (stack, true),
        };
        let bucket = bucket.or_else(|| stack.as_ref().and_then(Stack::state_bucket).cloned());
        let store = bucket.as_ref().map(|bucket| Store::new(context.aws.sdk_config(), bucket.clone()));
        if store.is_none() {
            gaps.push(
                "the state bucket is not known, and so neither are jobs, team stacks and whose the snapshots are; name it by --bucket"
                    .to_owned(),
            );
        }
        let jobs = async {
            match &store {
                Some(store) => store.active_and_sweeps().await.map(Some),
                None => Ok(None),
            }
        };
        let regions = async {
            let seen = cloud::regions(&context.aws, &Config::default()).await;
            let looks = seen.items.iter().map(|region| observe_region(context, store.as_ref(), region));
            (join_all(looks).await, seen.gaps)
        };
        let home = context.aws.home();
        let (jobs, beside, (regions, unlisted)) = join!(jobs, stacks_named(&context.aws, home, ""), regions);
        gaps.extend(unlisted.iter().map(describe_gap));
        let jobs = jobs.unwrap_or_else(|error| {
            gaps.push(describe_store_error(&error));
            None
        });
        let beside = unless_failed(beside, &mut gaps);
        let is_other = |found: &&Stack| found.name != context.global.stack && is_of_curfew(found);
        let other_deployments = beside
            .as_ref()
            .map(|stacks| stacks.iter().filter(is_other).map(|found| screen::plain(&found.name)).collect());
        let (team_stacks, others): (Vec<_>, Vec<_>) =
            beside.unwrap_or_default().into_iter().partition(|stack| stack.name.starts_with(TEAM_STACKS));
        // Those of another deployment are not this one's.
        let is_ours = |stack: &Stack| bucket.is_some() && stack.parameters.get("StateBucket") == bucket.as_ref();
        let team_stacks = team_stacks.into_iter().filter(is_ours).collect();
        let reply = stack.as_ref().and_then(|stack| stack.outputs.get("ReplyName")).cloned();
        let reply = reply.unwrap_or_else(|| format!("{}-reply", context.global.stack));
        let is_reply_url = |stack: &Stack| {
            stack.name.starts_with(REPLY_URL_STACKS)
                && has_parameters(stack, &REPLY_URL_PARAMETERS)
                && stack.parameters.get("FunctionName") == Some(&reply)
        };
        let reply_urls = others.into_iter().filter(is_reply_url).collect();
        gaps.extend(regions.iter().flat_map(|region: &RegionLeftovers| region.gaps.clone()));
        Self { stack, is_stack_known, bucket, jobs, team_stacks, other_deployments, reply_urls, regions, gaps }
    }

    /// Lists the kinds of leftovers, each with a remedy.
    pub(super) fn items(&self, context: &CommandContext) -> Vec<LeftoverItem> {
        let home = context.aws.home();
        let stack = self.stack.as_ref().map(|stack| LeftoverItem {
            kind: "stack",
            count: 1,
            found: format!(
                "The stack {} in {home}, with its functions, roles, topics, queues, alarms, logs and key",
                stack.name
            ),
            remedy: "--delete-stack; the key is deleted by KMS after 7 days".to_owned(),
        });
        let bucket = self.bucket.as_ref().map(|bucket| LeftoverItem {
            kind: "bucket",
            count: 1,
            found: format!("The state bucket {bucket}: configuration, audit trail, ledger, checkpoints and outputs of jobs"),
            remedy: "it stays, also without the stack, and its storage costs; a new deployment makes another bucket. To delete it, empty it \
                     with all versions in the S3 console first"
                .to_owned(),
        });
        stack
            .into_iter()
            .chain(bucket)
            .chain(self.job_item())
            .chain(self.resource_items())
            .chain(self.metrics_item())
            .chain(self.stack_items())
            .collect()
    }

    fn job_item(&self) -> Option<LeftoverItem> {
        let jobs = self.jobs.as_ref().filter(|jobs| !jobs.is_empty())?;
        Some(LeftoverItem {
            kind: "jobs",
            count: jobs.len(),
            found: format!("{}: {}", screen::counted(jobs.len(), "unfinished job"), join_names(jobs)),
            remedy: "cancel them before the stack goes: curfew cancel JOB. Otherwise their machines run until their own deadline, and cost \
                     until then; nothing replaces them, and nothing ends them from outside"
                .to_owned(),
        })
    }

    fn metrics_item(&self) -> Option<LeftoverItem> {
        let regions = self.regions.iter().filter(|region| region.associations > 0);
        let regions: Vec<&Region> = regions.map(|region| &region.region).collect();
        let count = self.regions.iter().map(|region| region.associations).sum();
        (count > 0).then(|| LeftoverItem {
            kind: "gpu-metrics",
            count,
            found: format!(
                "{} of Systems Manager, by which GPU machines publish custom metrics, in {}",
                screen::counted(count, "association"),
                join_names(&regions)
            ),
            remedy: "curfew metrics uninstall; otherwise the metrics go on and cost".to_owned(),
        })
    }

    fn resource_items(&self) -> Vec<LeftoverItem> {
        let stopped: Vec<&ResourceId> = self.regions.iter().flat_map(|region| &region.stopped).collect();
        let people: usize = self.regions.iter().map(|region| region.tagged_by_people).sum();
        let snapshots = |list: fn(&SnapshotLeftovers) -> &Vec<ResourceId>| {
            self.regions.iter().flat_map(move |region| list(&region.snapshots)).collect::<Vec<_>>()
        };
        let (kept, unproven) = (snapshots(|all| &all.kept), snapshots(|all| &all.without_record));
        let item = |kind, count: usize, found: String, remedy: &str| {
            (count > 0).then(|| LeftoverItem { kind, count, found, remedy: remedy.to_owned() })
        };
        [
            item(
                "stopped-instances",
                stopped.len(),
                format!("{} that Curfew stopped: {}", screen::counted(stopped.len(), "instance"), join_names(&stopped)),
                "they stay stopped, those with curfew:hours too, and their volumes cost: curfew undo ID, or aws ec2 start-instances",
            ),
            item("labels", self.labelled().count(), self.count(Removal::Labels), "--remove labels, with or after --delete-stack"),
            item(
                "tags-of-people",
                people,
                format!("{} with tags that people set for Curfew", screen::counted(people, "resource")),
                "they stay, and have no effect without Curfew",
            ),
            item(
                "snapshots",
                self.own_snapshots().count(),
                self.count(Removal::Snapshots),
                "--remove snapshots; otherwise they stay and cost, because nothing deletes them any more",
            ),
            item(
                "kept-snapshots",
                kept.len(),
                format!("{} of Curfew with a tag that keeps it: {}", screen::counted(kept.len(), "snapshot"), join_names(&kept)),
                "they stay and cost: remove curfew:protected or curfew:keep-until, or delete them by hand",
            ),
            item(
                "unproven-snapshots",
                unproven.len(),
                format!(
                    "{} described as Curfew's, which no record proves: {}",
                    screen::counted(unproven.len(), "snapshot"),
                    join_names(&unproven)
                ),
                "they stay and cost: look at them, and delete them by hand",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn stack_items(&self) -> Vec<LeftoverItem> {
        let item = |kind, removal, names: Vec<&str>, remedy: &str| {
            (!names.is_empty()).then(|| LeftoverItem {
                kind,
                count: names.len(),
                found: format!("{}: {}", self.count(removal), join_names(&names)),
                remedy: remedy.to_owned(),
            })
        };
        [
            item(
                "team-stacks",
                Removal::TeamStacks,
                stack_names(&self.team_stacks),
                "--remove team-stacks; machines with these roles lose their permissions at once",
            ),
            item(
                "forwarders",
                Removal::Forwarders,
                self.forwarders().map(|(region, _)| region.as_str()).collect(),
                "--remove forwarders",
            ),
            item(
                "reply-urls",
                Removal::ReplyUrls,
                stack_names(&self.reply_urls),
                "--remove reply-urls; links in messages, and buttons in chats, stop working at once",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The count of a removal, for people.
    pub(super) fn count(&self, removal: Removal) -> String {
        match removal {
            Removal::Labels => format!("labels of Curfew on {}", screen::counted(self.labelled().count(), "resource")),
            Removal::Snapshots => {
                let gib = self.regions.iter().fold(0_u64, |sum, region| sum.saturating_add(region.snapshots.own_gib));
                let count = screen::counted(self.own_snapshots().count(), "snapshot");
                format!("{count} of deleted volumes of {gib} GiB, the only copy of their data")
            }
            Removal::TeamStacks => screen::counted(self.team_stacks.len(), "team stack"),
            Removal::Forwarders => {
                let count = screen::counted(self.forwarders().count(), "forwarder stack");
                match self.other_deployments.as_deref() {
                    Some([]) => count,
                    Some(others) => format!("{count}, of which {} needs the events as well", others.join(", ")),
                    None => format!("{count}, which another stack of Curfew may need as well"),
                }
            }
            Removal::ReplyUrls => {
                let count = screen::counted(self.reply_urls.len(), "stack");
                format!("{count} with the public address of links in messages")
            }
        }
    }

    pub(super) fn labelled(&self) -> impl Iterator<Item = (&Region, &LabelledResource)> {
        self.regions.iter().flat_map(|region| region.labelled.iter().map(|one| (&region.region, one)))
    }

    pub(super) fn own_snapshots(&self) -> impl Iterator<Item = (&Region, &ResourceId)> {
        self.regions.iter().flat_map(|region| region.snapshots.own.iter().map(|one| (&region.region, one)))
    }

    pub(super) fn forwarders(&self) -> impl Iterator<Item = (&Region, &Stack)> {
        self.regions.iter().flat_map(|region| region.forwarders.iter().map(|one| (&region.region, one)))
    }
}

async fn observe_region(context: &CommandContext, store: Option<&Store>, region: &Region) -> RegionLeftovers {
    let log = async {
        match store {
            Some(store) => store.read_notices(REAP_VOLUMES, region).await.map(|log| Some(log.value)),
            None => Ok(None),
        }
    };
    let (tagged, snapshots, forwarders, associations, log) = join!(
        tagged(&context.aws, region),
        snapshots(&context.aws, region),
        stacks_named(&context.aws, region, FORWARDERS),
        agent_associations(&context.aws, region),
        log
    );
    let mut gaps = Vec::new();
    let log = log.unwrap_or_else(|error| {
        gaps.push(describe_store_error(&error));
        None
    });
    let tagged = unless_failed(tagged, &mut gaps).unwrap_or_default();
    let labelled =
        tagged.iter().map(|one| LabelledResource { resource: one.resource.clone(), labels: removable_labels(one) });
    let snapshots = unless_failed(snapshots, &mut gaps).unwrap_or_default();
    let is_ours =
        |stack: &Stack| stack.parameters.get("HomeRegion").is_some_and(|home| home == context.aws.home().as_str());
    RegionLeftovers {
        region: region.clone(),
        labelled: labelled.filter(|one| !one.labels.is_empty()).collect(),
        stopped: stopped_instances(&tagged).into_iter().cloned().collect(),
        tagged_by_people: tagged.iter().filter(|one| has_tags_of_people(one)).count(),
        snapshots: sort_snapshots(&snapshots, log.as_ref(), context.now),
        forwarders: unless_failed(forwarders, &mut gaps).unwrap_or_default().into_iter().filter(is_ours).collect(),
        associations: unless_failed(associations, &mut gaps).map_or(0, |found| found.count()),
        gaps,
    }
}

fn stack_names(stacks: &[Stack]) -> Vec<&str> {
    stacks.iter().map(|stack| stack.name.as_str()).collect()
}

fn has_parameters(stack: &Stack, names: &[&str]) -> bool {
    names.iter().all(|name| stack.parameters.contains_key(*name))
}

fn unless_failed<T>(answer: Result<T, CallError>, gaps: &mut Vec<String>) -> Option<T> {
    answer.map_err(|error| gaps.push(describe_call_error(&error))).ok()
}

fn join_names<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let mut names: Vec<String> = all.into_iter().map(|one| screen::plain(&one.to_string())).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
