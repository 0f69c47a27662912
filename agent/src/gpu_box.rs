//! A box: instead of a command people work on the machine, until nobody does, or its end comes.
//!
//! The user's home is on a volume that outlives the machine ([`home`]), and people log in by an sshd of the agent's own ([`login`]). Once a minute the
//! agent looks at the signs of use ([`signs`]) and reads the end from `state.json`, where `curfew box extend` moves it. A sign that is not known ends
//! nothing. An end is written to every terminal before it comes; then programs are ended, and the home is synced and unmounted.

mod home;
mod login;
mod signs;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jobs::boxes::{BoxEnd, BoxEndCause, BoxReport, BoxState, IdleClock, IdleLimits, Occupancy};
use jobs::{AgentWarningKind, ExitReason, Heartbeat};
use model::duration::format_duration;
use model::fault::shortened;
use model::moment::before;
use model::time_zone::format_moment_shortly;
use tokio::process::Command;

use self::login::LoginServer;
use self::signs::{CpuWindow, UseSigns};
use crate::agent::{Agent, AttemptEnd, EndCause, StartError};
use crate::attempt::AssignedJob;
use crate::notice::SHUTDOWN_TIME;
use crate::user::User;
use crate::variables::VariableMap;
use crate::world::{left_until, now};
use crate::{command, processes};

pub(crate) use self::home::BoxHome;

const LOOK_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Timeout for the newest end; the last known one counts otherwise.
const STATE_TIMEOUT: Duration = Duration::from_secs(20);

/// Time before the last moment of an interrupted machine at which its home is unmounted.
const UNMOUNTED_BEFORE: SignedDuration = SignedDuration::from_secs(15);

const OUTPUT_CHARACTERS_MAX: usize = 300;

/// Mounts the home of a box, before anything is written to it. `slot` has it from then on.
pub(crate) async fn mount_home(agent: &Agent, user: &User, slot: &mut Option<BoxHome>) -> Result<(), StartError> {
    login::find_sshd()?;
    // Programs of people end with the box, and those of root are the machine's.
    if user.uid == 0 {
        return Err(StartError::cannot_run(format!(
            "`{}` is root, and nobody works on a box as root: set `user` to another user of the image",
            user.name
        )));
    }
    BoxHome::mount(agent, user, slot).await
}

/// Unmounts the home, if it still is mounted.
pub(crate) async fn release_home(agent: &Agent, slot: &mut Option<BoxHome>) {
    if let Some(home) = slot.take() {
        home.release(agent).await;
    }
}

/// Keeps the box until its end. Returns the reason for it; the home is unmounted then.
///
/// # Errors
/// The end of the attempt, if something else than the box ends it.
pub(crate) async fn keep_box(
    agent: &Arc<Agent>,
    asked: &AssignedJob,
    user: &User,
    variables: &VariableMap,
    slot: &mut Option<BoxHome>,
) -> Result<String, StartError> {
    let Some(home) = slot else { return Err(StartError::broken("the box has no home")) };
    let server = agent.unless_it_ends(LoginServer::prepare(agent, home, user, variables)).await??;
    let keeping = async {
        agent.unless_it_ends(server.wait_until_open()).await??;
        let mut keeper = BoxKeeper::begin(agent, asked, user, home, &server);
        let ended = keeper.keep().await;
        if let Err(cause) = &ended {
            let line = format!("{}: {}. Save your work: the home is kept, and nothing else.", keeper.name(), cause.why);
            signs::write_to_terminals(&line);
            home.sync(agent).await;
            agent.hasten_heartbeat();
            wait_for_last_moment(agent).await;
        }
        Ok::<_, StartError>(ended)
    };
    let ended = tokio::select! {
        ended = keeping => ended?,
        never = server.serve(agent) => match never {},
    };
    agent.set_activity("flushing");
    let why = ended.as_ref().map_or_else(|cause| cause.why.clone(), String::clone);
    signs::write_to_terminals(&format!("{} ends now: {why}", agent.identity.job.name()));
    command::hang_up(user.uid).await;
    command::kill_leftovers(false).await;
    release_home(agent, slot).await;
    match ended {
        Ok(why) => Ok(why),
        // It may have been fenced in the meantime.
        Err(_) => Err(AttemptEnd::from(agent.cause().await).into()),
    }
}

/// Lets people save their work while there is time. A machine that shuts down has less, and has ended their programs already.
async fn wait_for_last_moment(agent: &Agent) {
    let left = async || {
        let cause = agent.cause().await;
        (cause.reason, left_until(cause.until))
    };
    let (reason, time) = left().await;
    if reason != ExitReason::Interrupted || time <= agent.pace.scale(SHUTDOWN_TIME) {
        return;
    }
    loop {
        // A later cause may shorten it.
        let (reason, time) = left().await;
        let wait = time.saturating_sub(agent.pace.scale(UNMOUNTED_BEFORE));
        if reason != ExitReason::Interrupted || wait <= SignedDuration::ZERO {
            return;
        }
        tokio::time::sleep(wait.unsigned_abs().min(Duration::from_secs(1))).await;
    }
}

/// A box that people can log in to.
struct BoxKeeper<'a> {
    agent: &'a Arc<Agent>,
    server: &'a LoginServer,
    uid: u32,
    has_gpus: bool,
    /// At the pace of the agent.
    limits: IdleLimits,
    idle: SignedDuration,
    state: BoxState,
    is_state_known: bool,
    clock: IdleClock,
    cpus: CpuWindow,
    in_use_at: Timestamp,
    /// The causes of which people know that they end the box soon.
    warned: BTreeSet<BoxEndCause>,
}

impl<'a> BoxKeeper<'a> {
    fn begin(agent: &'a Arc<Agent>, asked: &AssignedJob, user: &User, home: &BoxHome, server: &'a LoginServer) -> Self {
        let (ready_at, terms) = (now(), home.terms.idle_limits());
        let scale = |limit| agent.pace.scale(limit);
        let keeper = Self {
            agent,
            server,
            uid: user.uid,
            has_gpus: asked.work.has_gpus,
            limits: IdleLimits { idle: scale(terms.idle), attached_max: scale(terms.attached_max) },
            idle: terms.idle,
            state: home.state.clone(),
            is_state_known: true,
            clock: IdleClock::begin(ready_at),
            cpus: CpuWindow::default(),
            in_use_at: ready_at,
            warned: BTreeSet::new(),
        };
        let report = BoxReport {
            ready_at,
            user: user.name.clone(),
            host_key: server.host_key.clone(),
            why: format!("ready since {}", format_moment_shortly(ready_at, ready_at)),
            in_use_at: ready_at,
            is_unknown: false,
            ends_at: keeper.next_end(None).at,
            synced_at: None,
        };
        // It has no command whose silence is a stall, or whose work is saved by checkpoints.
        agent.with_work(|work, at| work.begin_activity("", at));
        agent.set_status(|status| (status.doing, status.gpu_box) = (Heartbeat::RUNNING, Some(report)));
        agent.log.write_line(&format!("the box is ready: people can log in as {}", user.name));
        agent.hasten_heartbeat();
        keeper
    }

    fn name(&self) -> &'a str {
        self.agent.identity.job.name()
    }

    /// Keeps it until its end, and returns the reason for that; or the cause that ends the attempt.
    async fn keep(&mut self) -> Result<String, EndCause> {
        let agent = self.agent;
        self.cpus.add(Instant::now(), processes::read_cpu_times(self.uid));
        let mut due = agent.pace.scale(LOOK_EVERY);
        loop {
            tokio::select! {
                biased;
                cause = agent.cause() => return Err(cause),
                () = async {
                    tokio::time::sleep(due.unsigned_abs()).await;
                    // Just before it is judged: a person may have extended it.
                    self.read_state().await;
                } => {}
            }
            let (end, idle_since, at) = self.look();
            if at >= end.at {
                return match end.cause {
                    // The agent's own cause comes at the same moment.
                    BoxEndCause::HardEnd => Err(agent.cause().await),
                    BoxEndCause::SoftEnd => Ok(format!("its end, {}, has come", format_moment_shortly(end.at, at))),
                    BoxEndCause::Idle => {
                        let (since, limit) = (format_moment_shortly(idle_since, at), format_duration(self.idle));
                        Ok(format!("idle since {since} for {limit}"))
                    }
                };
            }
            self.warn_people(end, idle_since, at);
            due = agent.pace.scale(LOOK_EVERY).min(end.at.duration_since(at));
        }
    }

    async fn read_state(&mut self) {
        let reading = self.agent.store().read_box_state(&self.agent.identity.job);
        let problem = match tokio::time::timeout(STATE_TIMEOUT, reading).await {
            Ok(Ok(Some((_, state)))) => {
                (self.state, self.is_state_known) = (state, true);
                return;
            }
            Ok(Ok(None)) => "state.json has no box".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "S3 did not answer".to_owned(),
        };
        if self.is_state_known {
            self.agent
                .log
                .write_line(&format!("the end of the box cannot be read, so the last known one counts: {problem}"));
        }
        self.is_state_known = false;
    }

    /// The next end, if it is idle until then.
    fn next_end(&self, idle_until: Option<Timestamp>) -> BoxEnd {
        self.state.times(self.agent.ends_at()).next_end(idle_until)
    }

    /// Looks at the signs of use, and reports them. Returns the next end, the time since which it is idle, and that of the look.
    fn look(&mut self) -> (BoxEnd, Timestamp, Timestamp) {
        // The agent inherits what programs of people leave behind, and has to reap it.
        drop(processes::descendants(self.server.process.get()));
        let signs = UseSigns {
            has_gpus: self.has_gpus,
            gpu_percent: self.agent.status().gpu_percent,
            cpus: self.cpus.add(Instant::now(), processes::read_cpu_times(self.uid)),
            is_connected: signs::find_connection(self.agent.places.ssh_port),
            input_at: signs::find_newest_input(&signs::find_terminals()),
        };
        let at = now();
        let occupancy = self.clock.look(&signs.to_look(at), self.limits);
        let end = self.next_end(self.clock.ends_at(occupancy, self.limits));
        let idle_since = match occupancy {
            Occupancy::Idle(idle_for) => before(at, idle_for),
            Occupancy::InUse | Occupancy::Unknown => at,
        };
        if occupancy == Occupancy::InUse {
            self.in_use_at = at;
        }
        let (why, is_unknown) = (signs.describe(occupancy, at), occupancy == Occupancy::Unknown);
        if self.clock.is_unknown_for_long() {
            let ends = format_moment_shortly(end.at, at);
            let words = format!("the box is {why}, so it ends at {ends} and not before, however idle it is");
            self.agent.warn_owner_after(SignedDuration::ZERO, AgentWarningKind::BoxUnknown, &words);
        } else {
            self.agent.clear_warning(AgentWarningKind::BoxUnknown);
        }
        let in_use_at = self.in_use_at;
        self.agent.set_status(|status| {
            if let Some(report) = &mut status.gpu_box {
                (report.why, report.is_unknown, report.in_use_at, report.ends_at) =
                    (why, is_unknown, in_use_at, end.at);
            }
        });
        (end, idle_since, at)
    }

    /// Tells people once of each end that is near.
    fn warn_people(&mut self, end: BoxEnd, idle_since: Timestamp, at: Timestamp) {
        if !end.is_near(at) {
            self.warned.clear();
        }
        if !end.is_near(at) || end.cause != BoxEndCause::Idle {
            self.agent.clear_warning(AgentWarningKind::BoxIdle);
        }
        if end.is_near(at) && self.warned.insert(end.cause) {
            let line = describe_end(self.name(), end, idle_since, at);
            signs::write_to_terminals(&line);
            if end.cause == BoxEndCause::Idle {
                self.agent.warn_owner(AgentWarningKind::BoxIdle, &line);
            }
        }
    }
}

/// The line for people about an end that is near.
fn describe_end(name: &str, end: BoxEnd, idle_since: Timestamp, now: Timestamp) -> String {
    let ends = format!("{name} ends at {}", format_moment_shortly(end.at, now));
    let keep = format!("Keep it: curfew box extend {name} 3h");
    match end.cause {
        BoxEndCause::Idle => format!("{ends}, idle since {}. {keep}", format_moment_shortly(idle_since, now)),
        BoxEndCause::SoftEnd => format!("{ends}. {keep}"),
        BoxEndCause::HardEnd => {
            format!("{ends}, the latest end of its machine. Save your work: the home is kept, and nothing else")
        }
    }
}

/// Runs a program of the machine to its end. The error is for people.
async fn run(
    program: &str,
    words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    timeout: Duration,
) -> Result<Output, String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).kill_on_drop(true);
    let done = tokio::time::timeout(timeout, command.output()).await;
    let done = done.map_err(|_| format!("{program} did not end within {} s", timeout.as_secs()))?;
    done.map_err(|error| format!("{program}: {error}"))
}

/// Runs a program that has to succeed.
async fn run_well(
    program: &str,
    words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    timeout: Duration,
) -> Result<(), String> {
    let output = run(program, words, timeout).await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let why = || format!("{program} ended with {}: {}", output.status, shortened(errors.trim(), OUTPUT_CHARACTERS_MAX));
    output.status.success().then_some(()).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cause: BoxEndCause, expect: &str) {
        let at = |text: &str| format!("2026-11-02T{text}:00Z").parse::<Timestamp>().unwrap();
        let end = BoxEnd { at: at("13:35"), cause };
        assert_eq!(describe_end("my-box", end, at("12:35"), at("13:25")), expect);
    }

    #[test]
    fn a_line_says_how_to_keep_the_box() {
        let keep = "Keep it: curfew box extend my-box 3h";
        check(BoxEndCause::Idle, &format!("my-box ends at 13:35 UTC, idle since 12:35 UTC. {keep}"));
        check(BoxEndCause::SoftEnd, &format!("my-box ends at 13:35 UTC. {keep}"));
        let save = "Save your work: the home is kept, and nothing else";
        check(BoxEndCause::HardEnd, &format!("my-box ends at 13:35 UTC, the latest end of its machine. {save}"));
    }
}
