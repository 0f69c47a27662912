//! A gang for the tests beside each rule.

use jiff::Timestamp;

use super::*;
use crate::JobId;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_796_000_000 + seconds).unwrap()
}

pub(super) fn gang(nodes: Node) -> GangLaunch {
    let job = JobId { team: "a/b".into(), job: "c-0123abcd".to_owned() };
    GangLaunch { job, attempt: 2, launch: "0123456789abcdef".to_owned(), nodes }
}

pub(super) fn member(node: Node) -> GangMember {
    GangMember {
        instance: format!("i-{node}").as_str().into(),
        address: [10, 0, 1, 10 + node].into(),
        interface: "ens5".to_owned(),
        gpus: 4,
        efa_cards: 1,
    }
}
