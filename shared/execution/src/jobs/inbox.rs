//! Accepts or rejects the documents that teams put into the inbox.

use futures::{StreamExt, stream};
use jobs::backlog::Backlog;
use jobs::inbox::{InboxAnswers, InboxObject, Submission, has_legal_keys, is_answerable, match_answers};
use jobs::{InboxAnswer, Job, JobId, JobSpec, ShareLimits, SpecMistake, Sweep};
use model::fault::shortened;
use model::id::TeamName;
use model::listing::ListedObject;
use model::notification_log::{
    Headline, HeadlineObject, NO_TEAM, Notification, NotificationFacts, NotificationKind, Paragraph, Severity,
};
use notify::Delivery;
use ports::{JobCloud, StoreError};

use super::{JobRunDocuments, JobsRun};
use crate::AT_ONCE;

/// The most documents that one sweep reads; the others wait for the next, a minute later.
const SUBMISSIONS_MAX: ShareLimits = ShareLimits { team_max: 200, total_max: 500 };

/// The most characters of a name in a message.
const NAME_CHARACTERS_MAX: usize = 100;

/// The most mistakes in a message; the answer beside the document has all.
const NAMED_MAX: usize = 20;

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Reads the unanswered documents, and returns the accepted jobs.
    pub(super) async fn sweep_inbox(&self) -> Vec<JobId> {
        // S3 rounds times to seconds: an answer of the same second may be to the previous version.
        let is_open = |one: &InboxObject| one.answered_twice || one.answered_at.is_none_or(|at| at <= one.written_at);
        let read = |folder: &str, listed: Vec<ListedObject>, _: bool| {
            let (mut open, refused): (Vec<_>, Vec<_>) =
                match_answers(listed).into_iter().partition(|one| is_answerable(&one.key));
            self.refuse_names(folder, &refused);
            open.retain(is_open);
            open
        };
        let open = self.take_backlog(Backlog::Inbox, SUBMISSIONS_MAX, read).await;
        let takes = stream::iter(open).map(|one| self.read_inbox_object(one));
        takes.buffered(AT_ONCE).map(stream::iter).flatten().collect().await
    }

    /// Notifies the owner of documents whose answers S3 would refuse. They are not read, because each job must have an answer.
    fn refuse_names(&self, folder: &str, refused: &[InboxObject]) {
        let Some(first) = refused.first() else { return };
        let text = format!(
            "{} of s3://{}/{folder}: the answer beside a document has a longer name than the S3 limit of 1,024 bytes with the folder. Upload each again with a shorter name, and delete this one. The first is {}",
            match refused.len() {
                1 => "A document was not accepted".to_owned(),
                count => format!("{count} documents were not accepted"),
            },
            self.run.store.bucket_name(),
            shortened(&first.key, NAME_CHARACTERS_MAX),
        );
        self.notify(Notification {
            severity: Severity::Error,
            ..self.lasting_notification(
                Backlog::Inbox,
                folder,
                "unanswerable",
                ("Curfew refuses a document of {} for its name", text),
            )
        });
    }

    /// The jobs of one document, if it is accepted: of the version that was read, and of one that replaced it meanwhile.
    async fn read_inbox_object(&self, one: InboxObject) -> Vec<JobId> {
        if self.time_left().is_none() {
            return Vec::new();
        }
        match self.run.store.read_submission(&one.key).await {
            Ok(Some(submission)) => {
                let object = submission.object.clone();
                let taken = self.answer_submission(submission).await;
                let renewed =
                    if one.answered_at.is_some() { Box::pin(self.renew(&one.key, &object)).await } else { None };
                taken.into_iter().chain(renewed).collect()
            }
            Ok(None) => Vec::new(),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                Vec::new()
            }
        }
    }

    /// Rewrites an answer that is as old as its document, so that later sweeps need not compare them. A version that replaced the document
    /// meanwhile is read at once, because it may seem older than the answer.
    async fn renew(&self, key: &str, object: &str) -> Option<JobId> {
        let renewed = async {
            if let Some(answer) = self.run.store.read_answers(key).await?.to(object) {
                self.run.store.write_answer(key, answer).await?;
            }
            self.run.store.read_submission(key).await
        };
        match renewed.await {
            Ok(submission) => self.answer_submission(submission.filter(|now| now.object != object)?).await,
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                None
            }
        }
    }

    /// Answers one document, unless it has an answer. Returns the job, if it is accepted.
    pub(super) async fn answer_submission(&self, submission: Submission) -> Option<JobId> {
        let answered = async {
            self.answered(&submission).await.unwrap_or_else(|error| {
                self.gap(error.gap(self.run.cloud.home()));
                None
            })
        };
        self.or_gap(&submission.key, Box::pin(answered)).await
    }

    async fn answered(&self, submission: &Submission) -> Result<Option<JobId>, StoreError> {
        let before = self.run.store.read_answers(&submission.key).await?;
        if let Some(answer) = before.to(&submission.object) {
            self.forget_outdated(&submission.key, &submission.object, &before).await;
            return Ok(answer.job.clone().filter(|_| answer.members.is_none()));
        }
        let answer = InboxAnswer { object: submission.object.clone(), at: self.now(), ..InboxAnswer::default() };
        let (begun, mistakes) = match self.judge(submission).await? {
            Ok(document) => (self.begin_document(&document, submission).await?, Vec::new()),
            Err(mistakes) => (self.find_begun(submission).await?, mistakes),
        };
        let (id, members) = match begun {
            BegunDocument::Whole(id, members) => (id, members),
            BegunDocument::InPart => return Ok(None),
            BegunDocument::Nothing => {
                let rejected = InboxAnswer { mistakes, ..answer };
                self.run.store.write_answer(&submission.key, &rejected).await?;
                tracing::info!(key = submission.key, mistakes = rejected.mistakes.len(), "rejected");
                self.notify(self.rejection(submission, &rejected.mistakes));
                let answers = InboxAnswers { rejected: Some(rejected), ..before };
                self.forget_outdated(&submission.key, &submission.object, &answers).await;
                return Ok(None);
            }
        };
        let answer = InboxAnswer { job: Some(id.clone()), members, ..answer };
        let acceptance = Acceptance { key: submission.key.clone(), answer, before };
        if members.is_some() {
            // Only this answer shows that its team was notified: it comes after the message. The members are in the next run's turn, each team's
            // beside those of the others.
            self.with_findings(|found| found.accepted_sweeps.push(acceptance));
            return Ok(None);
        }
        self.accept(acceptance).await?;
        Ok(Some(id))
    }

    /// Writes the answer to the accepted document of a sweep, unless another document has replaced it meanwhile: that one gets its own.
    pub(super) async fn accept_sweep(&self, acceptance: Acceptance) -> Result<(), StoreError> {
        let there = self.run.store.read_submission(&acceptance.key).await?;
        if there.is_none_or(|there| there.object != acceptance.answer.object) {
            return Ok(());
        }
        self.accept(acceptance).await
    }

    async fn accept(&self, acceptance: Acceptance) -> Result<(), StoreError> {
        let Acceptance { key, answer, before } = acceptance;
        self.run.store.write_answer(&key, &answer).await?;
        tracing::info!(job = answer.job.as_ref().map(ToString::to_string), key, members = answer.members, "accepted");
        let object = answer.object.clone();
        self.forget_outdated(&key, &object, &InboxAnswers { accepted: Some(answer), ..before }).await;
        Ok(())
    }

    /// Returns the job or sweep that the document asks for, or every mistake. Only the bucket knows which jobs it can wait for.
    async fn judge(&self, submission: &Submission) -> Result<Result<AcceptedDocument, Vec<SpecMistake>>, StoreError> {
        let document = match read(submission, self) {
            Ok(document) => document,
            Err(mistakes) => return Ok(Err(mistakes)),
        };
        let (id, after, terms) = match &document {
            AcceptedDocument::Job(job) => (&job.job, &job.waits_for, &job.terms),
            AcceptedDocument::Sweep(sweep) => (&sweep.sweep, &sweep.after, &sweep.terms),
        };
        let bytes = submission.bytes.as_deref().unwrap_or_default();
        let look = async |id: JobId| self.observe_dependency(&id).await;
        let mistakes = Box::pin(self.run.store.find_reference_mistakes(&id.team, after, terms, bytes, look)).await?;
        Ok(if mistakes.is_empty() { Ok(document) } else { Err(mistakes) })
    }

    async fn begin_document(
        &self,
        document: &AcceptedDocument,
        submission: &Submission,
    ) -> Result<BegunDocument, StoreError> {
        let text = submission.bytes.as_deref().unwrap_or_default();
        match document {
            AcceptedDocument::Job(job) => Ok(BegunDocument::Whole(self.begin(job, text).await?, None)),
            AcceptedDocument::Sweep(sweep) => {
                let members = Box::pin(self.begin_sweep(sweep, text)).await?;
                Ok(members
                    .map_or(BegunDocument::InPart, |members| BegunDocument::Whole(sweep.sweep.clone(), Some(members))))
            }
        }
    }

    /// Writes the state of an accepted job, and its document, unless an earlier run has.
    pub(super) async fn begin(&self, job: &Job, text: &[u8]) -> Result<JobId, StoreError> {
        let id = job.job.clone();
        self.run.store.keep_spec(&id, text).await?;
        if self.run.store.begin_job(job).await? {
            self.run.store.remember_active(&id).await?;
        } else {
            self.index(&id).await?;
        }
        Ok(id)
    }

    /// The job that an earlier run created for this very object without writing the answer, or the sweep, which is continued. It stays accepted
    /// even if the configuration refuses it today, and its owner must not get a rejection.
    async fn find_begun(&self, submission: &Submission) -> Result<BegunDocument, StoreError> {
        let Submission { team: Some(team), name, object, bytes: Ok(bytes), .. } = submission else {
            return Ok(BegunDocument::Nothing);
        };
        let Some(name) = JobSpec::read_name(bytes, name) else { return Ok(BegunDocument::Nothing) };
        let id = JobId::from_object(team.clone(), &name, object);
        if self.index(&id).await?.is_some() {
            return Ok(BegunDocument::Whole(id, None));
        }
        match self.run.store.read_sweep(&id).await? {
            Some(sweep) => self.begin_document(&AcceptedDocument::Sweep(Box::new(sweep)), submission).await,
            None => Ok(BegunDocument::Nothing),
        }
    }

    /// An acceptance and a rejection side by side would confuse a person.
    async fn forget_outdated(&self, key: &str, object: &str, answers: &InboxAnswers) {
        let Some(outdated) = answers.outdated(object) else { return };
        if let Err(error) = self.run.store.forget_answer(key, outdated).await {
            self.gap(error.gap(self.run.cloud.home()));
        }
    }

    fn rejection(&self, submission: &Submission, mistakes: &[SpecMistake]) -> Notification {
        let named = describe_mistakes(mistakes);
        let address = format!("s3://{}/{}", self.run.store.bucket_name(), submission.key);
        let team = submission.team.as_ref().filter(|team| self.config.has_jobs_of(team));
        Notification {
            team: team.map_or(NO_TEAM, TeamName::as_str).to_owned(),
            severity: Severity::Error,
            region: self.run.cloud.home().clone(),
            resource: None,
            kind: NotificationKind::Event,
            text: Paragraph::new(&format!(
                "The job {address} was not accepted: {named}. Correct it and upload it again."
            )),
            happened: true,
            mode: None,
            loses: None,
            headline: Headline::new("Curfew rejected {}", HeadlineObject::Job, format!("job {}", submission.name)),
            facts: NotificationFacts::default(),
        }
    }
}

/// The answer to an accepted document of the inbox, at that key.
#[derive(Debug)]
pub(super) struct Acceptance {
    key: String,
    answer: InboxAnswer,
    before: InboxAnswers,
}

impl Acceptance {
    pub(super) fn is_told(&self, delivery: &Delivery) -> bool {
        self.answer.job.as_ref().is_some_and(|job| delivery.is_delivered_to_team(job.team.as_str()))
    }
}

/// The content of a legal document.
enum AcceptedDocument {
    Job(Box<Job>),
    Sweep(Box<Sweep>),
}

/// The part of a document's jobs that has begun.
enum BegunDocument {
    Nothing,
    /// A sweep that another run continues, or answers.
    InPart,
    /// The job; or the sweep, with the number of its members.
    Whole(JobId, Option<u32>),
}

/// The spec, or every mistake.
fn read(
    submission: &Submission,
    jobs: &JobsRun<'_, impl JobCloud, impl JobRunDocuments>,
) -> Result<AcceptedDocument, Vec<SpecMistake>> {
    let Submission { team, canonical_folder, name, object, bytes, .. } = submission;
    let mut mistakes = Vec::new();
    if team.is_none() {
        let problem = match canonical_folder {
            Some(folder) => format!("it is in no team's folder: the team's folder is spelt `{folder}`; put it there"),
            None => "it is in no team's folder; put it at inbox/<team>/<name>.toml, a team without blanks at its ends"
                .to_owned(),
        };
        mistakes.push(SpecMistake::for_document(problem));
    }
    let spec = match bytes {
        Ok(bytes) => JobSpec::read_bytes(bytes, name, team.as_ref(), jobs.config, jobs.run.cloud.home(), jobs.now()),
        Err(bytes) => Err(vec![too_large(*bytes)]),
    };
    match (team, spec) {
        (Some(team), Ok(spec)) => {
            let id = JobId::from_object(team.clone(), &spec.name, object);
            check_keys(&id)?;
            let JobSpec { owner, terms, work, sweep, .. } = spec;
            Ok(match sweep {
                None => AcceptedDocument::Job(Box::new(Job::submitted(id, owner, terms, jobs.now()).after(work.after))),
                Some(plan) => {
                    let (after, submitted_at) = (work.after, jobs.now());
                    AcceptedDocument::Sweep(Box::new(Sweep { sweep: id, owner, terms, after, plan, submitted_at }))
                }
            })
        }
        (_, spec) => {
            mistakes.extend(spec.err().into_iter().flatten());
            Err(mistakes)
        }
    }
}

/// Refuses a team whose jobs would have no legal keys.
pub(super) fn check_keys(id: &JobId) -> Result<(), Vec<SpecMistake>> {
    let problem = "the name of the team is too long for the keys of S3; shorten the folder's name";
    if has_legal_keys(id) { Ok(()) } else { Err(vec![SpecMistake::for_document(problem)]) }
}

pub(super) fn too_large(bytes: usize) -> SpecMistake {
    SpecMistake::for_document(format!("the document has {bytes} bytes; {} are the most", JobSpec::BYTES_MAX))
}

pub(super) fn describe_mistakes(mistakes: &[SpecMistake]) -> String {
    let named = mistakes.iter().take(NAMED_MAX).map(describe_mistake).collect::<Vec<_>>().join("; ");
    match mistakes.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn describe_mistake(mistake: &SpecMistake) -> String {
    let SpecMistake { line, key, problem } = mistake;
    let place = if *line == 0 { String::new() } else { format!("line {line}: ") };
    if key.is_empty() { format!("{place}{problem}") } else { format!("{place}`{key}`: {problem}") }
}
