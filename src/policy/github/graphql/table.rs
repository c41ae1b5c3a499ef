//! What the fields of GitHub's schema lead to. `table.txt` is made from the published schema and from `classes.txt`, where people wrote
//! down what a schema does not say, by `examples/github-graphql-table.rs`. It is read when the first query comes.
//!
//! A line begins with a sign: `@` account types, `&` types of which only the identity may be asked, `:` a type and its fields, `~` a type
//! of nobody's repository, `>` an allowed mutation with payload, option and input, `<` an input. A field's last sign is its class.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::names::{NameId, TableNames};

/// The table. Made once, in less than a millisecond.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));

/// A field of every type, which the schema does not list.
const TYPENAME: &str = "__typename";

/// A type of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TypeId(u16);

/// What a field leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A value.
    Scalar,
    /// Something of the same repository, of this type.
    Same(TypeId),
    /// A user, an organization, a team.
    Account,
    /// Possibly another repository.
    Foreign,
    /// A project, which belongs to an account.
    Project,
    /// Something of which only the identity may be asked.
    Other,
    /// A credential.
    Secret,
}

/// What a type condition narrows to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrowed {
    Type(TypeId),
    Account,
    Project,
    Other,
}

/// What a value of an input stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Whatever it is, it leads nowhere.
    Free,
    /// The id of something of a repository.
    Repository,
    /// The id of an account.
    Account,
    /// The id of a project.
    Project,
    /// `owner/repository`.
    Named,
    /// Only null.
    Closed,
    /// An input of its own.
    Input(&'static str),
}

/// The option that a mutation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Admin,
    Deploy,
    Merge,
    Projects,
}

/// An allowed mutation.
#[derive(Debug)]
pub(super) struct Mutation {
    pub needs: Needs,
    pub payload: TypeId,
    pub input: &'static str,
}

#[derive(Debug)]
struct Type {
    name: &'static str,
    public: bool,
    /// In the order of their names' numbers.
    fields: Vec<(NameId, Class)>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    names: TableNames,
    types: Vec<Type>,
    ids: FxHashMap<&'static str, TypeId>,
    public: FxHashMap<&'static str, TypeId>,
    account: FxHashSet<&'static str>,
    other: FxHashSet<&'static str>,
    mutations: HashMap<&'static str, Mutation>,
    inputs: HashMap<&'static str, HashMap<&'static str, Position>>,
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        table.names.add(TYPENAME);
        let lines = || text.lines().filter(|line| line.len() > 2).map(|line| (line.as_bytes()[0], &line[2..]));
        for (sign, rest) in lines().filter(|(sign, _)| matches!(sign, b':' | b'~')) {
            let name = rest.split(' ').next().unwrap_or_default();
            let id = TypeId(u16::try_from(table.types.len()).expect("fewer than 65,536 types"));
            let ids = if sign == b'~' { &mut table.public } else { &mut table.ids };
            ids.insert(name, id);
            table.types.push(Type { name, public: sign == b'~', fields: Vec::new() });
        }
        let mut at = 0;
        for (sign, rest) in lines() {
            let mut words = rest.split(' ').filter(|word| !word.is_empty());
            match sign {
                b'@' => table.account = words.collect(),
                b'&' => table.other = words.collect(),
                b':' | b'~' => {
                    let ids = if sign == b'~' { &table.public } else { &table.ids };
                    let fields = words.skip(1).map(|word| class(word, ids));
                    let mut fields: Vec<_> = fields.map(|(name, class)| (table.names.add(name), class)).collect();
                    fields.sort_unstable_by_key(|(name, _)| *name);
                    table.types[at].fields = fields;
                    at += 1;
                }
                b'>' => {
                    let mut next = || words.next().unwrap_or_default();
                    let (name, payload, needs, input) = (next(), next(), needs(next()), next());
                    let payload = table.ids[payload];
                    table.mutations.insert(name, Mutation { needs, payload, input });
                }
                b'<' => {
                    let name = words.next().unwrap_or_default();
                    table.inputs.insert(name, words.map(position).collect());
                }
                _ => {}
            }
        }
        table
    }

    /// A type that belongs to a repository.
    pub fn id(&self, name: &str) -> Option<TypeId> {
        self.ids.get(name).copied()
    }

    /// A type that belongs to none, and that everybody may read.
    pub fn public(&self, name: &str) -> Option<TypeId> {
        self.public.get(name).copied()
    }

    pub fn name(&self, id: TypeId) -> &'static str {
        self.types[usize::from(id.0)].name
    }

    pub fn is_public(&self, id: TypeId) -> bool {
        self.types[usize::from(id.0)].public
    }

    /// What a field of a type leads to; nothing where the schema had none of that name.
    pub fn field(&self, id: TypeId, name: NameId) -> Option<Class> {
        if Some(name) == self.names.get(TYPENAME) {
            return Some(Class::Scalar);
        }
        let fields = &self.types[usize::from(id.0)].fields;
        fields.binary_search_by_key(&name, |(name, _)| *name).ok().map(|at| fields[at].1)
    }

    /// The names of all fields.
    pub fn names(&self) -> &TableNames {
        &self.names
    }

    /// What a type condition by this name narrows something of a repository to.
    pub fn narrow(&self, name: &str) -> Option<Narrowed> {
        if self.account.contains(name) {
            return Some(Narrowed::Account);
        }
        if name.starts_with("Project") {
            return Some(Narrowed::Project);
        }
        // Roots such as `Node` are both: a root is entered by its id, a field that returns one shows the identity only.
        match self.id(name) {
            Some(id) => Some(Narrowed::Type(id)),
            None => self.other.contains(name).then_some(Narrowed::Other),
        }
    }

    pub fn is_account(&self, name: &str) -> bool {
        self.account.contains(name)
    }

    pub fn mutation(&self, name: &str) -> Option<&Mutation> {
        self.mutations.get(name)
    }

    pub fn position(&self, input: &str, field: &str) -> Option<Position> {
        self.inputs.get(input)?.get(field).copied()
    }
}

fn class(word: &'static str, ids: &FxHashMap<&'static str, TypeId>) -> (&'static str, Class) {
    if let Some((name, target)) = word.split_once('=') {
        return (name, Class::Same(ids[target]));
    }
    let (name, sign) = word.split_at(word.len() - 1);
    match sign {
        "@" => (name, Class::Account),
        "^" => (name, Class::Foreign),
        "%" => (name, Class::Project),
        "&" => (name, Class::Other),
        "!" => (name, Class::Secret),
        _ => (word, Class::Scalar),
    }
}

fn position(word: &'static str) -> (&'static str, Position) {
    if let Some((name, input)) = word.split_once('=') {
        return (name, Position::Input(input));
    }
    let (name, sign) = word.split_at(word.len() - 1);
    match sign {
        "+" => (name, Position::Repository),
        "@" => (name, Position::Account),
        "%" => (name, Position::Project),
        "~" => (name, Position::Named),
        "!" => (name, Position::Closed),
        _ => (word, Position::Free),
    }
}

fn needs(word: &str) -> Needs {
    match word {
        "-" => Needs::Nothing,
        "admin" => Needs::Admin,
        "deploy" => Needs::Deploy,
        "merge" => Needs::Merge,
        "projects" => Needs::Projects,
        _ => unreachable!("table.txt names an option that there is not"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(id: TypeId, name: &str) -> Option<Class> {
        TABLE.names().get(name).and_then(|name| TABLE.field(id, name))
    }

    #[test]
    fn the_table_is_small_and_can_be_read() {
        assert!(include_str!("table.txt").len() < 64 * 1024);
        let repository = TABLE.id("Repository").unwrap();
        assert_eq!(TABLE.name(repository), "Repository");
        assert_eq!(field(repository, "description"), Some(Class::Scalar));
        assert_eq!(field(repository, "issue"), TABLE.id("Issue").map(Class::Same));
        assert_eq!(field(repository, "owner"), Some(Class::Account));
        assert_eq!(field(repository, "parent"), Some(Class::Foreign));
        assert_eq!(field(repository, "projectsV2"), Some(Class::Project));
        assert_eq!(field(repository, "licenseInfo"), Some(Class::Other));
        assert_eq!(field(repository, "tempCloneToken"), Some(Class::Secret));
        assert_eq!(field(repository, "somethingNew"), None);
        assert_eq!(TABLE.position("CreateIssueInput", "projectIds"), Some(Position::Closed));
        assert_eq!(TABLE.mutation("deleteIssue").map(|mutation| mutation.needs), Some(Needs::Admin));
        assert!(TABLE.mutation("transferIssue").is_none() && TABLE.id("Query").is_none() && TABLE.id("User").is_none());
    }

    /// A field that a person found to lead out of the repository is in no type of the table as one that stays in it.
    #[test]
    fn what_is_written_down_as_foreign_is_nowhere_the_same() {
        let classes = include_str!("classes.txt");
        let section = |name: &str| classes.split(name).nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
        for (name, class) in [("[secret]", Class::Secret), ("[foreign]", Class::Foreign)] {
            for path in section(name).lines().filter(|line| !line.starts_with('#') && line.contains('.')) {
                let (parent, field) = path.split_once('.').unwrap();
                let found = TABLE.id(parent).and_then(|id| self::field(id, field));
                assert!(found.is_none() || found == Some(class), "{path} is {found:?}");
            }
        }
    }
}
