//! The user that the command runs as.

use std::fs;

use store::FileOwner;

use crate::agent::StartError;

/// The first user of a machine: `ubuntu`, `ec2-user`, and so on.
const FIRST: u32 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups, such as `docker` and `video`.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

impl User {
    /// The owner of the files that the agent reads and writes for this user.
    pub(crate) fn file_owner(&self) -> FileOwner {
        FileOwner { uid: self.uid, gid: self.gid, groups: self.groups.clone() }
    }
}

/// The user of that name, or else the machine's first one, or else the agent's own. Only root can become another user.
///
/// # Errors
/// The image of the machine has no such user, or the machine cannot read its users.
pub(crate) fn find(name: Option<&str>, own: u32) -> Result<User, StartError> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| StartError::broken(format!("{path}: {error}")));
    let (passwd, group) = (read("/etc/passwd")?, read("/etc/group")?);
    let user = choose(name, own, &passwd, &group)?;
    if own != 0 && user.uid != own {
        let why = format!("the agent is not root, and cannot run the command as `{}`", user.name);
        return Err(StartError::broken(why));
    }
    Ok(user)
}

fn choose(name: Option<&str>, own: u32, passwd: &str, group: &str) -> Result<User, StartError> {
    let users: Vec<User> = passwd.lines().filter_map(|line| user_of(line, group)).collect();
    let by_id = |uid: u32| users.iter().find(|user| user.uid == uid);
    let found = match name {
        Some(name) => users.iter().find(|user| user.name == name),
        None if own == 0 => by_id(FIRST).or_else(|| by_id(0)),
        None => by_id(own),
    };
    found.cloned().ok_or_else(|| {
        let name = name.map_or_else(|| own.to_string(), str::to_owned);
        StartError::cannot_run(format!(
            "/etc/passwd of this machine has no user `{name}`: set `user` to one that its image has, or leave it out"
        ))
    })
}

/// passwd(5): name, password, uid, gid, comment, home, shell.
fn user_of(line: &str, group: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
    let groups = group.lines().filter_map(|line| group_with(line, name)).collect();
    let (name, home) = ((*name).to_owned(), (*home).to_owned());
    Some(User { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, groups, home })
}

/// group(5): name, password, gid, members.
fn group_with(line: &str, member: &str) -> Option<u32> {
    let fields: Vec<&str> = line.split(':').collect();
    let [_, _, gid, members] = fields.as_slice() else { return None };
    members.split(',').any(|name| name == member).then(|| gid.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n";
    const GROUP: &str = "root:x:0:\nvideo:x:44:ada,ubuntu\ndocker:x:998:ubuntu\nubuntu:x:1000:\nubuntu2:x:7:ubuntu2\n";

    fn check(name: Option<&str>, own: u32, passwd: &str, expect: Result<(&str, &[u32]), &str>) {
        let chosen = choose(name, own, passwd, GROUP);
        match (chosen, expect) {
            (Ok(user), Ok((name, groups))) => assert_eq!((user.name.as_str(), user.groups.as_slice()), (name, groups)),
            (Err(StartError::Impossible { why, .. }), Err(expect)) => assert!(why.contains(expect), "{why}"),
            (chosen, expect) => panic!("{chosen:?}, not {expect:?}"),
        }
    }

    #[test]
    fn the_requested_user_has_its_groups() {
        check(Some("ubuntu"), 0, PASSWD, Ok(("ubuntu", &[44, 998])));
        check(Some("root"), 0, PASSWD, Ok(("root", &[])));
        check(Some("ada"), 0, PASSWD, Err("no user `ada`"));
    }

    #[test]
    fn the_default_is_the_first_user_of_the_machine() {
        check(None, 0, PASSWD, Ok(("ubuntu", &[44, 998])));
        check(None, 0, "root:x:0:0:root:/root:/bin/sh", Ok(("root", &[])));
        check(None, 65534, PASSWD, Ok(("nobody", &[])));
    }
}
