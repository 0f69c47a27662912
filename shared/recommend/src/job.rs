//! A job document for the best places, as `curfew submit` takes it.

use std::fmt::Write as _;

use jiff::SignedDuration;
use jobs::Lifecycle;
use model::document::quoted;
use model::duration::format_exact_duration;

use crate::RankedPlace;

/// So many types are named: with one alone, a zone without capacity stops the job.
const TYPES_MAX: usize = 3;

/// No attempt is shorter (`limits.max_runtime` of a job).
const RUNTIME_MIN_SECONDS: u64 = 15 * 60;

/// Settings of a job document, except the place where the job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDraft<'a> {
    /// Purpose of the document, for a comment in it.
    pub purpose: &'a str,
    pub command: &'a str,
    pub owner: Option<&'a str>,
    /// GPUs that the program uses.
    pub gpus: u32,
    /// `true` if the job may run on Spot.
    pub on_spot: bool,
}

impl JobDraft<'_> {
    /// The document, for the first places of a ranking that have a price and that no quota refuses; `None` if there is none. All its types
    /// are of the region of the best place.
    #[must_use]
    pub fn to_document<F>(&self, places: &[RankedPlace<F>]) -> Option<String> {
        let mut usable =
            places.iter().filter(|place| place.usd_per_hour.is_some() && !place.quota.is_refused()).peekable();
        let best = *usable.peek()?;
        let at_most = |place: &RankedPlace<F>| place.run.and_then(|run| run.most_seconds);
        let mut types: Vec<&str> = Vec::new();
        let mut lacks: Vec<String> = Vec::new();
        let mut longest = None;
        for place in usable.filter(|place| place.region == best.region && place.used_gpus == self.gpus) {
            let name = place.instance_type.as_str();
            // The limit of the best one would end the job on a type whose time is unknown.
            let fits_limit = at_most(best).is_none() || at_most(place).is_some();
            if types.len() < TYPES_MAX && fits_limit && !types.contains(&name) {
                types.push(name);
                lacks.extend(place.describe_lacks());
                longest = longest.max(at_most(place));
            }
        }
        let types: Vec<String> = types.into_iter().map(quoted).collect();
        let mut text = String::new();
        let _ = writeln!(text, "# {}", self.purpose.replace(|letter: char| letter.is_control(), " "));
        lacks.dedup();
        for line in lacks {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "command = {}", quoted(self.command));
        if let Some(owner) = self.owner {
            let _ = writeln!(text, "owner = {}", quoted(owner));
        }
        let _ = writeln!(text, "\n[gpu]\ncount = {}\ntypes = [{}]", self.gpus, types.join(", "));
        let _ = writeln!(text, "\n[spot]\nenabled = {}", self.on_spot && best.has_spot_in_region(places));
        if let Some(most) = longest {
            let seconds = most.max(RUNTIME_MIN_SECONDS);
            // Whole minutes: the document is for people.
            let seconds = i64::try_from(seconds.div_ceil(60).saturating_mul(60)).unwrap_or(i64::MAX);
            let length = format_exact_duration(SignedDuration::from_secs(seconds));
            let _ = writeln!(text, "\n[limits]\nmax_runtime = {}", quoted(&length));
        }
        let _ = writeln!(text, "\n[machine]\nregions = [{}]", quoted(best.region.as_str()));
        Some(text)
    }
}

impl<F> RankedPlace<F> {
    /// Returns `true` if the ranking has a place on Spot in its region.
    fn has_spot_in_region(&self, places: &[Self]) -> bool {
        places.iter().any(|place| place.lifecycle == Lifecycle::Spot && place.region == self.region)
    }
}

#[cfg(test)]
mod tests {
    use billing::price::PriceBook;
    use jobs::JobSpec;
    use model::config::Config;
    use model::fixture::time;

    use super::*;
    use crate::{
        AccountQuotas, FittingGpus, GpuFeature, InterruptionHistory, PlacementFacts, PlacementRequest, RunDuration,
        rank_places, tabled_offers,
    };

    fn places(seconds: u64, lifecycles: Vec<Lifecycle>) -> Vec<RankedPlace<()>> {
        places_for(RunDuration::Seconds(seconds), lifecycles)
    }

    fn places_for(duration: RunDuration, lifecycles: Vec<Lifecycle>) -> Vec<RankedPlace<()>> {
        let (prices, quotas, interruptions) =
            (PriceBook::dated(), AccountQuotas::default(), InterruptionHistory::new());
        let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
        let request = PlacementRequest {
            architecture: "x86_64".to_owned(),
            lifecycles,
            duration,
            data: None,
            features: Vec::new(),
            rank_by: crate::RankBy::Price,
        };
        rank_places(&request, &tabled_offers(&["us-east-1".into()]), facts, |shape| {
            (shape.gpu_memory_bytes > 20_000_000_000).then_some(FittingGpus { gpus: 1, fit: () })
        })
    }

    fn draft(command: &str) -> JobDraft<'_> {
        JobDraft {
            purpose: "curfew recommend --params 7b",
            command,
            owner: Some("ada@example.com"),
            gpus: 1,
            on_spot: true,
        }
    }

    fn read(text: &str) -> JobSpec {
        let (team, now) = ("vision".into(), time("2026-11-24T12:00:00Z"));
        JobSpec::read(text, "llama.toml", Some(&team), &Config::default(), &"us-east-1".into(), now).unwrap()
    }

    #[test]
    fn submit_reads_what_it_writes() {
        let text = draft("python train.py").to_document(&places(30_000, vec![Lifecycle::OnDemand])).unwrap();
        insta::assert_snapshot!(text, @r#"
        # curfew recommend --params 7b
        command = "python train.py"
        owner = "ada@example.com"

        [gpu]
        count = 1
        types = ["g6.xlarge", "g6.2xlarge", "g5.xlarge"]

        [spot]
        enabled = false

        [limits]
        max_runtime = "8h20m"

        [machine]
        regions = ["us-east-1"]
        "#);
        let spec = read(&text);
        assert_eq!(spec.terms.gpu.types, ["g6.xlarge".into(), "g6.2xlarge".into(), "g5.xlarge".into()]);
        assert_eq!((spec.terms.max_runtime_seconds, spec.terms.spot), (30_000, None));
    }

    #[test]
    fn a_comment_says_what_a_gpu_lacks() {
        let mut places = places(60, vec![Lifecycle::OnDemand]);
        for place in &mut places[..2] {
            place.lacks = vec![GpuFeature::Bf16];
            place.gpu_name = "T4".to_owned();
        }
        let text = draft("true").to_document(&places).unwrap();
        assert!(text.starts_with("# curfew recommend --params 7b\n# T4: no hardware for bf16\ncommand = "), "{text}");
        read(&text);
    }

    #[test]
    fn the_limit_holds_on_every_type_that_is_named() {
        let work = crate::TokenWork::Training { tokens: 1e9, operations_per_token: 6.0 * 1e9, has_bound: true };
        let mut places = places_for(RunDuration::Tokens(work), vec![Lifecycle::OnDemand]);
        // The second place is a type whose time is unknown.
        places[1].run = None;
        let text = draft("true").to_document(&places).unwrap();
        let types = read(&text).terms.gpu.types;
        assert!(!types.contains(&places[1].instance_type) && types.len() == 3, "{text}");
        let named = places.iter().filter(|place| types.contains(&place.instance_type));
        let longest = named.filter_map(|place| place.run.and_then(|run| run.most_seconds)).max().unwrap();
        assert_eq!(u64::try_from(read(&text).terms.max_runtime_seconds).unwrap(), longest.div_ceil(60) * 60);
    }

    #[test]
    fn a_type_that_needs_another_number_of_gpus_is_not_named() {
        let mut places = places(60, vec![Lifecycle::OnDemand]);
        places[1].used_gpus = 4;
        let other = places[1].instance_type.to_string();
        let text = draft("true").to_document(&places).unwrap();
        assert!(!text.contains(&other) && read(&text).terms.gpu.count == 1, "{text}");
    }

    #[test]
    fn a_command_of_any_letters_stays_that_command() {
        let command = "echo \"a\\b\"\n\tpython 'train.py' # größe \u{7}";
        let text = draft(command).to_document(&places(60, vec![Lifecycle::Spot, Lifecycle::OnDemand])).unwrap();
        let spec = read(&text);
        assert_eq!(spec.work.command, command);
        assert!(spec.terms.spot.is_some() && spec.terms.max_runtime_seconds == 900);
    }

    #[test]
    fn without_a_priced_place_there_is_no_document() {
        assert_eq!(draft("true").to_document(&places(60, vec![Lifecycle::Spot])), None);
        assert_eq!(draft("true").to_document(&places(60, Vec::new())), None);
    }
}
