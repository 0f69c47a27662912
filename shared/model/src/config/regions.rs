//! Regions that are none: a run would look at nothing there, and find nothing to say.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError};
use crate::document::position;
use crate::id::Region;
use crate::region::has_shape;

/// Returns the regions of `regions` that the account has not enabled, each as a mistake at its place.
#[must_use]
pub fn unknown_regions(config: &Config, document: &str, enabled: &[Region]) -> Vec<ConfigError> {
    let mut names: Vec<&str> = enabled.iter().map(Region::as_str).collect();
    names.sort_unstable();
    let is_none = |region: &Region| !enabled.contains(region);
    find_regions(config, document, is_none, |region| {
        format!("there is no region {region} enabled; enabled are {}", names.join(", "))
    })
}

/// The `regions` that cannot exist by their format, for when the enabled ones are unknown.
#[must_use]
pub fn misshapen_regions(config: &Config, document: &str) -> Vec<ConfigError> {
    let is_none = |region: &Region| !has_shape(region.as_str());
    find_regions(config, document, is_none, |region| {
        format!("`{region}` does not look like a region, such as us-east-1")
    })
}

fn find_regions(
    config: &Config,
    document: &str,
    is_none: impl Fn(&Region) -> bool,
    problem: impl Fn(&Region) -> String,
) -> Vec<ConfigError> {
    let (tree, _) = DeTable::parse_recoverable(document);
    let written = match tree.get_ref().get("regions").map(Spanned::get_ref) {
        Some(DeValue::Array(items)) => items.iter().map(|item| item.span().start).collect(),
        _ => Vec::new(),
    };
    let regions = config.regions.iter().zip(written);
    let mistakes = regions.filter(|(region, _)| is_none(region)).map(|(region, byte)| {
        let (line, column) = position(document, byte);
        ConfigError { line, column, key: "regions".to_owned(), problem: problem(region) }
    });
    mistakes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, enabled: &[&str], expect: &[&str]) {
        let config = Config::read(document).unwrap();
        let enabled: Vec<Region> = enabled.iter().map(|region| Region::from(*region)).collect();
        let found = unknown_regions(&config, document, &enabled);
        let shown: Vec<String> =
            found.iter().map(|error| format!("{}:{} {}", error.line, error.column, error.problem)).collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn each_at_its_place() {
        check("", &["us-east-1"], &[]);
        check(
            "mode = \"observe\"\nregions = [\n  \"us-east-1\",\n  \"us-eats-1\",\n]\n",
            &["us-west-2", "us-east-1"],
            &["4:3 there is no region us-eats-1 enabled; enabled are us-east-1, us-west-2"],
        );
    }

    #[test]
    fn by_their_shape() {
        let document = "regions = [\"us-east-1\", \"us-gov-west-1\", \"us-east\", \"US-EAST-1\", \"frankfurt\", \"\"]";
        let found = misshapen_regions(&Config::read(document).unwrap(), document);
        assert_eq!(found.iter().map(|error| error.column).collect::<Vec<_>>(), [42, 53, 66, 79]);
    }
}
