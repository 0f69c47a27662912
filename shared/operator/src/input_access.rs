//! The access of a job's machines to its inputs, checked before the job is submitted, and the grants that allow it.
//!
//! A source is denied **if and only if** all of these hold; otherwise it is allowed, or unknown:
//! - IAM's policy simulator answered that the role's policies allow no way to read it;
//! - its bucket has no policy, which could allow the role besides, and which the simulator does not ask.

use std::collections::BTreeSet;

use jobs::InputSource;
use model::fault::InvalidValue;

use crate::doctor::permissions::{ContextKey, ExpectedPermission, PermissionCase};

const GET: &str = "s3:GetObject";
const LIST: &str = "s3:ListBucket";

/// CloudFormation user guide, "`AWS::CloudFormation` quotas": the longest value of a parameter.
const PARAMETER_BYTES_MAX: usize = 4_096;

/// The access of a role to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputAccess {
    Allowed,
    Denied,
    /// The role's own policies do not allow it, and the bucket's policy may.
    DependsOnBucket,
    Unknown,
}

/// The questions to IAM about a source.
#[must_use]
pub fn cases(source: &InputSource, partition: &str) -> Vec<PermissionCase> {
    let arn = |path: &str| format!("arn:{partition}:s3:::{}{path}", source.bucket);
    let case = |action, resource, context| PermissionCase {
        action,
        resource,
        about: source.to_string(),
        context,
        expected: ExpectedPermission::Always,
        even_so: false,
        why: "a job fetches its inputs",
    };
    let folder = source.folder();
    let prefix = ContextKey { key: "s3:prefix".to_owned(), values: vec![folder.clone()], is_list: false };
    let object = source.object().map(|key| case(GET, arn(&format!("/{key}")), Vec::new()));
    // Any object of the folder.
    let within = case(GET, arn(&format!("/{folder}curfew")), Vec::new());
    [case(LIST, arn(""), vec![prefix]), within].into_iter().chain(object).collect()
}

/// Judges the answers: one object needs only a read, and a folder a listing as well. `has_policy` is about the bucket, `None` if unknown.
#[must_use]
pub fn judge(source: &InputSource, answers: &[(&PermissionCase, bool)], has_policy: Option<bool>) -> InputAccess {
    if answers.len() < cases(source, "aws").len() {
        return InputAccess::Unknown;
    }
    let end = source.object().map(|key| format!("{}/{key}", source.bucket));
    let is_object = |case: &PermissionCase| end.as_ref().is_some_and(|end| case.resource.ends_with(end));
    let reads_object = answers.iter().any(|(case, allowed)| *allowed && is_object(case));
    let reads_folder = answers.iter().all(|(case, allowed)| *allowed || is_object(case));
    match has_policy {
        _ if reads_object || reads_folder => InputAccess::Allowed,
        Some(false) => InputAccess::Denied,
        _ => InputAccess::DependsOnBucket,
    }
}

/// The sources besides Curfew's bucket that the role of a team may read: the parameters of its stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadGrants {
    objects: BTreeSet<String>,
    buckets: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

impl ReadGrants {
    /// The names of the parameters.
    pub const PARAMETERS: [&str; 3] = ["ReadObjectArns", "ReadBucketArns", "ReadPrefixes"];

    /// Reads the grants from the values of the parameters.
    #[must_use]
    pub fn from_values([objects, buckets, prefixes]: [&str; 3]) -> Self {
        let list = |values: &str| values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
        Self { objects: list(objects), buckets: list(buckets), prefixes: list(prefixes) }
    }

    /// Adds a bucket, a folder, or what is an object or a folder.
    ///
    /// # Errors
    /// If its path has characters that mean something to a policy or to a list.
    pub fn add(&mut self, source: &InputSource, partition: &str) -> Result<(), InvalidValue> {
        let folder = source.folder();
        if folder.contains(|letter: char| ",*?$\"\\".contains(letter) || letter.is_whitespace() || !letter.is_ascii()) {
            return Err(InvalidValue::new(format!(
                "{source}: a policy cannot name a path with blanks, letters beyond ASCII or one of `,*?$\"\\` safely; grant a folder above it"
            )));
        }
        let bucket = format!("arn:{partition}:s3:::{}", source.bucket);
        self.objects.insert(format!("{bucket}/{folder}*"));
        self.objects.extend(source.object().map(|key| format!("{bucket}/{key}")));
        self.buckets.insert(bucket);
        self.prefixes.insert(format!("{folder}*"));
        Ok(())
    }

    /// The values of the parameters.
    ///
    /// # Errors
    /// If there are too many for a parameter.
    pub fn to_values(&self) -> Result<[String; 3], InvalidValue> {
        let join = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        let values = [join(&self.objects), join(&self.buckets), join(&self.prefixes)];
        if values.iter().any(|value| value.len() > PARAMETER_BYTES_MAX) {
            return Err(InvalidValue::new(format!(
                "a parameter of the stack has {PARAMETER_BYTES_MAX} characters at most; grant folders above these, or a policy by --policy-arn"
            )));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> InputSource {
        InputSource::read(text).unwrap()
    }

    fn check(text: &str, allowed: &[&str], has_policy: Option<bool>, expect: InputAccess) {
        let (source, cases) = (source(text), cases(&source(text), "aws"));
        let may =
            |case: &PermissionCase| allowed.iter().any(|one| format!("{} {}", case.action, case.resource) == *one);
        let answers: Vec<(&PermissionCase, bool)> = cases.iter().map(|case| (case, may(case))).collect();
        assert_eq!(judge(&source, &answers, has_policy), expect, "{cases:#?}");
        assert_eq!(judge(&source, &answers[1..], has_policy), InputAccess::Unknown);
    }

    #[test]
    fn a_folder_is_listed_and_read_and_an_object_is_read() {
        let (list, get) = ("s3:ListBucket arn:aws:s3:::data", "s3:GetObject arn:aws:s3:::data/a/curfew");
        check("s3://data/a/", &[list, get], None, InputAccess::Allowed);
        check("s3://data/a/", &[get], Some(false), InputAccess::Denied);
        check("s3://data/a/", &[list], Some(true), InputAccess::DependsOnBucket);
        check("s3://data/a/", &[], None, InputAccess::DependsOnBucket);
        check("s3://data/a", &["s3:GetObject arn:aws:s3:::data/a"], Some(false), InputAccess::Allowed);
        check("s3://data/a", &[list, get], Some(false), InputAccess::Allowed);
        check("s3://data/a", &[list], Some(false), InputAccess::Denied);
        check("s3://data", &[list, "s3:GetObject arn:aws:s3:::data/curfew"], Some(false), InputAccess::Allowed);
    }

    #[test]
    fn grants_are_added_to_those_of_before() {
        let mut grants = ReadGrants::from_values(["arn:aws:s3:::other/*", "arn:aws:s3:::other", "*"]);
        grants.add(&source("s3://data/a/"), "aws").unwrap();
        grants.add(&source("s3://data/a/"), "aws").unwrap();
        grants.add(&source("s3://data/b"), "aws").unwrap();
        let values = grants.to_values().unwrap();
        assert_eq!(
            values,
            [
                "arn:aws:s3:::data/a/*,arn:aws:s3:::data/b,arn:aws:s3:::data/b/*,arn:aws:s3:::other/*",
                "arn:aws:s3:::data,arn:aws:s3:::other",
                "*,a/*,b/*"
            ]
        );
        let [objects, buckets, prefixes] = &values;
        assert_eq!(ReadGrants::from_values([objects, buckets, prefixes]), grants);
        for path in ["a*/", "a,b", "a b", "${aws:username}/", "größe"] {
            assert!(ReadGrants::default().add(&source(&format!("s3://data/{path}")), "aws").is_err(), "{path}");
        }
        for number in 0..300 {
            grants.add(&source(&format!("s3://data/{number}/")), "aws").unwrap();
        }
        assert!(grants.to_values().unwrap_err().to_string().contains("4096 characters at most"));
    }
}
