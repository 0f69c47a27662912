//! The container that runs `setup` and the command, by the Docker of the machine.
//!
//! There is one container for all steps of an attempt: `docker create` once, and `docker start --attach` for each. So what `setup` installs is
//! there for the command, each step has its own exit code, and Docker passes signals on. What a step runs is a script in a directory that the
//! container sees: no variable is in an argument or in the container's configuration, and a later step may have other variables.
//!
//! The image is a stranger's. Its programs have no capability and get none, reach the network through a bridge, and write to what the job needs of
//! the machine's disk.

mod login;
mod script;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::SignedDuration;
use jobs::ContainerImage;
use model::fault::{one_line, shortened};

use crate::agent::{Agent, StartError};
use crate::attempt::AssignedJob;
use crate::command::ShellLine;
use crate::directory::make;
use crate::user::User;
use crate::variables::VariableMap;

const PROGRAM: &str = "docker";

/// The path in the container of the directory with the script of the step.
const STEPS: &str = "/run/curfew";
const STEP: &str = "step";

/// The place where the container names the processes that a step leaves behind, and the file on the machine.
const LEFT: &str = "/run/curfew-left";
const LEFT_FILE: &str = "left";
const LEFT_BYTES_MAX: u64 = 2048;
const NAME_CHARACTERS_MAX: usize = 40;

/// The home in a container, in that of the machine's user: what a person who logs in runs, such as `.profile`, is not in it.
const OWN_HOME: &str = "curfew-job";

/// Docker may start after the agent, and a registry may be busy.
const PULL_TRIES: u32 = 6;
const PULL_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// The timeout of whatever is not a pull: the end of a machine waits for it.
const DOCKER_TIMEOUT: Duration = Duration::from_secs(20);

/// The command waits for its signal meanwhile.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(3);

const OUTPUT_CHARACTERS_MAX: usize = 500;

/// The container of an attempt, by its name.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    name: String,
    /// The script of the step.
    steps: PathBuf,
    /// Docker's configuration, with the login.
    config: PathBuf,
    /// The home of the machine's user, which it only reads; `None` if there is none.
    machine_home: Option<String>,
}

#[derive(Debug)]
enum DockerError {
    /// The machine has no Docker.
    Absent,
    Failed(String),
}

impl Container {
    pub(crate) fn of_attempt(agent: &Agent) -> Self {
        let own = format!("curfew-{}-{}", agent.identity.job, agent.identity.attempt);
        let legal = |letter: char| if letter.is_ascii_alphanumeric() || "_.-".contains(letter) { letter } else { '-' };
        let (steps, config) = (agent.state.join("container"), agent.state.join("docker"));
        Self { name: own.chars().map(legal).collect(), steps, config, machine_home: None }
    }

    /// Makes the home of the container. Returns its user, who is the machine's but for the home.
    pub(crate) fn make_home(&mut self, agent: &Agent, user: User) -> Result<User, StartError> {
        if user.home == "/" || !fs::metadata(&user.home).is_ok_and(|home| home.is_dir()) {
            return Ok(user);
        }
        let own = format!("{}/{OWN_HOME}", user.home.trim_end_matches('/'));
        make(Path::new(&own), &user.file_owner()).map_err(|error| refused(agent, &error))?;
        self.machine_home = Some(user.home);
        Ok(User { home: own, ..user })
    }

    /// Removes a container that an earlier start of this agent has left. It comes before anything is fetched, so that a machine without Docker is
    /// known as such at once.
    pub(crate) async fn remove_earlier(&self, image: &ContainerImage) -> Result<(), StartError> {
        match self.remove_container().await {
            Err(error @ DockerError::Absent) => Err(describe(image, &error)),
            // There may be none.
            Ok(()) | Err(DockerError::Failed(_)) => Ok(()),
        }
    }

    /// Pulls the image and makes the container.
    pub(crate) async fn create(
        &self,
        agent: &Agent,
        image: &ContainerImage,
        asked: &AssignedJob,
        user: &User,
    ) -> Result<(), StartError> {
        agent.set_activity("pulling the image");
        let refused = |error| refused(agent, &error);
        fs::create_dir_all(&self.steps).and_then(|()| fs::create_dir_all(&self.config)).map_err(refused)?;
        let left = self.steps.join(LEFT_FILE);
        fs::File::create(&left).and_then(|_| chown(&left, Some(user.uid), Some(user.gid))).map_err(refused)?;
        for output in self.outputs_in_home(asked, user) {
            if !fs::symlink_metadata(output).is_ok_and(|found| found.is_file()) {
                make(Path::new(output), &user.file_owner()).map_err(refused)?;
            }
        }
        self.pull(agent, image).await?;
        // Docker may have started after the first try.
        let _ = self.remove_container().await;
        let arguments = self.arguments(image, asked, user);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.docker(&arguments, None).await.map_err(|error| describe(image, &error))
    }

    async fn pull(&self, agent: &Agent, image: &ContainerImage) -> Result<(), StartError> {
        if let Some(registry) = image.reference().ecr() {
            let password = Box::pin(login::fetch_password(agent, &registry, image)).await?;
            let login = ["login", "--username", "AWS", "--password-stdin", &image.reference().registry];
            self.docker(&login, Some(password)).await.map_err(|error| describe(image, &error))?;
        }
        let shown = image.to_string();
        for tried in 1.. {
            match self.run_docker(&["pull", "--quiet", &shown], None).await {
                Ok(()) => break,
                Err(DockerError::Failed(why)) if tried < PULL_TRIES && !is_final(&why) => {
                    agent.log.write_line(&format!("the image {image} cannot be pulled yet: {why}"));
                    agent.pace.sleep(PULL_AGAIN_AFTER).await;
                }
                Err(error) => return Err(describe(image, &error)),
            }
        }
        // The login is of no use any more.
        let _ = fs::remove_dir_all(&self.config);
        agent.log.write_line(&format!("runs in a container of {image}"));
        Ok(())
    }

    fn arguments(&self, image: &ContainerImage, asked: &AssignedJob, user: &User) -> Vec<String> {
        let id = format!("{}:{}", user.uid, user.gid);
        let mut words = vec!["create", "--name", &self.name, "--user", &id];
        // Tini passes a signal on to the whole group, as the agent does without a container.
        words.extend(["--init", "--env", "TINI_KILL_PROCESS_GROUP=1"]);
        // No GPU needs a capability: NVIDIA's runtime mounts the devices from outside.
        words.extend(["--security-opt", "no-new-privileges", "--cap-drop", "ALL"]);
        // NCCL shares memory, and locks it.
        words.extend(["--ipc", "host", "--ulimit", "memlock=-1"]);
        if asked.work.has_gpus {
            words.extend(["--gpus", "all"]);
        }
        // One hop more than the machine: the instance metadata answer only where the launch says so.
        words.extend(["--network", "bridge"]);
        // The agent has all output: no second copy on the disk.
        words.extend(["--log-driver", "none", "--entrypoint", "/bin/sh"]);
        let home = self.machine_home.as_ref().map(|_| user.home.as_str());
        words.extend(home.iter().flat_map(|home| ["--workdir", home]));
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let checkpoints = asked.checkpoint.as_ref().map(|checkpoint| checkpoint.dir.as_str());
        let outputs = self.outputs_in_home(asked, user);
        let written = home.into_iter().chain(checkpoints).chain(outputs).map(|path| (path, false));
        let inputs = asked.work.inputs.iter().map(|input| input.to.as_str());
        let read = self.machine_home.as_deref().into_iter().chain(inputs).map(|path| (path, true));
        // Docker takes each target once, and mounts what is in the home over it. What is written is not only read.
        let mounts: BTreeMap<&Path, bool> = read.chain(written).map(|(path, read)| (Path::new(path), read)).collect();
        let mounts = mounts.into_iter().map(|(path, is_read_only)| (path.to_string_lossy(), is_read_only));
        let left = bind(&self.steps.join(LEFT_FILE).to_string_lossy(), LEFT, false);
        let own = [left, bind(&self.steps.to_string_lossy(), STEPS, true)];
        let mounts = mounts.map(|(path, is_read_only)| bind(&path, &path, is_read_only)).chain(own);
        words.extend(mounts.flat_map(|mount| ["--mount".to_owned(), mount]));
        words.extend([image.to_string(), format!("{STEPS}/{STEP}")]);
        words
    }

    /// The outputs that it can write to only if they are mounted: those in the home of the machine's user, and not in a directory that is.
    fn outputs_in_home<'a>(&self, asked: &'a AssignedJob, user: &User) -> Vec<&'a str> {
        let Some(home) = self.machine_home.as_deref().map(Path::new) else { return Vec::new() };
        let checkpoints = asked.checkpoint.as_ref().map(|checkpoint| checkpoint.dir.as_str());
        let is_mounted =
            |path: &Path| checkpoints.into_iter().chain([user.home.as_str()]).any(|dir| path.starts_with(dir));
        let wanted = |path: &Path| path.starts_with(home) && path != home && !is_mounted(path);
        asked.work.outputs.iter().map(String::as_str).filter(|path| wanted(Path::new(path))).collect()
    }

    /// The program that runs a line in the container, until it ends.
    pub(crate) fn step(&self, line: ShellLine<'_>, user: &User, variables: &VariableMap) -> io::Result<Command> {
        let (path, new) = (self.steps.join(STEP), self.steps.join("step.new"));
        let _ = fs::remove_file(&new);
        // It has the values of secrets: only its user reads it.
        let mut file = fs::File::options().write(true).create_new(true).mode(0o400).open(&new)?;
        file.write_all(script::step(line, variables, LEFT).as_bytes())?;
        chown(&new, Some(user.uid), Some(user.gid))?;
        fs::rename(&new, &path)?;
        fs::File::options().write(true).truncate(true).open(self.steps.join(LEFT_FILE))?;
        let mut command = Command::new(PROGRAM);
        command.args(["start", "--attach", &self.name]);
        // By these a restarted agent finds what it has left.
        let own = ["CURFEW_JOB", "CURFEW_ATTEMPT"];
        command.envs(variables.iter().filter(|(name, _)| own.contains(&name.as_str())));
        Ok(command)
    }

    /// The first process of it, as the machine sees it; `None` if Docker does not say, or this process may not look into it.
    pub(crate) async fn find_init(&self) -> Option<i32> {
        let mut inspect = tokio::process::Command::new(PROGRAM);
        inspect.args(["inspect", "--format", "{{.State.Pid}}", &self.name]).kill_on_drop(true);
        let answer = tokio::time::timeout(INSPECT_TIMEOUT, inspect.output()).await.ok()?.ok()?;
        let init: i32 = String::from_utf8_lossy(&answer.stdout).trim().parse().ok()?;
        // Its executable can be read by whoever may signal it.
        (init > 1 && fs::read_link(format!("/proc/{init}/exe")).is_ok()).then_some(init)
    }

    /// The names of the processes that ended with it because the step had left them behind.
    pub(crate) fn read_left(&self) -> Vec<String> {
        let mut names = String::new();
        // The container cannot replace what is mounted into it.
        let read =
            fs::File::open(self.steps.join(LEFT_FILE)).map(|file| file.take(LEFT_BYTES_MAX).read_to_string(&mut names));
        if matches!(read, Ok(Ok(_))) {
            names.lines().map(|name| one_line(name, NAME_CHARACTERS_MAX)).collect()
        } else {
            Vec::new()
        }
    }

    /// Ends every process in it at once.
    pub(crate) async fn kill(&self) {
        // It may have ended.
        let _ = self.docker(&["kill", &self.name], None).await;
    }

    /// Removes it with everything of it on the disk.
    pub(crate) async fn remove(&self) {
        let _ = self.remove_container().await;
        let _ = fs::remove_dir_all(&self.steps);
        let _ = fs::remove_dir_all(&self.config);
        // Unless something is in it.
        let _ = self.machine_home.as_ref().map(|home| fs::remove_dir(Path::new(home).join(OWN_HOME)));
    }

    async fn remove_container(&self) -> Result<(), DockerError> {
        self.docker(&["rm", "--force", "--volumes", &self.name], None).await
    }

    async fn docker(&self, arguments: &[&str], input: Option<String>) -> Result<(), DockerError> {
        let done = tokio::time::timeout(DOCKER_TIMEOUT, self.run_docker(arguments, input)).await;
        done.unwrap_or_else(|_| Err(DockerError::Failed("Docker does not answer".to_owned())))
    }

    async fn run_docker(&self, arguments: &[&str], input: Option<String>) -> Result<(), DockerError> {
        let mut command = tokio::process::Command::new(PROGRAM);
        command.args(arguments).env("DOCKER_CONFIG", &self.config).kill_on_drop(true);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => DockerError::Absent,
            _ => DockerError::Failed(error.to_string()),
        };
        let mut child = command.spawn().map_err(failed)?;
        if let (Some(input), Some(mut to)) = (input, child.stdin.take()) {
            use tokio::io::AsyncWriteExt as _;
            to.write_all(input.as_bytes()).await.map_err(failed)?;
        }
        let output = child.wait_with_output().await.map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = shortened(said.trim(), OUTPUT_CHARACTERS_MAX);
        let step = arguments.first().copied().unwrap_or_default();
        Err(DockerError::Failed(format!("docker {step} ended with {}: {said}", output.status)))
    }
}

fn refused(agent: &Agent, error: &io::Error) -> StartError {
    StartError::from_io(agent, error, format!("the container cannot be made: {error}"))
}

fn describe(image: &ContainerImage, error: &DockerError) -> StartError {
    match error {
        DockerError::Absent => StartError::Impossible {
            code: StartError::NOT_FOUND,
            why: format!(
                "the job runs in a container of {image}, and the image of the machine has no {PROGRAM}: name one that has it by machine.ami, \
                 such as a Deep Learning AMI"
            ),
        },
        DockerError::Failed(why) if why.contains(NO_SPACE) => {
            StartError::cannot_run(format!("the image {image} does not fit on the disk: set `root_volume_gib`"))
        }
        DockerError::Failed(why) if is_final(why) => {
            StartError::cannot_run(format!("the image {image} cannot be pulled: {why}"))
        }
        DockerError::Failed(why) => StartError::broken(format!("the container of {image} cannot be made: {why}")),
    }
}

/// The kernel's message for a full disk.
const NO_SPACE: &str = "no space left on device";

/// Returns `true` if a registry would give the same answer to another try.
fn is_final(why: &str) -> bool {
    [NO_SPACE, "manifest unknown", "not found", "no matching manifest", "unauthorized", "denied"]
        .iter()
        .any(|one| why.contains(one))
}

/// A mount as Docker reads it: a line of CSV (Docker CLI reference, "`docker container run`", "Add bind mounts or volumes using the --mount flag").
fn bind(from: &str, to: &str, is_read_only: bool) -> String {
    let field = |name: &str, path: &str| format!("\"{name}={}\"", path.replace('"', "\"\""));
    let read_only = if is_read_only { ",readonly" } else { "" };
    format!("type=bind,{},{}{read_only}", field("source", from), field("target", to))
}

#[cfg(test)]
mod tests {
    use jobs::JobSpec;
    use model::config::Config;

    use super::*;

    #[test]
    fn a_path_is_one_field_of_a_mount() {
        assert_eq!(bind("/a", "/b", true), r#"type=bind,"source=/a","target=/b",readonly"#);
        assert_eq!(bind("/a,readonly", "/b\"c", false), r#"type=bind,"source=/a,readonly","target=/b""c""#);
    }

    #[test]
    fn an_output_is_mounted_only_where_the_container_could_not_write() {
        let text = "command = \"x\"\nowner = \"a@b\"\n[checkpoint]\ndir = \"/home/u/ckpt\"\n[machine]\noutputs = [\"/home/u/out\", \"/home/u\", \
                    \"/home/u/ckpt/best\", \"/home/u/curfew-job/a.json\", \"/home/u2/out\", \"/etc\"]";
        let (work, checkpoint) = JobSpec::accepted(text, &Config::default()).unwrap();
        let asked = AssignedJob { work, checkpoint, keep: None };
        let home = "/home/u/curfew-job".to_owned();
        let user = User { name: "u".to_owned(), uid: 1, gid: 1, groups: Vec::new(), home };
        let container = |machine_home: Option<&str>| Container {
            name: String::new(),
            steps: PathBuf::new(),
            config: PathBuf::new(),
            machine_home: machine_home.map(str::to_owned),
        };
        assert_eq!(container(Some("/home/u")).outputs_in_home(&asked, &user), ["/home/u/out"]);
        assert!(container(None).outputs_in_home(&asked, &user).is_empty());
    }

    #[test]
    fn only_what_may_pass_is_pulled_again() {
        assert!(is_final("docker pull ended with 1: manifest unknown: manifest unknown"));
        assert!(!is_final(
            "docker pull ended with 1: Cannot connect to the Docker daemon at unix:///var/run/docker.sock"
        ));
    }
}
