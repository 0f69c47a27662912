//! The network interfaces of a job on several machines.

use super::*;
use crate::efa::{EfaChoice, InterfaceKind, NetworkCard, NetworkCards};
use crate::{CandidateNetwork, NetworkSpec};

/// A p5.48xlarge and a g5.xlarge without EFA, in a subnet with or without public addresses.
fn pools(are_addresses_public: bool) -> Vec<CapacityPool> {
    let card = |index| NetworkCard { index, interfaces_max: 2, has_efa: true, has_efa_only: true };
    let cards = NetworkCards { cards: (0..32).map(card).collect(), efas_max: 32 };
    let network = PoolNetwork { cards, are_addresses_public: Some(are_addresses_public), vpc: Some("vpc-1".into()) };
    let p5 = CapacityPool { network: network.clone(), ..pool("us-east-1a", "p5.48xlarge") };
    let g5 = CapacityPool {
        network: PoolNetwork { cards: NetworkCards::default(), ..network },
        ..pool("us-east-1a", "g5.xlarge")
    };
    vec![p5, g5]
}

fn ranked(nodes: u8, efa: EfaChoice, pools: &[CapacityPool]) -> Result<Vec<Option<CandidateNetwork>>, String> {
    let mut terms = asking(1, 0, &["p5.48xlarge", "g5.xlarge"]);
    terms.gpu.nodes = nodes;
    terms.network = (nodes > 1).then_some(NetworkSpec { efa, placement: None });
    let mut document = PriceDocument::default();
    document.learn_listed("us-east-1".into(), "p5.48xlarge".into(), Some(55_040_000), time(NOW));
    document.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(1_006_000), time(NOW));
    let config = Config::default();
    let ranking = rank(&terms, pools, images(), &book(document), None, policy(&config), time(NOW));
    ranking
        .map(|ranking| ranking.candidates.into_iter().map(|one| one.network.map(|one| *one)).collect())
        .map_err(|why| why.to_string())
}

/// The candidates, cheapest first: number of interfaces, EFA.
fn check(efa: EfaChoice, are_addresses_public: bool, expect: &[(usize, Option<&str>)]) {
    let found = ranked(2, efa, &pools(are_addresses_public)).unwrap();
    let found: Vec<_> = found.iter().flatten().map(|one| (one.interfaces.len(), one.efa.as_deref())).collect();
    assert_eq!(found, expect);
}

const FEWER: &str =
    "EFA: 1 of 32 cards, because subnet-us-east-1a gives public addresses only to machines with one interface";

#[test]
fn a_gang_takes_the_efa_that_its_subnet_allows() {
    check(EfaChoice::Auto, false, &[(0, None), (33, Some("EFA, 32 cards each"))]);
    check(EfaChoice::Auto, true, &[(0, None), (1, Some(FEWER))]);
    check(EfaChoice::Off, false, &[(0, None), (0, None)]);
    let found = ranked(2, EfaChoice::Auto, &pools(false)).unwrap().swap_remove(1).unwrap();
    assert_eq!((found.vpc, found.interfaces[32].kind), (Some("vpc-1".into()), InterfaceKind::EfaOnly));
}

#[test]
fn required_efa_leaves_out_the_others_and_says_why() {
    check(EfaChoice::Required, false, &[(33, Some("EFA, 32 cards each"))]);
    assert_eq!(
        ranked(2, EfaChoice::Required, &pools(true)).unwrap_err(),
        "`network.efa` is \"required\", and g5.xlarge has no EFA; `network.efa` is \"required\", and p5.48xlarge would get 1 of its 32 \
         cards with EFA: subnet-us-east-1a gives public addresses only to machines with one interface"
    );
}

#[test]
fn a_network_that_no_place_has_is_refused_before_a_submission() {
    let config = Config::default();
    let refused = |efa, types: &[&str], pools: &[CapacityPool]| {
        let mut terms = asking(1, 0, types);
        terms.gpu.nodes = 2;
        terms.network = Some(NetworkSpec { efa, placement: None });
        refused_network(&terms, pools, policy(&config)).map(|why| why.to_string())
    };
    let public = pools(true);
    let why = ranked(2, EfaChoice::Required, &public).unwrap_err();
    assert_eq!(refused(EfaChoice::Required, &["p5.48xlarge", "g5.xlarge"], &public), Some(why));
    assert_eq!(refused(EfaChoice::Auto, &["p5.48xlarge"], &public), None);
    assert_eq!(refused(EfaChoice::Required, &["p5.48xlarge"], &pools(false)), None);
    // Where nothing fits, the network is not why.
    assert_eq!(refused(EfaChoice::Required, &["p4d.24xlarge"], &public), None);
    assert_eq!(refused(EfaChoice::Required, &["p5.48xlarge"], &[]), None);
}

#[test]
fn a_single_machine_has_no_network() {
    assert_eq!(ranked(1, EfaChoice::Auto, &pools(false)), Ok(vec![None, None]));
    let candidate = crate::next::tests::fixture::ranking(time(NOW)).candidates.swap_remove(0);
    assert!(!serde_json::to_string(&candidate).unwrap().contains("network"));
}
