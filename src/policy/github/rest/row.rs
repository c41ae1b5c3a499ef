//! A row of the tables, and how one is found. The tables are written out as constants: nothing is built at start, and a look-up
//! allocates nothing.

use super::super::route::Answer;
use super::super::scope::GitHubOption;

/// Methods, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Methods(u8);

pub(super) const GET: Methods = Methods(1);
pub(super) const POST: Methods = Methods(2);
pub(super) const PUT: Methods = Methods(4);
pub(super) const PATCH: Methods = Methods(8);
pub(super) const DELETE: Methods = Methods(16);
/// All that change something.
pub(super) const WRITES: Methods = POST.and(PUT).and(PATCH).and(DELETE);
pub(super) const ANY: Methods = GET.and(WRITES);

impl Methods {
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The one of a request; HEAD is a GET.
    pub fn of(method: &str) -> Option<Self> {
        match method {
            "GET" | "HEAD" => Some(GET),
            "POST" => Some(POST),
            "PUT" => Some(PUT),
            "PATCH" => Some(PATCH),
            "DELETE" => Some(DELETE),
            _ => None,
        }
    }
}

/// One row: what holds for these methods of these paths.
#[derive(Debug)]
pub(super) struct Row {
    pub methods: Methods,
    /// Segments with slashes between. `*` is one segment without an escaped slash, `#` one that is a number, `@` any one; `**` is any
    /// number of segments without an escaped slash, `***` any number of any segments, at least one where others follow;
    /// `{a,b}` is one of these words. The first is always a word.
    pub template: &'static str,
    pub verdict: Verdict,
    pub answer: Answer,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// Allowed.
    Allow,
    /// Allowed where the option is on.
    Option(GitHubOption),
    /// Allowed where the check passes.
    Check(Check),
    /// As before, and the option has to be on, too.
    Both(GitHubOption, Check),
    /// Answered here.
    Local(Local),
    /// Refused, for this reason.
    Deny(&'static str),
}

/// What is checked in the path or the query, before anything is forwarded, and what of the body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    Compare,
    Search,
    /// A search without a credential: it finds what is public.
    PublicSearch,
    LabelRepository,
    StarredRepository,
    /// A text that is no JSON.
    Text,
    Body(Door),
}

/// What a body is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Door {
    Context,
    Settings,
    Issue,
    IssueIds,
    Head,
    RefCreate,
    RefUpdate,
    RefDelete,
    Contents,
    Merges,
    PullMerge,
    PullEdit,
    PullUpdate,
    BranchRename,
    MergeUpstream,
    ReleaseCreate,
    ReleaseUpdate,
    Autofix,
    Deployment,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Local {
    User,
    TokenRevoked,
    InstallationRepositories,
    UserRepositories,
}

/// A table: rows by their first segment, sorted by it. In a group the first row that fits counts.
pub(super) type Table = &'static [(&'static str, &'static [Row])];

/// The row of a request. One whose words are in another case is not looked over for a later one, and is no row of the request: whether a
/// server folds it must make no difference.
pub(super) fn find(table: Table, method: Methods, segments: &[&str]) -> Option<&'static Row> {
    let (first, rest) = segments.split_first().map_or(("", segments), |(first, rest)| (*first, rest));
    let folded = |name: &str| name.bytes().cmp(first.bytes().map(|byte| byte.to_ascii_lowercase()));
    let group = table.binary_search_by(|(name, _)| folded(name)).ok()?;
    let (name, rows) = table[group];
    let below = |row: &Row| below_first(row.template);
    let row = rows.iter().find(|row| row.methods.has(method) && fits(below(row), rest, str::eq_ignore_ascii_case))?;
    (name == first && fits(below(row), rest, str::eq)).then_some(row)
}

/// Whether a word of a template and one of a path are the same.
type Same = fn(&str, &str) -> bool;

/// A template without its first segment; none where that is all.
fn below_first(template: &'static str) -> Option<&'static str> {
    cut(template.strip_prefix('/').unwrap_or(template)).1
}

/// The first segment of a template, and the others.
fn cut(template: &'static str) -> (&'static str, Option<&'static str>) {
    match template.bytes().position(|byte| byte == b'/') {
        Some(at) => (&template[..at], Some(&template[at + 1..])),
        None => (template, None),
    }
}

fn fits(mut template: Option<&'static str>, mut segments: &[&str], same: Same) -> bool {
    while let Some(parts) = template {
        let (part, others) = cut(parts);
        if let "**" | "***" = part {
            return fits_rest(part, others, segments, same);
        }
        let Some((segment, rest)) = segments.split_first() else { return false };
        if !fits_one(part, segment, same) {
            return false;
        }
        (template, segments) = (others, rest);
    }
    segments.is_empty()
}

/// `**` or `***`, and what follows it.
fn fits_rest(part: &str, others: Option<&'static str>, segments: &[&str], same: Same) -> bool {
    let after = others.map_or(0, |others| others.split('/').count());
    let Some(wild) = segments.len().checked_sub(after).filter(|wild| *wild > 0 || after == 0) else { return false };
    let (any, rest) = segments.split_at(wild);
    let legal = part == "***" || any.iter().all(|segment| !escapes_slash(segment));
    legal
        && rest
            .iter()
            .zip(others.into_iter().flat_map(|others| others.split('/')))
            .all(|(segment, part)| fits_one(part, segment, same))
}

fn fits_one(part: &str, segment: &str, same: Same) -> bool {
    match part.as_bytes() {
        b"*" => !escapes_slash(segment),
        b"@" => true,
        b"#" => segment.bytes().all(|byte| byte.is_ascii_digit()),
        [b'{', .., b'}'] => part[1..part.len() - 1].split(',').any(|word| same(word, segment)),
        _ => same(part, segment),
    }
}

/// Whether a segment is more than one to a server that decodes first.
fn escapes_slash(segment: &str) -> bool {
    segment.contains('%') && (segment.contains("%2F") || segment.contains("%2f"))
}

const fn row(methods: Methods, template: &'static str, verdict: Verdict, answer: Answer) -> Row {
    Row { methods, template, verdict, answer }
}

/// A read whose answer is only about the repository.
pub(super) const fn read(template: &'static str) -> Row {
    row(GET, template, Verdict::Allow, Answer::Learn)
}

/// A read of something else, or whose ids may be others' as well.
pub(super) const fn plain(template: &'static str) -> Row {
    row(GET, template, Verdict::Allow, Answer::Plain)
}

/// A read in whose answer other repositories' objects may stand.
pub(super) const fn reduce(template: &'static str) -> Row {
    row(GET, template, Verdict::Allow, Answer::Reduce)
}

pub(super) const fn write(methods: Methods, template: &'static str) -> Row {
    row(methods, template, Verdict::Allow, Answer::Learn)
}

pub(super) const fn option(methods: Methods, template: &'static str, option: GitHubOption) -> Row {
    row(methods, template, Verdict::Option(option), Answer::Plain)
}

/// The body is checked.
pub(super) const fn body(methods: Methods, template: &'static str, door: Door) -> Row {
    row(methods, template, Verdict::Check(Check::Body(door)), Answer::Learn)
}

/// The option has to be on, and the body is checked.
pub(super) const fn both(methods: Methods, template: &'static str, option: GitHubOption, door: Door) -> Row {
    row(methods, template, Verdict::Both(option, Check::Body(door)), Answer::Plain)
}

pub(super) const fn check(methods: Methods, template: &'static str, check: Check) -> Row {
    row(methods, template, Verdict::Check(check), Answer::Plain)
}

pub(super) const fn local(methods: Methods, template: &'static str, local: Local) -> Row {
    row(methods, template, Verdict::Local(local), Answer::Plain)
}

pub(super) const fn deny(methods: Methods, template: &'static str, why: &'static str) -> Row {
    row(methods, template, Verdict::Deny(why), Answer::Plain)
}

#[cfg(test)]
mod tests {
    use super::super::{account, repository};
    use super::*;

    #[test]
    fn templates_fit_as_they_say() {
        let cases = [
            ("issues", "issues", true),
            ("issues", "issues/1", false),
            ("issues/**", "issues", true),
            ("issues/**", "issues/1/comments", true),
            ("issues/**", "issues/1%2Ftimeline", false),
            ("issues/*", "issues/1%2ftimeline", false),
            ("issues/*", "issues", false),
            ("git/refs/***", "git/refs/heads%2Fa/b", true),
            ("labels/@", "labels/a%2Fb", true),
            ("branches/***/rename", "branches/a/b/rename", true),
            ("branches/***/rename", "branches/rename", false),
            ("user/#", "user/12", true),
            ("user/#", "user/repos", false),
            ("runs/*/{cancel,rerun}", "runs/1/rerun", true),
            ("runs/*/{cancel,rerun}", "runs/1/cancel,rerun", false),
            ("runs/*/{cancel,rerun}", "runs/1/{cancel,rerun}", false),
        ];
        for (template, path, expected) in cases {
            let segments: Vec<&str> = path.split('/').skip(1).collect();
            assert_eq!(fits(below_first(template), &segments, str::eq), expected, "{template}: {path}");
        }
    }

    /// A path that the row is for.
    fn sample(template: &str) -> Vec<String> {
        let parts = template.trim_start_matches('/').split('/').filter(|part| !part.is_empty());
        let one = |part: &str| match part {
            "*" | "@" | "***" => "x1".to_owned(),
            "**" => "zz".to_owned(),
            "#" => "7".to_owned(),
            _ => part.trim_start_matches('{').split([',', '}']).next().unwrap().to_owned(),
        };
        parts.map(one).collect()
    }

    #[test]
    fn tables_are_sorted_and_every_row_is_reached() {
        for table in [repository::TABLE, account::TABLE] {
            assert!(table.is_sorted_by(|(one, _), (other, _)| one < other), "groups are in order, each once");
            for (group, rows) in table {
                for (at, row) in rows.iter().enumerate() {
                    let path = sample(row.template);
                    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
                    assert_eq!(segments.first().copied().unwrap_or_default(), *group, "{}", row.template);
                    let reached = [GET, POST, PUT, PATCH, DELETE].into_iter().any(|method| {
                        row.methods.has(method)
                            && find(table, method, &segments).is_some_and(|found| std::ptr::eq(found, row))
                    });
                    assert!(reached, "row {at} of {group} is hidden by an earlier one: {}", row.template);
                }
            }
        }
    }
}
