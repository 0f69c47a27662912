//! Hints for people who submit a job: legal text that is often not what was meant.

use std::collections::BTreeMap;

use super::JobSpec;
use crate::Shell;

/// Programs and words of bash that `sh` does not have (POSIX.1-2024, "Shell Command Language").
const WORDS_OF_BASH: [&str; 9] = ["source", "[[", "((", "function", "declare", "shopt", "pushd", "popd", "mapfile"];

/// Words after which a command begins.
const BEFORE_COMMANDS: [&str; 9] = ["then", "do", "else", "if", "while", "until", "elif", "!", "{"];

/// The ends of names of secrets.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "APIKEY", "AWS_ACCESS_KEY_ID"];

/// The beginnings of secrets: those of Hugging Face, `OpenAI` and Anthropic, GitHub, `GitLab`, AWS, Slack, Google, and keys in PEM.
const SECRET_PREFIXES: [&str; 14] = [
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "xoxb-",
    "xoxp-",
    "AIza",
    "-----BEGIN",
];

/// No secret is as short; `sk-learn` is none.
const SECRET_CHARACTERS_MIN: usize = 16;

impl JobSpec {
    /// Hints about its commands and its environment. None is a mistake.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let commands = [("command", Some(&self.work.command)), ("setup", self.work.setup.as_ref())];
        let written = commands.into_iter().filter_map(|(key, text)| Some((key, text?)));
        let hints = written.flat_map(|(key, text)| {
            command_hints(text, self.work.shell).into_iter().map(move |hint| format!("`{key}` {hint}"))
        });
        hints.chain(environment_hints(&self.work.env)).collect()
    }
}

/// The parts of a command that its shell does not do as bash would, which runs it by default.
pub(crate) fn command_hints(command: &str, shell: Option<Shell>) -> Vec<String> {
    let Some(shell) = shell.filter(|shell| matches!(shell, Shell::Sh | Shell::Dash)).map(Shell::as_str) else {
        return Vec::new();
    };
    let bare = without_quoted(command);
    let mut found: Vec<String> =
        first_words(&bare).into_iter().filter(|word| WORDS_OF_BASH.contains(word)).map(str::to_owned).collect();
    found.extend(
        bare.split(|letter: char| letter.is_whitespace() || letter == ';')
            .filter(|word| is_brace_expansion(word))
            .map(str::to_owned),
    );
    found.extend(
        ["<(", ">(", "<<<", "&>", "|&", "=("].into_iter().filter(|sign| bare.contains(sign)).map(str::to_owned),
    );
    found.dedup();
    let mut hints: Vec<String> = found
        .first()
        .map(|first| {
            format!("has `{first}`, which is bash's, and `shell` is \"{shell}\": leave that out, and bash runs it")
        })
        .into_iter()
        .collect();
    if bare.replace("||", "").replace("|&", "").contains('|') {
        hints.push(format!(
            "has a pipeline, and `{shell}` looks at its last part alone, so a failure of an earlier one goes unseen: leave out `shell`, and bash runs it"
        ));
    }
    hints
}

/// Variables that seem to hold a secret.
pub(crate) fn environment_hints(env: &BTreeMap<String, String>) -> Vec<String> {
    let seems_secret = |(name, value): &(&String, &String)| {
        let name = name.to_ascii_uppercase();
        let is_named_so = SECRET_WORDS
            .iter()
            .any(|word| name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_')));
        let is_long = value.chars().count() >= SECRET_CHARACTERS_MIN;
        let begins_so = is_long && SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix));
        begins_so || is_named_so && !value.is_empty() && !value.starts_with('/')
    };
    let named: Vec<String> = env.iter().filter(seems_secret).map(|(name, _)| format!("`{name}`")).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let (named, verb) = (named.join(", "), if named.len() == 1 { "seems" } else { "seem" });
    vec![format!(
        "{named} of `env` {verb} to hold a secret, and the document keeps it as it is written. Put it into Secrets Manager or Parameter Store, and name its ARN under `[secrets]`, or by `curfew run --secret NAME=ARN`"
    )]
}

/// The text without comments, and with `_` in place of what is quoted.
fn without_quoted(command: &str) -> String {
    let (mut bare, mut letters, mut quote) = (String::new(), command.chars(), None);
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => {
                letters.next();
            }
            (letter, Some(open)) => {
                if letter == open {
                    quote = None;
                    bare.push('_');
                }
            }
            ('\'' | '"', None) => quote = Some(letter),
            ('#', None) if bare.is_empty() || bare.ends_with(char::is_whitespace) => {
                letters.by_ref().take_while(|letter| *letter != '\n').for_each(drop);
                bare.push('\n');
            }
            (letter, None) => bare.push(letter),
        }
    }
    bare
}

/// The words at which a command begins.
fn first_words(bare: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in bare.split(['\n', ';', '&', '|', '`']) {
        let mut is_first = true;
        for word in part.split_whitespace() {
            if is_first {
                found.push(if word.starts_with("((") { "((" } else { word.trim_start_matches('(') });
            }
            is_first = BEFORE_COMMANDS.contains(&word);
        }
    }
    found
}

/// `{1..3}` and `a{b,c}`, and not `${x}`.
fn is_brace_expansion(word: &str) -> bool {
    word.match_indices('{').any(|(at, _)| {
        let (before, rest) = (word.get(..at).unwrap_or_default(), word.get(at..).unwrap_or_default());
        let inner = rest.get(1..).and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
        !before.ends_with('$') && inner.is_some_and(|inner| inner.contains("..") || inner.contains(','))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expect: &[&str]) {
        let found = command_hints(command, Some(Shell::Sh));
        assert!(
            found.len() == expect.len() && found.iter().zip(expect).all(|(hint, expect)| hint.contains(expect)),
            "{command}: {found:?}"
        );
        assert!(command_hints(command, Some(Shell::Bash)).is_empty() && command_hints(command, None).is_empty());
    }

    #[test]
    fn what_bash_alone_has_is_hinted_at() {
        check("source venv/bin/activate && python a.py", &["`source`"]);
        check("cd x; if true; then source y; fi", &["`source`"]);
        check("for i in {1..3}; do echo $i; done", &["`{1..3}`"]);
        check("cp a.{txt,csv} /out", &["`a.{txt,csv}`"]);
        check("[[ -e x ]] && python a.py", &["`[[`"]);
        check("diff <(a) <(b)", &["`<(`"]);
        check("python a.py &> log", &["`&>`"]);
        check("python train.py | tee log", &["a pipeline"]);
        check("source a; x | y", &["`source`", "a pipeline"]);
    }

    #[test]
    fn what_sh_has_is_not() {
        for plain in [
            "python train.py --source data --format '{1..3}' \"a | b\"",
            ". venv/bin/activate && python a.py || exit 1",
            "echo ${HOME} ${x:-y} # source | {1..3}",
            "bash -o pipefail -c 'source a | b'",
            "python a.py --lr {{lr}} --open-source x",
            "cat <<EOF\nok\nEOF",
            "python a.py > log 2>&1",
        ] {
            check(plain, &[]);
        }
    }

    fn check_env(name: &str, value: &str, expect: bool) {
        let hints = environment_hints(&[(name.to_owned(), value.to_owned())].into());
        assert_eq!(!hints.is_empty(), expect, "{name}={value}");
        assert!(hints.iter().all(|hint| hint.contains(name) && (value.len() < 8 || !hint.contains(value))));
    }

    #[test]
    fn a_secret_in_the_environment_is_hinted_at_without_its_value() {
        for name in [
            "HF_TOKEN",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASSWORD",
            "token",
            "MY_SECRET",
        ] {
            check_env(name, "0123456789", true);
        }
        for value in [
            "hf_abcdefghijklmnopqrst",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_0123456789abcdefghij",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            check_env("X", value, true);
        }
        for (name, value) in [
            ("MONKEY", "a"),
            ("TOKENS", "4096"),
            ("HF_TOKEN", ""),
            ("SSH_KEY", "/run/key"),
            ("X", "sk-learn"),
            ("HF_HOME", "/x"),
        ] {
            check_env(name, value, false);
        }
    }
}
