//! Inputs from the environment: variables, the clock, and the program's own path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn clock() -> Timestamp {
    Timestamp::now()
}

/// The possible paths of the function's agents, by architecture, `x86_64` and `arm64`; for each architecture the first existing file
/// counts. In Lambda they are in its package (Lambda developer guide, "Defined runtime environment variables"); elsewhere the built agent
/// is beside this program, for this machine's architecture.
#[must_use]
pub fn agents() -> Vec<(&'static str, PathBuf)> {
    agents_of(variable("LAMBDA_TASK_ROOT"), std::env::current_exe().ok().as_deref())
}

fn agents_of(task_root: Option<OsString>, program: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    let root = task_root.filter(|root| !root.is_empty()).map(PathBuf::from);
    let packed = root.iter().flat_map(|root| ["x86_64", "arm64"].map(|one| (one, root.join(format!("agent-{one}")))));
    let built = program.and_then(Path::parent).map(|folder| (architecture, folder.join("agent")));
    packed.chain(built).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(root: Option<&str>, program: Option<&str>, expect: &[&str]) {
        let agents = agents_of(root.map(OsString::from), program.map(Path::new));
        assert_eq!(agents.iter().map(|(_, path)| path.to_str().unwrap()).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn agents_come_with_the_package_or_lie_beside_the_program() {
        let packed = ["/var/task/agent-x86_64", "/var/task/agent-arm64"];
        check(Some("/var/task"), Some("/x/run-jobs"), &[packed[0], packed[1], "/x/agent"]);
        check(Some("/var/task"), None, &packed);
        check(None, Some("/x/run-jobs"), &["/x/agent"]);
        check(Some(""), Some("/x/run-jobs"), &["/x/agent"]);
        check(None, None, &[]);
    }
}
