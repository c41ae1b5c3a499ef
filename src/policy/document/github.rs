//! `[[header_bindings]]` of the kind `github`.

use std::time::Duration;

use toml::de::DeTable;

use super::super::github::{AppGrant, ClientId};
use super::super::mistake::{At, Place};
use super::{Reader, Value};

/// A binding to GitHub with what was given of it.
#[derive(Debug)]
pub(in crate::policy) struct RawGitHub {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) host: Option<At<String>>,
    /// None where no list could be read.
    pub(in crate::policy) repos: Option<RawRepos>,
    pub(in crate::policy) access: Option<At<String>>,
    pub(in crate::policy) ttl: Option<Duration>,
    pub(in crate::policy) secret_name: Option<At<String>>,
    pub(in crate::policy) app: Option<RawApp>,
    pub(in crate::policy) user_app: Option<RawApp>,
    pub(in crate::policy) options: Vec<At<String>>,
    pub(in crate::policy) projects: Vec<At<String>>,
    pub(in crate::policy) push: Option<RawPush>,
}

/// `repos`.
#[derive(Debug)]
pub(in crate::policy) enum RawRepos {
    All,
    Listed(Vec<At<String>>),
}

/// `app` or `user_app`: a GitHub App that gives the tokens.
#[derive(Debug)]
pub(in crate::policy) struct RawApp {
    pub(in crate::policy) place: Place,
    pub(in crate::policy) client_id: ClientId,
    pub(in crate::policy) grant: AppGrant,
    /// Whose repositories are all of them.
    pub(in crate::policy) owner: Option<String>,
    /// The secrets that have to be declared.
    pub(in crate::policy) needs: Vec<At<String>>,
}

/// `push`: what may become of refs.
#[derive(Debug)]
pub(in crate::policy) struct RawPush {
    /// Every branch where there is no list.
    pub(in crate::policy) branches: Option<Vec<At<String>>>,
    pub(in crate::policy) deny_branches: Vec<At<String>>,
    pub(in crate::policy) other_refs: Vec<At<String>>,
    pub(in crate::policy) create: bool,
    pub(in crate::policy) delete: bool,
    pub(in crate::policy) tags: bool,
    pub(in crate::policy) force: bool,
}

impl RawGitHub {
    /// One of which nothing was given.
    pub(in crate::policy) fn at(place: Place) -> Self {
        let (host, repos, access, ttl) = (None, None, None, None);
        Self {
            place,
            host,
            repos,
            access,
            ttl,
            secret_name: None,
            app: None,
            user_app: None,
            options: Vec::new(),
            projects: Vec::new(),
            push: None,
        }
    }
}

/// The longest time to live, in seconds: seven days.
const TTL_MAX: u64 = 604_800;
const KEYS: [&str; 11] =
    ["kind", "repos", "host", "access", "ttl_seconds", "secret_name", "app", "user_app", "options", "projects", "push"];
const PUSH_KEYS: [&str; 7] = ["branches", "deny_branches", "other_refs", "create", "delete", "tags", "force"];

impl Reader<'_> {
    pub(super) fn github(&mut self, entry: &Value<'_>, table: &DeTable<'_>) {
        let mut raw = RawGitHub::at(self.place_of(entry));
        for (key, value) in table {
            match &**key.get_ref() {
                "kind" => {}
                "repos" => raw.repos = self.repos(value),
                "host" => raw.host = self.string(value, "host"),
                "access" => raw.access = self.word(value, "access", &["read", "write"]),
                "ttl_seconds" => raw.ttl = self.bounded_seconds(value, "ttl_seconds", TTL_MAX),
                "secret_name" => raw.secret_name = self.string(value, "secret_name"),
                "app" => raw.app = self.binding_app(value),
                "user_app" => raw.user_app = self.binding_user_app(value),
                "options" => raw.options = self.strings(value, "options", "without it every option is off"),
                "projects" => raw.projects = self.strings(value, "projects", "without it no project is changed"),
                "push" => raw.push = self.push(value),
                _ => self.unknown(key, "header_bindings.", &KEYS),
            }
        }
        if !table.contains_key("repos") {
            let hint = "add repos = [\"owner/repository\"], or repos = \"all\"";
            self.mistakes.add(&raw.place, "the binding has no `repos`", hint);
        }
        self.document.githubs.push(raw);
    }

    /// An empty list allows no repository, as in the seed's type of that name; it may be meant.
    fn repos(&mut self, value: &Value<'_>) -> Option<RawRepos> {
        match (value.get_ref().as_str(), value.get_ref().as_array()) {
            (Some("all"), _) => Some(RawRepos::All),
            (_, Some(array)) => {
                Some(RawRepos::Listed(array.iter().filter_map(|entry| self.string(entry, "repos")).collect()))
            }
            (_, None) => {
                self.wrong_type(value, "repos", "a list of repositories, [\"owner/repository\"], or \"all\"");
                None
            }
        }
    }

    fn push(&mut self, value: &Value<'_>) -> Option<RawPush> {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, "push", "a table, such as { branches = [\"agent/**\"] }");
            return None;
        };
        let lists = (None, Vec::new(), Vec::new());
        let (branches, deny_branches, other_refs) = lists;
        let mut push =
            RawPush { branches, deny_branches, other_refs, create: true, delete: false, tags: false, force: false };
        for (key, value) in table {
            let key_name = &**key.get_ref();
            let none = "without it none is named";
            match key_name {
                "branches" => {
                    push.branches = Some(self.strings(value, "push.branches", "without it every branch is meant"))
                }
                "deny_branches" => push.deny_branches = self.strings(value, "push.deny_branches", none),
                "other_refs" => push.other_refs = self.strings(value, "push.other_refs", none),
                "create" | "delete" | "tags" | "force" => {
                    let Some(flag) = self.flag(value, &format!("push.{key_name}")) else { continue };
                    let place = match key_name {
                        "create" => &mut push.create,
                        "delete" => &mut push.delete,
                        "tags" => &mut push.tags,
                        _ => &mut push.force,
                    };
                    *place = flag.value;
                }
                _ => self.unknown(key, "push.", &PUSH_KEYS),
            }
        }
        Some(push)
    }
}
