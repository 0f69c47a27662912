//! The script of a step, for the `/bin/sh` of the container.

use std::fmt::Write as _;

use crate::variables::VariableMap;

/// Around the line. Docker ends a container with its first process, so this shell outlives a signal: it waits until everything that got the signal
/// as well has ended, such as a program that writes its last checkpoint after the shell of the line is gone. Processes that the line leaves behind
/// have two seconds. `kill -0 -1` asks whether there are others than this shell and the first process (Linux manual, `kill(2)`).
const AROUND: &str = "\
trap : TERM INT HUP QUIT USR1 USR2
/bin/sh -c \"$line\"
code=$?
left=2
while kill -0 -1 2> /dev/null && { [ $code -gt 128 ] || [ $left -gt 0 ]; }; do
    sleep 1
    left=$((left - 1))
done
exit $code
";

/// No variable but those of the step is in the environment of the line.
pub(super) fn step(line: &str, variables: &VariableMap) -> String {
    format!("{}{AROUND}", assign(line, variables))
}

fn assign(line: &str, variables: &VariableMap) -> String {
    let mut script = String::new();
    for (name, value) in variables {
        let _ = writeln!(script, "export {name}={}", quote(value));
    }
    let _ = writeln!(script, "line={}", quote(line));
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

    #[test]
    fn a_line_and_its_variables_are_no_shell_of_the_script() {
        let (value, line) = ("a 'quoted' $HOME\n`line`", "printf %s \"$VALUE\"; exit 7");
        let variables = VariableMap::from([("VALUE".to_owned(), value.to_owned())]);
        let script = format!("{}exec /bin/sh -c \"$line\"", assign(line, &variables));
        let ran = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
        assert_eq!((String::from_utf8_lossy(&ran.stdout).as_ref(), ran.status.code()), (value, Some(7)));
    }
}
