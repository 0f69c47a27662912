//! Each mistake, where it is and what is legal.

use super::*;

#[test]
fn every_mistake_at_once() {
    check_by(
        "",
        "name = \"-x\"\ncomand = \"python\"\ncount = 2\n[gpu]\ncount = \"two\"\ntypes = [\"p5\", \"g6.xlarge\", \"g6.xlarge\"]\n\
         [limits]\nmax_runtime = \"soon\"\nfinish_by = \"tomorrow\"\n[checkpont]\ndir = \"ckpt\"\n",
        &[
            "0 command: it is missing: write the command to run, such as `command = \"python train.py\"`",
            "0 owner: this account requires the tag Owner of every GPU instance; write `owner`",
            "1 name: \"-x\": a name is 1 to 63 letters, digits, `-`, `_` and `.`, and begins with a letter or a digit",
            "2 comand: there is no key `comand` here; did you mean `command`?",
            "3 count: there is no key `count` here; `count` belongs to [gpu]",
            "5 gpu.count: write a whole number, 0 or more, not the text \"two\"",
            "6 gpu.types[0]: \"p5\" is a family, and no instance type; it has `p5.4xlarge`, `p5.48xlarge`",
            "6 gpu.types[2]: \"g6.xlarge\" stands here twice",
            "8 limits.max_runtime: `soon` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, \
             `1h30m` or `0s`, ten years at most",
            "9 limits.finish_by: \"tomorrow\" is not a moment; write date, time and offset, such as \
             `2026-12-24T18:00:00+01:00` or `2026-12-24T17:00:00Z`",
            "10 checkpont: there is no key `checkpont` here; did you mean `checkpoint`?",
        ],
    );
}

#[test]
fn a_wrong_key_is_not_also_missing() {
    check_by("", "owner = 1\ncommand = 2", &["1 owner: write a text, not 1", "2 command: write a text, not 2"]);
    check_by("", "owner = \"a\"\ncommand = \"python", &["2 command: invalid basic string, expected `\"`"]);
}

#[test]
fn what_cannot_be_run() {
    check_by("", "owner = \"a\"\ncommand = \" \"", &["2 command: it is empty; write the command to run"]);
    let nul = "it has a NUL character (U+0000), which no program can be handed; leave it out";
    check_by("", "owner = \"a\"\ncommand = \"a\\u0000b\"", &[&format!("2 command: {nul}")]);
    check_key("setup", "\"a\\u0000\"", nul);
    check_key("env", "{ A = \"a\\u0000\" }", nul);
    check_key("shell", "\"fish\"", "\"fish\" is none of `bash`, `dash`, `ksh`, `sh`, `zsh`");
    check_key("shell", "\"/bin/bash\"", "\"/bin/bash\" is none of");
    let digest = "`curfew submit --workdir` writes it: `sha256:` and 64 hexadecimal digits, not \".\"; to bring a directory along, leave the \
                  key out and name the directory by --workdir";
    check_key("workdir", "\".\"", digest);
    check_key("container", "\"ubuntu:24.04\"", "has no digest, and another image may get its tag between two attempts");
    check_key("container", "\"--privileged\"", "names no image");
    check_key("machine.outputs", "[\"/a\\u0000\"]", nul);
}

#[test]
fn a_job_comes_after_jobs_by_their_full_names() {
    for wrong in ["prepare", "vision/prepare-0123abcd", "prepare-0123ABCD", ""] {
        check_key(
            "after",
            &format!("[\"{wrong}\"]"),
            "is not the full name of a job; write it as `curfew jobs --all` shows it",
        );
    }
    check_key("after", "[\"a-0123abcd\", \"a-0123abcd\"]", "stands here twice");
    let many: Vec<String> = (0..17).map(|number| format!("\"a-{number:08x}\"")).collect();
    check_key("after", &format!("[{}]", many.join(", ")), "17 of them; write 16 at most");
    let text = format!("{LEAST}\nafter = [\n  \"a-0123abcd\",\n  \"b-0123abcd\"]\n");
    let found = JobSpec::refuse_after(text.as_bytes(), &[(1, "has failed".to_owned())]);
    let problem =
        "\"b-0123abcd\" has failed, so this job would never begin; name one that is unfinished or has succeeded";
    assert_eq!(found, [SpecMistake { line: 6, key: "after[1]".to_owned(), problem: problem.to_owned() }]);
    assert!(JobSpec::refuse_after(text.as_bytes(), &[]).is_empty());
}

#[test]
fn a_job_resumes_from_a_job_by_its_full_name_and_into_a_directory() {
    check_key(
        "resume_from",
        "\"llama\"\n[checkpoint]",
        "is not the full name of a job; write it as `curfew jobs --all` shows it",
    );
    check_key("resume_from", "\"llama-1a2b3c4d\"", "it needs a section `[checkpoint]`");
    let text = format!("{LEAST}\nresume_from = \"llama-1a2b3c4d\"\n[checkpoint]\n");
    let problem = "\"llama-1a2b3c4d\" is not a job of this team with a complete checkpoint; name one, or leave it out";
    let expect = SpecMistake { line: 4, key: "resume_from".to_owned(), problem: problem.to_owned() };
    assert_eq!(JobSpec::refuse_resume_from(text.as_bytes()), [expect]);
}

#[test]
fn a_file_without_a_good_name_needs_one() {
    let name_from = |file: &str| {
        JobSpec::read(LEAST, file, None, &Config::default(), &"us-east-1".into(), now())
            .map(|spec| spec.name.as_str().to_owned())
    };
    assert_eq!(name_from("inbox/vision/a.b.toml").as_deref(), Ok("a.b"));
    assert_eq!(name_from("./train.toml").as_deref(), Ok("train"));
    for file in ["", ".toml", "my job.toml", "größe.toml"] {
        let refused = name_from(file).unwrap_err();
        assert!(refused[0].key == "name" && refused[0].line == 0, "{refused:?}");
        assert!(refused[0].problem.ends_with("write `name`"), "{refused:?}");
    }
}

#[test]
fn required_tags_come_from_folder_owner_or_tags() {
    let required = "[tags]\nrequired = [\"Team\", \"Owner\", \"project\"]";
    let project =
        "tags.project: this account requires this tag of every GPU instance; write it, with a value, under [tags]";
    check_by(required, LEAST, &[&format!("0 {project}")]);
    check_by(required, &format!("{LEAST}tags = {{ project = \"\" }}"), &[&format!("3 {project}")]);
    assert!(read_by(required, &format!("{LEAST}tags = {{ project = \"p\" }}")).is_ok());
    let by_tag = read_by("", "command = \"x\"\ntags = { Owner = \"ada\" }").unwrap();
    assert_eq!(by_tag.owner.as_deref(), Some("ada"));
    assert_eq!(read_by("[tags]\nrequired = []", "command = \"x\"").unwrap().owner, None);
    check_by(
        "",
        "command = \"x\"\nowner = \" \"",
        &["2 owner: it is empty; write who is notified about the job, or leave it out"],
    );
}

#[test]
fn tags_that_would_say_something_else() {
    check(
        "tags = { Team = \"nlp\" }",
        &["3 tags.Team: the folder that a job is submitted to names the team; leave it out"],
    );
    check("tags = { Owner = \"bob\" }", &["3 tags.Owner: it names another owner than `owner`; leave one of them out"]);
    for key in ["curfew:protected", "Curfew:mode", "curfewed", " curfew:job", "aws:x", "AWS:x", "", "a\\nb"] {
        check_key("tags", &format!("{{ \"{key}\" = \"x\" }}"), "tag");
    }
    check_key(
        "tags",
        "{ \"eks:cluster-name\" = \"x\" }",
        "Curfew would take the machine for that of EKS, and never stop it",
    );
    check_by(
        "[managed]\ntag_keys = [\"spacelift\"]",
        &format!("{LEAST}[tags]\nspacelift = \"\""),
        &[
            "4 tags.spacelift: with this tag Curfew would take the machine for that of the controller of the tag spacelift, and never \
         stop it; use another name",
        ],
    );
    check_key("tags", "{ a = \"x\\ny\" }", "no line breaks");
    check_key("tags", &format!("{{ a = \"{}\" }}", "x".repeat(257)), "256 characters at most, not 257");
}

#[test]
fn tags_are_counted_with_those_that_come_by_themselves() {
    let tags = |count: usize| (0..count).map(|number| format!("t{number} = \"\"")).collect::<Vec<_>>().join("\n");
    read(&format!("{LEAST}[tags]\n{}", tags(42)));
    check(
        &format!("[tags]\n{}", tags(43)),
        &["3 tags: with Curfew's own they are 51; a resource has 50 at most, so leave 1 out"],
    );
    read(&format!("{LEAST}[tags]\nName = \"x\"\n{}", tags(42)));
}

#[test]
fn variables_and_secrets() {
    for name in ["1A", "A-B", "", "A B", "É", "CURFEW_JOB"] {
        check_key("env", &format!("{{ \"{name}\" = \"x\" }}"), "variable");
    }
    let arn = |arn: &str| format!("{{ TOKEN = \"{arn}\" }}");
    for legal in [
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:team/hf-AbCdEf",
        "arn:aws-us-gov:ssm:us-gov-west-1:123456789012:parameter/team/hf",
    ] {
        read(&format!("{LEAST}secrets = {}", arn(legal)));
    }
    for wrong in [
        "hf_abcdefghijklmnop",
        "arn:aws:s3:::bucket/key",
        "arn:aws:ssm:us-east-1:123456789012:document/x",
        "arn:aws:secretsmanager:us-east-1:12345:secret:x",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:x:password::",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-token",
        "arn:aws:ssm::123456789012:parameter/x",
    ] {
        check_key("secrets", &arn(wrong), "never the secret itself");
    }
    let rest = "env = { A = \"x\" }\nsecrets = { A = \"arn:aws:ssm:us-east-1:123456789012:parameter/a\" }";
    check(rest, &["4 secrets.A: `env` has this variable as well; leave one of them out"]);
}

#[test]
fn numbers_out_of_range() {
    check_key("gpu.count", "17", "write a whole number from 0 to 16");
    check_key("gpu.count", "-1", "write a whole number, 0 or more, not -1");
    check_key("gpu.count", "1.5", "write a whole number, 0 or more, not 1.5");
    check_key("gpu.memory_gib_min", "1025", "write a whole number from 0 to 1024");
    check_key("checkpoint.keep", "0", "write a whole number from 1 to 500");
    check_key("retries", "11", "write a whole number from 0 to 10");
    check_key("machine.architecture", "\"aarch64\"", "\"aarch64\" is none of `x86_64`, `arm64`");
    check_key("machine.root_volume_gib", "0", "write a whole number from 1 to 65536");
    for key in ["spot.max_usd_per_hour", "limits.max_usd"] {
        for wrong in ["0", "-1", "nan", "0.0000001"] {
            check_key(key, wrong, "write USD, a number above 0");
        }
        check_key(key, "inf", "write 1000000000 at most");
        check_key(key, "\"5\"", "write a number, not the text \"5\"");
    }
}

#[test]
fn durations_that_are_none() {
    check_key(
        "limits.max_runtime",
        "\"14m59s\"",
        "14m59s is too short; a machine has to boot first: write 15m or more",
    );
    check_key("limits.max_runtime", "\"0s\"", "0s is too short");
    check_key("spot.fallback_to_on_demand_after", "\"0s\"", "0s is too short");
    check_key("checkpoint.every", "\"0s\"", "0s is too short");
    for idle in ["0s", "4m59s", "1w1s"] {
        check_key("limits.idle", &format!("{idle:?}"), "is not possible; write 5m to 7d, or leave it out");
    }
    check_key("checkpoint.every", "900", "write a duration such as `30m`, not 900");
    assert_eq!(read(&format!("{LEAST}[limits]\nmax_runtime = \"15m\"")).terms.max_runtime_seconds, 900);
    check_by(
        "[lifetime]\nmax = \"0s\"",
        LEAST,
        &[
            "0 limits.max_runtime: it is missing, and [lifetime] max of the configuration, 0s, is too short: write 15m or more",
        ],
    );
}

#[test]
fn a_moment_has_an_offset_and_is_to_come() {
    for legal in ["\"2026-11-22T06:00:00+00:30\"", "2026-11-22T06:00:00Z", "\"2026-11-22T05:15:00Z\""] {
        assert!(read(&format!("{LEAST}[limits]\nfinish_by = {legal}")).terms.finish_by.is_some());
    }
    for none in ["\"2026-12-24\"", "2026-12-24", "2026-12-24T18:00:00", "18:00:00", "\"2026-12-24T18:00:00\""] {
        check_key("limits.finish_by", none, "is not a moment; write date, time and offset");
    }
    check_key("limits.finish_by", "2026-11-22T05:00:00Z", "is in the past (it is 2026-11-22T05:00:00Z)");
    check_key("limits.finish_by", "2026-11-22T05:14:59Z", "a machine has to boot first; leave it 15m or more");
    check_key("limits.finish_by", "3", "write a moment such as `2026-12-24T18:00:00+01:00`, not 3");
    check_key("limits.finish_by", "{ a = 1 }", "write a moment such as `2026-12-24T18:00:00+01:00`");
}

#[test]
fn a_deadline_decides_only_with_all_that_it_needs() {
    let terms = |rest: &str| read(&format!("{LEAST}{rest}")).terms;
    let decides = terms("[limits]\nwithin = \"52h\"\nestimated_runtime = \"48h\"\n[checkpoint]\ntotal_steps = 1000");
    assert!(decides.deadline_decides() && !terms("[limits]\nwithin = \"52h\"").deadline_decides());
    assert_eq!(decides.finish_by.map(|at| at.to_string()).as_deref(), Some("2026-11-24T09:00:00Z"));
    assert_eq!(decides.checkpoint.and_then(|checkpoint| checkpoint.total_steps), Some(1_000));
    let check = |rest: &str, expect: &str| check_by("", &format!("owner = \"a\"\ncommand = \"x\"\n{rest}"), &[expect]);
    check(
        "limits.within = \"14m\"",
        "3 limits.within: 14m is too short; a machine has to boot first: write 15m or more",
    );
    check(
        "[limits]\nwithin = \"1h\"\nfinish_by = 2026-12-24T18:00:00Z",
        "4 limits.within: `finish_by` says the same in another way; leave one of them out",
    );
    check(
        "limits.estimated_runtime = \"1h\"",
        "3 limits.estimated_runtime: it has no meaning without a deadline; write `finish_by` or `within` beside it",
    );
    let within = "limits.within = \"52h\"\nlimits.estimated_runtime = ";
    check(
        &format!("{within}\"48h\"\nspot.enabled = false"),
        "4 limits.estimated_runtime: it lets the deadline decide between Spot and on-demand, and `spot.enabled` is false; leave it out",
    );
    check(
        &format!("{within}\"48h\"\nspot.fallback_to_on_demand_after = \"2h\""),
        "5 spot.fallback_to_on_demand_after: `limits.estimated_runtime` lets the deadline decide this; leave one of them out",
    );
    check(
        &format!("{within}\"8d\""),
        "4 limits.estimated_runtime: it is longer than `max_runtime`, 7d; write a longer `max_runtime`",
    );
    check(
        &format!("{within}\"0s\""),
        "4 limits.estimated_runtime: 0s is too short; write how long the job takes on a machine that is never lost",
    );
}

#[test]
fn a_directory_is_absolute() {
    for (dir, words) in [
        ("ckpt", "is not an absolute path"),
        ("~/ckpt", "is not an absolute"),
        ("//", "`/` itself"),
        ("/a/../b", "`..`"),
    ] {
        check_key("checkpoint.dir", &format!("\"{dir}\""), words);
        check_key("machine.outputs", &format!("[\"{dir}\"]"), words);
    }
    let system_dirs = ["/tmp", "/var/", "/etc/curfew", "/usr//./", "/lib64/a", "/usr/bin", "/usr/lib/a", "/usr/local/"];
    let below =
        ["/var/lib", "/var/./log/", "/var/cache", "/var/run", "/run/systemd/a", "/home/ubuntu", "/home/ubuntu/"];
    for dir in system_dirs.iter().chain(&below) {
        check_key("checkpoint.dir", &format!("\"{dir}\""), "belongs to the system");
    }
    let accepted = |dir: &str| {
        let text = format!("command = \"a\"\n[checkpoint]\ndir = \"{dir}\"\n");
        JobSpec::accepted(&text, &Config::default()).map(|(_, checkpoint)| checkpoint.unwrap().dir)
    };
    assert_eq!(accepted("/tmp").as_deref(), Ok("/tmp"));
    assert!(accepted("tmp").is_err());
    let own = [
        "/checkpoints",
        "/tmp/ckpt",
        "/usr/local/ckpt",
        "/dev/shm/ckpt",
        "/home/ubuntu/ckpt",
        "/var/lib/ckpt",
        "/run/ckpt",
    ];
    for dir in own {
        read(&format!("{LEAST}[checkpoint]\ndir = \"{dir}\""));
    }
}

#[test]
fn signals_that_no_program_hears() {
    check_key("checkpoint.signal", "\"TERM\"", "did you mean `SIGTERM`?");
    check_key("checkpoint.signal", "\"sigusr1\"", "did you mean `SIGUSR1`?");
    check_key("checkpoint.signal", "\"SIGKILL\"", "no program can catch it");
    check_key("checkpoint.signal", "\"15\"", "is none of `SIGTERM`, `SIGINT`");
}
