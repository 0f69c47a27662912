//! Keys of other tools, and Curfew's word for each.

use model::document::PROBLEM_CHARACTERS_MAX;
use model::fault::shortened;
use toml::de::DeTable;

use crate::SpecMistake;

/// Keys of `SkyPilot` ("Task YAML"), dstack (".dstack.yml reference"), Slurm (`sbatch`), Kubernetes and AWS Batch.
const FOREIGN_KEYS: [(&[&str], &str); 17] = [
    (
        &["num_nodes", "node_count", "nnodes", "ntasks"],
        "write `[gpu]` with `nodes = 2` for two machines that run the command together; `count` is the GPUs of each",
    ),
    (&["accelerators", "accelerator"], "write `[gpu]` with `name = \"A10G\"` and `count = 1`"),
    (&["gpus", "gres", "gpus_per_node"], "write `[gpu]` with `count = 1`"),
    (&["resources"], "write `[gpu]` for the GPUs, `[spot]` for how they are bought, and `[machine]` for the rest"),
    (
        &["use_spot", "spot_policy", "capacity_type"],
        "write `[spot]` with `enabled = true`, which is the default, or `false`",
    ),
    (
        &["job_recovery", "max_restarts_on_errors", "retry", "max_retries"],
        "write `retries = 1`; a lost machine is replaced without it",
    ),
    (&["instance_type", "instance_types"], "write `[gpu]` with `types = [\"g5.xlarge\"]`"),
    (&["max_price", "max_hourly_cost"], "write `[limits]` with `max_usd_per_hour = 2.5`"),
    (&["region", "zone", "cloud", "infra", "backends"], "write `[machine]` with `regions = [\"us-east-1\"]`"),
    (&["image_id", "image", "docker_image"], "write `container = \"IMAGE\"`, or `[machine]` with `ami = \"ami-…\"`"),
    (&["disk_size", "disk", "disk_tier"], "write `[machine]` with `root_volume_gib = 200`"),
    (&["time", "timeout", "time_limit", "walltime", "max_duration"], "write `[limits]` with `max_runtime = \"8h\"`"),
    (&["run", "commands", "script", "entrypoint"], "write `command = \"python train.py\"`"),
    (&["envs", "environment"], "write `[env]`"),
    (
        &["file_mounts", "mounts", "volumes", "storage"],
        "write `[[inputs]]` with `from = \"s3://BUCKET/PREFIX/\"` and `to = \"/data\"`",
    ),
    (&["depends_on", "dependency", "dependencies"], "write `after = [\"NAME-1a2b3c4d\"]`"),
    (&["working_dir", "workdir_path"], "pass `--workdir DIRECTORY` to `curfew submit`"),
];

/// So many keys of a document in another language are translated.
const TRANSLATED_MAX: usize = 6;

fn own_word(key: &str) -> Option<&'static str> {
    FOREIGN_KEYS.into_iter().find(|(keys, _)| keys.contains(&key)).map(|(_, word)| word)
}

/// An unknown key that another tool has gets Curfew's word for it.
pub(super) fn translate(mistake: SpecMistake) -> SpecMistake {
    let key = mistake.key.rsplit('.').next().unwrap_or_default();
    match own_word(key).filter(|_| mistake.problem.starts_with("there is no key")) {
        Some(word) => SpecMistake { problem: format!("there is no key `{key}`: {word}"), ..mistake },
        None => mistake,
    }
}

/// The one mistake of a document in YAML, at the first line that shows it.
pub(super) fn find_yaml(text: &str) -> Option<SpecMistake> {
    let lines = || text.lines().zip(1..).filter(|(line, _)| !is_blank(line));
    let (first, line) = lines().next()?;
    let is_yaml = first.trim_end() == "---" || yaml_key(first).is_some();
    if !is_yaml || DeTable::parse(text).is_ok() {
        return None;
    }
    let mut translated: Vec<(&str, &str)> = Vec::new();
    for (key, word) in lines().filter_map(|(line, _)| yaml_key(line)).filter_map(|key| Some((key, own_word(key)?))) {
        if !translated.iter().any(|(_, known)| *known == word) {
            translated.push((key, word));
        }
    }
    let words: Vec<String> =
        translated.iter().take(TRANSLATED_MAX).map(|(key, word)| format!(". For `{key}`: {word}")).collect();
    let words = words.concat();
    let problem = format!(
        "the document is YAML, and a job is described in TOML, such as `command = \"python train.py\"` and `[gpu]` with `count = 1`{words}"
    );
    Some(SpecMistake { line, key: String::new(), problem: shortened(&problem, PROBLEM_CHARACTERS_MAX) })
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// The key of a line such as `  - name: value`.
fn yaml_key(line: &str) -> Option<&str> {
    let (key, value) = line.trim_start().trim_start_matches("- ").split_once(':')?;
    let is_word = !key.is_empty() && key.bytes().all(|one| one.is_ascii_alphanumeric() || matches!(one, b'_' | b'-'));
    (is_word && (value.is_empty() || value.starts_with([' ', '\t', '\r']))).then_some(key)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use model::config::Config;
    use model::fixture::{NOW, time};

    use crate::JobSpec;

    fn check(text: &str) -> String {
        let config = Config::read("[tags]\nrequired = []").unwrap();
        let found = JobSpec::read(text, "x", None, &config, &"us-east-1".into(), time(NOW)).unwrap_err();
        found.iter().map(|one| format!("{} {}: {}", one.line, one.key, one.problem)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn keys_of_other_tools_get_our_word() {
        assert_snapshot!(check("command = \"a\"\nnum_nodes = 2\nuse_spot = true\n[resources]\naccelerators = \"A100:8\"\n[gpu]\naccelerators = 1\n"), @r#"
        2 num_nodes: there is no key `num_nodes`: write `[gpu]` with `nodes = 2` for two machines that run the command together; `count` is the GPUs of each
        3 use_spot: there is no key `use_spot`: write `[spot]` with `enabled = true`, which is the default, or `false`
        4 resources: there is no key `resources`: write `[gpu]` for the GPUs, `[spot]` for how they are bought, and `[machine]` for the rest
        7 gpu.accelerators: there is no key `accelerators`: write `[gpu]` with `name = "A10G"` and `count = 1`
        "#);
    }

    #[test]
    fn yaml_is_one_mistake_with_our_words() {
        assert_snapshot!(check("# a task\nresources:\n  accelerators: A10G:1\n  use_spot: true\nnum_nodes: 2\nrun: |\n  python train.py\n"), @r#"2 : the document is YAML, and a job is described in TOML, such as `command = "python train.py"` and `[gpu]` with `count = 1`. For `resources`: write `[gpu]` for the GPUs, `[spot]` for how they are bought, and `[machine]` for the rest. For `accelerators`: write `[gpu]` with `name = "A10G"` and `count = 1`. For `use_spot`: write `[spot]` with `enabled = true`, which is the default, or `false`. For `num_nodes`: write `[gpu]` with `nodes = 2` for two machines that run the command together; `count` is the GPUs of each. For `run`: write `command = "python train.py"`"#);
        assert_snapshot!(check("---\ntype: task\ncommands:\n  - python train.py\n"), @r#"1 : the document is YAML, and a job is described in TOML, such as `command = "python train.py"` and `[gpu]` with `count = 1`. For `commands`: write `command = "python train.py"`"#);
        // TOML that is wrong is no YAML.
        assert_snapshot!(check("command = a: b\n"), @"1 command: string values must be quoted, expected literal string");
    }
}
