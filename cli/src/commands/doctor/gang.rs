//! The dry run of a launch of two machines together, on the first place of a job that asks for any GPU.

use std::fmt::Write as _;

use cloud::operator::dry_run_gang;
use cloud::{CallError, CallErrorKind};
use jiff::SignedDuration;
use jobs::{GangEstimate, Job, JobId, JobSpec, LaunchOrder, LaunchRequest, launch_tags};
use model::config::Config;
use model::id::TeamName;
use model::moment::after;
use operator::doctor::quotas::{RegionQuota, check_gangs};
use operator::doctor::{DoctorFinding, gang};

use super::super::submit::estimate::rank_places;
use super::section::{DoctorSection, unanswered};
use crate::context::{CommandContext, DeployedResources};

/// The name of the job that is never submitted.
const NAME: &str = "curfew-doctor";

/// Checks it for the first team that the configuration names.
pub(super) async fn check(
    context: &CommandContext,
    deployed: &DeployedResources,
    config: &Config,
    quotas: &[RegionQuota],
) -> DoctorSection {
    let home = context.aws.home();
    let impossible = |why: &str| DoctorSection::new(gang::CHECK, vec![gang::impossible(home, why)], "");
    let team = config.named_teams().next().cloned().unwrap_or_else(|| TeamName::from(NAME));
    let read = JobSpec::read(&spec_text(config), NAME, Some(&team), config, home, context.now);
    let terms = match read {
        Ok(spec) => spec.terms,
        Err(mistakes) => {
            let problems: Vec<String> = mistakes.into_iter().map(|mistake| mistake.problem).collect();
            return impossible(&problems.join("; "));
        }
    };
    let (pools, ranking) = match Box::pin(rank_places(context, &deployed.store, config, (&terms, &team))).await {
        Some((pools, Ok(ranking))) => (pools, ranking),
        Some((_, Err(why))) => return impossible(&why.to_string()),
        None => {
            let found = "it is unknown where machines can be launched";
            let unknown = DoctorFinding::unknown(home, found, "see the warning above");
            return DoctorSection::new(gang::CHECK, vec![unknown], "");
        }
    };
    let estimate = GangEstimate::from_ranking(&terms, &ranking, &pools);
    let candidate = ranking.candidates.first();
    let image = candidate.and_then(|candidate| ranking.images.get(usize::from(candidate.image)));
    let (Some(estimate), Some(candidate), Some(image)) = (estimate, candidate, image) else {
        return impossible("there is no place for them");
    };
    let id = JobId { team, job: format!("{NAME}-00000000") };
    let job = Job::submitted(id, None, terms, context.now);
    let launch = LaunchRequest {
        attempt: 1,
        retry_of: 0,
        token: NAME.to_owned(),
        candidate: candidate.clone(),
        image: image.clone(),
        ends_at: after(context.now, SignedDuration::from_hours(1)),
        placement_group: None,
        only_find: false,
    };
    let tags = launch_tags(&job, &launch, config);
    let order = LaunchOrder { launch: &launch, terms: &job.terms, tags: &tags, user_data: "", profile: None };
    let refused = Box::pin(dry_run_gang(&context.aws, &job, &order, config)).await;
    let mut findings: Vec<DoctorFinding> = refused.iter().map(to_finding).collect();
    findings.extend(check_gangs(gang::planned(&estimate, &candidate.region).as_slice(), quotas));
    DoctorSection::new(gang::CHECK, findings, gang::summary(&estimate))
}

fn to_finding(error: &CallError) -> DoctorFinding {
    match error.kind {
        CallErrorKind::Denied { .. } => unanswered(error),
        kind if kind.is_passing() => unanswered(error),
        _ => gang::refused(&error.region, error.call, &error.message),
    }
}

/// A job with the tags that the account requires.
fn spec_text(config: &Config) -> String {
    let keys = &config.tags;
    let mut text = format!("command = \"true\"\nowner = \"{NAME}\"\n[gpu]\nnodes = 2\n[tags]\n");
    for key in keys.required.iter().filter(|key| **key != keys.team && **key != keys.owner) {
        let _ = writeln!(text, "{} = \"{NAME}\"", serde_json::Value::from(key.as_str()));
    }
    text
}
