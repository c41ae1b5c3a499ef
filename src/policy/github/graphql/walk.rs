//! The walk over a document. It goes through every fragment where it is used, as the field it is used in decides what it may ask.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::denial::{Code, OutOfScope};
use super::super::json::Json;
use super::super::known::{Known, NodeOwner};
use super::answer::{Owner, Shape, is_id};
use super::contexts::{Outside, Step};
use super::document::{Document, Field, Fragment, Kind, Selection};
use super::table::{Class, Narrowed, TABLE, TypeId};
use super::values::Variables;
use super::words::{malformed, quoted};
use super::{Answer, Checked, Expect, RepoChange, RepositoryOf, Rules, UNKNOWN_NODES};

/// How many fields and fragments a document may have once every fragment stands where it is used.
const SELECTIONS: usize = 5_000;
/// How many repositories it may mean.
const REPOSITORIES: usize = 100;
/// How deep, fragments counted.
const DEPTH: usize = 30;

/// Where the walk is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Context {
    Query,
    Mutation,
    /// In something of an allowed repository. `declared` is the type that the schema gives the place, `kind` what fragments narrowed it to.
    Repository {
        kind: TypeId,
        declared: TypeId,
        owner: Owner,
    },
    /// In what belongs to nobody's repository.
    Public(TypeId),
    /// In an account; the login's number in the walk's list, where the document names it.
    Account(Option<usize>),
    /// In what is not the repository's own.
    Outside(Outside),
    /// In the description of the schema itself.
    Schema,
}

pub(super) struct Walk<'d> {
    pub rules: &'d Rules,
    pub known: &'d dyn Known,
    pub variables: Variables<'d>,
    pub repositories: Vec<RepositoryOf>,
    pub changes: Vec<RepoChange>,
    pub logins: Vec<String>,
    unknown: Vec<(String, Expect)>,
    fragments: HashMap<&'d str, &'d Fragment<'d>>,
    shape: Shape<'d>,
    selections: usize,
    /// The fragments that the walk is in.
    inside: Vec<&'d str>,
    used: HashSet<&'d str>,
}

pub(super) fn walk<'d>(
    document: &'d Document<'d>,
    given: &'d [(Cow<'d, str>, Json<'d>)],
    rules: &'d Rules,
    known: &'d dyn Known,
) -> Result<Answer, OutOfScope> {
    let mut walk = Walk {
        rules,
        known,
        variables: Variables::new(given),
        repositories: Vec::new(),
        changes: Vec::new(),
        logins: Vec::new(),
        unknown: Vec::new(),
        fragments: document.fragments.iter().map(|fragment| (fragment.name, fragment)).collect(),
        shape: Shape::new(document.selections),
        selections: 0,
        inside: Vec::new(),
        used: HashSet::new(),
    };
    for operation in &document.operations {
        walk.variables.declare(&operation.variables);
        let context = if operation.kind == Kind::Query { Context::Query } else { Context::Mutation };
        walk.selection_set(&operation.selections, context, 0, 1)?;
    }
    if let Some(fragment) = document.fragments.iter().find(|fragment| !walk.used.contains(fragment.name)) {
        return Err(malformed(format!("the fragment `{}` is not used", quoted(fragment.name))));
    }
    if !walk.unknown.is_empty() {
        return Ok(Answer::Unknown(walk.unknown));
    }
    let learn = walk.shape.learn(&walk.repositories);
    let mutation = document.operations.iter().any(|operation| operation.kind == Kind::Mutation);
    Ok(Answer::Covered(Box::new(Checked { repositories: walk.repositories, changes: walk.changes, learn, mutation })))
}

impl<'d> Walk<'d> {
    /// `place` is where the answer has it.
    fn selection_set(
        &mut self,
        all: &'d [Selection<'d>],
        context: Context,
        place: usize,
        depth: usize,
    ) -> Result<(), OutOfScope> {
        if depth > DEPTH {
            return Err(malformed(format!("the query is deeper than {DEPTH} levels, fragments counted")));
        }
        for selection in all {
            self.selections += 1;
            if self.selections > SELECTIONS {
                return Err(malformed(format!(
                    "the query has more than {SELECTIONS} fields, fragments counted where they are used"
                )));
            }
            match selection {
                Selection::Field(field) => self.field(field, context, place, depth)?,
                Selection::Inline { on, selections } => {
                    let context = on.map_or(Ok(context), |on| narrow(context, on))?;
                    self.selection_set(selections, context, place, depth + 1)?;
                }
                Selection::Spread(name) => self.spread(name, context, place, depth)?,
            }
        }
        Ok(())
    }

    fn spread(&mut self, name: &'d str, context: Context, place: usize, depth: usize) -> Result<(), OutOfScope> {
        let found = self.fragments.get(name).copied();
        let fragment = found.ok_or_else(|| malformed(format!("there is no fragment `{}`", quoted(name))))?;
        if self.inside.contains(&name) {
            return Err(malformed(format!("the fragment `{}` uses itself", quoted(name))));
        }
        self.used.insert(name);
        self.inside.push(name);
        self.selection_set(&fragment.selections, narrow(context, fragment.on)?, place, depth + 1)?;
        self.inside.pop();
        Ok(())
    }

    fn field(&mut self, field: &'d Field<'d>, context: Context, place: usize, depth: usize) -> Result<(), OutOfScope> {
        let inside = match context {
            Context::Query => self.root(field)?,
            Context::Mutation => self.mutation(field)?,
            Context::Repository { kind, owner, .. } => typed(kind, owner, field)?,
            Context::Public(kind) => public(kind, field)?,
            Context::Account(login) => self.account(login, field)?,
            Context::Outside(outside) => self.outside(outside, field)?,
            Context::Schema => Some(Context::Schema),
        };
        let place = self.shape.place(place, field, owner_of(context));
        match inside {
            Some(inside) => self.selection_set(&field.selections, inside, place, depth + 1),
            None if field.selections.is_empty() => Ok(()),
            None => Err(malformed(format!("`{}` is a value and has no fields", quoted(field.name)))),
        }
    }

    fn account(&mut self, login: Option<usize>, field: &'d Field<'d>) -> Result<Option<Context>, OutOfScope> {
        if let ("repository", Some(login)) = (field.name, login) {
            let owner = self.logins[login].clone();
            return self.owned(&owner, field).map(Some);
        }
        self.outside(Outside::Account, field)
    }

    fn outside(&mut self, outside: Outside, field: &Field<'_>) -> Result<Option<Context>, OutOfScope> {
        match outside.step(field.name, self.rules.org_read) {
            Step::Leaf => Ok(None),
            Step::To(Outside::Account) => Ok(Some(Context::Account(None))),
            Step::To(next) => Ok(Some(Context::Outside(next))),
            Step::Option => Err(OutOfScope::new(
                Code::OptionOff,
                format!("`{}` of an account is not to be asked here", quoted(field.name)),
            )),
            Step::Closed => {
                let (name, what) = (quoted(field.name), outside.what());
                Err(OutOfScope::new(
                    Code::ForeignObject,
                    format!("`{name}` may not be asked of {what}: only what it is called"),
                ))
            }
        }
    }

    /// What a node id belongs to, where that is known and allowed here. None: it is noted, and has to be looked up.
    pub(super) fn node(&mut self, id: &str, expect: Expect) -> Result<Option<NodeOwner>, OutOfScope> {
        if !is_id(id) {
            return Err(malformed("a node id has 1 to 256 letters, digits and signs"));
        }
        let owner = match self.known.node(id) {
            Some(owner) => owner,
            None => {
                self.note(id, expect)?;
                return Ok(None);
            }
        };
        let allowed = match owner {
            NodeOwner::Repository(number) => {
                expect != Expect::Account && (self.rules.all || self.known.repository_of_id(number).is_some())
            }
            NodeOwner::Account => expect != Expect::Repository,
            NodeOwner::Foreign => false,
        };
        if !allowed {
            return Err(OutOfScope::new(
                Code::ForeignObject,
                format!("`{}` is nothing that may be used here", quoted(id)),
            ));
        }
        Ok(Some(owner))
    }

    fn note(&mut self, id: &str, expect: Expect) -> Result<(), OutOfScope> {
        if self.unknown.iter().any(|(known, other)| known == id && *other == expect) {
            return Ok(());
        }
        if self.unknown.len() >= UNKNOWN_NODES {
            return Err(malformed(format!("the query names more than {UNKNOWN_NODES} ids that are not known yet")));
        }
        self.unknown.push((id.to_owned(), expect));
        Ok(())
    }

    /// The number of a repository in the document's list.
    pub(super) fn enter(&mut self, repository: RepositoryOf) -> Result<usize, OutOfScope> {
        if let Some(number) = self.repositories.iter().position(|known| *known == repository) {
            return Ok(number);
        }
        if self.repositories.len() >= REPOSITORIES {
            return Err(malformed(format!("the query means more than {REPOSITORIES} repositories")));
        }
        self.repositories.push(repository);
        Ok(self.repositories.len() - 1)
    }
}

/// Something of a repository, of this type.
pub(super) fn inside(kind: TypeId, owner: Owner) -> Context {
    Context::Repository { kind, declared: kind, owner }
}

fn typed(kind: TypeId, owner: Owner, field: &Field<'_>) -> Result<Option<Context>, OutOfScope> {
    let path = || format!("{}.{}", TABLE.name(kind), quoted(field.name));
    let class = TABLE.field(kind, field.name_id);
    Ok(Some(match class {
        Some(Class::Scalar) => return Ok(None),
        Some(Class::Same(next)) => inside(next, owner),
        Some(Class::Account) => Context::Account(None),
        Some(Class::Foreign) => Context::Outside(match field.name {
            "parent" | "templateRepository" | "headRepository" => Outside::Parent,
            _ => Outside::Foreign,
        }),
        Some(Class::Project) => Context::Outside(Outside::Project),
        Some(Class::Other) => Context::Outside(Outside::Other),
        Some(Class::Secret) => {
            return Err(OutOfScope::new(
                Code::NotAllowed,
                format!("`{}` is a credential, or holds one, and is never given out", path()),
            ));
        }
        None => return Err(unknown(&path())),
    }))
}

fn public(kind: TypeId, field: &Field<'_>) -> Result<Option<Context>, OutOfScope> {
    match TABLE.field(kind, field.name_id) {
        Some(Class::Scalar) => Ok(None),
        Some(Class::Same(next)) if TABLE.is_public(next) => Ok(Some(Context::Public(next))),
        _ => Err(unknown(&format!("{}.{}", TABLE.name(kind), quoted(field.name)))),
    }
}

fn unknown(path: &str) -> OutOfScope {
    OutOfScope::new(Code::NotAllowed, format!("the field `{path}` is not known here, and so not allowed"))
}

/// What a type condition makes of a place.
fn narrow(context: Context, on: &str) -> Result<Context, OutOfScope> {
    let no = || {
        OutOfScope::new(Code::NotAllowed, format!("the type `{}` is not known here, and so not allowed", quoted(on)))
    };
    match context {
        Context::Query if on == "Query" => Ok(context),
        Context::Mutation if on == "Mutation" => Ok(context),
        Context::Public(kind) if on == TABLE.name(kind) => Ok(context),
        Context::Query | Context::Mutation | Context::Public(_) => Err(no()),
        // By name only, whatever the type.
        Context::Account(_) | Context::Outside(_) | Context::Schema => Ok(context),
        Context::Repository { declared, owner, .. } => Ok(match TABLE.narrow(on).ok_or_else(no)? {
            // Of a link that may be to a repository, GitHub alone knows which one; a root has been checked by its id or URL.
            Narrowed::Type(kind) if on == "Repository" && !rooted(declared) && kind != declared => {
                Context::Outside(Outside::Foreign)
            }
            Narrowed::Type(kind) => Context::Repository { kind, declared, owner },
            Narrowed::Account => Context::Account(None),
            Narrowed::Project => Context::Outside(Outside::Project),
            Narrowed::Other => Context::Outside(Outside::Other),
        }),
    }
}

fn rooted(declared: TypeId) -> bool {
    matches!(TABLE.name(declared), "Node" | "UniformResourceLocatable")
}

/// Whose an `id` is that stands here.
fn owner_of(context: Context) -> Owner {
    match context {
        Context::Repository { owner, .. } => owner,
        Context::Account(_) => Owner::Account,
        Context::Query | Context::Mutation | Context::Public(_) | Context::Outside(_) | Context::Schema => {
            Owner::Nobody
        }
    }
}
