//! Answers that the proxy makes itself.

use serde_json::{Value, json};

use super::known::Repository;

/// An answer that is made without asking GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAnswer {
    /// `GET /user`, which an installation's token may not ask.
    User,
    /// `DELETE /installation/token`: the token is not the sandbox's to revoke.
    TokenRevoked,
    /// `GET /installation/repositories`.
    InstallationRepositories {
        /// Whether it is the first page, which holds all.
        first: bool,
    },
    /// `GET /user/repos`.
    UserRepositories {
        /// Whether it is the first page, which holds all.
        first: bool,
    },
}

impl LocalAnswer {
    /// The status and the JSON of the answer; one without JSON has no body. `repositories` are all of the binding's; `login` is the name
    /// of the App's account, such as `app[bot]`.
    pub fn make<'a>(self, login: &str, repositories: impl Iterator<Item = &'a Repository>) -> (u16, Option<String>) {
        let list = |first: bool| repositories.filter(|_| first).map(record).collect::<Vec<_>>();
        let value = match self {
            Self::User => json!({ "login": login, "type": "Bot" }),
            Self::TokenRevoked => return (204, None),
            Self::UserRepositories { first } => Value::Array(list(first)),
            Self::InstallationRepositories { first } => {
                let page = list(first);
                json!({ "total_count": page.len(), "repository_selection": "selected", "repositories": page })
            }
        };
        (200, Some(value.to_string()))
    }
}

fn record(repository: &Repository) -> Value {
    json!({
        "id": repository.id,
        "node_id": repository.node_id,
        "name": repository.name.name(),
        "full_name": repository.name.to_string(),
        "owner": { "login": repository.name.owner(), "id": repository.owner_id },
        "default_branch": repository.default_branch,
    })
}

#[cfg(test)]
mod tests {
    use super::super::name::RepoName;
    use super::*;

    #[test]
    fn answers_say_what_a_client_reads() {
        let repository = Repository {
            name: RepoName::parse("acme/widget").unwrap(),
            id: 1001,
            node_id: "R_ok".to_owned(),
            owner_id: 1,
            default_branch: "main".to_owned(),
            parent_id: None,
        };
        let make = |answer: LocalAnswer| {
            let (status, body) = answer.make("app[bot]", std::iter::once(&repository));
            (status, body.map(|body| serde_json::from_str::<Value>(&body).unwrap()))
        };
        assert_eq!(make(LocalAnswer::User), (200, Some(json!({"login": "app[bot]", "type": "Bot"}))));
        assert_eq!(make(LocalAnswer::TokenRevoked), (204, None));
        let one = record(&repository);
        assert_eq!(one["full_name"], "acme/widget");
        assert_eq!(make(LocalAnswer::UserRepositories { first: true }), (200, Some(json!([one]))));
        assert_eq!(make(LocalAnswer::UserRepositories { first: false }), (200, Some(json!([]))));
        let listed = make(LocalAnswer::InstallationRepositories { first: true }).1.unwrap();
        assert_eq!((&listed["total_count"], &listed["repositories"][0]["id"]), (&json!(1), &json!(1001)));
    }
}
