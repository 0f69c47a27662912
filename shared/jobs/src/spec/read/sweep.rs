//! `[sweep]` as it is written: a value is a text of the document, so that `1e-4` stays `1e-4`.

use std::collections::BTreeSet;

use model::money::Amount;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::parameter_sweep::sweep_variable;
use crate::spec::checks::{self, PARAMETERS_MAX};
use crate::spec::judge::SpecValidator;
use crate::spec::written::RawSpec;
use crate::{Combination, JobName, JobSpec, ParameterSweep, SweepParameter};

const MEMBERS_MAX: u32 = ParameterSweep::MEMBERS_MAX;

/// Bytes that the document of a member has more than that of its sweep: a line that says which it is.
const MEMBER_LINE_BYTES_MAX: usize = 16;

const EXAMPLE: &str = "write a list such as `[1e-4, 3e-4]`, or a range of whole numbers such as `\"1..5\"`";

impl SpecValidator<'_> {
    /// `None` without the section, and where it is wrong.
    pub(super) fn sweep(&mut self, written: &RawSpec) -> Option<ParameterSweep> {
        written.sweep?;
        let DeValue::Table(table) = self.written_value("sweep")? else {
            self.refuse(&["sweep"], &format!("it is not a table; {EXAMPLE} for each parameter"));
            return None;
        };
        if written.member.is_none() && self.length_bytes() + MEMBER_LINE_BYTES_MAX > JobSpec::BYTES_MAX {
            let most = JobSpec::BYTES_MAX - MEMBER_LINE_BYTES_MAX;
            self.refuse(
                &["sweep"],
                &format!("with it the document has {} bytes; {most} are the most of a sweep", self.length_bytes()),
            );
        }
        let parameters = self.parameters(&table, written);
        let combine = self.combination(&table, &parameters);
        let max_parallel = self.max_parallel(&table);
        if !(1..=PARAMETERS_MAX).contains(&parameters.len()) {
            let problem = format!("it has {} parameters; write 1 to {PARAMETERS_MAX}", parameters.len());
            self.refuse(&["sweep"], &problem);
        }
        let max_usd = written.limits.max_usd.map(Amount::from_usd);
        let sweep = ParameterSweep { parameters, combine, max_parallel, max_usd };
        let members = sweep.members();
        if members > MEMBERS_MAX {
            self.refuse(&["sweep"], &format!("it has {members} members; {MEMBERS_MAX} are the most"));
        }
        (members > 0).then_some(sweep)
    }

    /// Returns the parameters of the member that the document is of; empty if it is of none.
    pub(super) fn member(&mut self, written: &RawSpec, sweep: Option<&ParameterSweep>) -> Vec<(String, String)> {
        let Some(number) = written.member else { return Vec::new() };
        if written.sweep.is_none() {
            self.refuse(&["member"], "there is no [sweep] that it could be a member of; leave it out");
        }
        let Some(sweep) = sweep else { return Vec::new() };
        sweep.parameters_of(self.some(&["member"], Some(number), number, [1, sweep.members()]))
    }

    /// The name of the sweep, or of that member.
    pub(super) fn name_in_sweep(&mut self, name: JobName, member: Option<u32>) -> Option<JobName> {
        match name.member(member.unwrap_or(1)) {
            Ok(of_member) => Some(if member.is_some() { of_member } else { name }),
            Err(problem) => {
                self.refuse(&["name"], &format!("its members would have no valid name: {problem}"));
                None
            }
        }
    }

    fn parameters(&mut self, table: &DeTable<'_>, written: &RawSpec) -> Vec<SweepParameter> {
        let mut entries: Vec<_> =
            table.iter().filter(|(key, _)| !matches!(&**key.get_ref(), "max_parallel" | "combine")).collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut parameters = Vec::new();
        for (key, value) in entries {
            let name = key.get_ref().as_ref();
            let path = ["sweep", name];
            self.check(&path, checks::parameter(name));
            let variable = sweep_variable(name);
            if written.env.contains_key(&variable) || written.secrets.contains_key(&variable) {
                self.refuse(
                    &path,
                    &format!("the document sets its variable, {variable}, itself; leave one of them out"),
                );
            }
            let values = self.values(&path, value);
            parameters.push(SweepParameter { name: name.to_owned(), values });
        }
        parameters
    }

    /// The values of a parameter, as they are written.
    fn values(&mut self, path: &[&str], value: &Spanned<DeValue<'_>>) -> Vec<String> {
        let values = match value.get_ref() {
            DeValue::Array(items) => self.items(path, items),
            DeValue::String(range) => read_range(range).unwrap_or_else(|| {
                let problem = format!("{range:?} is not a range of up to {MEMBERS_MAX} whole numbers; {EXAMPLE}");
                self.refuse(path, &problem);
                Vec::new()
            }),
            _ => {
                self.refuse(path, &format!("it is one value; {EXAMPLE}"));
                Vec::new()
            }
        };
        if values.len() > MEMBERS_MAX as usize {
            self.refuse(path, &format!("{} of them; write {MEMBERS_MAX} at most", values.len()));
        }
        values
    }

    fn items(&mut self, path: &[&str], items: &[Spanned<DeValue<'_>>]) -> Vec<String> {
        if items.is_empty() {
            self.refuse(path, &format!("it has no value; {EXAMPLE}"));
        }
        let (mut values, mut before) = (Vec::new(), BTreeSet::new());
        for (index, item) in items.iter().enumerate() {
            let text = match item.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => self.text_at(item.span()).to_owned(),
                _ => {
                    self.refuse_item(path, index, "write a number, a text, true or false");
                    continue;
                }
            };
            if let Err(problem) = checks::parameter_value(&text) {
                self.refuse_item(path, index, &problem.to_string());
            }
            if !before.insert(text.clone()) {
                self.refuse_item(path, index, &format!("{text:?} stands here twice"));
            }
            values.push(text);
        }
        values
    }

    fn combination(&mut self, table: &DeTable<'_>, parameters: &[SweepParameter]) -> Combination {
        let path = ["sweep", "combine"];
        let combine = match table.get("combine").map(Spanned::get_ref) {
            None => Combination::Product,
            Some(DeValue::String(word)) if word == "product" => Combination::Product,
            Some(DeValue::String(word)) if word == "zip" => Combination::Zip,
            Some(_) => {
                self.refuse(&path, "write `\"product\"` or `\"zip\"`");
                Combination::Product
            }
        };
        if let (Combination::Zip, Some((first, others))) = (combine, parameters.split_first()) {
            for other in others.iter().filter(|other| other.values.len() != first.values.len()) {
                let (has, wants) = (other.values.len(), first.values.len());
                let problem = format!(
                    "it has {has} values, and `{}` has {wants}; with `combine = \"zip\"` each has as many",
                    first.name
                );
                self.refuse(&["sweep", &other.name], &problem);
            }
        }
        combine
    }

    fn max_parallel(&mut self, table: &DeTable<'_>) -> Option<u32> {
        let number = checks::whole_number(table.get("max_parallel")?.get_ref(), MEMBERS_MAX);
        number.map_err(|problem| self.refuse(&["sweep", "max_parallel"], &problem.to_string())).ok()
    }
}

/// `1..5`, both ends included.
fn read_range(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (first.trim().parse::<i64>().ok()?, last.trim().parse::<i64>().ok()?);
    let count = last.checked_sub(first)?.checked_add(1)?;
    let is_short = u32::try_from(count).is_ok_and(|count| (1..=MEMBERS_MAX).contains(&count));
    is_short.then(|| (first..=last).map(|number| number.to_string()).collect())
}
