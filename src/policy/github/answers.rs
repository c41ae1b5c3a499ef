//! Answers of the REST API: what they tell of ids, and what of other repositories is taken out of them.

use serde_json::{Map, Value, json};

use super::known::NodeOwner;
use super::name::RepoName;

/// What an answer about one repository has told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Node ids, with what they belong to.
    pub nodes: Vec<(String, NodeOwner)>,
    /// Ids of issues of the repository: not the numbers in URLs, and not the ids of pull requests, which are counted apart.
    pub issues: Vec<u64>,
}

/// An answer names itself by URLs. Those of one server begin alike.
#[derive(Clone, Debug)]
pub struct Api<'a> {
    /// Where its REST API begins, without a slash at the end: `https://api.github.com`.
    pub rest: &'a str,
    /// Where its pages begin: `https://github.com`.
    pub web: &'a str,
}

/// Entries of an answer's lists that are looked at, at most.
const MOST: usize = 2000;

/// Where answers have their lists, if they are no list themselves.
const LISTS: [&str; 10] = [
    "artifacts",
    "assets",
    "check_runs",
    "check_suites",
    "items",
    "jobs",
    "labels",
    "statuses",
    "workflow_runs",
    "workflows",
];

/// Whether the media types that a request accepts (`Accept`, RFC 9110 section 12.5.1) are for GitHub's own description of what it asks
/// for, and for no other form of it: raw, a file, a diff, with texts as HTML.
pub fn is_description(accepted: &str) -> bool {
    accepted.split(',').map(|kind| kind.split(';').next().unwrap_or(kind).trim()).all(|kind| {
        let of_github =
            kind.strip_prefix("application/vnd.github.").map(|form| form.strip_suffix("+json").unwrap_or(form));
        matches!(kind, "" | "*/*" | "application/*" | "application/json" | "application/vnd.github+json")
            || of_github.is_some_and(|form| form == "v3" || form.ends_with("-preview") && !form.contains('.'))
    })
}

/// Reads what an answer about a repository says of ids: those of what is asked for, or of the entries of a list. Nothing deeper is
/// looked at, since a deployment's payload, say, is whatever somebody wrote. Only what carries a URL of that repository counts as its own.
pub fn learn(answer: &Value, name: &RepoName, id: u64, api: &Api<'_>) -> Learned {
    let mut learned = Learned::default();
    let lists = LISTS.iter().filter_map(|key| answer.get(key)?.as_array()).chain(answer.as_array());
    for value in std::iter::once(answer).chain(lists.flatten().take(MOST)) {
        if let Value::Object(fields) = value {
            learn_object(fields, (name, id), api, &mut learned);
        }
    }
    learned
}

fn learn_object(fields: &Map<String, Value>, (name, id): (&RepoName, u64), api: &Api<'_>, learned: &mut Learned) {
    let url = fields.get("url").and_then(Value::as_str);
    let path = url.and_then(|url| url.strip_prefix(api.rest));
    let of = path.and_then(repository_of_path);
    let owner = match &of {
        Some((found, _)) if found == name => NodeOwner::Repository(id),
        Some(_) => NodeOwner::Foreign,
        None if path.is_some_and(is_account) => NodeOwner::Account,
        None => return,
    };
    if let Some(node) = fields.get("node_id").and_then(Value::as_str) {
        learned.nodes.push((node.to_owned(), owner));
    }
    if let (NodeOwner::Repository(_), Some((_, rest))) = (owner, of)
        && is_numbered(rest, "issues")
    {
        learned.issues.extend(fields.get("id").and_then(Value::as_u64));
    }
}

/// Takes out of an answer what it embeds of other repositories, but for the number and where it is.
pub fn reduce(answer: &mut Value, name: &RepoName, api: &Api<'_>) {
    match answer {
        Value::Array(entries) => entries.iter_mut().for_each(|entry| reduce(entry, name, api)),
        Value::Object(fields) => match foreign(fields, name, api) {
            Some(other) => {
                let number = fields.get("number").cloned().unwrap_or(Value::Null);
                *answer = json!({ "number": number, "repository_url": format!("{}/repos/{other}", api.rest) });
            }
            None => fields.values_mut().for_each(|value| reduce(value, name, api)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The other repository that an object is of. One URL that names another counts, whatever the others say.
fn foreign(fields: &Map<String, Value>, name: &RepoName, api: &Api<'_>) -> Option<RepoName> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let by_api = ["repository_url", "url"].into_iter().filter_map(text);
    let by_api = by_api.filter_map(|url| repository_of_path(url.strip_prefix(api.rest)?)).map(|(found, _)| found);
    let by_page = text("html_url").and_then(|url| repository_of_page(url.strip_prefix(api.web)?));
    let full_name = fields.get("repository").and_then(|repository| repository.get("full_name")).and_then(Value::as_str);
    let by_name = full_name.and_then(|full_name| RepoName::parse(full_name).ok());
    by_api.chain(by_page).chain(by_name).find(|found| found != name)
}

/// `/repos/owner/name` and what stands behind it.
fn repository_of_path(path: &str) -> Option<(RepoName, &str)> {
    let rest = path.strip_prefix("/repos/")?;
    let (owner, rest) = rest.split_once('/')?;
    let end = rest.find(['/', '?', '#', '{']).unwrap_or(rest.len());
    Some((RepoName::new(owner, &rest[..end]).ok()?, &rest[end..]))
}

/// `/owner/name/…`, but not the page of an account.
fn repository_of_page(path: &str) -> Option<RepoName> {
    let (owner, rest) = path.strip_prefix('/')?.split_once('/')?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let is_page = matches!(owner, "orgs" | "users" | "apps" | "settings" | "organizations" | "enterprises");
    RepoName::new(owner, &rest[..end]).ok().filter(|_| !is_page)
}

fn is_account(path: &str) -> bool {
    ["/users/", "/orgs/", "/teams/", "/organizations/"].iter().any(|family| path.starts_with(family))
}

/// `/issues/5`, and nothing behind it.
fn is_numbered(path: &str, family: &str) -> bool {
    let number =
        path.strip_prefix('/').and_then(|path| path.strip_prefix(family)).and_then(|path| path.strip_prefix('/'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: Api<'_> = Api { rest: "https://api.github.com", web: "https://github.com" };

    fn widget() -> RepoName {
        RepoName::parse("acme/widget").unwrap()
    }

    #[test]
    fn ids_belong_to_whom_their_urls_name() {
        let answer = json!([{
            "url": "https://api.github.com/repos/Acme/Widget/issues/5", "id": 55, "node_id": "I_5", "number": 5,
        },
            { "url": "https://api.github.com/users/kim", "node_id": "U_1", "id": 9 },
            { "url": "https://api.github.com/repos/other/secret/issues/1", "id": 77, "node_id": "I_77" },
            { "url": "https://evil.test/repos/acme/widget/issues/9", "id": 66, "node_id": "I_66" },
            { "node_id": "I_0", "id": 1 },
        ]);
        let learned = learn(&answer, &widget(), 1001, &API);
        let own = NodeOwner::Repository(1001);
        let wanted = [("I_5", own), ("U_1", NodeOwner::Account), ("I_77", NodeOwner::Foreign)];
        assert_eq!(learned.nodes, wanted.map(|(id, owner)| (id.to_owned(), owner)));
        assert_eq!(learned.issues, [55]);
        let listed = json!({ "items": answer, "total_count": 5 });
        assert_eq!(learn(&listed, &widget(), 1001, &API).nodes.len(), 3);
    }

    #[test]
    fn what_somebody_wrote_teaches_nothing() {
        let forged =
            json!({ "url": "https://api.github.com/repos/acme/widget/issues/9", "id": 99, "node_id": "I_foreign" });
        let deployment = json!({
            "url": "https://api.github.com/repos/acme/widget/deployments/1", "id": 1, "node_id": "DE_1",
            "payload": { "items": [forged], "labels": forged, "deep": [[forged]] }, "items": { "items": [forged] }, "entries": [forged],
        });
        for answer in [json!([deployment]), deployment] {
            let learned = learn(&answer, &widget(), 1001, &API);
            assert_eq!(learned.nodes, [("DE_1".to_owned(), NodeOwner::Repository(1001))]);
            assert!(learned.issues.is_empty());
        }
    }

    #[test]
    fn descriptions_are_asked_for_by_these_types() {
        for accepted in [
            "",
            "*/*",
            "application/json; charset=utf-8, application/*",
            "application/vnd.github+json",
            "application/vnd.github.v3+json",
            "application/vnd.github.merge-info-preview+json, application/vnd.github.nebula-preview",
        ] {
            assert!(is_description(accepted), "{accepted}");
        }
        for accepted in [
            "application/octet-stream",
            "application/vnd.github.raw+json",
            "application/vnd.github.v3.raw",
            "application/vnd.github.v3.diff",
            "application/vnd.github.full+json",
            "application/vnd.github.x-preview.raw",
            "*/*, application/vnd.github.raw",
            "text/plain",
        ] {
            assert!(!is_description(accepted), "{accepted}");
        }
    }

    #[test]
    fn an_answer_teaches_no_more_than_so_much() {
        let entry =
            |n: u64| json!({ "url": "https://api.github.com/repos/acme/widget/labels/x", "node_id": n.to_string() });
        let answer = Value::Array((0..10_000).map(entry).collect());
        assert_eq!(learn(&answer, &widget(), 1, &API).nodes.len(), MOST);
    }

    #[test]
    fn what_is_another_repositorys_is_reduced_to_its_number() {
        let foreign = |key: &str, value: Value| {
            let mut object = json!({ "number": 7, "title": "secret", "body": "secret" });
            object[key] = value;
            object
        };
        let own = json!({ "number": 1, "title": "own", "repository_url": "https://api.github.com/repos/ACME/widget",
                          "html_url": "https://github.com/acme/widget/issues/1", "user": { "html_url": "https://github.com/kim" } });
        let mut answer = json!([
            { "event": "cross-referenced", "source": { "issue": foreign("repository_url", json!("https://api.github.com/repos/other/secret")) } },
            { "event": "x", "a": foreign("html_url", json!("https://github.com/other/secret/issues/7")) },
            { "event": "x", "a": foreign("repository", json!({ "full_name": "Other/Secret", "description": "secret" })) },
            own.clone(),
        ]);
        reduce(&mut answer, &widget(), &API);
        assert!(!answer.to_string().contains(r#""secret""#), "{answer}");
        let reduced = json!({ "number": 7, "repository_url": "https://api.github.com/repos/other/secret" });
        assert_eq!([&answer[0]["source"]["issue"], &answer[1]["a"], &answer[2]["a"]], [&reduced; 3]);
        assert_eq!(answer[3], own);
    }

    #[test]
    fn mixed_urls_count_as_foreign() {
        let mut answer = json!({ "number": 7, "title": "secret", "html_url": "https://github.com/acme/widget/issues/7",
                                 "repository_url": "https://api.github.com/repos/other/secret" });
        reduce(&mut answer, &widget(), &API);
        assert_eq!(answer["title"], Value::Null);
    }
}
