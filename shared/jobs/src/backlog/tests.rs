use std::collections::BTreeSet;

use jiff::SignedDuration;
use model::fixture::{NOW, time};
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Object {
    key: String,
    since: Timestamp,
}

impl QueueItem for Object {
    fn key(&self) -> &str {
        &self.key
    }

    fn since(&self) -> Timestamp {
        self.since
    }
}

fn object(key: &str, minutes: i64) -> Object {
    Object { key: key.to_owned(), since: time(NOW) + SignedDuration::from_mins(minutes) }
}

/// Objects by key and age: `b5` is called `b` and was written five minutes after `NOW`.
fn queue(objects: &[(&str, i64)]) -> BacklogQueue<Object> {
    BacklogQueue::whole(objects.iter().map(|(key, minutes)| object(key, *minutes)).collect())
}

fn shares(queues: &[(&str, BacklogQueue<Object>)], team_max: usize, total_max: usize) -> QueueShares<Object> {
    let queues = queues.iter().map(|(folder, queue)| ((*folder).to_owned(), queue.clone())).collect();
    take_shares(queues, ShareLimits { team_max, total_max }, Timestamp::UNIX_EPOCH)
}

fn keys(shares: &QueueShares<Object>) -> String {
    shares.taken.iter().map(|object| object.key.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn folders_within_the_limits_are_taken_whole_oldest_first_and_round_robin() {
    let all = shares(&[("v/", queue(&[("v1", 3), ("v2", 1), ("v3", 2)])), ("w/", queue(&[("w1", 9)]))], 3, 9);
    assert_eq!(keys(&all), "v2 w1 v3 v1");
    assert!(all.left.is_empty() && all.bookmarks.is_empty());
}

#[test]
fn a_large_folder_is_taken_by_age_and_by_name() {
    let one = queue(&[("a", 9), ("b", 8), ("c", 7), ("d", 1), ("e", 0)]);
    let all = shares(&[("v/", one)], 4, 9);
    assert_eq!(keys(&all), "e d b a");
    assert_eq!(all.left, [("v/".to_owned(), 1)].into());
    assert_eq!(all.bookmarks, [("v/".to_owned(), "b".to_owned())].into(), "the oldest are met again anyway");
}

#[test]
fn a_stopped_list_continues_there() {
    let one = BacklogQueue { stopped_at: Some("z".to_owned()), ..queue(&[("a", 0)]) };
    assert_eq!(shares(&[("v/", one)], 4, 9).bookmarks, [("v/".to_owned(), "z".to_owned())].into());
}

#[test]
fn a_run_resumes_after_the_bookmark_and_then_from_the_beginning() {
    let check = |bookmark: &str, expect: [&str; 3]| {
        let queue = queue(&[("a", 0), ("b", 0), ("c", 0)]).resume(Some(bookmark.to_owned()));
        assert_eq!(queue.waiting.iter().map(QueueItem::key).collect::<Vec<_>>(), expect, "{bookmark}");
    };
    check("a", ["b", "c", "a"]);
    check("bb", ["c", "a", "b"]);
    check("c", ["a", "b", "c"]);
    check("", ["a", "b", "c"]);
}

#[test]
fn only_a_folder_beyond_the_limits_has_a_bookmark() {
    let admits = |team_max, total_max| {
        let queues = [("v/".to_owned(), queue(&[("a", 0), ("b", 0)])), ("w/".to_owned(), queue(&[("c", 0)]))].into();
        ShareLimits { team_max, total_max }.admit(&queues)
    };
    assert!(admits(2, 3) && !admits(1, 3) && !admits(2, 2));
}

#[test]
fn a_large_team_gets_what_the_others_leave() {
    let check =
        |demands: &[usize], total, expect: &[usize]| assert_eq!(allot(demands, total, 0), expect, "{demands:?}");
    check(&[1_000, 3, 0, 20], 500, &[477, 3, 0, 20]);
    check(&[1_000, 1_000, 7], 10, &[4, 3, 3]);
    check(&[1, 1, 1], 2, &[1, 1, 0]);
    check(&[], 5, &[]);
    assert_eq!(allot(&[1, 1, 1], 2, 1), [1, 0, 1], "a minute later");
}

const LISTED_MAX: usize = 5;
const LIMITS: ShareLimits = ShareLimits { team_max: 4, total_max: 6 };

/// One run over folders that lists a part of each. It finishes everything that it takes, except for objects that it cannot handle.
fn run(
    folders: &mut BTreeMap<String, BTreeMap<String, Object>>,
    bookmarks: &mut BTreeMap<String, String>,
    is_stuck: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Vec<String> {
    let list = |(folder, objects): (&String, &BTreeMap<String, Object>)| {
        let bookmark = bookmarks.get(folder).cloned();
        let is_after = |key: &&String| bookmark.as_ref().is_none_or(|bookmark| *key > bookmark);
        let in_order = objects.keys().filter(is_after).chain(objects.keys().filter(|key| !is_after(key)));
        let listed: Vec<&String> = in_order.take(LISTED_MAX).collect();
        let stopped_at = listed.last().filter(|_| listed.len() < objects.len()).map(|last| (*last).clone());
        let waiting = listed.into_iter().map(|key| objects[key].clone()).collect();
        (folder.clone(), BacklogQueue { waiting, bookmark, stopped_at })
    };
    let shares = take_shares(folders.iter().map(list).collect(), LIMITS, now);
    *bookmarks = shares.bookmarks;
    for objects in folders.values_mut() {
        objects.retain(|key, _| is_stuck(key) || shares.taken.iter().all(|taken| taken.key != *key));
    }
    shares.taken.into_iter().map(|taken| taken.key).collect()
}

proptest! {
    /// For any content of another team's folder, and any own objects that no run can handle.
    #[test]
    fn every_object_is_reached(
        sizes in proptest::collection::vec(0_usize..30, 1..4),
        stuck in 1_usize..5,
        ages in proptest::collection::vec(-1_000_i64..0, 120),
    ) {
        let mut ages = ages.into_iter();
        let mut folders: BTreeMap<String, BTreeMap<String, Object>> = sizes.iter().enumerate().map(|(team, size)| {
            let objects = (0..*size).map(|number| object(&format!("{team}/{number:02}"), ages.next().unwrap_or(0)));
            (team.to_string(), objects.map(|object| (object.key.clone(), object)).collect())
        }).collect();
        let mut waiting: BTreeSet<String> = folders.values().flat_map(BTreeMap::keys).cloned().collect();
        folders.insert("flood".to_owned(), BTreeMap::new());
        let mut bookmarks = BTreeMap::new();
        let is_stuck = |key: &str| key.ends_with(|last: char| last.to_digit(10).is_some_and(|digit| digit as usize % 5 < stuck));
        // A quarter of the total for each of four teams, one half of it by age, so one in a run at least; and two rounds.
        let runs_max = 2 * sizes.iter().max().unwrap_or(&0) + 2;
        for minute in 0..runs_max {
            let flood = folders.entry("flood".to_owned()).or_default();
            for number in 0..2 * LISTED_MAX {
                let key = format!("flood/{minute:03}-{number}");
                flood.insert(key.clone(), object(&key, -2_000));
            }
            let now = time(NOW) + SignedDuration::from_mins(i64::try_from(minute).unwrap());
            for taken in run(&mut folders, &mut bookmarks, is_stuck, now) {
                waiting.remove(&taken);
            }
        }
        prop_assert!(waiting.is_empty(), "{waiting:?} after {runs_max} runs");
    }

    /// A team with a million objects costs one with a few nothing: what fits the others' equal share is taken at once.
    #[test]
    fn a_small_team_waits_for_no_run(others in proptest::collection::vec(0_usize..1_000_000, 0..9), own in 1_usize..10) {
        let demands: Vec<usize> = others.iter().copied().chain([own]).collect();
        for minute in 0..3 {
            let sizes = allot(&demands, 100, minute);
            prop_assert_eq!(sizes.last(), Some(&own));
            prop_assert!(sizes.iter().sum::<usize>() <= 100);
            prop_assert!(sizes.iter().zip(&demands).all(|(size, demand)| size <= demand));
        }
    }
}
