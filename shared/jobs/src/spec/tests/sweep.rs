//! `[sweep]`: its members, and each mistake in its place.

use super::*;
use crate::Sweep;
use crate::parameter_sweep::{describe_parameters, member_document};

const SWEEP: &str =
    "[limits]\nmax_usd = 10\n[sweep]\nlr = [1e-4, 3.0E-4, 0x10, true, \"a b\"]\nseed = \"1..3\"\nmax_parallel = 0x4\n";

fn read_member(text: &str, number: u32) -> JobSpec {
    read(&String::from_utf8(member_document(text.as_bytes(), number)).unwrap())
}

#[test]
fn values_stay_as_they_are_written_and_each_member_finds_its_own() {
    let text = format!("{LEAST}{SWEEP}");
    let spec = read(&text);
    let plan = spec.sweep.clone().unwrap();
    assert_eq!((plan.members(), plan.max_parallel, spec.name.as_str()), (15, Some(4), "llama-ft"));
    let at = |number| describe_parameters(&plan.parameters_of(number));
    assert_eq!(
        [at(1), at(5), at(7), at(12), at(15)],
        ["lr=1e-4, seed=1", "lr=3.0E-4, seed=2", "lr=0x10, seed=1", "lr=true, seed=3", "lr=a b, seed=3"]
    );
    assert!(spec.work.env.is_empty());
    let member = read_member(&text, 5);
    assert_eq!((member.name.as_str(), &member.sweep), ("llama-ft-0005", &None));
    assert_eq!((member.work.env["SWEEP_LR"].as_str(), member.work.env["SWEEP_SEED"].as_str()), ("3.0E-4", "2"));
    assert_eq!(member.terms, spec.terms, "each member has the terms of the sweep");
    let document = member_document(text.as_bytes(), 5);
    let accepted = JobSpec::accepted(std::str::from_utf8(&document).unwrap(), &Config::default()).unwrap();
    assert_eq!(accepted.0, member.work, "so its agent reads them");
    assert_eq!(JobSpec::read_name(&document, "llama-ft"), Some(member.name));
}

#[test]
fn all_members_together_cost_no_more_than_the_budget() {
    let spec = read(&format!("{LEAST}{SWEEP}"));
    let (share, total) = (spec.terms.max_usd.unwrap(), spec.sweep.unwrap().max_usd.unwrap());
    assert_eq!((share.usd_micros(), total.usd_micros()), (666_666, 10_000_000));
    check(
        "[limits]\nmax_usd = 0.000002\n[sweep]\na = [1, 2, 3]\n",
        &["4 limits.max_usd: nothing is left of it for each member of the sweep; write more"],
    );
}

#[test]
fn members_begin_the_same_whoever_begins_them() {
    let spec = read(&format!("{LEAST}after = [\"a-0123abcd\"]\n{SWEEP}"));
    let id = crate::JobId::read("vision/llama-ft-1a2b3c4d").unwrap();
    let sweep = Sweep {
        sweep: id,
        owner: spec.owner,
        terms: spec.terms,
        after: spec.work.after,
        plan: spec.sweep.unwrap(),
        submitted_at: now(),
    };
    let read: Sweep = serde_json::from_str(&serde_json::to_string(&sweep).unwrap()).unwrap();
    let members = |sweep: &Sweep| sweep.numbers().map(|number| sweep.member(number)).collect::<Vec<_>>();
    assert_eq!(members(&read), members(&sweep));
    let fifth = sweep.member(5);
    assert_eq!(
        (fifth.job.job.as_str(), fifth.awaits_turn(), fifth.sweep_id()),
        ("llama-ft-0005-1a2b3c4d", Some(4), Some(sweep.sweep.clone()))
    );
    assert_eq!((sweep.member(4).awaits_turn(), fifth.waits_for), (None, vec!["a-0123abcd".to_owned()]));
}

#[test]
fn each_mistake_of_a_sweep_has_its_line() {
    check("[sweep]\n", &["3 sweep: it has 0 parameters; write 1 to 8"]);
    let example = "write a list such as `[1e-4, 3e-4]`, or a range of whole numbers such as `\"1..5\"`";
    check("sweep = 3\n", &[&format!("3 sweep: it is not a table; {example} for each parameter")]);
    check(
        "env = { SWEEP_B = \"x\" }\n[sweep]\nLR = [1]\nb = [1, 1]\nc = 3\nd = \"5..1\"\ne = []\nf = [1, [2], \"\\u0000\"]\ncombine = \"all\"\nmax_parallel = 0\n",
        &[
            "5 sweep.LR: the name of a parameter is 1 to 32 lower-case letters, digits and `_`, and begins with a letter",
            "6 sweep.b: the document sets its variable, SWEEP_B, itself; leave one of them out",
            "6 sweep.b[1]: \"1\" stands here twice",
            &format!("7 sweep.c: it is one value; {example}"),
            &format!("8 sweep.d: \"5..1\" is not a range of up to 1000 whole numbers; {example}"),
            &format!("9 sweep.e: it has no value; {example}"),
            "10 sweep.f[1]: write a number, a text, true or false",
            "10 sweep.f[2]: it has a NUL character (U+0000), which no program can be handed; leave it out",
            "11 sweep.combine: write `\"product\"` or `\"zip\"`",
            "12 sweep.max_parallel: write a whole number from 1 to 1000",
        ],
    );
    check(
        "[sweep]\na = [1, 2, 3]\nb = [1, 2]\ncombine = \"zip\"\n",
        &["5 sweep.b: it has 2 values, and `a` has 3; with `combine = \"zip\"` each has as many"],
    );
    check("[sweep]\na = \"1..40\"\nb = \"1..40\"\n", &["3 sweep: it has 1600 members; 1000 are the most"]);
    check(
        "[sweep]\na = \"1..1001\"\n",
        &[&format!("4 sweep.a: \"1..1001\" is not a range of up to 1000 whole numbers; {example}")],
    );
    check("member = 1\n", &["3 member: there is no [sweep] that it could be a member of; leave it out"]);
    check("member = 3\n[sweep]\na = [1, 2]\n", &["3 member: 3 is out of range; write a whole number from 1 to 2"]);
    let long = "x".repeat(59);
    let found = refusals("", &format!("{LEAST}name = \"{long}\"\n[sweep]\na = [1]\n"));
    assert!(found[0].starts_with("3 name: its members would have no valid name: a name is 1 to 63"), "{found:?}");
}

#[test]
fn the_document_of_each_member_fits() {
    let padding = JobSpec::BYTES_MAX - LEAST.len() - "[sweep]\na = [1, 2]\n#\n".len();
    let refusals_with =
        |less: usize| refusals_of(&format!("{LEAST}[sweep]\na = [1, 2]\n#{}\n", "x".repeat(padding - less)));
    assert!(refusals_with(32).is_empty(), "{:?}", refusals_with(32));
    assert!(refusals_with(0)[0].contains("bytes"), "{:?}", refusals_with(0));
}

fn refusals_of(text: &str) -> Vec<String> {
    read_by("", text).err().into_iter().flatten().map(|mistake| mistake.problem).collect()
}
