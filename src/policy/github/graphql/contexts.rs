//! What may be asked of things that are not the repository's own: who somebody is, which repository or issue is linked to, where a project
//! has an item. By name, whatever their type.

/// A place of a document that has left the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// A user, an organization, a team, or a list of them.
    Account,
    /// The organization of an account, the login only.
    Organization,
    /// The teams of an organization.
    Teams,
    /// Something that may be another repository's, or a list.
    Foreign,
    /// What a fork comes from, or a pull request's head: gh asks a little more of it.
    Parent,
    /// The repository of a foreign thing.
    ForeignRepository,
    /// Its owner.
    ForeignOwner,
    /// Its branch, by name only.
    Named,
    /// A project, an item of one, or a list.
    Project,
    /// The value of a field of a project's item.
    ProjectField,
    /// A licence, a topic, a package, or a list.
    Other,
    /// Where a list ends.
    PageInfo,
}

/// What a field leads to from such a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A value.
    Leaf,
    /// Another such place.
    To(Outside),
    /// It is not to be asked.
    Closed,
    /// It would be with an option of the binding.
    Option,
}

impl Outside {
    /// What a field of this name leads to. `teams`: whether the binding shows the teams of an organization.
    pub fn step(self, field: &str, teams: bool) -> Step {
        if field == "__typename" {
            return Step::Leaf;
        }
        match self {
            Self::Account => account(field, teams),
            Self::Organization | Self::ForeignOwner => leaves(field, &["id", "login"]),
            Self::Teams => self.list(field).unwrap_or_else(|| leaves(field, &["id", "slug", "name"])),
            Self::Foreign => self.foreign(field).unwrap_or(Step::Closed),
            Self::Parent => self.foreign(field).unwrap_or_else(|| parent(field)),
            Self::ForeignRepository => match field {
                "owner" => Step::To(Self::ForeignOwner),
                _ => leaves(field, &["id", "name", "nameWithOwner", "url"]),
            },
            Self::Named => leaves(field, &["name"]),
            Self::Project => project(field),
            Self::ProjectField => leaves(field, &["optionId", "name"]),
            Self::Other => self.list(field).unwrap_or_else(|| leaves(field, &["id", "key", "name", "nickname", "url"])),
            Self::PageInfo => leaves(field, &["hasNextPage", "hasPreviousPage", "startCursor", "endCursor"]),
        }
    }

    fn foreign(self, field: &str) -> Option<Step> {
        self.list(field).or(match field {
            "id" | "name" | "nameWithOwner" | "number" | "url" | "state" | "oid" | "prefix" => Some(Step::Leaf),
            "repository" => Some(Step::To(Self::ForeignRepository)),
            "owner" => Some(Step::To(Self::ForeignOwner)),
            _ => None,
        })
    }

    /// The parts of a list, each with the same kind of thing in it.
    fn list(self, field: &str) -> Option<Step> {
        match field {
            "nodes" | "edges" | "node" => Some(Step::To(self)),
            "pageInfo" => Some(Step::To(Self::PageInfo)),
            "totalCount" => Some(Step::Leaf),
            _ => None,
        }
    }

    /// What it is, for a message.
    pub fn what(self) -> &'static str {
        match self {
            Self::Account | Self::Organization | Self::ForeignOwner => "an account",
            Self::Teams => "a team",
            Self::Foreign | Self::Parent | Self::ForeignRepository | Self::Named => {
                "what may belong to another repository"
            }
            Self::Project | Self::ProjectField => "a project",
            Self::Other => "a licence, topic or package",
            Self::PageInfo => "a page",
        }
    }
}

fn account(field: &str, teams: bool) -> Step {
    match field {
        "organization" => Step::To(Outside::Organization),
        "teams" if teams => Step::To(Outside::Teams),
        "teams" => Step::Option,
        _ => Outside::Account.list(field).unwrap_or_else(|| {
            let who =
                ["id", "databaseId", "login", "name", "slug", "avatarUrl", "url", "resourcePath", "email", "isViewer"];
            leaves(field, &who)
        }),
    }
}

fn parent(field: &str) -> Step {
    match field {
        "defaultBranchRef" => Step::To(Outside::Named),
        _ => leaves(field, &["description", "hasIssuesEnabled", "hasWikiEnabled", "viewerPermission", "isPrivate"]),
    }
}

fn project(field: &str) -> Step {
    match field {
        "project" => Step::To(Outside::Project),
        "column" => Step::To(Outside::Named),
        "fieldValueByName" => Step::To(Outside::ProjectField),
        _ => Outside::Project
            .list(field)
            .unwrap_or_else(|| leaves(field, &["id", "title", "name", "number", "url", "resourcePath", "closed"])),
    }
}

fn leaves(field: &str, allowed: &[&str]) -> Step {
    if allowed.contains(&field) { Step::Leaf } else { Step::Closed }
}
