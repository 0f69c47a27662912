//! The documents that one LIST of a launch's folder shows, as far as they were read. A document is written once, so what was read stays true.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::{
    GangDocument, GangLaunch, GangMember, GangRound, GangStop, Node, NodeEnded, NodeExit, NodeReady, all_nodes,
};

/// The content of a document that the LIST has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum DocumentSight<T> {
    /// Not read yet: nothing follows from it but that it is there.
    #[default]
    Unread,
    /// Read, and no document that a member can have written.
    Unreadable,
    Read(T),
}

impl<T> DocumentSight<T> {
    #[must_use]
    pub const fn read(&self) -> Option<&T> {
        match self {
            Self::Read(document) => Some(document),
            Self::Unread | Self::Unreadable => None,
        }
    }
}

/// A document of the LIST.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listed<T> {
    /// The time at which S3 took it.
    pub at: Timestamp,
    pub content: DocumentSight<T>,
}

/// The documents of a round.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GangRoundListing {
    pub round: Option<Listed<GangRound>>,
    pub ready: BTreeMap<Node, Listed<NodeReady>>,
    pub ended: BTreeMap<Node, Listed<NodeEnded>>,
}

/// The documents of a launch, as one whole LIST has them. A key that is not here is absent; a LIST that failed is no listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GangListing {
    pub members: BTreeMap<Node, Listed<GangMember>>,
    pub beats: BTreeMap<Node, Timestamp>,
    pub rounds: BTreeMap<u32, GangRoundListing>,
    pub stop: Option<Listed<GangStop>>,
    pub exits: BTreeMap<Node, Listed<NodeExit>>,
}

impl GangListing {
    /// The listing of all keys below the folder of a launch, each with the time at which S3 took it. Other keys are left out.
    #[must_use]
    pub fn from_keys<'a>(gang: &GangLaunch, keys: impl IntoIterator<Item = (&'a str, Timestamp)>) -> Self {
        let mut listing = Self::default();
        for (key, at) in keys {
            if let Some(document) = gang.parse(key) {
                listing.add(document, at);
            }
        }
        listing
    }

    /// Adds a document that the LIST has.
    pub fn add(&mut self, document: GangDocument, at: Timestamp) {
        const fn unread<T>(at: Timestamp) -> Listed<T> {
            Listed { at, content: DocumentSight::Unread }
        }
        match document {
            GangDocument::Member(node) => drop(self.members.insert(node, unread(at))),
            GangDocument::Beat(node) => drop(self.beats.insert(node, at)),
            GangDocument::Exit(node) => drop(self.exits.insert(node, unread(at))),
            GangDocument::Stop => self.stop = Some(unread(at)),
            GangDocument::Round(round) => self.rounds.entry(round).or_default().round = Some(unread(at)),
            GangDocument::Ready { round, node } => {
                self.rounds.entry(round).or_default().ready.insert(node, unread(at));
            }
            GangDocument::Ended { round, node } => {
                self.rounds.entry(round).or_default().ended.insert(node, unread(at));
            }
        }
    }

    /// Takes over the content of documents that an earlier listing has read.
    pub fn take_known(&mut self, known: &Self) {
        fn take<K: Ord, T: Clone>(listed: &mut BTreeMap<K, Listed<T>>, known: &BTreeMap<K, Listed<T>>) {
            for (key, before) in known {
                take_one(listed.get_mut(key), Some(before));
            }
        }
        fn take_one<T: Clone>(listed: Option<&mut Listed<T>>, known: Option<&Listed<T>>) {
            if let (Some(listed), Some(known)) = (listed, known)
                && listed.at == known.at
            {
                listed.content.clone_from(&known.content);
            }
        }
        take(&mut self.members, &known.members);
        take(&mut self.exits, &known.exits);
        take_one(self.stop.as_mut(), known.stop.as_ref());
        for (number, before) in &known.rounds {
            let Some(round) = self.rounds.get_mut(number) else { continue };
            take_one(round.round.as_mut(), before.round.as_ref());
            take(&mut round.ready, &before.ready);
            take(&mut round.ended, &before.ended);
        }
    }

    /// The documents whose content a decision may need. Heartbeats are never read for one.
    #[must_use]
    pub fn unread(&self) -> Vec<GangDocument> {
        fn unread<K: Copy, T>(listed: &BTreeMap<K, Listed<T>>) -> impl Iterator<Item = K> {
            let is_unread = |one: &Listed<T>| matches!(one.content, DocumentSight::Unread);
            listed.iter().filter(move |(_, one)| is_unread(one)).map(|(key, _)| *key)
        }
        let is_unread = |stop: &&Listed<GangStop>| matches!(stop.content, DocumentSight::Unread);
        let stop = self.stop.iter().filter(is_unread).map(|_| GangDocument::Stop);
        let rounds = self.rounds.iter().flat_map(|(round, listing)| {
            let round = *round;
            let is_unread = |one: &&Listed<GangRound>| matches!(one.content, DocumentSight::Unread);
            let own = listing.round.iter().filter(is_unread).map(move |_| GangDocument::Round(round));
            own.chain(unread(&listing.ready).map(move |node| GangDocument::Ready { round, node }))
                .chain(unread(&listing.ended).map(move |node| GangDocument::Ended { round, node }))
        });
        let members = unread(&self.members).map(GangDocument::Member);
        stop.chain(members).chain(rounds).chain(unread(&self.exits).map(GangDocument::Exit)).collect()
    }

    /// Adds the text of a document that the LIST has; `None`: it is too large, or no text. What is no document of its kind, or does not pass its check,
    /// is unreadable.
    pub fn put(&mut self, gang: &GangLaunch, document: GangDocument, text: Option<&str>) {
        fn fill<T: DeserializeOwned>(
            listed: Option<&mut Listed<T>>,
            text: Option<&str>,
            check: impl FnOnce(T) -> Option<T>,
        ) {
            if let Some(listed) = listed {
                let content = text.and_then(|text| serde_json::from_str(text).ok()).and_then(check);
                listed.content = content.map_or(DocumentSight::Unreadable, DocumentSight::Read);
            }
        }
        match document {
            GangDocument::Beat(_) => {}
            GangDocument::Member(node) => {
                fill(self.members.get_mut(&node), text, |member| member.check().is_ok().then_some(member));
            }
            GangDocument::Exit(node) => fill(self.exits.get_mut(&node), text, |exit| Some(exit.shown())),
            GangDocument::Stop => {
                fill(self.stop.as_mut(), text, |stop| stop.check(gang.nodes).is_ok().then(|| stop.shown()));
            }
            GangDocument::Round(number) => {
                let listed = self.rounds.get_mut(&number).and_then(|round| round.round.as_mut());
                fill(listed, text, |round| round.check(number, gang.nodes, gang.attempt).is_ok().then_some(round));
            }
            GangDocument::Ready { round, node } => {
                let listed = self.rounds.get_mut(&round).and_then(|round| round.ready.get_mut(&node));
                fill(listed, text, |ready| Some(ready.shown()));
            }
            GangDocument::Ended { round, node } => {
                fill(self.rounds.get_mut(&round).and_then(|round| round.ended.get_mut(&node)), text, Some);
            }
        }
    }

    /// The heartbeat by which the whole gang is judged, by S3's clock: the oldest of the nodes that have not ended. `None` until each of them has sent
    /// one.
    #[must_use]
    pub fn oldest_sign(&self, nodes: Node) -> Option<Timestamp> {
        let left: Vec<Node> = all_nodes(nodes).filter(|node| !self.exits.contains_key(node)).collect();
        if left.is_empty() {
            return self.exits.values().map(|exit| exit.at).max();
        }
        left.iter().map(|node| self.beats.get(node).copied()).min().flatten()
    }

    /// The last sign of life of a node, by S3's clock.
    pub(super) fn last_sign(&self, node: Node) -> Option<Timestamp> {
        let joined = self.members.get(&node).map(|member| member.at);
        joined.max(self.beats.get(&node).copied())
    }

    /// The latest round that any member has made.
    pub(super) fn latest_round(&self) -> Option<(u32, &GangRoundListing)> {
        self.rounds.iter().rev().find(|(_, listing)| listing.round.is_some()).map(|(round, listing)| (*round, listing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::StopCause;
    use crate::node_gang::tests::{at, gang, member};

    #[test]
    fn what_a_check_refuses_is_unreadable_and_not_absent() {
        let gang = gang(2);
        let keys = [GangDocument::Stop, GangDocument::Member(1), GangDocument::Beat(1), GangDocument::Round(0)];
        let keys: Vec<String> = keys.iter().map(|document| gang.key(*document)).collect();
        let foreign = format!("{}member/2.json", gang.folder());
        let all = keys.iter().chain([&foreign]).map(|key| (key.as_str(), at(0)));
        let mut listing = GangListing::from_keys(&gang, all);
        assert_eq!(listing.unread(), [GangDocument::Stop, GangDocument::Member(1), GangDocument::Round(0)]);
        let stop = GangStop { cause: StopCause::Lost, node: 2, until: at(0), why: String::new() };
        listing.put(&gang, GangDocument::Stop, Some(&serde_json::to_string(&stop).unwrap()));
        listing.put(&gang, GangDocument::Member(1), Some(&serde_json::to_string(&member(1)).unwrap()));
        listing.put(&gang, GangDocument::Round(0), None);
        assert!(matches!(&listing.stop, Some(Listed { content: DocumentSight::Unreadable, .. })));
        assert_eq!(listing.members[&1].content.read(), Some(&member(1)));
        assert_eq!((listing.unread().len(), listing.members.len()), (0, 1));
        let again = keys.iter().map(|key| (key.as_str(), at(i64::from(key.ends_with("stop.json")))));
        let mut again = GangListing::from_keys(&gang, again);
        again.take_known(&listing);
        assert_eq!(again.unread(), [GangDocument::Stop]);
    }

    #[test]
    fn the_oldest_heartbeat_counts_and_a_missing_one_is_none() {
        let gang = gang(3);
        let listing = |documents: &[(GangDocument, i64)]| {
            let keys: Vec<(String, i64)> = documents.iter().map(|(one, time)| (gang.key(*one), *time)).collect();
            GangListing::from_keys(&gang, keys.iter().map(|(key, time)| (key.as_str(), at(*time)))).oldest_sign(3)
        };
        let (beat, exit) = (GangDocument::Beat, GangDocument::Exit);
        assert_eq!(listing(&[(beat(0), 9), (beat(1), 5), (beat(2), 7)]), Some(at(5)));
        assert_eq!(listing(&[(beat(0), 9), (beat(2), 7)]), None);
        assert_eq!(listing(&[(beat(0), 9), (beat(1), 5), (beat(2), 7), (exit(1), 6)]), Some(at(7)));
        assert_eq!(listing(&[(exit(0), 3), (exit(1), 6), (exit(2), 4)]), Some(at(6)));
    }
}
