//! Lists, page by page.

use ::jobs::TriggerState;
use ::jobs::backlog::Backlog;
use ::jobs::trigger::TriggerObject;

use super::*;

/// A page as S3 gives it: keys that were encoded, and whether more follow.
fn page(keys: &[&str], is_truncated: bool) -> &'static str {
    let contents: String = keys
        .iter()
        .map(|key| match key.strip_suffix('/') {
            Some(_) => format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>"),
            None => {
                format!("<Contents><Key>{key}</Key><LastModified>2026-11-22T05:00:00.000Z</LastModified></Contents>")
            }
        })
        .collect();
    // No two pages have the same token.
    let next = keys.last().filter(|_| is_truncated);
    let token =
        next.map(|key| format!("<NextContinuationToken>after-{key}</NextContinuationToken>")).unwrap_or_default();
    format!(
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{is_truncated}</IsTruncated>{token}{contents}\
         </ListBucketResult>"
    )
    .leak()
}

/// What a list of a team's folder gives, and where it stopped; and the first line of each request.
async fn list(pages: Vec<&'static str>, after: Option<&str>) -> (String, Option<String>, Vec<String>) {
    let (store, served) = server(pages.into_iter().map(|page| (200, page)).collect());
    let part = store.list_team_part(Backlog::Active, "active/v/", after).await.unwrap();
    let keys = part.items.iter().map(|item| item.key.as_str()).collect::<Vec<_>>().join(" ");
    let requests = served.join().unwrap();
    (keys, part.stopped_at, requests.iter().map(|request| request.lines().next().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn a_folder_is_listed_to_its_end() {
    let (keys, stopped_at, requests) = list(vec![page(&["a", "b"], true), page(&["c"], false)], None).await;
    assert_eq!((keys.as_str(), stopped_at), ("a b c", None));
    assert!(requests.iter().all(|request| request.contains("encoding-type=url")), "{requests:?}");
}

#[tokio::test]
async fn a_list_after_a_key_wraps_to_the_first_one() {
    let (keys, stopped_at, requests) = list(vec![page(&["c"], false), page(&["a", "b", "c"], true)], Some("b")).await;
    assert_eq!((keys.as_str(), stopped_at), ("c a b", None));
    assert!(requests[0].contains("start-after=b") && !requests[1].contains("start-after"), "{requests:?}");
}

#[tokio::test]
async fn a_list_that_is_too_long_says_where_it_stopped() {
    let pages = ["a", "b", "c", "d", "e"].map(|key| page(&[key], true)).to_vec();
    let (keys, stopped_at, _) = list(pages, None).await;
    assert_eq!((keys.as_str(), stopped_at.as_deref()), ("a b c d e", Some("e")));
    let pages = ["x", "y", "z"].map(|key| page(&[key], true)).to_vec();
    let pages = [pages, vec![page(&[], false), page(&["a"], true)]].concat();
    let (keys, stopped_at, _) = list(pages, Some("w")).await;
    assert_eq!((keys.as_str(), stopped_at.as_deref()), ("x y z a", Some("a")));
}

#[tokio::test]
async fn a_list_that_ends_with_its_last_page_begins_anew() {
    let pages = [["x1", "x2", "x3", "x4"].map(|key| page(&[key], true)).to_vec(), vec![page(&["z"], false)]].concat();
    let (_, stopped_at, _) = list(pages, Some("w")).await;
    assert_eq!(stopped_at.as_deref(), Some(""));
    let (keys, stopped_at, requests) = list(vec![page(&["a"], false)], Some("")).await;
    assert_eq!((keys.as_str(), stopped_at), ("a", None));
    assert!(!requests[0].contains("start-after"), "{requests:?}");
}

#[tokio::test]
async fn keys_that_have_no_form_in_xml_are_read_as_they_are() {
    let (keys, ..) = list(vec![page(&["active/v/%01+x%2B", "active/v/K%C3%B6ln", "%zz"], false)], None).await;
    assert_eq!(keys, "%zz active/v/\u{1} x+ active/v/Köln");
}

#[tokio::test]
async fn teams_are_listed_after_the_last_one_whole() {
    let (store, served) =
        server(vec![(200, page(&["active/w/", "active/x"], false)), (200, page(&["active/v/"], false))]);
    let folders = store.list_team_folders(Backlog::Active, Some("active/v/")).await.unwrap();
    assert_eq!((folders.items, folders.stopped_at), (vec!["active/w/".to_owned()], Some(String::new())));
    drop(store.list_team_folders(Backlog::Active, None).await.unwrap());
    let requests = served.join().unwrap();
    assert!(requests[0].contains("start-after=active%2Fv%2F%F4%8F%BF%BF"), "{}", requests[0]);
}

/// A page of 1,000 triggers of the team `a`, and more follow.
fn thousand_triggers(from: u32) -> &'static str {
    let keys: Vec<String> = (from..from + 1_000).map(|number| format!("triggers/a/{number:04}.toml")).collect();
    page(&keys.iter().map(String::as_str).collect::<Vec<_>>(), true)
}

/// All triggers that these pages have, the folders that are cut off, and the key after which each page was listed.
async fn list_triggers(pages: Vec<&'static str>) -> (Vec<TriggerObject>, Vec<String>, Vec<String>) {
    let (store, served) = server(pages.into_iter().map(|page| (200, page)).collect());
    let listing = store.list_triggers().await.unwrap();
    let after = |request: String| {
        let rest = request.split_once("start-after=").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split(['&', ' ']).next().unwrap().to_owned()
    };
    let cut_off = listing.cut_off.into_iter().map(|(team, folder)| {
        assert_eq!(team, Some("a".into()));
        folder
    });
    (listing.triggers, cut_off.collect(), served.join().unwrap().into_iter().map(after).collect())
}

#[tokio::test]
async fn a_folder_with_too_many_triggers_hides_none_of_another_team() {
    let of_b = page(&["triggers/b/x.state.json", "triggers/b/x.toml"], false);
    let (triggers, cut_off, after) = list_triggers(vec![thousand_triggers(0), thousand_triggers(1_000), of_b]).await;
    assert_eq!(triggers.len(), 1_001, "two lists more, and the first 1,000");
    let last = triggers.last().unwrap();
    assert!(last.key == "triggers/b/x.toml" && last.state_written_at.is_some(), "{last:?}");
    assert_eq!(cut_off, ["triggers/a/"]);
    assert_eq!(after, ["", "triggers%2Fa%2F0999.toml", "triggers%2Fa0"]);
}

#[tokio::test]
async fn a_list_of_triggers_of_many_pages_has_all_of_them() {
    let rest = page(&["triggers/b/", "triggers/b/x.toml"], false);
    let (triggers, cut_off, after) = list_triggers(vec![thousand_triggers(0), rest]).await;
    assert_eq!((triggers.len(), cut_off.len()), (1_001, 0), "1,000 are not too many");
    assert_eq!(after, ["", "triggers%2Fa%2F0999.toml"]);
    // A key with `/` at its end is an object here.
    let (triggers, _, after) = list_triggers(vec![page(&["triggers/b/"], true), rest]).await;
    assert_eq!((triggers.len(), after), (1, vec![String::new(), "triggers%2Fb%2F".to_owned()]));
}

#[tokio::test]
async fn the_state_of_another_version_is_not_begun_anew() {
    let read = async |body| {
        let (store, served) = server(vec![(200, body)]);
        let read = store.read_trigger_state("triggers/a/x.toml").await;
        served.join().unwrap();
        read.map(|(state, damage)| (state.value, damage.is_some()))
    };
    assert_eq!(read("{").await, Ok((TriggerState::default(), true)));
    let newer = read(r#"{"schema": 99}"#).await.unwrap_err();
    assert!(matches!(newer, StoreError::UnknownSchema { .. }) && newer.is_of_one_object(), "{newer}");
}
