//! The front of a push: the commands that say which refs become what, and what belongs to them up to the pack
//! (gitprotocol-pack, "Reference Update Request").

use std::collections::HashSet;

use super::super::denial::{Code, OutOfScope};
use super::super::push::{Change, Forced, RefChange, RefTarget, check_name};
use super::pkt::{self, Frame};

mod rest;

pub use rest::Rest;

/// The longest front of a push, in bytes.
const FRONT_MAX: usize = 1 << 20;
/// The most commands of a push.
const COMMANDS_MAX: usize = 10_000;
/// The most push options.
const OPTIONS_MAX: usize = 100;
/// The longest push option, in bytes.
const OPTION_MAX: usize = 1024;

/// A reader of the body of `POST …/git-receive-pack`, fed until its front is whole. It keeps what it was fed.
#[derive(Debug, Default)]
pub struct ReceiveRequest {
    fed: Vec<u8>,
    at: usize,
    section: Section,
    shallow: Vec<String>,
    commands: Vec<Command>,
    names: HashSet<String>,
    capabilities: Capabilities,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Commands,
    Options(usize),
}

/// The whole front of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// What shall become of which refs; none in the probe that git sends before a large push, and in an idle push of a shallow
    /// clone.
    pub commands: Vec<Command>,
    /// What the client can do.
    pub capabilities: Capabilities,
    /// How many bytes of the body the front is. What follows is [`Rest`]'s.
    pub consumed: usize,
    /// Whether a pack follows. None does where nothing but deletions is asked for.
    pub has_pack: bool,
}

/// One change of a ref, as git asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What the ref is now, all zeros where it is not there. GitHub refuses the command where it is something else.
    pub old: String,
    /// What it shall be, all zeros where it shall go.
    pub new: String,
    /// Its full name.
    pub name: String,
}

/// What a client that pushes can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// How long its object ids are.
    pub format: ObjectFormat,
    /// Whether it reads a report, of either version.
    pub report: bool,
    /// How it wants the report wrapped.
    pub side_band: SideBand,
    /// Whether a list of push options follows the commands.
    pub push_options: bool,
    /// Whether all commands are done or none.
    pub atomic: bool,
}

/// The hash that makes object ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hexadecimal digits.
    #[default]
    Sha1,
    /// 64 hexadecimal digits.
    Sha256,
}

/// How an answer is wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideBand {
    /// Not at all.
    #[default]
    None,
    /// In lines of at most 1000 bytes.
    Small,
    /// In lines of at most 65520 bytes.
    Large,
}

impl ObjectFormat {
    /// The length of an id in hexadecimal digits.
    pub fn digits(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }
}

impl ReceiveRequest {
    /// A reader at the beginning of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the body, and gives the front once it is whole. It is not to be fed after that: what it was fed
    /// beyond the front ([`Commands::consumed`]) is in [`Self::fed`].
    ///
    /// # Errors
    /// [`Code::Malformed`] for what is no front of a push, is over a bound (1 MiB, 10,000 commands, 100 push options of 1 KiB),
    /// or is signed (`push-cert`).
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Option<Commands>, OutOfScope> {
        self.fed.extend_from_slice(chunk);
        loop {
            let step = match pkt::first(&self.fed[self.at..]).map_err(|error| malformed(error.to_string()))? {
                Some((Frame::Flush, length)) => (None, length),
                Some((Frame::Line(line), length)) => (Some(line.to_vec()), length),
                None if self.fed.len() > FRONT_MAX => return Err(malformed("its list of commands is over 1 MiB")),
                None => return Ok(None),
            };
            self.at += step.1;
            if self.at > FRONT_MAX {
                return Err(malformed("its list of commands is over 1 MiB"));
            }
            match (step.0, self.section) {
                (Some(line), Section::Commands) => self.line(&line)?,
                (None, Section::Commands) if self.capabilities.push_options => self.section = Section::Options(0),
                (Some(option), Section::Options(seen)) => self.option(&option, seen)?,
                (None, Section::Commands | Section::Options(_)) => return self.whole().map(Some),
            }
        }
    }

    /// All that it was fed: the bytes to forward, where the front is allowed.
    pub fn fed(&self) -> &[u8] {
        &self.fed
    }

    /// The same, taken.
    pub fn into_fed(self) -> Vec<u8> {
        self.fed
    }

    fn line(&mut self, line: &[u8]) -> Result<(), OutOfScope> {
        let line = std::str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line))
            .map_err(|_| malformed("a command is not in UTF-8"))?;
        if line.starts_with("push-cert") {
            return Err(malformed("signed pushes (push-cert) are not supported; push without --signed"));
        }
        if let Some(id) = line.strip_prefix("shallow ") {
            if !self.commands.is_empty() {
                return Err(malformed("a shallow line follows a command"));
            }
            self.shallow.push(id.to_owned());
            return Ok(());
        }
        let command = match line.split_once('\0') {
            Some((command, list)) if self.commands.is_empty() => {
                self.capabilities = Capabilities::read(list)?;
                command
            }
            Some(_) => return Err(malformed("a command that is not the first has capabilities")),
            None => line,
        };
        let command = Command::read(command, self.capabilities.format)?;
        if self.commands.len() == COMMANDS_MAX {
            return Err(malformed("it has more than 10000 commands"));
        }
        if !self.names.insert(command.name.clone()) {
            return Err(malformed(format!("it names a ref twice: {}", command.name)));
        }
        self.commands.push(command);
        Ok(())
    }

    fn option(&mut self, option: &[u8], seen: usize) -> Result<(), OutOfScope> {
        if seen == OPTIONS_MAX || option.len() > OPTION_MAX {
            return Err(malformed("it has more than 100 push options, or one over 1 KiB"));
        }
        self.section = Section::Options(seen + 1);
        Ok(())
    }

    fn whole(&mut self) -> Result<Commands, OutOfScope> {
        let format = self.capabilities.format;
        if !self.shallow.iter().all(|id| is_id(id, format)) {
            return Err(malformed("a shallow line has no object id"));
        }
        let commands = std::mem::take(&mut self.commands);
        let has_pack = commands.iter().any(|command| !is_zero(&command.new));
        Ok(Commands { commands, capabilities: self.capabilities.clone(), consumed: self.at, has_pack })
    }
}

impl Commands {
    /// The changes that are asked for, in the order of the commands. Whether a move drops commits, commands do not say.
    pub fn changes(&self) -> Vec<RefChange> {
        self.commands.iter().map(Command::change).collect()
    }
}

impl Command {
    /// The change that it asks for.
    pub fn change(&self) -> RefChange {
        let change = if is_zero(&self.old) {
            Change::Create
        } else if is_zero(&self.new) {
            Change::Delete
        } else if self.old == self.new {
            Change::Update(Forced::No)
        } else {
            Change::Update(Forced::Unknown)
        };
        RefChange { target: RefTarget::Named(self.name.clone()), change }
    }

    fn read(line: &str, format: ObjectFormat) -> Result<Self, OutOfScope> {
        let mut parts = line.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed("a command has not two object ids and a ref"));
        };
        if !is_id(old, format) || !is_id(new, format) {
            let digits = format.digits();
            return Err(malformed(format!("an object id is not of {digits} hexadecimal digits in lower case")));
        }
        if is_zero(old) && is_zero(new) {
            return Err(malformed("a command deletes a ref that is not there"));
        }
        check_name(name).map_err(|why| malformed(format!("no name of a ref, {why}: {}", name.escape_debug())))?;
        Ok(Self { old: old.to_owned(), new: new.to_owned(), name: name.to_owned() })
    }
}

impl Capabilities {
    fn read(list: &str) -> Result<Self, OutOfScope> {
        let mut read = Self::default();
        let mut format = None;
        for word in list.split(' ') {
            let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
            match (key, value) {
                ("report-status" | "report-status-v2", None) => read.report = true,
                ("side-band-64k", None) => read.side_band = SideBand::Large,
                ("side-band", None) if read.side_band == SideBand::None => read.side_band = SideBand::Small,
                ("push-options", None) => read.push_options = true,
                ("atomic", None) => read.atomic = true,
                ("object-format", Some("sha1")) if format.is_none() => format = Some(ObjectFormat::Sha1),
                ("object-format", Some("sha256")) if format.is_none() => format = Some(ObjectFormat::Sha256),
                ("object-format", _) => {
                    return Err(malformed("its object-format is neither sha1 nor sha256, or there are two"));
                }
                ("push-cert", _) => {
                    return Err(malformed("signed pushes (push-cert) are not supported; push without --signed"));
                }
                // Nothing else changes what is read here: quiet, ofs-delta, agent, session-id.
                _ => {}
            }
        }
        read.format = format.unwrap_or_default();
        Ok(read)
    }
}

fn is_id(text: &str, format: ObjectFormat) -> bool {
    text.len() == format.digits() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

fn malformed(why: impl std::fmt::Display) -> OutOfScope {
    OutOfScope::new(Code::Malformed, format!("this push cannot be checked: {why}"))
}

#[cfg(test)]
mod tests;
