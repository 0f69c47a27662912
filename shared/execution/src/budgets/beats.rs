//! The beats of what was seen. What a bug is about is left out and named, and a beat without it is not whole: it ends no run.

use billing::ledger::{LedgerBeat, RegionObservation, SageMakerObservation};
use model::fault::Bug;
use model::id::ResourceId;
use model::observation::Gap;

use crate::bugs::or_gap;

pub(super) fn from_look(
    mut look: RegionObservation,
    to_beat: impl Fn(&RegionObservation) -> LedgerBeat,
    gaps: &mut Vec<Gap>,
) -> LedgerBeat {
    Bug::catch(|| to_beat(&look)).unwrap_or_else(|_| {
        let region = look.region.clone();
        let nothing =
            RegionObservation { region: region.clone(), whole: false, instances: Vec::new(), volumes: Vec::new() };
        let mut is_readable =
            |id: &ResourceId, alone: RegionObservation| or_gap((&region, id), gaps, || to_beat(&alone)).is_some();
        look.instances.retain(|one| {
            is_readable(&one.instance.id, RegionObservation { instances: vec![one.clone()], ..nothing.clone() })
        });
        look.volumes.retain(|one| {
            is_readable(&one.volume.id, RegionObservation { volumes: vec![one.clone()], ..nothing.clone() })
        });
        look.whole = false;
        to_beat(&look)
    })
}

pub(super) fn from_bill(
    mut look: SageMakerObservation,
    to_beat: impl Fn(&SageMakerObservation) -> LedgerBeat,
    gaps: &mut Vec<Gap>,
) -> LedgerBeat {
    Bug::catch(|| to_beat(&look)).unwrap_or_else(|_| {
        let nothing = SageMakerObservation { resources: Vec::new(), ..look.clone() };
        look.resources.retain(|one| {
            let alone = SageMakerObservation { resources: vec![one.clone()], ..nothing.clone() };
            or_gap((&nothing.region, &one.id), gaps, || to_beat(&alone)).is_some()
        });
        look.whole = false;
        to_beat(&look)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use billing::ledger::InspectedInstance;
    use model::config::Config;
    use model::fixture::{NOW, instance, time};

    use super::*;

    #[test]
    fn a_beat_without_what_a_bug_hides_ends_no_run() {
        let seen = |id: &str| InspectedInstance { instance: instance().id(id).build(), ended_at: None };
        let look = RegionObservation {
            region: "us-east-1".into(),
            whole: true,
            instances: vec![seen("i-1"), seen("i-2")],
            volumes: Vec::new(),
        };
        let to_beat = |look: &RegionObservation| {
            let price = |one: &InspectedInstance| {
                assert_ne!(one.instance.id.as_str(), "i-1", "planted for a test");
                Vec::new()
            };
            look.to_beat(time(NOW), &Config::default(), price, |_| Vec::new())
        };
        let mut gaps = Vec::new();
        let beat = from_look(look, to_beat, &mut gaps);
        assert!(!beat.whole);
        assert_eq!(
            beat.items.iter().map(|one| one.resource.as_str()).collect::<BTreeSet<_>>(),
            BTreeSet::from(["i-2"])
        );
        assert_eq!(gaps.iter().map(|gap| gap.call.as_str()).collect::<Vec<_>>(), ["judging i-1"]);
    }
}
