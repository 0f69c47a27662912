//! The hourly price that a machine may have.

use billing::price::PriceBook;
use model::money::Rate;

use super::{CapacityPool, LaunchPolicy, is_a_price, on_demand_rate};
use crate::JobTerms;
use crate::machine_ceiling::Ceiling;

/// A price that is not exceeded, and what sets it.
pub(super) type PriceLimit = Ceiling<Rate>;

/// A pool that costs more on Spot may cost less in a minute.
pub(super) const ON_DEMAND: &str = "what it costs on demand";

/// The reason why a pool cannot be bought in one way.
pub(super) enum PriceObjection {
    /// Its price, or its highest price, is unknown.
    Unknown,
    Above {
        rate: Rate,
        limit: PriceLimit,
    },
    /// Its on-demand price is above that of the machines that the job gets by default.
    Dearer {
        rate_max: Rate,
    },
}

/// The prices that each machine of a job does not exceed.
pub(super) struct PriceLimits {
    /// `spot.max_usd_per_hour`, on Spot alone.
    spot: Option<PriceLimit>,
    /// `limits.max_usd_per_hour`.
    own: Option<PriceLimit>,
    /// The limit of the configuration.
    ceiling: Option<PriceLimit>,
    /// The highest on-demand price by default; `None`: of any machine.
    default_on_spot: Option<Rate>,
    default_on_demand: Option<Rate>,
}

impl PriceLimits {
    /// `default_max`: the highest on-demand price of a job that names neither types nor a price.
    pub(super) fn new(terms: &JobTerms, policy: LaunchPolicy<'_>, default_max: Option<Rate>) -> Self {
        let limit = |key: &str, most: Rate| PriceLimit { most, key: format!("`{key}`") };
        let spot = terms.spot.as_ref().and_then(|spot| spot.max_rate).map(|most| limit("spot.max_usd_per_hour", most));
        // All nodes of a job share the limits of the job and of the configuration, and each has the one of Spot.
        let nodes = terms.gpu.nodes;
        let each = |PriceLimit { most, key }: PriceLimit| {
            let key = if nodes > 1 { format!("{key} for each of {nodes} machines") } else { key };
            PriceLimit { most: most.of_each(nodes), key }
        };
        let own = terms.max_rate.map(|most| each(limit("limits.max_usd_per_hour", most)));
        let default_on_demand = default_max.filter(|_| own.is_none());
        let default_on_spot = default_on_demand.filter(|_| spot.is_none());
        let ceiling = policy.ceiling().rate.map(each);
        Self { spot, own, ceiling, default_on_spot, default_on_demand }
    }

    /// The price of a pool on Spot now, and at most.
    pub(super) fn on_spot(&self, pool: &CapacityPool, prices: &PriceBook) -> Result<(Rate, Rate), PriceObjection> {
        let on_demand = on_demand_rate(pool, prices);
        let live = prices
            .spot(&pool.region, &pool.instance_type, &pool.zone)
            .map(|quote| quote.rate)
            .filter(|rate| is_a_price(*rate));
        // A price limit is no price of the pool.
        live.or(on_demand).ok_or(PriceObjection::Unknown)?;
        let list = on_demand.map(|most| PriceLimit { most, key: ON_DEMAND.to_owned() });
        // Where its on-demand price is unknown, the job itself has to say how much is paid: a ceiling of the configuration allows nothing.
        let by_job = self.spot.iter().chain(&self.own).chain(&list).min_by_key(|limit| limit.most);
        let by_job = by_job.filter(|limit| is_a_price(limit.most)).ok_or(PriceObjection::Unknown)?;
        if let Some(rate_max) = self.default_on_spot.filter(|rate_max| on_demand.is_none_or(|rate| rate > *rate_max)) {
            return Err(PriceObjection::Dearer { rate_max });
        }
        let limit =
            self.ceiling.iter().fold(by_job, |least, ceiling| if ceiling.most < least.most { ceiling } else { least });
        let rate = live.unwrap_or(limit.most);
        if rate > limit.most {
            return Err(PriceObjection::Above { rate, limit: limit.clone() });
        }
        Ok((rate, limit.most))
    }

    pub(super) fn on_demand(&self, pool: &CapacityPool, prices: &PriceBook) -> Result<(Rate, Rate), PriceObjection> {
        let rate = on_demand_rate(pool, prices).ok_or(PriceObjection::Unknown)?;
        if let Some(rate_max) = self.default_on_demand.filter(|rate_max| rate > *rate_max) {
            return Err(PriceObjection::Dearer { rate_max });
        }
        match self.own.iter().chain(&self.ceiling).min_by_key(|limit| limit.most).filter(|limit| rate > limit.most) {
            Some(limit) => Err(PriceObjection::Above { rate, limit: limit.clone() }),
            None => Ok((rate, rate)),
        }
    }
}
