//! A job from a command line, as the document that `curfew submit` takes.

use std::fmt::Write as _;
use std::path::Path;

use model::document::quoted;
use model::id::TypeName;

use crate::JobName;

/// The longest name that is made of a command. A person may write a longer one.
const NAME_CHARACTERS_MAX: usize = 40;

/// The name of a job whose command has no letter or digit.
const NAME_WITHOUT_LETTERS: &str = "run";

/// A job that a person describes by options. All texts are as they were written: the document is judged like any other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CommandJob {
    /// The words of the command. One word is a line of shell; several are a program and its arguments.
    pub words: Vec<String>,
    pub name: Option<String>,
    pub owner: Option<String>,
    pub setup: Option<String>,
    /// The name of the shell that runs both.
    pub shell: Option<String>,
    /// The image of a container.
    pub container: Option<String>,
    /// Variables and values.
    pub env: Vec<(String, String)>,
    /// Variables and the ARNs of their values.
    pub secrets: Vec<(String, String)>,
    /// The least number of GPUs.
    pub gpus: u32,
    /// The least vCPUs of a job without GPUs. `memory_gib` is the least memory of such a job.
    pub vcpus: Option<u32>,
    pub memory_gib: Option<u32>,
    /// Name of the GPU.
    pub gpu_name: Option<String>,
    /// The least memory of each GPU, by its nominal size.
    pub memory_gib_min: u32,
    /// Empty: every type that fits.
    pub types: Vec<TypeName>,
    pub on_demand: bool,
    pub max_runtime: Option<String>,
    pub max_usd: Option<f64>,
    /// Time for which every GPU is idle until the job ends.
    pub idle: Option<String>,
    /// Number of launches after the command has failed; 0: none.
    pub retries: u32,
    /// The directory in which the command writes its checkpoints.
    pub checkpoint_dir: Option<String>,
    /// Addresses of S3, and the directories of the machine that they become.
    pub inputs: Vec<(String, String)>,
}

impl CommandJob {
    /// The document.
    #[must_use]
    pub fn to_document(&self) -> String {
        let mut text = String::new();
        let name = self.name.clone().unwrap_or_else(|| name_of_command(&self.words));
        let _ = writeln!(text, "name = {}", quoted(&name));
        let _ = writeln!(text, "command = {}", quoted(&shell_line(&self.words)));
        for (key, value) in
            [("owner", &self.owner), ("setup", &self.setup), ("shell", &self.shell), ("container", &self.container)]
        {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {}", quoted(value));
            }
        }
        if self.retries > 0 {
            let _ = writeln!(text, "retries = {}", self.retries);
        }
        for (section, variables) in [("env", &self.env), ("secrets", &self.secrets)] {
            if !variables.is_empty() {
                let _ = writeln!(text, "\n[{section}]");
            }
            for (variable, value) in variables {
                let _ = writeln!(text, "{} = {}", quoted(variable), quoted(value));
            }
        }
        let _ = writeln!(text, "\n[gpu]\ncount = {}", self.gpus);
        if let Some(name) = &self.gpu_name {
            let _ = writeln!(text, "name = {}", quoted(name));
        }
        if self.memory_gib_min > 0 {
            let _ = writeln!(text, "memory_gib_min = {}", self.memory_gib_min);
        }
        if !self.types.is_empty() {
            let types: Vec<String> = self.types.iter().map(|name| quoted(name.as_str())).collect();
            let _ = writeln!(text, "types = [{}]", types.join(", "));
        }
        if self.on_demand {
            text.push_str("\n[spot]\nenabled = false\n");
        }
        let limits = [
            self.max_runtime.as_deref().map(|limit| format!("max_runtime = {}\n", quoted(limit))),
            self.max_usd.map(|limit| format!("max_usd = {limit:?}\n")),
            self.idle.as_deref().map(|limit| format!("idle = {}\n", quoted(limit))),
        ];
        let limits: String = limits.into_iter().flatten().collect();
        if !limits.is_empty() {
            let _ = write!(text, "\n[limits]\n{limits}");
        }
        if let Some(dir) = &self.checkpoint_dir {
            let _ = writeln!(text, "\n[checkpoint]\ndir = {}", quoted(dir));
        }
        let sizes = [("vcpus", self.vcpus), ("memory_gib", self.memory_gib)];
        let sizes: Vec<String> =
            sizes.into_iter().filter_map(|(key, size)| Some(format!("{key} = {}\n", size?))).collect();
        if !sizes.is_empty() {
            let _ = write!(text, "\n[machine]\n{}", sizes.concat());
        }
        for (from, to) in &self.inputs {
            let _ = writeln!(text, "\n[[inputs]]\nfrom = {}\nto = {}", quoted(from), quoted(to));
        }
        text
    }
}

/// The option of `curfew run` or `curfew box up` that a key of the document comes from; `None` if it comes from none.
#[must_use]
pub fn option_of_key(key: &str) -> Option<&'static str> {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    Some(match (section, key) {
        ("name", _) => "--name",
        ("command", _) => "COMMAND",
        ("owner", _) => "--owner",
        ("setup", _) => "--setup",
        ("shell", _) => "--shell",
        ("container", _) => "--container",
        ("workdir", _) => "--workdir",
        ("retries", _) => "--retries",
        ("env", _) => "--env",
        ("secrets", _) => "--secret",
        ("gpu", _) => "--gpu",
        ("inputs", _) => "--input",
        (_, "machine.vcpus") => "--cpu",
        (_, "machine.memory_gib") => "--memory-gib",
        (_, "spot.enabled") => "--on-demand",
        (_, "limits.max_runtime") => "--max-runtime",
        (_, "limits.max_usd") => "--max-usd",
        (_, "limits.idle" | "box.idle") => "--idle",
        (_, "checkpoint.dir") => "--checkpoint-dir",
        (_, "limits.max_usd_per_hour") => "--max-usd-per-hour",
        (_, "box.until") => "--until",
        (_, "box.for") => "--for",
        (_, "box.home_gib") => "--home",
        _ => return None,
    })
}

/// The words as one line of shell, which splits it into the same words again (POSIX.1-2024, "Quoting").
fn shell_line(words: &[String]) -> String {
    if let [line] = words {
        return line.clone();
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    let quote_word = |(index, word): (usize, &String)| {
        // The shell would take a first word with `=` for a variable.
        let is_program = index > 0 || !word.contains('=');
        if is_program && !word.is_empty() && word.chars().all(is_plain) {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    };
    words.iter().enumerate().map(quote_word).collect::<Vec<_>>().join(" ")
}

/// The name of the script that an interpreter runs, else of the program.
fn name_of_command(words: &[String]) -> String {
    let line: Vec<&str> = match words {
        [line] => line.split_whitespace().collect(),
        words => words.iter().map(String::as_str).collect(),
    };
    let script = line.iter().find(|word| Path::new(word).extension().is_some() && !word.starts_with('-'));
    let named = script.or(line.first()).copied().unwrap_or_default();
    let stem = Path::new(named).file_stem().unwrap_or_default().to_string_lossy();
    let legal = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let name: String = stem.chars().map(legal).collect();
    let name: String = name
        .trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric())
        .chars()
        .take(NAME_CHARACTERS_MAX)
        .collect();
    if JobName::read(&name).is_ok() { name } else { NAME_WITHOUT_LETTERS.to_owned() }
}

#[cfg(test)]
mod tests {
    use model::config::Config;
    use model::fixture::{NOW, time};
    use proptest::prelude::*;

    use super::*;
    use crate::JobSpec;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn read(job: &CommandJob) -> JobSpec {
        let (config, team) = (Config::read("[tags]\nrequired = []").unwrap(), "vision".into());
        let text = job.to_document();
        JobSpec::read(&text, "run.toml", Some(&team), &config, &"us-east-1".into(), time(NOW)).unwrap()
    }

    #[test]
    fn options_become_a_document() {
        let job = CommandJob {
            words: words(&["python", "train.py", "--note", "a b's"]),
            owner: Some("ada@example.com".to_owned()),
            setup: Some("pip install -r requirements.txt".to_owned()),
            shell: Some("sh".to_owned()),
            container: Some(format!("ubuntu@sha256:{}", "0".repeat(64))),
            env: vec![("WANDB_MODE".to_owned(), "offline".to_owned())],
            retries: 2,
            gpus: 1,
            types: vec!["g5.xlarge".into()],
            on_demand: true,
            max_runtime: Some("8h".to_owned()),
            max_usd: Some(20.0),
            idle: Some("2h".to_owned()),
            checkpoint_dir: Some("/data/checkpoints".to_owned()),
            inputs: vec![("s3://datasets/a=b/".to_owned(), "/data/images".to_owned())],
            ..CommandJob::default()
        };
        insta::assert_snapshot!(job.to_document(), @r#"
        name = "train"
        command = "python train.py --note 'a b'\\''s'"
        owner = "ada@example.com"
        setup = "pip install -r requirements.txt"
        shell = "sh"
        container = "ubuntu@sha256:0000000000000000000000000000000000000000000000000000000000000000"
        retries = 2

        [env]
        "WANDB_MODE" = "offline"

        [gpu]
        count = 1
        types = ["g5.xlarge"]

        [spot]
        enabled = false

        [limits]
        max_runtime = "8h"
        max_usd = 20.0
        idle = "2h"

        [checkpoint]
        dir = "/data/checkpoints"

        [[inputs]]
        from = "s3://datasets/a=b/"
        to = "/data/images"
        "#);
        let spec = read(&job);
        assert_eq!((spec.name.as_str(), spec.work.command.as_str()), ("train", "python train.py --note 'a b'\\''s'"));
        assert_eq!(spec.terms.max_runtime_seconds, 8 * 3_600);
        assert_eq!(spec.work.idle_max.map(|idle| idle.as_hours()), Some(2));
    }

    #[test]
    fn a_key_comes_from_an_option() {
        for (key, option) in [
            ("limits.max_runtime", Some("--max-runtime")),
            ("limits.idle", Some("--idle")),
            ("gpu.types[0]", Some("--gpu")),
            ("inputs[0].from", Some("--input")),
            ("env.1A", Some("--env")),
            ("tags.Project", None),
            ("", None),
        ] {
            assert_eq!(option_of_key(key), option, "{key}");
        }
    }

    #[test]
    fn one_word_is_a_line_of_shell() {
        assert_eq!(shell_line(&words(&["cd src && python a.py | tee log"])), "cd src && python a.py | tee log");
        assert_eq!(shell_line(&words(&["echo", "", "$HOME", "a=b"])), "echo '' '$HOME' a=b");
        assert_eq!(shell_line(&words(&["A=1", "b"])), "'A=1' b");
    }

    #[test]
    fn a_job_is_named_after_its_script() {
        let check = |line: &[&str], expect: &str| assert_eq!(name_of_command(&words(line)), expect, "{line:?}");
        check(&["python", "-m", "torch.distributed.run", "src/train_gpt.py"], "torch.distributed");
        check(&["python", "src/train_gpt.py", "--config", "x.yaml"], "train_gpt");
        check(&["cd src && python fine tune.py"], "tune");
        check(&["nvidia-smi"], "nvidia-smi");
        check(&["./run"], "run");
        check(&["--", "&&"], "run");
        check(&["größe.py"], "gr--e");
        check(&[], "run");
    }

    proptest! {
        /// The shell gets exactly the words that a person typed. They are never part of the document's own syntax.
        #[test]
        fn every_command_survives(command in prop::collection::vec("[^\0]{0,20}", 2..5), value in "[^\0]{0,20}") {
            let job = CommandJob { words: command.clone(), env: vec![("A".to_owned(), value.clone())], gpus: 1, ..CommandJob::default() };
            let spec = read(&job);
            prop_assert_eq!(&spec.work.command, &shell_line(&command));
            prop_assert_eq!(&spec.work.env["A"], &value);
        }
    }
}
