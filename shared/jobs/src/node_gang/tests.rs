//! A gang for the tests beside each rule.

use jiff::Timestamp;

use super::*;
use crate::JobId;
use crate::checkpoints::{Manifest, ManifestFile};

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

/// The part of a node of step 40, with the path and the digest of each file.
pub(super) fn manifest(node: Node, files: &[(&str, &str)]) -> NodeManifest {
    let file = |(path, digest): &(&str, &str)| {
        let (path, sha256) = ((*path).to_owned(), vec![(*digest).to_owned()]);
        ManifestFile { path, bytes: 1, part_bytes: 1, sha256 }
    };
    let files: Vec<ManifestFile> = files.iter().map(file).collect();
    let part = Manifest { attempt: 2, step: 40, bytes: files.len() as u64, files, ..Manifest::default() };
    NodeManifest { node, nodes: 2, processes: 1, launch: gang(2).launch, part, ..NodeManifest::default() }
}
