//! `curfew submit`: a job into the inbox, after it was judged as the reconciler judges it.

mod answer;
mod estimate;
mod show;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::config::Config;
use domain::id::TeamName;
use domain::job::{Answered, JobId, Mistake, Spec};
use serde::Serialize;
use store::{Store, Submitted};

use self::estimate::Estimate;
use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::screen;

/// Submit a GPU job, or say what would come of it
#[derive(Debug, Args)]
#[command(
    after_help = "The file is judged as Curfew judges it, and where it would run now, and what it can cost at most, is shown first. \
                        Exit codes: 0 submitted, or with --dry-run legal; 1 it has mistakes, was rejected, or can be launched nowhere \
                        now; 2 nobody can say.\n\nExample:\n  curfew submit train.toml --team vision --dry-run\n  \
                        curfew submit train.toml --team vision --wait"
)]
pub(crate) struct Submit {
    /// The job, as docs/jobs.md describes it; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose it is, and whose budget pays [default: the only team of the configuration]
    #[arg(long, value_name = "NAME", env = "CURFEW_TEAM", hide_env_values = true)]
    team: Option<TeamName>,
    /// Only say what would come of it
    #[arg(long)]
    dry_run: bool,
    /// Wait until it is accepted or rejected
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// ```json
/// {"schema": 1, "file": "train.toml", "team": "vision", "mistakes": [{"line": 3, "key": "gpu.count", "problem": "…"}],
///  "estimate": {"candidates": [{"region": "us-east-1", …, "rate": 0.31, "rate_max": 0.8}],
///               "worst_case": {"seconds": 28800, "usd_per_hour": 0.8, "usd": 6.4}, "nowhere": null},
///  "submitted": "inbox/vision/train.toml", "job": "vision/train-1a2b3c4d", "answer": {"accepted": true, "mistakes": []}}
/// ```
/// `estimate` is null where nobody could say. `submitted` and `job` are null where nothing was, `answer` where nobody waited for one.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    file: String,
    team: &'a TeamName,
    mistakes: Vec<Mistake>,
    estimate: Option<Estimate>,
    submitted: Option<String>,
    job: Option<JobId>,
    answer: Option<Answer>,
}

#[derive(Debug, Serialize)]
struct Answer {
    accepted: bool,
    mistakes: Vec<Mistake>,
}

impl Submit {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let bytes = read(&self.file)?;
        let store = context.needs_deployed().await?.store;
        let config = store.read_config().await?;
        let team = self.team(&config)?;
        let mut document = Document {
            schema: screen::SCHEMA,
            file: named(&self.file),
            team: &team,
            mistakes: Vec::new(),
            estimate: None,
            submitted: None,
            job: None,
            answer: None,
        };
        let name = self.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let spec = match Spec::read_bytes(&bytes, &name, &config, context.now) {
            Ok(spec) => spec,
            Err(mistakes) => {
                document.mistakes = mistakes;
                return finish(context, &document, Ending::Found);
            }
        };
        if !config.teams.is_empty() && config.team(&team).is_none() {
            screen::warn(format!("the configuration says nothing of a team {team}; it has {}", teams(&config)));
        }
        document.estimate = estimate::of(context, &store, &config, &spec.terms).await;
        if !context.global.json {
            show::estimate(&spec, document.estimate.as_ref());
        }
        if self.dry_run {
            let ending = match &document.estimate {
                None => Ending::Trouble,
                Some(Estimate { nowhere: Some(_), .. }) => Ending::Found,
                Some(_) => Ending::Fine,
            };
            return finish(context, &document, ending);
        }
        let submitted = put(&store, &team, &spec, &bytes).await?;
        document.job = Some(JobId::of(team.clone(), &spec.name, &submitted.object));
        document.submitted = Some(submitted.key.clone());
        if !context.global.json {
            show::submitted(&document);
        }
        if !self.wait {
            return finish(context, &document, Ending::Fine);
        }
        let answered = answer::wait(&store, &submitted).await?;
        let ending = if answered.job.is_some() { Ending::Fine } else { Ending::Found };
        document.answer = Some(Answer::from(&answered));
        document.job = answered.job;
        finish(context, &document, ending)
    }

    fn team(&self, config: &Config) -> Result<TeamName, Failure> {
        if let Some(team) = &self.team {
            return match team.as_str().trim() {
                "" => Err(Failure::of("--team is empty; name the team whose job it is")),
                _ => Ok(team.clone()),
            };
        }
        let mut names = config.teams.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(Failure::of("whose job is it? Name the team by --team or CURFEW_TEAM")),
            _ => Err(Failure::of(format!(
                "whose job is it? Name the team by --team or CURFEW_TEAM; the configuration has {}",
                teams(config)
            ))),
        }
    }
}

fn teams(config: &Config) -> String {
    config.teams.keys().map(TeamName::as_str).collect::<Vec<_>>().join(", ")
}

/// Not over one that nobody has answered: it would never be.
async fn put(store: &Store, team: &TeamName, spec: &Spec, bytes: &[u8]) -> Result<Submitted, Failure> {
    if let Some(key) = answer::unanswered(store, team, &spec.name).await? {
        return Err(Failure::with(
            format!("{key} is there already, and nobody has answered it yet"),
            "wait for its answer, or give this one another name; where none comes, curfew doctor says why",
        ));
    }
    let text = String::from_utf8_lossy(bytes);
    Ok(store.submit(team, &spec.name, &text).await?)
}

fn finish(context: &Context, document: &Document<'_>, ending: Ending) -> Result<Ending, Failure> {
    if context.global.json {
        screen::json(document)?;
    } else {
        show::end(document);
    }
    Ok(ending)
}

/// The bytes of a file; `-` is standard input. No more of them than tells that they are too many.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes_max = u64::try_from(Spec::BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(bytes_max).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(bytes_max).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::of(format!("{} cannot be read: {error}", named(file))))?;
    Ok(bytes)
}

fn named(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

impl From<&Answered> for Answer {
    fn from(answered: &Answered) -> Self {
        Self { accepted: answered.job.is_some(), mistakes: answered.mistakes.clone() }
    }
}
