//! A sweep: one document that asks for a job for each combination of its parameters. Its jobs are its members, numbered from 1 on.

mod summary;

use jiff::Timestamp;
use model::fault::InvalidValue;
use model::money::Amount;
use serde::{Deserialize, Serialize};

use super::document_keys::with_first_key;
use super::{Job, JobId, JobName, JobTerms};

pub use summary::{JobListRow, SweepSummary, list_rows};

/// `[sweep]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ParameterSweep {
    /// Parameters in the order of the document: of a product the last one varies first.
    pub parameters: Vec<SweepParameter>,
    pub combine: Combination,
    /// Most members that may be unfinished at once, of those that have begun; `None`: all.
    pub max_parallel: Option<u32>,
    /// `[limits] max_usd`, of all members together. The terms have the share of one.
    pub max_usd: Option<Amount>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SweepParameter {
    pub name: String,
    /// Values as they are written in the document.
    pub values: Vec<String>,
}

/// The way in which the values of several parameters are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combination {
    /// Each value of one with each of the others.
    Product,
    /// The first of each, then the second of each, and so on.
    Zip,
}

/// `jobs/<team>/<sweep>/sweep.json`: an accepted sweep. All members follow from it, so whoever begins them, begins the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// `<name>-<8 hex>`, as a job would be called.
    pub sweep: JobId,
    pub owner: Option<String>,
    /// Terms of each member.
    pub terms: JobTerms,
    /// The jobs that each member comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    pub plan: ParameterSweep,
    /// Time at which the sweep was accepted.
    pub submitted_at: Timestamp,
}

/// The place of a job in a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SweepMember {
    /// Number of the member, from 1 on.
    pub number: u32,
    /// The name and the value of each parameter.
    pub parameters: Vec<(String, String)>,
    /// While it is set, the member waits until fewer earlier members than that are unfinished. `None` once its turn has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

impl ParameterSweep {
    /// The most members: each is a job with documents of its own, and one run of `run-jobs` begins as many.
    pub const MEMBERS_MAX: u32 = 1_000;

    /// Returns the number of members.
    #[must_use]
    pub fn members(&self) -> u32 {
        let sizes = || self.parameters.iter().map(|parameter| parameter.values.len());
        let members = match self.combine {
            Combination::Product => sizes().fold(1_usize, usize::saturating_mul),
            Combination::Zip => sizes().min().unwrap_or_default(),
        };
        u32::try_from(members).unwrap_or(u32::MAX)
    }

    /// Returns the most that one member may cost: an equal share, so that all together never cost more.
    #[must_use]
    pub fn share(&self) -> Option<Amount> {
        let members = u64::from(self.members());
        self.max_usd.map(|usd| Amount::from_usd_micros(usd.usd_micros().checked_div(members).unwrap_or_default()))
    }

    /// The name and the value of each parameter of a member.
    #[must_use]
    pub fn parameters_of(&self, number: u32) -> Vec<(String, String)> {
        let mut rest = usize::try_from(number.saturating_sub(1)).unwrap_or_default();
        let mut chosen: Vec<(String, String)> = Vec::new();
        for SweepParameter { name, values } in self.parameters.iter().rev() {
            let size = values.len().max(1);
            let value = values.get(rest % size).cloned().unwrap_or_default();
            chosen.push((name.clone(), value));
            if self.combine == Combination::Product {
                rest /= size;
            }
        }
        chosen.reverse();
        chosen
    }
}

/// The variable by which the command of a member finds the value of a parameter.
#[must_use]
pub(crate) fn sweep_variable(parameter: &str) -> String {
    format!("SWEEP_{}", parameter.to_ascii_uppercase())
}

/// `lr=1e-4, seed=1`.
#[must_use]
pub fn describe_parameters(parameters: &[(String, String)]) -> String {
    parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// The document of a member: that of its sweep, which says in its first line which member it is.
#[must_use]
pub fn member_document(sweep: &[u8], number: u32) -> Vec<u8> {
    with_first_key(sweep, &format!("member = {number}"))
}

impl Sweep {
    /// The numbers of its members.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.plan.members()
    }

    /// A member, as it begins.
    #[must_use]
    pub fn member(&self, number: u32) -> Job {
        let max_parallel = self.plan.max_parallel.filter(|most| number > *most);
        let sweep = SweepMember { number, parameters: self.plan.parameters_of(number), max_parallel };
        let id = self.sweep.member(number);
        let job = Job::submitted(id, self.owner.clone(), self.terms.clone(), self.submitted_at);
        Job { sweep: Some(sweep), ..job.after(self.after.clone()) }
    }
}

impl Job {
    /// The sweep that it is a member of.
    #[must_use]
    pub fn sweep_id(&self) -> Option<JobId> {
        self.sweep.as_ref()?;
        self.job.as_member().map(|(sweep, _)| sweep)
    }
}

impl JobName {
    /// The name of a member of the sweep with this name.
    ///
    /// # Errors
    /// If it would be too long.
    pub fn member(&self, number: u32) -> Result<Self, InvalidValue> {
        Self::read(&format!("{}-{number:04}", self.as_str()))
    }
}

impl JobId {
    /// The member of that number of this sweep. Its name has four digits, so that names are in the order of numbers.
    #[must_use]
    pub fn member(&self, number: u32) -> Self {
        let (name, hex) = self.job.rsplit_once('-').unwrap_or((&self.job, ""));
        Self { team: self.team.clone(), job: format!("{name}-{number:04}-{hex}") }
    }

    /// The sweep that it would be a member of, by its name, and its number there.
    #[must_use]
    pub fn as_member(&self) -> Option<(Self, u32)> {
        let (rest, hex) = self.job.rsplit_once('-')?;
        let (name, digits) = rest.rsplit_once('-')?;
        let number = digits
            .parse()
            .ok()
            .filter(|_| digits.len() == MEMBER_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit()))?;
        Some((Self { team: self.team.clone(), job: format!("{name}-{hex}") }, number))
    }
}

/// [`ParameterSweep::MEMBERS_MAX`] has as many digits.
const MEMBER_DIGITS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(combine: Combination, parameters: &[(&str, &[&str])]) -> ParameterSweep {
        let parameter = |(name, values): &(&str, &[&str])| SweepParameter {
            name: (*name).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let parameters = parameters.iter().map(parameter).collect();
        ParameterSweep { parameters, combine, max_parallel: None, max_usd: None }
    }

    fn check(plan: &ParameterSweep, expect: &[&str]) {
        let members: Vec<String> =
            (1..=plan.members()).map(|number| describe_parameters(&plan.parameters_of(number))).collect();
        assert_eq!(members, expect);
    }

    #[test]
    fn members_are_all_combinations_or_pairs() {
        let parameters: [(&str, &[&str]); 2] = [("lr", &["1e-4", "3e-4"]), ("seed", &["1", "2", "3"])];
        check(
            &plan(Combination::Product, &parameters),
            &[
                "lr=1e-4, seed=1",
                "lr=1e-4, seed=2",
                "lr=1e-4, seed=3",
                "lr=3e-4, seed=1",
                "lr=3e-4, seed=2",
                "lr=3e-4, seed=3",
            ],
        );
        let parameters: [(&str, &[&str]); 2] = [("lr", &["1e-4", "3e-4"]), ("seed", &["1", "2"])];
        check(&plan(Combination::Zip, &parameters), &["lr=1e-4, seed=1", "lr=3e-4, seed=2"]);
    }

    #[test]
    fn a_member_is_named_after_its_sweep() {
        let sweep = JobId::read("vision/tune-a-1a2b3c4d").unwrap();
        let member = sweep.member(7);
        assert_eq!(member.to_string(), "vision/tune-a-0007-1a2b3c4d");
        assert_eq!(JobId::read(&member.to_string()).as_ref(), Ok(&member));
        assert_eq!(member.as_member(), Some((sweep.clone(), 7)));
        for other in ["vision/tune-a-1a2b3c4d", "vision/tune-07-1a2b3c4d", "vision/tune-+007-1a2b3c4d"] {
            assert_eq!(JobId { team: "vision".into(), job: other[7..].to_owned() }.as_member(), None, "{other}");
        }
    }

    #[test]
    fn the_document_of_a_member_says_which() {
        assert_eq!(member_document("\u{feff}command = \"x\"\n".as_bytes(), 3), b"member = 3\ncommand = \"x\"\n");
    }
}
