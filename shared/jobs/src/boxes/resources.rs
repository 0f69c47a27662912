//! How the volumes and snapshots of a home are made and found again: tokens, descriptions, tags.

use jiff::Timestamp;
use model::config::Config;
use model::curfew_tags::BOX;
use model::digest::sha256_hex;
use model::instance::Tags;
use model::moment::after;

use super::{GpuBox, HomeState};

/// After a box has been down for so long, `reap-volumes` takes its volume for an orphan: it announces it, and deletes it with a snapshot.
const UNUSED_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_hours(30 * 24);

/// Characters of a token; EC2 takes 64 (EC2 API reference, "Ensuring idempotency").
const TOKEN_CHARACTERS: usize = 40;

impl GpuBox {
    /// The token by which the volume of that number is made: a repeat makes no second one. A box that is made again under the same name has others.
    #[must_use]
    pub fn volume_token(&self, number: u32) -> String {
        let of = format!("{} {} {number}", self.name, self.made_at);
        sha256_hex(of.as_bytes()).chars().take(TOKEN_CHARACTERS).collect()
    }

    /// The description of a snapshot that holds this state of the home.
    #[must_use]
    pub fn describe_snapshot(&self, of: HomeState) -> String {
        format!("{}{}.{}", self.description_begins(), of.volume, of.uses)
    }

    /// The state that a snapshot with this description holds; `None` if it is none of this box.
    #[must_use]
    pub fn read_description(&self, description: &str) -> Option<HomeState> {
        let (volume, uses) = description.strip_prefix(&self.description_begins())?.split_once('.')?;
        let of = HomeState { volume: volume.parse().ok()?, uses: uses.parse().ok()? };
        (self.describe_snapshot(of) == description).then_some(of)
    }

    fn description_begins(&self) -> String {
        format!("Home of the box {} of {}, state ", self.name, self.made_at)
    }

    /// The tags of its volumes and snapshots.
    #[must_use]
    pub fn tags(&self, config: &Config) -> Tags {
        let (team, name) = self.name.rsplit_once('/').unwrap_or(("", &self.name));
        let mut tags = Tags::from([
            (config.tags.team.clone(), team.to_owned()),
            ("Name".to_owned(), name.to_owned()),
            (BOX.to_owned(), self.name.clone()),
        ]);
        if let Some(owner) = &self.owner {
            tags.entry(config.tags.owner.clone()).or_insert_with(|| owner.clone());
        }
        tags
    }

    /// The time until which its volume is kept from `reap-volumes`, after it went down `now`.
    #[must_use]
    pub fn kept_until(now: Timestamp) -> Timestamp {
        after(now, UNUSED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boxes::Home;

    fn gpu_box(name: &str) -> GpuBox {
        GpuBox {
            name: name.to_owned(),
            owner: Some("ada".to_owned()),
            region: "us-east-1".into(),
            made_at: Timestamp::UNIX_EPOCH,
            holder: None,
            last_job: None,
            down_since: None,
            home: Home::new(200),
        }
    }

    #[test]
    fn a_snapshot_says_which_state_of_which_box_it_holds() {
        let (own, other) = (gpu_box("vision/my-box"), gpu_box("vision/my-box2"));
        let state = HomeState { volume: 2, uses: 7 };
        let description = own.describe_snapshot(state);
        assert_eq!(description, "Home of the box vision/my-box of 1970-01-01T00:00:00Z, state 2.7");
        assert_eq!((own.read_description(&description), other.read_description(&description)), (Some(state), None));
        for forged in ["state 2.7", &format!("{description}0x"), &description.replace("2.7", "02.7")] {
            assert_eq!(own.read_description(forged), None, "{forged}");
        }
    }

    #[test]
    fn each_volume_has_a_token_of_its_own() {
        let (own, later) = (gpu_box("vision/my-box"), GpuBox { made_at: Timestamp::MAX, ..gpu_box("vision/my-box") });
        let tokens = [own.volume_token(1), own.volume_token(2), later.volume_token(1)];
        assert!(tokens.iter().all(|token| token.len() == TOKEN_CHARACTERS));
        assert!(tokens[0] != tokens[1] && tokens[0] != tokens[2] && own.volume_token(1) == tokens[0]);
    }
}
