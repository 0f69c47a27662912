//! Where a job may not run, and where its data may not come from.

use super::*;

#[test]
fn the_machine() {
    check_key("machine.ami", "\"ubuntu\"", "\"ubuntu\" is not the id of an image, such as `ami-0123456789abcdef0`");
    check_key("machine.subnets", "[\"sg-0123abcd\"]", "is not the id of a subnet");
    check_key("machine.security_groups", "[\"sg-0123ABCD\"]", "is not the id of a security group");
    check_key("machine.regions", "[\"frankfurt\"]", "does not look like a region");
    check_key(
        "machine.regions",
        "[\"us-east-9\"]",
        "there is no region us-east-9; did you mean us-east-1 or us-east-2?",
    );
    check_key("machine.user", "\"Ada\"", "is not a user name");
    check_key(
        "machine.instance_profile",
        "\"admin\"",
        "it allows none; leave it out for the role that Curfew gives the team's machines",
    );
    let allows = "[teams.vision]\ninstance_profiles = [\"training\", \"data\"]";
    check_by(
        allows,
        &format!("{LEAST}[machine]\ninstance_profile = \"admin\""),
        &[
            "4 machine.instance_profile: instance_profiles of [teams.vision] in the configuration does not allow \"admin\"; it allows \
             training, data; leave it out for the role that Curfew gives the team's machines",
        ],
    );
}

#[test]
fn a_folder_of_no_configured_team() {
    let by = |team: &str, config: &str| {
        JobSpec::read(LEAST, "x", Some(&team.into()), &Config::read(config).unwrap(), &"us-east-1".into(), now())
    };
    let refused = by("visoin", "[teams.vision]").unwrap_err();
    let SpecMistake { line, key, problem } = &refused[0];
    assert_eq!((refused.len(), *line, key.as_str()), (1, 0, ""));
    assert!(
        problem.starts_with("the configuration has no [teams.visoin], and only its teams have jobs: vision."),
        "{problem}"
    );
    assert!(by("vision", "[teams.vision]").is_ok() && by("visoin", "").is_ok());
}

#[test]
fn a_profile_of_another_team() {
    let text = format!("{LEAST}[machine]\ninstance_profile = \"training\"");
    let config = Config::read("[teams.nlp]\ninstance_profiles = [\"training\"]\n[teams.vision]").unwrap();
    let by = |team: &str| JobSpec::read(&text, "x", Some(&team.into()), &config, &"us-east-1".into(), now());
    assert!(by("nlp").is_ok());
    let refused = by("vision").unwrap_err();
    assert!(
        refused[0].problem.contains("[teams.vision] in the configuration does not allow \"training\""),
        "{refused:?}"
    );
    assert!(JobSpec::read(&text, "x", None, &config, &"us-east-1".into(), now()).is_err());
}

#[test]
fn what_is_of_one_region_excludes_several() {
    let several = "it belongs to one region, and `regions` names several; leave it out, or name one region";
    check(
        "[machine]\nregions = [\"us-east-1\", \"us-west-2\"]\nami = \"ami-0123abcd\"\nsubnets = [\"subnet-0123abcd\"]\n\
         security_groups = [\"sg-0123abcd\"]",
        &[
            &format!("5 machine.ami: {several}"),
            &format!("6 machine.subnets: {several}"),
            "6 machine.subnets[0]: subnets of [teams.vision] in the configuration does not allow \"subnet-0123abcd\"; it allows none; leave it \
             out for the default network",
            &format!("7 machine.security_groups: {several}"),
            "7 machine.security_groups[0]: security_groups of [teams.vision] in the configuration does not allow \"sg-0123abcd\"; it allows \
             none; leave it out for the default network",
        ],
    );
    check_by(
        "regions = [\"us-east-1\"]",
        &format!("{LEAST}[machine]\nregions = [\"us-west-2\"]"),
        &[
            "4 machine.regions[0]: Curfew does not cover us-west-2, so it could terminate nothing there; it covers us-east-1",
        ],
    );
}

#[test]
fn money_that_would_not_count_checkpoints_to_another_region() {
    let job = |limits: &str, checkpoint: &str, region: &str| {
        format!(
            "{LEAST}[limits]\n{limits}\n[checkpoint]\n{checkpoint}\n[machine]\nregions = [\"us-east-1\", \"{region}\"]\n"
        )
    };
    check_by(
        "",
        &job("max_usd = 10", "", "us-west-2"),
        &[
            "5 checkpoint.size_gb: it is missing, and `limits.max_usd` counts what checkpoints cost from us-west-2 to the bucket in us-east-1; \
             write how large one is in GB, such as `size_gb = 20`",
        ],
    );
    // Only that it is no number is said of one that is there.
    assert_eq!(refusals("", &job("max_usd = 10", "size_gb = \"20\"", "us-west-2")).len(), 1);
    let sized = read(&job("max_usd = 10", "size_gb = 20", "us-west-2"));
    assert_eq!(sized.terms.checkpoint.unwrap().size_gb, Some(20));
    read(&job("", "", "us-west-2"));
    read(&job("max_usd = 10", "", "eu-west-1").replace("[checkpoint]", ""));
    read(&job("max_usd = 10", "", "us-west-2").replace(", \"us-west-2\"", ""));
}

#[test]
fn what_is_no_table_or_too_large() {
    check(
        "gpu = []\nspot = 3\ncheckpoint = true",
        &[
            "3 gpu: write a table of keys and values, not a list",
            "4 spot: write a table of keys and values, not 3",
            "5 checkpoint: write a table of keys and values, not true",
        ],
    );
    let large = "#".repeat(65_536);
    check_by("", &format!("{large}\n"), &["1 the whole document: the document has 65537 bytes; 65536 are the most"]);
    let items: Vec<String> = (0..101).map(|number| format!("\"/o/{number}\"")).collect();
    check_key("machine.outputs", &format!("[{}]", items.join(",")), "101 of them; write 100 at most");
}

#[test]
fn what_is_no_text() {
    let read = |bytes: &[u8]| JobSpec::read_bytes(bytes, "x", None, &Config::default(), &"us-east-1".into(), now());
    assert!(read(LEAST.as_bytes()).is_ok());
    let refused = read(b"owner = \"a\"\ncommand = \"\xff\"").unwrap_err();
    assert!(refused.len() == 1 && refused[0].line == 2 && refused[0].problem.contains("no UTF-8"), "{refused:?}");
}

#[test]
fn an_input_is_an_address_and_a_directory_of_its_own() {
    let check = |more: &str, expect: &[&str]| {
        let text = format!("owner = \"a\"\ncommand = \"b\"\n{more}");
        if expect.is_empty() {
            return drop(read(&text));
        }
        let found = refusals("", &text);
        assert_eq!(found.len(), expect.len(), "{found:#?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.contains(expect), "{found}");
        }
    };
    let input = |from: &str, to: &str| format!("[[inputs]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    let data = input("s3://datasets/vision/", "/data");
    check(&data, &[]);
    check(&format!("{data}mode = \"mount\"\n{}", input("s3://other", "/home/ubuntu/other")), &[]);
    check(&format!("{data}mode = \"copy\"\n"), &["3 inputs[0]: `mode`: \"copy\" is none of `fetch`, `mount`"]);
    check("[[inputs]]\nfrom = \"s3://datasets\"\n", &["inputs[0]: write `from`, such as"]);
    check(&input("datasets", "/data"), &["inputs[0]: `from`: \"datasets\" does not begin with `s3://`"]);
    check(&input("s3://datasets", "/etc/data"), &["inputs[0]: `to`: \"/etc/data\" belongs to the system"]);
    check(&input("s3://datasets", "data"), &["inputs[0]: `to`: \"data\" is not an absolute path"]);
    check(
        &format!("{data}{}", input("s3://b-2", "/data/more")),
        &["6 inputs[1]: `to`: \"/data/more\" overlaps another input, \"/data\""],
    );
    check(
        &format!("{data}[checkpoint]\ndir = \"/data/checkpoints\"\n"),
        &["overlaps checkpoint.dir, \"/data/checkpoints\""],
    );
    check(
        &format!("{}[checkpoint]\n", input("s3://datasets", "/var/curfew")),
        &["overlaps checkpoint.dir, \"/var/curfew/checkpoints\""],
    );
    check(&format!("{data}[machine]\noutputs = [\"/data\"]\n"), &["overlaps an output, \"/data\""]);
    check("[inputs]\nfrom = 1\n", &["inputs: write a list"]);
    check(
        "[[inputs]]\nform = \"s3://datasets\"\n",
        &["inputs[0].form: there is no key `form` here; did you mean `from`?"],
    );
    let many: String = (0..17).map(|number| input("s3://datasets", &format!("/data/{number}"))).collect();
    check(&many, &["inputs: 17 of them; write 16 at most"]);
}

#[test]
fn a_job_on_several_machines_leaves_room_for_a_group_of_its_own() {
    let refused = |nodes: u8| {
        let groups = (1..=5).map(|number| format!("\"sg-0123abc{number}\"")).collect::<Vec<_>>().join(", ");
        let text = format!("{LEAST}[gpu]\nnodes = {nodes}\n[machine]\nsecurity_groups = [{groups}]");
        let refused = read_by("", &text).err().unwrap_or_default();
        refused.iter().any(|one| one.problem.contains("may name 4, because Curfew adds one"))
    };
    assert!(refused(2) && !refused(1));
}
