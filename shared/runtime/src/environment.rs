//! What is read of the world: its variables, its clock, and where this program lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn clock() -> Timestamp {
    Timestamp::now()
}

/// The agents that come with the function, by architecture, `x86_64` and `arm64`: where each file lies, if it is there. In Lambda
/// those of its package (Lambda developer guide, "Defined runtime environment variables"); elsewhere the one that was built beside
/// this program, for the architecture that this machine is of.
#[must_use]
pub fn agents() -> Vec<(&'static str, PathBuf)> {
    agents_of(variable("LAMBDA_TASK_ROOT"), std::env::current_exe().ok().as_deref())
}

fn agents_of(task_root: Option<OsString>, program: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    let root = task_root.filter(|root| !root.is_empty()).map(PathBuf::from);
    match (root, program.and_then(Path::parent)) {
        (Some(root), _) => ["x86_64", "arm64"].map(|one| (one, root.join(format!("agent-{one}")))).to_vec(),
        (None, Some(folder)) => vec![(architecture, folder.join("agent"))],
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_come_with_the_package() {
        let both = agents_of(Some("/var/task".into()), Some(Path::new("/var/task/bootstrap")));
        let expect = [("x86_64", "/var/task/agent-x86_64"), ("arm64", "/var/task/agent-arm64")];
        assert_eq!(both, expect.map(|(one, path)| (one, PathBuf::from(path))));
    }

    #[test]
    fn without_a_package_the_agent_lies_beside_the_program() {
        for root in [None, Some(OsString::new())] {
            let one = agents_of(root, Some(Path::new("/x/target/debug/run-jobs")));
            assert_eq!(
                one.iter().map(|(_, path)| path.as_path()).collect::<Vec<_>>(),
                [Path::new("/x/target/debug/agent")]
            );
        }
        assert_eq!(agents_of(None, None), []);
    }
}
