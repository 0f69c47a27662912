//! Whatever a team, a job or a bucket is called: the machine gets its identity unchanged, and runs nothing of it. The shell really runs, in
//! a directory, and finds no command but those that are put there.

#![expect(clippy::unwrap_used, reason = "a property that fails says so by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use jobs::{JobId, MachineIdentity, USER_DATA_BYTES_MAX, user_data};
use model::home::StateBucket;
use proptest::prelude::*;
use tempfile::TempDir;

/// What the scripts may find: `touch` is there in case a script manages to call it.
const TOOLS: [&str; 10] = ["base64", "cat", "chmod", "cut", "mkdir", "mv", "rm", "sha256sum", "sed", "touch"];

/// Says what it was called with, an argument a line of hex.
const RECORDER: &str = "#!/bin/sh\n{ echo \"${0##*/}\"; for argument in \"$@\"; do printf %s \"$argument\" | base64 -w 0; echo; done; } >>\"$CURFEW_ROOT/calls\"\n";

/// A directory of its own, removed in the end.
struct Sandbox(TempDir);

impl Sandbox {
    fn new() -> Self {
        let sandbox = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        fs::create_dir_all(sandbox.path().join("run/systemd/system")).unwrap();
        let tools = sandbox.path().join("tools");
        fs::create_dir(&tools).unwrap();
        for tool in TOOLS {
            let places = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
            symlink(places.iter().find(|place| place.exists()).unwrap(), tools.join(tool)).unwrap();
        }
        sandbox.tool("systemctl", RECORDER);
        sandbox
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn tool(&self, name: &str, script: &str) {
        let path = self.path().join("tools").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, script: &Path) -> bool {
        let mut command = Command::new("/bin/sh");
        command.arg(script).env_clear().env("PATH", self.path().join("tools")).env("CURFEW_ROOT", self.path());
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    }

    /// Every file but the tools, by its path.
    fn files(&self) -> BTreeSet<String> {
        let (mut found, mut left) = (BTreeSet::new(), vec![self.path().to_owned()]);
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path == self.path().join("tools") {
                } else if path.is_dir() {
                    left.push(path);
                } else {
                    found.insert(path.strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path().join("calls")).unwrap_or_default()
    }
}

/// The bodies of the parts, as RFC 2046, section 5.1.1, divides them.
fn parts(text: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split("--curfew-user-data").skip(1).collect();
    assert_eq!(parts.pop(), Some("--\n"), "it is closed, and nothing follows");
    parts.into_iter().map(|part| part.split_once("\n\n").unwrap().1).collect()
}

/// What means something to a shell, to MIME, to JSON, or to a here-document of ours.
const HOSTILE: [&str; 20] = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "\n",
    "\r\n",
    "\ntouch pwned\n",
    "\nCURFEW_IDENTITY\ntouch pwned\n",
    "\nCURFEW_FETCH\ntouch pwned\n",
    "\n--curfew-user-data\n",
    "\n--curfew-user-data--\n",
    "\n.\n",
    "@END@",
    "@IDENTITY@",
    "${PATH}",
    "\\",
    "%s%n",
    "{a,b}",
    "ü漢🦀\u{202e}",
    "\0\u{1}\u{7f}",
];

/// A text of so many characters at most.
fn text(characters_max: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned), any::<String>()];
    prop::collection::vec(piece, 0..6).prop_map(move |pieces| pieces.concat().chars().take(characters_max).collect())
}

/// Team and job fit a tag together.
fn any_identity() -> impl Strategy<Value = MachineIdentity> {
    let job = (text(127), "[A-Za-z0-9][-._A-Za-z0-9]{0,62}").prop_map(|(team, name)| {
        // Whatever else it is: a team that a tag may name, a slash, and a job.
        let team = team.replace(char::is_control, "|");
        JobId::read(&format!("t{team}t/{name}-0123abcd")).unwrap()
    });
    let seconds = -10_000_000_000..250_000_000_000_i64;
    (text(63), text(30), job, (any::<u32>(), text(16)), seconds, text(64)).prop_map(
        |(bucket, region, job, (attempt, launch), seconds, agent_sha256)| MachineIdentity {
            schema: 1,
            replica: region
                .starts_with('a')
                .then(|| StateBucket { bucket: bucket.clone(), region: "us-west-2".into() }),
            is_restored: attempt % 2 == 0,
            region: region.as_str().into(),
            bucket,
            job,
            attempt,
            nodes: 1,
            retry_of: attempt / 2,
            launch,
            ends_at: Timestamp::from_second(seconds).unwrap(),
            agent_sha256,
        },
    )
}

/// What a shell keeps of a text that a command printed.
fn kept(text: &str) -> String {
    text.replace('\0', "").trim_end_matches('\n').to_owned()
}

fn base64_by_machine(text: &str) -> String {
    let octal: Vec<String> = text.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    let script = format!("printf '{}' | base64 -w 0", octal.concat());
    String::from_utf8(Command::new("/bin/sh").args(["-c", &script]).output().unwrap().stdout).unwrap()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_identity_comes_out_as_it_is_and_nothing_of_it_runs(identity in any_identity()) {
        let text = user_data(&identity);
        prop_assert!(text.is_ascii() && text.len() < USER_DATA_BYTES_MAX, "{} bytes", text.len());
        let [boothook, setup] = parts(&text).try_into().unwrap();

        let sandbox = Sandbox::new();
        let script = sandbox.path().join("setup");
        fs::write(&script, setup).unwrap();
        prop_assert!(sandbox.run(&script));
        let written = fs::read_to_string(sandbox.path().join("etc/curfew/identity.json")).unwrap();
        prop_assert_eq!(&written, &serde_json::to_string(&identity).unwrap());
        prop_assert_eq!(serde_json::from_str::<MachineIdentity>(&written).unwrap(), identity.clone());
        let expect = ["calls", "etc/curfew/fetch-agent", "etc/curfew/identity.json", "etc/systemd/system/curfew-agent.service", "setup"];
        prop_assert_eq!(sandbox.files(), expect.map(str::to_owned).into());
        prop_assert_eq!(sandbox.calls().matches("systemctl\n").count(), 3);

        // Makes one argument of the script's input. The fetch script ends at its first pause.
        fs::remove_file(sandbox.path().join("calls")).unwrap();
        sandbox.tool("aws", &format!("{RECORDER}exit 1\n"));
        sandbox.tool("curl", "#!/bin/sh\nexit 1\n");
        sandbox.tool("sleep", "#!/bin/sh\nkill $PPID\n");
        prop_assert!(!sandbox.run(&sandbox.path().join("etc/curfew/fetch-agent")));
        let url = format!("s3://{}/agent/{}", kept(&identity.bucket), kept(&identity.agent_sha256));
        let called = sandbox.calls();
        prop_assert_eq!(called.lines().count(), 8, "{}", called);
        prop_assert_eq!(called.lines().nth(6).unwrap(), base64_by_machine(&url));
        prop_assert_eq!(called.lines().nth(5).unwrap(), base64_by_machine(&kept(identity.region.as_str())));

        // The first part is the same for every machine, except for its end.
        let ends: Vec<&str> = boothook.lines().filter(|line| line.starts_with("end=") || line.starts_with("calendar=")).collect();
        prop_assert_eq!(ends.len(), 2);
        let end = format!("end={} #", identity.ends_at.as_second());
        prop_assert!(ends[0].starts_with(&end), "{}", ends[0]);
        let digits = |line: &str| line.chars().all(|letter| letter.is_ascii_digit() || "calendr='-: UTC".contains(letter));
        prop_assert!(digits(ends[1]), "{}", ends[1]);
    }
}

#[test]
fn the_first_part_differs_by_the_end_alone() {
    let identity = |bucket: &str, seconds| MachineIdentity {
        schema: 1,
        bucket: bucket.to_owned(),
        region: "eu-west-1".into(),
        replica: None,
        is_restored: false,
        job: JobId::read("vision/llama-0123abcd").unwrap(),
        attempt: 1,
        nodes: 1,
        retry_of: 0,
        launch: "0a1b2c3d".to_owned(),
        ends_at: Timestamp::from_second(seconds).unwrap(),
        agent_sha256: "0".repeat(64),
    };
    let boothook = |identity: &MachineIdentity| parts(&user_data(identity))[0].to_owned();
    let [one, other, later] = [("a", 1), ("b", 1), ("a", 2)].map(|(bucket, end)| boothook(&identity(bucket, end)));
    assert_eq!(one, other);
    let differing = one.lines().zip(later.lines()).filter(|(one, later)| one != later).count();
    assert_eq!(differing, 2);
}
