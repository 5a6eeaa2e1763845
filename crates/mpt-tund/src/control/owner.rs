//! Who may use the control socket besides root: the owner and the group of its file.
//!
//! Names are those of /etc/passwd and /etc/group; who is known elsewhere is given by number.

use std::fmt;
use std::fs;
use std::io;

/// `USER`, `USER:GROUP` or `:GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Owner {
    /// Name or number; the daemon's user when it is not given.
    pub(crate) user: Option<String>,
    /// Name or number; the daemon's group when it is not given.
    pub(crate) group: Option<String>,
}

/// As it is written.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.user.as_deref().unwrap_or_default())?;
        match &self.group {
            Some(group) => write!(f, ":{group}"),
            None => Ok(()),
        }
    }
}

impl Owner {
    /// The numbers of a user and of its group, which is the user's own where none is named.
    ///
    /// # Errors
    /// When one is not known here.
    pub(crate) fn identity(&self) -> io::Result<(u32, u32)> {
        let (user, group) = self.ids()?;
        let user = user.ok_or(io::ErrorKind::InvalidInput)?;
        let name = self.user.as_deref().unwrap_or_default();
        let known = || own_group_in(&fs::read_to_string("/etc/passwd").ok()?, name);
        let missing = || {
            let what = format!("/etc/passwd has no {name}; write USER:GROUP");
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        Ok((user, group.or_else(known).ok_or_else(missing)?))
    }

    /// The numbers, as `chown` takes them.
    ///
    /// # Errors
    /// When a name is not known here.
    pub(crate) fn ids(&self) -> io::Result<(Option<u32>, Option<u32>)> {
        let id = |name: &Option<String>, file| {
            let name = name.as_deref();
            name.map(|name| id_of(name, file)).transpose()
        };
        Ok((
            id(&self.user, "/etc/passwd")?,
            id(&self.group, "/etc/group")?,
        ))
    }
}

fn id_of(name: &str, file: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{file} has no {name}"));
    id_in(&fs::read_to_string(file)?, name).ok_or_else(missing)
}

/// The group of the user that has this name or number.
fn own_group_in(text: &str, user: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&user) || fields.get(2) == Some(&user);
        is_it.then(|| fields.get(3)?.parse().ok())?
    })
}

/// The third field of the line whose first is `name`.
fn id_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_numbers_are_not() {
        let text = "root:x:0:0::/root:/bin/sh\nmpt:x:991:990::/:/bin/false\nbad:x:z\n";
        assert_eq!(id_in(text, "mpt"), Some(991));
        assert_eq!(id_in(text, "mp"), None);
        assert_eq!(id_in(text, "bad"), None);
        assert_eq!(own_group_in(text, "mpt"), Some(990));
        assert_eq!(own_group_in(text, "991"), Some(990));
        assert_eq!(own_group_in(text, "77"), None);
        let owner = |user: &str| Owner {
            user: Some(user.to_owned()),
            group: None,
        };
        assert_eq!(owner("77").ids().unwrap(), (Some(77), None));
        assert_eq!(owner("root").ids().unwrap(), (Some(0), None));
        let error = owner("nobody-of-that-name").ids().unwrap_err();
        assert!(error.to_string().contains("/etc/passwd"), "{error}");
    }
}
