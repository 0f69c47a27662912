//! A job on several machines: `gpu.nodes` and `[network]`.

use super::*;
use crate::efa::EfaChoice;
use crate::{NetworkSpec, Placement};

fn network(rest: &str) -> Option<NetworkSpec> {
    read(&format!("{LEAST}{rest}")).terms.network
}

#[test]
fn several_machines_have_a_network_and_one_has_none() {
    let of_gang = |efa, placement| Some(NetworkSpec { efa, placement });
    assert_eq!(network("[gpu]\nnodes = 2"), of_gang(EfaChoice::Auto, None));
    assert_eq!(network("[gpu]\nnodes = 32\n[network]\nefa = \"auto\""), of_gang(EfaChoice::Auto, None));
    let chosen = "[gpu]\nnodes = 4\n[network]\nefa = \"required\"\nplacement = \"cluster\"";
    assert_eq!(network(chosen), of_gang(EfaChoice::Required, Some(Placement::Cluster)));
    let none = "[gpu]\nnodes = 4\n[network]\nefa = \"off\"\nplacement = \"none\"";
    assert_eq!(network(none), of_gang(EfaChoice::Off, Some(Placement::None)));
    let four = read(&format!("{LEAST}[gpu]\nnodes = 4\ncount = 8")).terms;
    assert!(four.is_gang() && (four.gpu.nodes, four.gpu.count) == (4, 8));
    for alone in ["[gpu]\nnodes = 1", "[network]", ""] {
        let terms = read(&format!("{LEAST}{alone}")).terms;
        assert!(!terms.is_gang() && terms.network.is_none(), "{alone}");
        assert_eq!(terms, read(LEAST).terms);
    }
}

#[test]
fn the_terms_of_one_machine_are_written_as_before() {
    let alone = serde_json::to_string(&read(LEAST).terms).unwrap();
    assert!(!alone.contains("nodes") && !alone.contains("network"), "{alone}");
    assert_eq!(serde_json::from_str::<JobTerms>(&alone).unwrap(), read(LEAST).terms);
    let four = read(&format!("{LEAST}[gpu]\nnodes = 4")).terms;
    let written = serde_json::to_string(&four).unwrap();
    assert!(written.contains("\"nodes\":4") && written.contains("\"network\":{\"efa\":\"auto\"}"), "{written}");
    assert_eq!(serde_json::from_str::<JobTerms>(&written).unwrap(), four);
}

#[test]
fn a_wrong_number_and_a_wrong_word_are_refused() {
    for number in ["0", "33"] {
        check_key("gpu.nodes", number, "1 to 32");
    }
    for number in ["-1", "256", "2.5", "\"2\""] {
        assert!(read_by("", &format!("{LEAST}[gpu]\nnodes = {number}")).is_err(), "{number}");
    }
    check(
        "[gpu]\nnodes = 2\n[network]\nefa = \"yes\"\nplacement = \"spread\"",
        &[
            "6 network.efa: \"yes\" is none of `auto`, `required`, `off`",
            "7 network.placement: \"spread\" is none of `cluster`, `none`",
        ],
    );
}

#[test]
fn a_key_of_another_kind_of_job_is_refused() {
    let alone = "it is for a job on several machines; write `gpu.nodes`, or leave it out";
    check(
        "[network]\nefa = \"auto\"\nplacement = \"none\"",
        &[&format!("4 network.efa: {alone}"), &format!("5 network.placement: {alone}")],
    );
    check("[gpu]\nnodes = 1\n[network]\nefa = \"off\"", &[&format!("6 network.efa: {alone}")]);
    let idle = "it is not there for a job on several machines, whose nodes wait for each other; leave it out";
    check("[gpu]\nnodes = 2\n[limits]\nidle = \"1h\"", &[&format!("6 limits.idle: {idle}")]);
    let gpu_box = "owner = \"ada@example.com\"\n[gpu]\nnodes = 2\n[box]\n\
                   public_key = \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9rY1X8yVqKq0f3l2nq5l3q5l3q5l3q5l3q5l3q5l3q\"\n";
    check_by("", gpu_box, &["3 gpu.nodes: a box is one machine; leave it out"]);
}

#[test]
fn the_ceiling_of_gpus_counts_all_machines() {
    let config = "[jobs]\ngpus_max = 8";
    let gpus = |nodes: u32, count: u32| format!("{LEAST}[gpu]\nnodes = {nodes}\ncount = {count}");
    assert!(read_by(config, &gpus(4, 2)).is_ok());
    let of = "of the configuration is 8";
    check_by(
        config,
        &gpus(4, 4),
        &[&format!("4 gpu.nodes: 16 GPUs on 4 machines are too many: `[jobs] gpus_max` {of}")],
    );
    // One machine has too many already.
    check_by(
        config,
        &gpus(2, 16),
        &[&format!("5 gpu.count: 32 GPUs on 2 machines are too many: `[jobs] gpus_max` {of}")],
    );
    check_by(
        config,
        &gpus(1, 16),
        &[&format!("5 gpu.count: 16 GPUs on one machine are too many: `[jobs] gpus_max` {of}")],
    );
}
