//! Who runs the command: the person who typed it, also when sudo stands between.

use std::ffi::{CString, OsStr, OsString};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, getegid, geteuid, getresgid, getresuid, initgroups, setresgid, setresuid};

use super::control::{Failure, Layer};
use super::diagnose::{Host, LaunchError, explain};

/// The user that the command runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The home directory. It need not exist or be readable.
    pub home: PathBuf,
    /// The home directory that passwd names, where it is another: programs may keep credentials in either.
    pub passwd_home: Option<PathBuf>,
    /// The name, for `USER` and `LOGNAME`.
    pub user: OsString,
    /// The login shell.
    pub shell: OsString,
    /// Root, with nobody behind it: what the command may write is limited.
    pub real_root: bool,
    /// Root by sudo; the command runs as the user that `SUDO_UID` names.
    pub from_sudo: bool,
    /// The name in passwd, by which the user's groups are found.
    account: Option<CString>,
}

/// The user that the command will run as: with sudo the one who called it. Reads single variables of the environment only,
/// and changes nothing: files of root's are opened between this and [`Identity::assume`].
///
/// # Errors
///
/// A `SUDO_UID` or `SUDO_GID` that is no user's or group's number, and the system's refusals.
pub fn invoking_user() -> Result<Identity, LaunchError> {
    identify().map_err(|failure| explain(failure, &Host::read()))
}

impl Identity {
    /// Becomes this user, for good, where sudo made this process root.
    ///
    /// # Errors
    ///
    /// The system's refusals.
    pub fn assume(&self) -> Result<(), LaunchError> {
        if !self.from_sudo {
            return Ok(());
        }
        self.switch().map_err(|failure| explain(failure, &Host::read()))
    }

    /// Groups first: once the user is changed the right to change groups is gone.
    fn switch(&self) -> Result<(), Failure> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let failed = |what: &'static str| move |errno: Errno| Failure::new(Layer::Identity, what, errno);
        match &self.account {
            Some(name) => initgroups(name, gid).map_err(failed("taking the user's groups"))?,
            None => nix::unistd::setgroups(&[gid]).map_err(failed("leaving root's groups"))?,
        }
        setresgid(gid, gid, gid).map_err(failed("taking the user's group"))?;
        setresuid(uid, uid, uid).map_err(failed("becoming the user"))?;
        let (users, groups) =
            (getresuid().map_err(failed("telling who it is"))?, getresgid().map_err(failed("telling who it is"))?);
        if [users.real, users.effective, users.saved] != [uid; 3]
            || [groups.real, groups.effective, groups.saved] != [gid; 3]
        {
            return Err(Failure::text(Layer::Identity, format!("it did not become user {uid} and group {gid}")));
        }
        // A change of user hides /proc/PID from that user; the maps of the new namespace are written there.
        prctl::set_dumpable(true).map_err(failed("becoming dumpable"))
    }
}

fn identify() -> Result<Identity, Failure> {
    let (uid, gid) = (geteuid(), getegid());
    let from_sudo =
        if uid.is_root() { number("SUDO_UID")?.map(Uid::from_raw).filter(|uid| !uid.is_root()) } else { None };
    let Some(invoking) = from_sudo else {
        return Ok(describe(uid, gid, look_up(uid)?, false));
    };
    let user = look_up(invoking)?;
    let group = number("SUDO_GID")?.map(Gid::from_raw).or(user.as_ref().map(|user| user.gid)).ok_or_else(|| {
        Failure::text(Layer::Identity, "SUDO_GID is missing and the user is not in passwd; start it by sudo, or set it")
    })?;
    Ok(describe(invoking, group, user, true))
}

fn number(variable: &str) -> Result<Option<u32>, Failure> {
    let Some(text) = std::env::var_os(variable).filter(|text| !text.is_empty()) else { return Ok(None) };
    id_number(&text).map(Some).ok_or_else(|| {
        Failure::text(Layer::Identity, format!("{variable} is {text:?}, not the number of a user or group"))
    })
}

/// `u32::MAX` is nobody's: to setresuid(2) it means "as it is", which is root.
fn id_number(text: &OsStr) -> Option<u32> {
    text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number != u32::MAX)
}

fn look_up(uid: Uid) -> Result<Option<User>, Failure> {
    User::from_uid(uid).map_err(|errno| Failure::new(Layer::Identity, format!("looking up user {uid}"), errno))
}

fn describe(uid: Uid, gid: Gid, known: Option<User>, from_sudo: bool) -> Identity {
    let named = |variable: &str| (!from_sudo).then(|| std::env::var_os(variable)).flatten();
    let known_home = known.as_ref().map(|user| user.dir.clone());
    let known_shell = known.as_ref().map(|user| user.shell.clone().into_os_string());
    let known_name = known.map(|user| user.name);
    let known_home = known_home.filter(|home| home.is_absolute());
    let home = named("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.or_else(|| known_home.clone()).unwrap_or_else(|| "/".into());
    Identity {
        uid: uid.as_raw(),
        gid: gid.as_raw(),
        passwd_home: known_home.filter(|known| *known != home),
        home,
        account: known_name.as_deref().and_then(|name| CString::new(name).ok()),
        user: known_name.map(OsString::from).or_else(|| named("USER")).unwrap_or_else(|| uid.to_string().into()),
        shell: named("SHELL").or(known_shell).unwrap_or_else(|| "/bin/sh".into()),
        real_root: uid.is_root(),
        from_sudo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! numbers {
        ($($test:ident: $text:literal => $number:expr;)*) => {
            $(#[test]
            fn $test() {
                assert_eq!(id_number(OsStr::new($text)), $number);
            })*
        };
    }

    numbers! {
        a_number_is_one: "1000" => Some(1000);
        minus_one_is_nobody: "4294967295" => None;
        minus_one_in_words_is_nobody: "-1" => None;
        more_than_32_bits_is_nobody: "4294967296" => None;
        a_name_is_no_number: "root" => None;
    }
}
