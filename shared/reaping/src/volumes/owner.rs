//! The owner of a volume, by its own tags; else, key by key, by those of the instance that it is attached to, or was last seen on; else by those of
//! the snapshot that it was created from.

use std::collections::BTreeMap;

use model::config::Config;
use model::curfew_tags::begins_with_curfew;
use model::id::ResourceId;
use model::instance::Tags;
use model::notification_log::NotificationLogs;
use model::ownership::value_of;
use model::volume::{Volume, VolumeHost, VolumeState};

use super::VolumeCase;

/// The keys by which the account knows team and owner, and those that it requires.
fn keys(config: &Config) -> impl Iterator<Item = &String> {
    config.tags.required.iter().chain([&config.tags.team, &config.tags.owner])
}

fn is_any_missing(tags: &Tags, config: &Config) -> bool {
    keys(config).any(|key| value_of(tags, key).is_none())
}

/// `true` if the owner of a volume may be known only by the snapshot that it was created from.
#[must_use]
pub fn wants_its_source(volume: &Volume, config: &Config) -> bool {
    volume.is_unattached() && is_any_missing(&volume.tags, config)
}

/// `true` if a run may report, change or remember something about a volume, so that its details have to be kept. They are not needed for a volume
/// that is in use on a running instance, and names its owner itself.
#[must_use]
pub fn is_of_interest(
    volume: &Volume,
    hosts: &BTreeMap<ResourceId, VolumeHost>,
    memory: &NotificationLogs,
    config: &Config,
) -> bool {
    let host = || volume.attached_to.iter().find_map(|id| hosts.get(id));
    let tells_owner = |host: &VolumeHost| keys(config).any(|key| value_of(&host.tags, key).is_some());
    let log = memory.get(&volume.region);
    // What is about to be attached must not lose what it is attached to.
    volume.state != VolumeState::InUse
        || volume.tags.keys().any(|key| begins_with_curfew(key))
        || host().is_some_and(|host| host.stopped || is_any_missing(&volume.tags, config) && tells_owner(host))
        || log.is_some_and(|log| log.record(&volume.id).is_some())
}

impl<'a> VolumeCase<'a> {
    /// The known values of the account's keys.
    pub(super) fn tags_of_owner(self) -> Tags {
        let Self { view, volume, log, .. } = self;
        let config = &view.policy.config;
        let remembered = || self.last_seen_on().and_then(|host| log.hosts.get(host));
        let host = || self.host.map(|host| &host.tags).or_else(remembered);
        let source = || view.sources.get(volume.from_snapshot.as_ref()?);
        let value = |key: &String| {
            let from_tags = |tags: Option<&'a Tags>| value_of(tags?, key);
            from_tags(Some(&volume.tags)).or_else(|| from_tags(host())).or_else(|| from_tags(source()))
        };
        keys(config).filter_map(|key| Some((key.clone(), value(key)?.to_owned()))).collect()
    }

    /// The instance that it is attached to, or was last seen on.
    pub(super) fn last_seen_on(self) -> Option<&'a ResourceId> {
        self.volume.attached_to.first().or_else(|| self.record?.last_host.as_ref())
    }

    /// The host to remember, with its owner tags; `None` if the volume's own tags say everything, or no host is known.
    pub(super) fn last_host(self) -> Option<(ResourceId, Tags)> {
        let config = &self.view.policy.config;
        if !is_any_missing(&self.volume.tags, config) {
            return None;
        }
        let id = self.last_seen_on()?;
        let tags = self.host.map(|host| &host.tags).or_else(|| self.log.hosts.get(id))?;
        let owner_tags: Tags =
            keys(config).filter_map(|key| Some((key.clone(), value_of(tags, key)?.to_owned()))).collect();
        (!owner_tags.is_empty()).then(|| (id.clone(), owner_tags))
    }
}
