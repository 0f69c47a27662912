//! The boundary, the path and the tags of a team's role, where an organization demands them.
//!
//! **The boundary** is that of the command line; without one, that of the team's stack; without one there, that of Curfew's own stack.
//! **The tags** likewise, as a whole. **The path** is that of Curfew's own stack, below which alone `run-jobs` may give roles to machines.

use std::collections::BTreeMap;

use model::fault::InvalidValue;

/// The parameter of the boundary, in `template.yaml` and in `deploy/team-role.yaml`.
pub const BOUNDARY: &str = "PermissionsBoundaryArn";
/// The parameter of the path, likewise.
pub const PATH: &str = "RolePath";

const ROOT: &str = "/";

/// IAM user guide, "IAM and AWS STS quotas": the tags of a role; and "Tags for AWS Identity and Access Management resources": their lengths.
const TAGS_MAX: usize = 50;
const KEY_CHARACTERS_MAX: usize = 128;
const VALUE_CHARACTERS_MAX: usize = 256;

/// The parameters and the tags of a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackSettings<'a> {
    pub parameters: &'a BTreeMap<String, String>,
    pub tags: &'a BTreeMap<String, String>,
}

/// The options of a command line.
#[derive(Debug, Clone, Default)]
pub struct RoleOptions {
    pub boundary: Option<String>,
    pub path: Option<String>,
    pub tags: Vec<(String, String)>,
}

/// The values for a team's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamRoleRules {
    /// Empty: none.
    pub boundary: String,
    pub path: String,
    /// `None` keeps the tags of the stack.
    pub tags: Option<BTreeMap<String, String>>,
}

impl TeamRoleRules {
    /// The values for a team's stack, by the options, the stack itself and Curfew's own stack. `None`: there is no such stack.
    ///
    /// # Errors
    /// If an option is none that IAM takes, or the path is another one than that below which `run-jobs` may give roles to machines.
    pub fn resolve(
        options: &RoleOptions,
        team: Option<StackSettings<'_>>,
        own: Option<StackSettings<'_>>,
    ) -> Result<Self, InvalidValue> {
        let boundary = match &options.boundary {
            Some(arn) => check_boundary(arn)?.to_owned(),
            None => [team, own]
                .into_iter()
                .flatten()
                .find_map(|stack| stack.parameters.get(BOUNDARY).filter(|value| !value.is_empty()))
                .cloned()
                .unwrap_or_default(),
        };
        let tags = match (options.tags.is_empty(), team, own) {
            (false, ..) => Some(check_tags(&options.tags)?),
            (true, Some(team), _) if !team.tags.is_empty() => None,
            (true, _, Some(own)) if !own.tags.is_empty() => Some(own.tags.clone()),
            (true, ..) => None,
        };
        Ok(Self { boundary, path: resolve_path(options.path.as_deref(), team, own)?, tags })
    }
}

/// The path of a stack; a stack of an earlier version has no such parameter, and the path `/`.
fn path_of(stack: StackSettings<'_>) -> &str {
    stack.parameters.get(PATH).map_or(ROOT, String::as_str)
}

fn resolve_path(
    option: Option<&str>,
    team: Option<StackSettings<'_>>,
    own: Option<StackSettings<'_>>,
) -> Result<String, InvalidValue> {
    let given = option.map(check_path).transpose()?;
    let wanted = given.or(own.map(path_of)).or(team.map(path_of)).unwrap_or(ROOT);
    if let Some(own) = own.map(path_of)
        && own != wanted
    {
        return Err(InvalidValue::new(format!(
            "--role-path is {wanted}, and run-jobs gives machines only roles under {own}curfew/, as RolePath of Curfew's stack says; leave \
             --role-path out"
        )));
    }
    match team.map(path_of) {
        Some(before) if before != wanted => Err(InvalidValue::new(format!(
            "the team's role is under {before}curfew/, and would have to be under {wanted}curfew/; the path of a role cannot be changed: \
             delete it by `curfew team delete`, and create it again"
        ))),
        _ => Ok(wanted.to_owned()),
    }
}

fn check_boundary(arn: &str) -> Result<&str, InvalidValue> {
    let is_policy = arn.starts_with("arn:") && arn.contains(":iam::") && arn.contains(":policy/");
    if is_policy && !arn.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Ok(arn);
    }
    Err(InvalidValue::new(format!(
        "--permissions-boundary {arn:?} is not the ARN of an IAM policy, such as arn:aws:iam::123456789012:policy/boundary"
    )))
}

/// IAM API reference, `CreateRole`: a path begins and ends with `/`. What means something to a policy is refused, since the path is in one.
fn check_path(path: &str) -> Result<&str, InvalidValue> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/+=,.@_-".contains(letter);
    let is_whole = path == ROOT || (path.starts_with(ROOT) && path.ends_with(ROOT) && !path.contains("//"));
    if is_whole && path.len() <= 256 && path.chars().all(is_plain) {
        return Ok(path);
    }
    Err(InvalidValue::new(format!(
        "--role-path {path:?} is not a path of IAM: it begins and ends with `/`, such as /platform/, and has letters, digits and `+=,.@_-` between"
    )))
}

fn check_tags(tags: &[(String, String)]) -> Result<BTreeMap<String, String>, InvalidValue> {
    let checked: BTreeMap<String, String> = tags.iter().cloned().collect();
    if checked.len() < tags.len() {
        return Err(InvalidValue::new("--tag names a key twice; name each key once"));
    }
    if checked.len() > TAGS_MAX {
        return Err(InvalidValue::new(format!(
            "a role has {TAGS_MAX} tags at most, and --tag names {}",
            checked.len()
        )));
    }
    Ok(checked)
}

/// Reads a tag, `KEY=VALUE`.
///
/// # Errors
/// If it has no key, no `=` or no value, which `CloudFormation` refuses (its API reference, `Tag`), is too long, or begins as tags of AWS do.
pub fn read_tag(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("{text:?} has no `=`; write KEY=VALUE"));
    };
    let (key_length, value_length) = (key.chars().count(), value.chars().count());
    if !(1..=KEY_CHARACTERS_MAX).contains(&key_length) || !(1..=VALUE_CHARACTERS_MAX).contains(&value_length) {
        return Err(format!(
            "a tag of a stack has a key of 1 to {KEY_CHARACTERS_MAX} characters and a value of 1 to {VALUE_CHARACTERS_MAX}; {text:?} does not"
        ));
    }
    if key.to_ascii_lowercase().starts_with("aws:") {
        return Err(format!("{key:?} begins with `aws:`, which AWS keeps for itself"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: &str = "arn:aws:iam::123456789012:policy/boundary";
    const OTHER: &str = "arn:aws:iam::123456789012:policy/other";

    type Settings = (BTreeMap<String, String>, BTreeMap<String, String>);

    /// The parameters and the tags of a stack, each as `key=value`, separated by blanks.
    fn stack((parameters, tags): (&str, &str)) -> Settings {
        let pair = |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        let read = |text: &str| text.split_whitespace().map(pair).collect();
        (read(parameters), read(tags))
    }

    fn borrow((parameters, tags): &Settings) -> StackSettings<'_> {
        StackSettings { parameters, tags }
    }

    fn resolve(options: &str, team: Option<(&str, &str)>, own: Option<(&str, &str)>) -> Result<TeamRoleRules, String> {
        let mut read = RoleOptions::default();
        for (key, value) in options.split_whitespace().map(|pair| read_tag(pair).unwrap()) {
            match key.as_str() {
                "boundary" => read.boundary = Some(value),
                "path" => read.path = Some(value),
                _ => read.tags.push((key, value)),
            }
        }
        let (team, own) = (team.map(stack), own.map(stack));
        TeamRoleRules::resolve(&read, team.as_ref().map(borrow), own.as_ref().map(borrow))
            .map_err(|error| error.to_string())
    }

    fn check(
        options: &str,
        team: Option<(&str, &str)>,
        own: Option<(&str, &str)>,
        boundary: &str,
        path: &str,
        tags: Option<&str>,
    ) {
        let expect = TeamRoleRules {
            boundary: boundary.to_owned(),
            path: path.to_owned(),
            tags: tags.map(|text| stack(("", text)).1),
        };
        assert_eq!(resolve(options, team, own), Ok(expect));
    }

    fn check_refusal(options: &str, team: Option<(&str, &str)>, own: Option<(&str, &str)>, expect: &str) {
        let error = resolve(options, team, own).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_new_role_has_what_curfews_own_stack_has() {
        let own = format!("{BOUNDARY}={BOUND} {PATH}=/platform/");
        check("", None, Some((&own, "cost=ml")), BOUND, "/platform/", Some("cost=ml"));
        check("", None, Some(("Mode=enforce", "")), "", "/", None);
        check("", None, None, "", "/", None);
    }

    #[test]
    fn an_option_goes_before_both_stacks_and_the_own_stack_fills_what_is_missing() {
        let own = format!("{BOUNDARY}={BOUND}");
        let team = format!("{BOUNDARY}={OTHER} {PATH}=/");
        check("", Some((&team, "cost=nlp")), Some((&own, "cost=ml")), OTHER, "/", None);
        check("", Some((&format!("{BOUNDARY}="), "")), Some((&own, "cost=ml")), BOUND, "/", Some("cost=ml"));
        check(
            &format!("boundary={BOUND} cost=vision"),
            Some((&team, "cost=nlp")),
            Some((&own, "")),
            BOUND,
            "/",
            Some("cost=vision"),
        );
    }

    #[test]
    fn a_path_is_the_one_of_which_run_jobs_gives_roles() {
        check("path=/platform/", None, None, "", "/platform/", None);
        check("", Some((&format!("{PATH}=/platform/"), "")), None, "", "/platform/", None);
        let own = Some(("RolePath=/platform/", ""));
        check("path=/platform/", None, own, "", "/platform/", None);
        check_refusal("path=/other/", None, own, "only roles under /platform/curfew/");
        check_refusal("path=/other/", None, Some(("", "")), "only roles under /curfew/");
        check_refusal("", Some(("RolePath=/", "")), own, "delete it by `curfew team delete`");
        check_refusal("path=/other/", Some(("RolePath=/", "")), None, "cannot be changed");
        check_refusal("", Some(("Team=vision", "")), own, "is under /curfew/");
    }

    #[test]
    fn what_iam_does_not_take_is_refused() {
        for path in ["platform/", "/platform", "//", "/a//b/", "/*/", "/${x}/", "/é/"] {
            check_refusal(&format!("path={path}"), None, None, "is not a path of IAM");
        }
        for arn in ["boundary", "arn:aws:iam::1:role/x", "arn:aws:s3:::policy/x"] {
            check_refusal(&format!("boundary={arn}"), None, None, "is not the ARN of an IAM policy");
        }
        check_refusal("cost=a cost=b", None, None, "names a key twice");
        let many: Vec<String> = (0..=TAGS_MAX).map(|number| format!("k{number}=v")).collect();
        check_refusal(&many.join(" "), None, None, "50 tags at most, and --tag names 51");
    }

    #[test]
    fn a_tag_is_a_key_and_a_value() {
        let read = |text: &str| read_tag(text);
        assert_eq!(read("cost=ml=x"), Ok(("cost".to_owned(), "ml=x".to_owned())));
        for (text, expect) in [
            ("cost", "write KEY=VALUE"),
            ("=ml", "1 to 128"),
            ("cost=", "a value of 1 to 256"),
            ("AWS:x=1", "begins with `aws:`"),
        ] {
            assert!(read(text).unwrap_err().contains(expect), "{text}");
        }
        assert!(read(&format!("k={}", "v".repeat(257))).unwrap_err().contains("a value of 1 to 256"));
    }
}
