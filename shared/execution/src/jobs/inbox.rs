//! Accepting what teams drop into the inbox, or saying what is wrong with it.

use domain::job::{Answered, Job, JobId, Mistake, Spec};
use domain::news::{NO_TEAM, News, NewsKind, Severity};
use futures::{StreamExt, stream};
use store::{Answers, Inboxed, StoreError, Submission};

use super::Jobs;
use crate::AT_ONCE;

/// So many documents are read in one sweep; the others wait for the next, a minute later.
const SUBMISSIONS_MAX: usize = 500;

/// The most mistakes that a message names; the answer beside the document has all.
const NAMED_MAX: usize = 20;

impl Jobs<'_> {
    /// Takes what nobody has answered yet; the jobs that were accepted.
    pub(super) async fn sweep_inbox(&self) -> Vec<JobId> {
        let home = self.run.aws.home();
        let inbox = match self.run.store.inbox().await {
            Ok(inbox) => inbox,
            Err(error) => {
                self.gap(error.gap(home));
                return Vec::new();
            }
        };
        // Moments of S3 are whole seconds: an answer of the same second may be to what was there before.
        let is_open = |one: &Inboxed| one.answered_twice || one.answered_at.is_none_or(|at| at <= one.written_at);
        let mut open: Vec<Inboxed> = inbox.into_iter().filter(is_open).collect();
        open.sort_by_key(|one| (one.answered_at.is_some(), one.written_at));
        let takes = stream::iter(open.into_iter().take(SUBMISSIONS_MAX)).map(|one| self.take_inboxed(one));
        takes.buffered(AT_ONCE).map(stream::iter).flatten().collect().await
    }

    /// The jobs of one document, where it is accepted: of what was there, and of what was put there meanwhile.
    async fn take_inboxed(&self, one: Inboxed) -> Vec<JobId> {
        if self.time_left().is_none() {
            return Vec::new();
        }
        match self.run.store.read_submission(&one.key).await {
            Ok(Some(submission)) => {
                let object = submission.object.clone();
                let taken = self.take(submission).await;
                let renewed = if one.answered_at.is_some() { self.renew(&one.key, &object).await } else { None };
                taken.into_iter().chain(renewed).collect()
            }
            Ok(None) => Vec::new(),
            Err(error) => {
                self.gap(error.gap(self.run.aws.home()));
                Vec::new()
            }
        }
    }

    /// Writes an answer again that is as old as what it answers, so that no later sweep has to look whether it is to that. What was
    /// put there meanwhile is taken at once: it may seem older than the answer.
    async fn renew(&self, key: &str, object: &str) -> Option<JobId> {
        let renewed = async {
            if let Some(answer) = self.run.store.read_answers(key).await?.to(object) {
                self.run.store.answer(key, answer).await?;
            }
            self.run.store.read_submission(key).await
        };
        match renewed.await {
            Ok(submission) => self.take(submission.filter(|now| now.object != object)?).await,
            Err(error) => {
                self.gap(error.gap(self.run.aws.home()));
                None
            }
        }
    }

    /// Answers one document, unless it is answered; the job, where it is accepted.
    pub(super) async fn take(&self, submission: Submission) -> Option<JobId> {
        match self.answered(&submission).await {
            Ok(job) => job,
            Err(error) => {
                self.gap(error.gap(self.run.aws.home()));
                None
            }
        }
    }

    async fn answered(&self, submission: &Submission) -> Result<Option<JobId>, StoreError> {
        let before = self.run.store.read_answers(&submission.key).await?;
        if let Some(answer) = before.to(&submission.object) {
            self.forget_outdated(submission, &before).await;
            return Ok(answer.job.clone());
        }
        let answer = Answered { object: submission.object.clone(), at: self.now(), job: None, mistakes: Vec::new() };
        match read(submission, self) {
            Ok(job) => {
                let id = job.job.clone();
                self.run.store.keep_spec(&id, submission.bytes.as_deref().unwrap_or_default()).await?;
                self.run.store.begin_job(&job).await?;
                self.run.store.remember_active(&id).await?;
                let accepted = Answered { job: Some(id.clone()), ..answer };
                self.run.store.answer(&submission.key, &accepted).await?;
                self.forget_outdated(submission, &Answers { accepted: Some(accepted), ..before }).await;
                tracing::info!(job = %id, key = submission.key, "accepted");
                Ok(Some(id))
            }
            Err(mistakes) => {
                let rejected = Answered { mistakes, ..answer };
                self.run.store.answer(&submission.key, &rejected).await?;
                tracing::info!(key = submission.key, mistakes = rejected.mistakes.len(), "rejected");
                self.say(self.rejection(submission, &rejected.mistakes));
                self.forget_outdated(submission, &Answers { rejected: Some(rejected), ..before }).await;
                Ok(None)
            }
        }
    }

    /// An acceptance and a rejection side by side say nothing to a person.
    async fn forget_outdated(&self, submission: &Submission, answers: &Answers) {
        let Some(outdated) = answers.outdated(&submission.object) else { return };
        if let Err(error) = self.run.store.forget_answer(&submission.key, outdated).await {
            self.gap(error.gap(self.run.aws.home()));
        }
    }

    fn rejection(&self, submission: &Submission, mistakes: &[Mistake]) -> News {
        let named = mistakes.iter().take(NAMED_MAX).map(in_words).collect::<Vec<_>>().join("; ");
        let more = mistakes.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let address = format!("s3://{}/{}", self.run.store.bucket_name(), submission.key);
        News {
            team: submission.team.as_ref().map_or(NO_TEAM, |team| team.as_str()).to_owned(),
            severity: Severity::Error,
            region: self.run.aws.home().clone(),
            resource: None,
            kind: NewsKind::Event,
            text: format!("The job {address} was not accepted: {named}{more}. Mend it and put it there again."),
            happened: true,
            mode: None,
            loses: None,
        }
    }
}

/// What is asked for; or every mistake.
fn read(submission: &Submission, jobs: &Jobs<'_>) -> Result<Job, Vec<Mistake>> {
    let Submission { team, name, object, bytes, .. } = submission;
    let mut mistakes = Vec::new();
    if team.is_none() {
        let problem = "it lies in no team's folder; put it at inbox/<team>/<name>.toml".to_owned();
        mistakes.push(Mistake { line: 0, key: String::new(), problem });
    }
    let spec = match bytes {
        Ok(bytes) => Spec::read_bytes(bytes, name, jobs.config, jobs.now()),
        Err(bytes) => Err(vec![too_large(*bytes)]),
    };
    match (team, spec) {
        (Some(team), Ok(spec)) => {
            let id = JobId::of(team.clone(), &spec.name, object);
            Ok(Job::submitted(id, spec.owner, spec.terms, jobs.now()))
        }
        (_, spec) => {
            mistakes.extend(spec.err().into_iter().flatten());
            Err(mistakes)
        }
    }
}

fn too_large(bytes: usize) -> Mistake {
    let problem = format!("the document has {bytes} bytes; {} are the most", Spec::BYTES_MAX);
    Mistake { line: 0, key: String::new(), problem }
}

fn in_words(mistake: &Mistake) -> String {
    let Mistake { line, key, problem } = mistake;
    let place = if *line == 0 { String::new() } else { format!("line {line}: ") };
    if key.is_empty() { format!("{place}{problem}") } else { format!("{place}`{key}`: {problem}") }
}
