//! The script of a step, for the `/bin/sh` of the container.

use std::fmt::Write as _;

use jobs::Shell;

use crate::command::ShellLine;
use crate::variables::VariableMap;

/// Around the line. Docker ends a container with its first process, so this shell outlives a signal: it waits until everything that got the signal
/// as well has ended, such as a program that writes its last checkpoint after the shell of the line is gone. Processes that the line leaves behind
/// have two seconds, and are named in `LEFT`. `kill -0 -1` asks whether there are others than this shell and the first process (Linux manual,
/// `kill(2)`).
const AROUND: &str = "\
trap signaled=1 TERM INT HUP QUIT USR1 USR2
RUN
code=$?
left=2
while kill -0 -1 2> /dev/null && { [ -n \"$signaled\" ] || [ $left -gt 0 ]; }; do
    sleep 1
    left=$((left - 1))
done
kill -0 -1 2> /dev/null && for process in /proc/[0-9]*; do
    id=${process#/proc/}
    [ $id = 1 ] || [ $id = $$ ] || { read -r name < $process/comm && echo \"$name ($id)\"; }
done > LEFT 2> /dev/null
exit $code
";

/// No variable but those of the step is in the environment of the line. `left`: the file for the names of the processes that it leaves behind.
pub(super) fn step(line: ShellLine<'_>, variables: &VariableMap, left: &str) -> String {
    let run = |shell: Shell, path: &str| {
        let words: Vec<String> = shell.arguments(line.line).iter().map(|word| quote(word)).collect();
        format!("{path} {}", words.join(" "))
    };
    let run = match line.shell {
        Some(shell) => run(shell, shell.as_str()),
        None => format!(
            "if command -v bash > /dev/null 2>&1; then\n{}\nelse\n{}\nfi",
            run(Shell::Bash, "bash"),
            run(Shell::Sh, "/bin/sh")
        ),
    };
    format!("{}{}", assign(variables), AROUND.replacen("LEFT", left, 1).replacen("RUN", &run, 1))
}

fn assign(variables: &VariableMap) -> String {
    let mut script = String::new();
    for (name, value) in variables {
        let _ = writeln!(script, "export {name}={}", quote(value));
    }
    script
}

/// POSIX.1-2024, "Quoting".
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn check(line: &str, shell: Option<Shell>, expect: (&str, i32)) {
        let variables = VariableMap::from([("VALUE".to_owned(), "a 'quoted' $HOME\n`line`".to_owned())]);
        // Other processes of this machine are none of the container.
        let script = format!("kill() {{ false; }}\n{}", step(ShellLine { line, shell }, &variables, "/dev/null"));
        let ran = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        assert_eq!((String::from_utf8_lossy(&ran.stdout).as_ref(), ran.status.code()), (expect.0, Some(expect.1)));
    }

    #[test]
    fn a_line_and_its_variables_are_no_shell_of_the_script() {
        check("printf %s \"$VALUE\"; exit 7", None, ("a 'quoted' $HOME\n`line`", 7));
        check("echo 'it''s'; [ -n \"$BASH_VERSION\" ]", None, ("its\n", 0));
    }

    #[test]
    fn a_line_has_its_shell() {
        check("(exit 3) | cat", None, ("", 3));
        check("(exit 3) | cat", Some(Shell::Sh), ("", 0));
        check("echo never", Some(Shell::Ksh), ("", 127));
    }
}
