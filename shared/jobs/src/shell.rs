//! The shell that runs `setup` and the command of a job, and what it makes of a pipeline that fails in an earlier part.

use model::fault::InvalidValue;

/// A shell by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shell {
    Bash,
    Dash,
    Ksh,
    Sh,
    Zsh,
}

/// Prefix of a line with a part that ends its pipeline early. `pipefail` would count the SIGPIPE (141) of the parts in front of it as a
/// failure, and `&&` or `if` would take another way. So only the last pipeline counts here, by the first failure that is no SIGPIPE. What a
/// line says by `exit` itself stays.
const WITHOUT_PIPEFAIL: &str = "trap 's=($? \"${PIPESTATUS[@]}\"); [[ $s != 0 || $BASH_COMMAND == exit* ]] || \
                                for c in \"${s[@]}\"; do [[ $c == 0 || $c == 141 ]] || exit \"$c\"; done' EXIT; ";

impl Shell {
    pub const ALL: [Self; 5] = [Self::Bash, Self::Dash, Self::Ksh, Self::Sh, Self::Zsh];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "dash",
            Self::Ksh => "ksh",
            Self::Sh => "sh",
            Self::Zsh => "zsh",
        }
    }

    /// The shell of that name.
    ///
    /// # Errors
    /// All legal names.
    pub fn read(name: &str) -> Result<Self, InvalidValue> {
        let found = Self::ALL.into_iter().find(|shell| shell.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|shell| format!("`{}`", shell.as_str())).collect();
            InvalidValue::new(format!("{name:?} is none of {}", names.join(", ")))
        })
    }

    /// The arguments with which it runs a line. A pipeline fails with its last part that fails, if the shell can do that (`pipefail`); `sh` never
    /// does, because only some of them can.
    #[must_use]
    pub fn arguments(self, line: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Bash | Self::Ksh | Self::Zsh if find_early_end(line).is_none() => &["-o", "pipefail", "-c", line],
            Self::Bash => return vec!["-c".to_owned(), format!("{WITHOUT_PIPEFAIL}{line}")],
            Self::Dash | Self::Sh | Self::Ksh | Self::Zsh => &["-c", line],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// One command between separators.
#[derive(Debug, Default)]
struct PipelinePart {
    words: Vec<String>,
    reads_pipe: bool,
    writes_pipe: bool,
}

/// The first program of a line of shell that may end a pipeline before the parts in front of it have written all: `head` of `seq 9 | head -1`, `yes`
/// of `yes | apt-get install x`. It is a guess by names.
fn find_early_end(line: &str) -> Option<String> {
    split_parts(line).iter().find_map(|part| {
        let at = part.words.iter().position(|word| !is_prefix(word))?;
        let (program, arguments) = (part.words.get(at)?.rsplit('/').next()?, part.words.get(at.saturating_add(1)..)?);
        let is_early =
            (part.reads_pipe && may_stop_reading(program, arguments)) || (part.writes_pipe && program == "yes");
        is_early.then(|| program.to_owned())
    })
}

/// Assignments, and words that stand before a command.
fn is_prefix(word: &str) -> bool {
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-'));
    is_assignment
        || matches!(
            word,
            "!" | "{" | "if" | "then" | "elif" | "else" | "do" | "sudo" | "env" | "exec" | "command" | "time" | "nohup"
        )
}

fn may_stop_reading(program: &str, arguments: &[String]) -> bool {
    let any = |is: &dyn Fn(&str) -> bool| arguments.iter().any(|word| is(word));
    let has_option = |word: &str| match word.strip_prefix("--") {
        Some(long) => ["quiet", "silent", "max-count", "files-with"].iter().any(|name| long.starts_with(name)),
        None => word.starts_with('-') && word.contains(['q', 'm', 'l']),
    };
    match program {
        "head" | "less" | "more" | "read" | "true" | ":" => true,
        "grep" | "egrep" | "fgrep" | "zgrep" | "rg" => any(&has_option),
        "sed" => any(&|word| word.ends_with(['q', 'Q']) || word.contains("q;") || word.contains("q}")),
        "awk" | "gawk" | "mawk" | "nawk" => any(&|word| word.contains("exit")),
        _ => false,
    }
}

/// Double quotes hide no separator, because `"$(a | head -1)"` is a pipeline as well.
fn split_parts(line: &str) -> Vec<PipelinePart> {
    let (mut parts, mut part, mut word) = (Vec::new(), PipelinePart::default(), String::new());
    let (mut letters, mut is_quoted) = (line.chars().peekable(), false);
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(letters.next()),
            _ if is_quoted => word.push(letter),
            '"' | '$' => {}
            '|' | ';' | '&' | '\n' | '(' | ')' | '`' => {
                let is_pipe = letter == '|' && letters.next_if_eq(&'|').is_none();
                if !word.is_empty() {
                    part.words.push(std::mem::take(&mut word));
                }
                part.writes_pipe = is_pipe;
                parts.push(std::mem::take(&mut part));
                part.reads_pipe = is_pipe;
                if is_pipe {
                    // `|&` is a pipe, and a line may break after it.
                    while letters.next_if(|next| *next == '&' || next.is_whitespace()).is_some() {}
                }
            }
            _ if letter.is_whitespace() => {
                if !word.is_empty() {
                    part.words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(letter),
        }
    }
    part.words.extend(Some(word).filter(|word| !word.is_empty()));
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_part_that_ends_a_pipeline_early_is_found() {
        let check = |line: &str, expect: Option<&str>| assert_eq!(find_early_end(line).as_deref(), expect, "{line}");
        for line in
            ["python train.py", "python a.py 2>&1 | tee log", "a || head -1 x", "a; head x", "a | grep loss", ""]
        {
            check(line, None);
        }
        check("cat a | while read x; do echo $x; done", None);
        check("echo 'a | head' | cat", None);
        check("yes > answers; a | sed s/yes/no/ | awk '{print $1}'", None);
        check("seq 9 | /usr/bin/head -1", Some("head"));
        check("a |& \n LANG=C head", Some("head"));
        check("x=\"$(tr -dc a-z < /dev/urandom | head -c 8)\" && b", Some("head"));
        check("if nvidia-smi | grep -q H100; then a; fi", Some("grep"));
        check("a | sudo grep --max-count=1 x", Some("grep"));
        check("a | sed 5q", Some("sed"));
        check("a | awk 'NR == 1 { print; exit }'", Some("awk"));
        check("yes | apt-get install -y x && b", Some("yes"));
        check("(yes '' | a)", Some("yes"));
    }

    #[track_caller]
    fn check_code(line: &str, expect: i32) {
        let ran = Command::new("bash").args(Shell::Bash.arguments(line)).output().unwrap();
        assert_eq!(ran.status.code(), Some(expect), "{line}");
    }

    #[test]
    fn a_pipeline_fails_with_an_earlier_part() {
        check_code("(exit 3) | cat", 3);
        check_code("(exit 3) | cat && exit 0", 3);
        check_code("(exit 3) | cat; true", 0);
        check_code("seq 1000000 | sh -c 'read x'", 141);
    }

    #[test]
    fn a_part_that_is_ended_early_is_no_failure() {
        check_code("seq 1000000 | head -1", 0);
        check_code("yes | head -1 && exit 4", 4);
        check_code("(exit 3) | head -1", 3);
        check_code("(exit 3) | head -1; exit 0", 0);
        check_code("(exit 3) | head -1; true", 0);
        check_code("(exit 3) | head -1 || exit 5", 3);
        check_code("false | yes | head -1", 1);
        check_code("true | head -1; exit 6", 6);
    }

    #[test]
    fn a_shell_has_a_name() {
        for shell in Shell::ALL {
            assert_eq!(Shell::read(shell.as_str()), Ok(shell));
        }
        assert_eq!(
            Shell::read("BASH").unwrap_err().to_string(),
            "\"BASH\" is none of `bash`, `dash`, `ksh`, `sh`, `zsh`"
        );
        assert_eq!(Shell::Sh.arguments("a | b"), ["-c", "a | b"]);
        assert_eq!(Shell::Zsh.arguments("a | b"), ["-o", "pipefail", "-c", "a | b"]);
    }
}
