//! Any text at all.

use proptest::prelude::*;

use super::*;

/// A key as TOML.
fn toml(text: &str) -> String {
    model::document::quoted(text)
}

proptest! {
    /// Any text is understood, or refused with sentences that fit a message.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,300}", name in ".{0,80}") {
        match JobSpec::read(&text, &name, None, &Config::default(), &"us-east-1".into(), now()) {
            Ok(spec) => prop_assert!(!spec.work.command.trim().is_empty()),
            Err(mistakes) => prop_assert!(!mistakes.is_empty()),
        }
    }

    /// The same of what looks like a spec.
    #[test]
    fn any_document_of_its_keys_is_read_or_refused(
        lines in proptest::collection::vec((
            proptest::sample::select(vec![
                "command", "owner", "name", "setup", "workdir", "container", "inputs", "tags", "env", "secrets", "gpu", "spot", "limits", "checkpoint",
                "machine", "gpu.count", "gpu.types", "limits.finish_by", "limits.max_runtime", "spot.enabled",
                "checkpoint.dir", "machine.ami", "machine.regions", "[gpu]", "[machine]", "[[tags]]", "[[inputs]]", "from", "to", "[env", "[gpu.model]", "gpu.model.params", "gpu.model.tokens", "gpu.model.task",
            ]),
            proptest::sample::select(vec![
                "1", "-1", "true", "\"x\"", "\"\"", "[]", "[1]", "[\"x\"]", "{}", "{ a = 1 }", "2026-12-24", "nan", "",
                "2026-12-24T00:00:00Z", "\"1h\"", "'''\n'''", "\"\\u0000\"", "[[]]", "1e400", "\"7b\"", "\"lora\"", "\"s3://data/\"", "\"/data\"",
            ]),
        ), 0..12),
    ) {
        let line = |(key, value): &(&str, &str)| if key.starts_with('[') { format!("{key}\n") } else { format!("{key} = {value}\n") };
        let text: String = lines.iter().map(line).collect();
        if let Err(mistakes) = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), now()) {
            prop_assert!(!mistakes.is_empty() && mistakes.len() <= 200);
            for SpecMistake { line, problem, .. } in mistakes {
                prop_assert!(line <= text.lines().count() + 1 && !problem.is_empty());
            }
        }
    }

    /// What people write for programs arrives as they wrote it.
    #[test]
    fn commands_and_variables_arrive_unchanged(
        command in "[^\0]{1,60}", setup in "[^\0]{0,60}", value in "[^\0]{0,60}", tag in "\\PC{0,40}",
        variable in "[A-BD-Z_][A-Za-z0-9_]{0,10}",
    ) {
        prop_assume!(!command.trim().is_empty());
        let text = format!(
            "owner = \"a\"\ncommand = {}\nsetup = {}\n[env]\n{variable} = {}\n[tags]\nnote = {}\n",
            toml(&command), toml(&setup), toml(&value), toml(&tag)
        );
        let spec = JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), now());
        let JobSpec { work, terms, .. } = spec.map_err(|mistakes| TestCaseError::fail(format!("{text}: {mistakes:?}")))?;
        prop_assert_eq!(work.command, command);
        prop_assert_eq!(work.setup, Some(setup));
        prop_assert_eq!(&work.env[&variable], &value);
        prop_assert_eq!(&terms.tags["note"], &tag);
        let written = serde_json::to_string(&terms).unwrap();
        prop_assert_eq!(serde_json::from_str::<JobTerms>(&written).unwrap(), terms);
    }

    #[test]
    fn names_arrive_unchanged(name in "[A-Za-z0-9][A-Za-z0-9._-]{0,62}") {
        let spec = JobSpec::read(&format!("{LEAST}name = '{name}'"), "other", None, &Config::default(), &"us-east-1".into(), now()).unwrap();
        prop_assert_eq!(spec.name.as_str(), &name);
        let spec = JobSpec::read(LEAST, &format!("inbox/vision/{name}.toml"), None, &Config::default(), &"us-east-1".into(), now()).unwrap();
        prop_assert_eq!(spec.name.as_str(), &name);
    }
}
