//! One attempt, from taking over to its end.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use domain::config::Config;
use domain::duration;
use domain::job::checkpoints::{DOUBTED_FOR, Entry, Writer};
use domain::job::warning::grace;
use domain::job::{Checkpoint, CheckpointSpec, ExitReason, Head, HeadResult, Spec, WARNING, Work};
use jiff::SignedDuration;
use tokio::task::JoinHandle;

use crate::agent::{Agent, Cause, End};
use crate::command::{Running, signal_of};
use crate::fence::Shut;
use crate::keeper::{Finished, Keeper};
use crate::patience::Patience;
use crate::processes::writes_below;
use crate::restore::{Candidates, Restored, restore};
use crate::user::{self, User};
use crate::variables::{self, Variables};
use crate::world::now;
use crate::{command, directory, gpu, outputs, secrets};

/// So long the predecessor may take to leave its exit record: its two minutes, and some.
const PREDECESSOR: SignedDuration = SignedDuration::from_secs(150);

/// A predecessor that has not been heard of for so long is not flushing any more.
const PREDECESSOR_SILENT: SignedDuration = SignedDuration::from_secs(60 + WARNING.as_secs());

/// Between one try and the next.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// How often leave is taken of what has ended and nobody waits for.
const REAP_EVERY: SignedDuration = SignedDuration::from_mins(1);

const NO_TIME: &str = "there was no time to keep its last checkpoint";

/// What the machine is asked to do.
pub(crate) struct Asked {
    pub(crate) work: Work,
    pub(crate) checkpoint: Option<CheckpointSpec>,
    /// How many checkpoints are kept; `None` where that is unknown, and nothing may be deleted.
    pub(crate) keep: Option<u32>,
}

/// Lives it. Whatever comes back, the machine goes dark.
pub(crate) async fn live(agent: &Arc<Agent>) -> End {
    let (Ok(end) | Err(end)) = Box::pin(attempt(agent)).await;
    // Of a setup, for one, that a warning cut short.
    command::end_all(false).await;
    end
}

async fn attempt(agent: &Arc<Agent>) -> Result<End, End> {
    agent.does("starting");
    let asked = Box::pin(agent.unless_it_ends(read_spec(agent))).await??;
    agent.does("waiting for the attempt before");
    let head = agent.unless_it_ends(Box::pin(take_over(agent))).await??;
    let user = user::find(asked.work.user.as_deref(), rustix::process::getuid().as_raw()).map_err(End::broken)?;
    let mut restored = put_back(agent, &asked, Candidates::of(&head), &user).await?;
    let mut secrets = variables::All::new();
    if !asked.work.secrets.is_empty() {
        let read = agent.unless_it_ends(Box::pin(secrets::read(&asked.work.secrets))).await?;
        secrets.extend(read.map_err(End::broken)?);
    }
    let mut variables = variables_of(agent, &asked, &user, &restored, &secrets);
    if let Some(line) = &asked.work.setup {
        agent.does("setup");
        let status = agent.unless_it_ends(run_setup(agent, line, &user, &variables)).await??;
        if !status.success() {
            return Ok(outcome(agent, &asked, status, "`setup`", Vec::new()).await);
        }
    }
    let _gpus = Gpus(tokio::spawn(gpu::watch(Arc::clone(agent))));
    loop {
        agent.does("running");
        agent.log.say(&format!("runs the command as {}", user.name));
        let running = Running::begin(&asked.work.command, &user, &variables, &agent.log);
        let running = running.map_err(|error| End::broken(format!("the command could not be begun: {error}")))?;
        // Each time there are fewer.
        let before = match run(agent, &asked, running, restored).await {
            Ran::Over(end) => return Ok(end),
            Ran::InDoubt(before) => before,
        };
        restored = put_back(agent, &asked, before, &user).await?;
        variables = variables_of(agent, &asked, &user, &restored, &secrets);
    }
}

/// Puts a checkpoint back, where the job has any.
async fn put_back(agent: &Arc<Agent>, asked: &Asked, candidates: Candidates, user: &User) -> Result<Restored, End> {
    agent.does("restoring");
    let restored = match &asked.checkpoint {
        Some(checkpoint) => {
            let restored = Box::pin(restore(agent, candidates, Path::new(&checkpoint.dir), user));
            agent.unless_it_ends(restored).await??
        }
        None => Restored::default(),
    };
    let step = restored.checkpoint.map(|checkpoint| checkpoint.step);
    agent.set_status(|status| (status.step, status.steps_per_hour) = (step, None));
    Ok(restored)
}

fn variables_of(
    agent: &Agent,
    asked: &Asked,
    user: &User,
    restored: &Restored,
    secrets: &variables::All,
) -> variables::All {
    let own = Variables { identity: &agent.identity, asked, user, restored };
    let mut variables = variables::of(&own, agent.ends_at());
    variables.extend(secrets.clone());
    variables
}

/// Watches the GPUs for as long as it lives.
struct Gpus(JoinHandle<()>);

impl Drop for Gpus {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the spec; where S3 does not answer, again.
async fn read_spec(agent: &Agent) -> Result<Asked, End> {
    let mut patience = Patience::default();
    let text = loop {
        match agent.store.read_spec(&agent.identity.job).await {
            Ok(Some(text)) => break text,
            Ok(None) => return Err(End::broken(format!("there is no spec of the job {}", agent.identity.job))),
            Err(error) if patience.bears(agent, "the spec cannot be read yet", &error).await => {}
            Err(error) => return Err(End::broken(format!("the spec cannot be read: {error}"))),
        }
    };
    // What it takes from the configuration is how many checkpoints are kept, which may have changed since it was accepted.
    let read = Spec::accepted(&text, &Config::default()).map_err(|mistakes| {
        let first = mistakes.first().map(|mistake| format!("{}: {}", mistake.key, mistake.problem)).unwrap_or_default();
        End::broken(format!("this agent cannot read the spec that was accepted: {first}"))
    });
    let (work, checkpoint) = read?;
    let keep = if checkpoint.is_some() { read_keep(agent).await } else { None };
    Ok(Asked { work, checkpoint, keep })
}

/// How many checkpoints are kept, as the job was accepted; where S3 does not answer, again.
async fn read_keep(agent: &Agent) -> Option<u32> {
    let mut patience = Patience::default();
    let why = loop {
        match agent.store.read_keep(&agent.identity.job).await {
            Ok(Some(keep)) => return Some(keep),
            Ok(None) => break "state.json does not say it".to_owned(),
            Err(error) if error.lasts() => break error.to_string(),
            Err(error) if patience.bears(agent, "state.json cannot be read yet", &error).await => {}
            Err(error) => break error.to_string(),
        }
    };
    agent.log.say(&format!("how many checkpoints are kept is unknown, and none is deleted: {why}"));
    None
}

/// Waits politely for the predecessor's last write, and takes the fence.
async fn take_over(agent: &Agent) -> Result<Head, End> {
    let (begun, mut said, mut patience) = (Instant::now(), false, Patience::default());
    loop {
        let shut = match agent.fence.read().await {
            Ok(head) if may_take(agent, &head, begun).await => match agent.fence.swap(|_| {}).await {
                Ok(head) => return Ok(head),
                Err(shut) => shut,
            },
            Ok(head) => {
                if !said {
                    agent.log.say(&format!("waits for attempt {} to leave its last", head.attempt));
                    said = true;
                }
                agent.pace.sleep(AGAIN).await;
                continue;
            }
            Err(shut) => shut,
        };
        match shut {
            Shut::Fenced(why) => return Err(Cause::fenced(why).into()),
            Shut::Store(error) if patience.bears(agent, "head.json cannot be taken over yet", &error).await => {}
            Shut::Store(error) => return Err(End::broken(format!("head.json cannot be taken over: {error}"))),
        }
    }
}

/// Whether the attempt that head names has nothing more to write, or had its time. One that was heard of long ago does not write any more;
/// of one that was never heard of nobody knows.
async fn may_take(agent: &Agent, head: &Head, begun: Instant) -> bool {
    let (job, before) = (&agent.identity.job, head.attempt);
    if before == 0 || before == agent.identity.attempt {
        return true;
    }
    if begun.elapsed() >= agent.pace.wait(PREDECESSOR) {
        return true;
    }
    if matches!(agent.store.read_exit(job, before).await, Ok(Some(_))) {
        return true;
    }
    let silent = agent.pace.of(PREDECESSOR_SILENT);
    let beat = agent.store.read_heartbeat(job, before).await;
    matches!(beat, Ok(Some(beat)) if now().duration_since(beat.at) > silent.max(SignedDuration::from_secs(2)))
}

async fn run_setup(agent: &Agent, line: &str, user: &User, variables: &variables::All) -> Result<ExitStatus, End> {
    let broken = |error: std::io::Error| End::broken(format!("`setup` could not be run: {error}"));
    let mut running = Running::begin(line, user, variables, &agent.log).map_err(broken)?;
    let status = running.ended(agent.pace.wait(REAP_EVERY)).await.map_err(broken)?;
    running.drained().await;
    Ok(status)
}

/// What came of the command.
enum Ran {
    /// The attempt is over.
    Over(End),
    /// It failed where it may have gone on from a checkpoint that is cut off: it is run again from one of those before.
    InDoubt(Candidates),
}

/// The command, until it ends or has to.
async fn run(agent: &Arc<Agent>, asked: &Asked, mut running: Running, restored: Restored) -> Ran {
    let begun = Instant::now();
    let (from, before) = (restored.checkpoint, restored.before_doubtful());
    let keep = asked.checkpoint.as_ref();
    let keeper = keep.map(|keep| Keeper::begin(agent, keep, asked.keep, restored));
    let ended = tokio::select! {
        ended = running.ended(agent.pace.wait(REAP_EVERY)) => Ok(ended),
        cause = agent.cause() => Err(cause),
    };
    match ended {
        Ok(Ok(status)) => {
            let is_early = begun.elapsed() < agent.pace.wait(DOUBTED_FOR);
            let wrote = end_what_is_left(agent, keep).await;
            running.drained().await;
            agent.does("flushing");
            let writer = if status.success() && !wrote { Writer::Ended } else { Writer::Killed };
            let finished = match keeper {
                Some(keeper) => agent.in_time(keeper.finish(writer)).await,
                None => Some(Finished::default()),
            };
            let has_kept = finished.as_ref().is_some_and(|finished| finished.has_kept);
            if let (Some(from), Some(before)) = (from, before)
                && !status.success()
                && !has_kept
                && is_early
            {
                return in_doubt(agent, status, from, before);
            }
            Ran::Over(match (finished, agent.is_interrupted()) {
                (None, Some(cause)) if status.success() => unfinished(cause, "its last checkpoint"),
                (None, _) => outcome(agent, asked, status, "the command", vec![NO_TIME.to_owned()]).await,
                (Some(Finished { left, doubt, .. }), _) => {
                    let lost = left.into_iter().chain(doubt).collect();
                    outcome(agent, asked, status, "the command", lost).await
                }
            })
        }
        Ok(Err(error)) => {
            command::end_all(false).await;
            Ran::Over(End::broken(format!("the command cannot be watched: {error}")))
        }
        Err(cause) => Ran::Over(end_early(agent, asked, running, keeper, cause).await),
    }
}

/// Ends what the command left behind and does not end by itself. Whether any of that may have been writing a checkpoint: what stayed as it
/// was in that time, and is not open for writing, was not being written.
async fn end_what_is_left(agent: &Agent, keep: Option<&CheckpointSpec>) -> bool {
    if command::left_behind().is_empty() {
        return false;
    }
    // As the kernel shows what is open.
    let directory = keep.and_then(|keep| Path::new(&keep.dir).canonicalize().ok());
    let before = look(directory.clone()).await;
    command::end_by_themselves().await;
    let after = look(directory.clone()).await;
    let is_open = |below: &PathBuf| command::left_behind().iter().any(|process| writes_below(below, *process));
    let wrote = before.is_none() || before != after || directory.as_ref().is_none_or(is_open);
    let left = command::end_all(true).await;
    if left > 0 {
        agent.log.say(&format!("the command left {left} processes behind, which were ended"));
    }
    wrote && left > 0
}

/// What is in the checkpoint directory; `None` where nobody knows.
async fn look(directory: Option<PathBuf>) -> Option<Vec<Entry>> {
    let directory = directory?;
    let looked = tokio::task::spawn_blocking(move || directory::look(&directory));
    Some(looked.await.ok()?.ok()?.entries)
}

/// The command failed soon after it went on from a checkpoint that may be cut off. Where the attempt has to end, the next one finds out.
fn in_doubt(agent: &Agent, status: ExitStatus, from: Checkpoint, before: Candidates) -> Ran {
    let why = format!(
        "{}, and the checkpoint of step {}, which it went on from, may be cut off",
        words_of(status, "the command"),
        from.step
    );
    if let Some(cause) = agent.has_to_end() {
        let why = format!("{why}, which the next attempt finds out: {}", cause.why);
        return Ran::Over(End { code: status.code(), why, ..cause.into() });
    }
    agent.log.say(&format!("{why}: it is run again without that one"));
    Ran::InDoubt(before.without(why))
}

/// Tells the command to end, kills it if it does not, and brings away what it wrote.
async fn end_early(agent: &Agent, asked: &Asked, mut running: Running, keeper: Option<Keeper>, cause: Cause) -> End {
    if cause.reason == ExitReason::Fenced {
        command::end_all(false).await;
        return cause.into();
    }
    agent.does("flushing");
    let signal = asked.checkpoint.as_ref().map_or("SIGTERM", |checkpoint| &checkpoint.signal);
    let load = || keeper.as_ref().map(Keeper::load).unwrap_or_default();
    let (told, patience) = (Instant::now(), duration::show(grace(agent.time_left(), load())));
    agent.log.say(&format!("sends {signal} to the command, which has {patience}"));
    running.signal(signal_of(signal));
    let ending = tokio::select! {
        ending = running.group_ended() => Some(ending),
        () = agent.time_to_kill(told, load) => None,
    };
    if ending.is_none() {
        agent.log.say(&format!("the command did not end by {signal}, and is killed"));
    }
    command::end_all(ending.is_some()).await;
    running.drained().await;
    let code = ending.and_then(|ending| ending.code);
    let writer = if ending.is_some_and(|ending| ending.well) { Writer::Ended } else { Writer::Killed };
    let mut left = None;
    if let Some(keeper) = keeper {
        let finished = agent.in_time(keeper.finish(writer)).await;
        left = finished.map_or(Some(NO_TIME.to_owned()), |finished| finished.left);
    }
    // It may have been fenced in the meantime.
    let cause = agent.cause().await;
    let why = left.into_iter().fold(cause.why.clone(), |why, left| format!("{why}; {left}"));
    End { code, why, ..cause.into() }
}

/// What the end of the command, or of its setup, means; written to head, for then it counts.
async fn outcome(agent: &Agent, asked: &Asked, status: ExitStatus, what: &str, lost: Vec<String>) -> End {
    let succeeded = status.success();
    let mut why = words_of(status, what);
    if !succeeded && let Some(full) = full_disk(asked) {
        why = format!("{why}; {full}");
    }
    for lost in lost {
        why = format!("{why}; {lost}");
    }
    let Work { outputs: wanted, .. } = &asked.work;
    if !wanted.is_empty() {
        let uploaded = agent.in_time(outputs::upload(agent, wanted)).await;
        if let (None, Some(cause)) = (&uploaded, agent.is_interrupted())
            && succeeded
        {
            return unfinished(cause, "its outputs");
        }
        if let Some(words) = uploaded.unwrap_or_else(|| Some("there was no time to upload its outputs".to_owned())) {
            why = format!("{why}; {words}");
        }
    }
    agent.log.say(&why);
    let result = HeadResult { succeeded, code: status.code(), why: why.clone(), at: now() };
    let end = End { reason: result.reason(), code: status.code(), why };
    match agent.in_time(write_result(agent, &result)).await {
        Some(Ok(())) => end,
        Some(Err(Shut::Fenced(why))) => Cause::fenced(why).into(),
        Some(Err(Shut::Store(error))) => unwritten(end, ExitReason::Broken, &error.to_string()),
        None => match agent.is_interrupted() {
            Some(cause) => unwritten(end, cause.reason, &cause.why),
            None => unwritten(end, ExitReason::Broken, "there was no time"),
        },
    }
}

/// The command has ended with success, and the machine is taken away before all of it was brought away: the next attempt does that.
fn unfinished(cause: Cause, what: &str) -> End {
    End {
        reason: cause.reason,
        code: Some(0),
        why: format!("the command has ended with success, and there was no time to bring {what} away: {}", cause.why),
    }
}

fn unwritten(end: End, reason: ExitReason, why: &str) -> End {
    End { reason, why: format!("{}, and that could not be written down: {why}", end.why), ..end }
}

async fn write_result(agent: &Agent, result: &HeadResult) -> Result<(), Shut> {
    let mut patience = Patience::default();
    loop {
        match agent.fence.swap(|head| head.result = Some(result.clone())).await {
            Ok(_) => return Ok(()),
            Err(Shut::Store(error)) if patience.bears(agent, "the result cannot be written yet", &error).await => {}
            Err(shut) => return Err(shut),
        }
    }
}

fn words_of(status: ExitStatus, what: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => format!("{what} has ended with success"),
        (Some(code), _) => format!("{what} has failed with exit code {code}"),
        (None, Some(9)) => format!("{what} was killed by signal 9; if nobody did it, the machine ran out of memory"),
        (None, signal) => format!("{what} was ended by signal {}", signal.unwrap_or_default()),
    }
}

fn full_disk(asked: &Asked) -> Option<String> {
    let places = [asked.checkpoint.as_ref().map_or("/", |checkpoint| &checkpoint.dir), "/", "/tmp"];
    let (place, free) = places.into_iter().find_map(|place| Some((place, directory::full(Path::new(place))?)))?;
    Some(format!("the disk of {place} is full ({} MiB are left): set `root_volume_gib`", free / (1024 * 1024)))
}
