//! Mutations: an allow list (in `table.txt`), and what each id of an input has to belong to (github-scope.md 4.6).

use super::super::denial::{Code, OutOfScope};
use super::super::known::NodeOwner;
use super::super::name::RepoName;
use super::answer::Owner;
use super::document::Field;
use super::table::{Needs, Position, TABLE};
use super::values::Input;
use super::walk::{Context, Walk, inside};
use super::words::{malformed, quoted};
use super::{Expect, RepositoryOf};

/// The repositories that the ids of one input belong to, each once.
type Touched = Vec<RepositoryOf>;

impl<'d> Walk<'d> {
    /// What the answer to a mutation is in.
    pub(super) fn mutation(&mut self, field: &'d Field<'d>) -> Result<Option<Context>, OutOfScope> {
        if field.name == "__typename" {
            return Ok(None);
        }
        let name = quoted(field.name);
        let mutation = TABLE.mutation(field.name);
        let mutation = mutation
            .ok_or_else(|| OutOfScope::new(Code::NotAllowed, format!("the mutation `{name}` is not allowed here")))?;
        let open = match mutation.needs {
            Needs::Nothing => true,
            Needs::Admin => self.rules.admin,
            Needs::Deploy => self.rules.deploy,
            Needs::Merge => self.rules.merge,
            Needs::Projects => !self.rules.projects.is_empty(),
        };
        if !open {
            return Err(OutOfScope::new(Code::OptionOff, format!("the mutation `{name}` is not allowed here")));
        }
        if field.arguments.len() != 1 {
            return Err(malformed(format!("`{name}` takes the one argument `input`")));
        }
        let input = self.argument(field, "input")?;
        let mut touched = Touched::new();
        self.input(mutation.input, &input, &mut touched)?;
        self.head(field.name, &input)?;
        self.changes_of(field.name, &input)?;
        // Ids of the answer are learned where there is no doubt whose they are.
        let owner = match touched.as_slice() {
            [one] => Owner::Repository(self.enter(one.clone())?),
            _ => Owner::Nobody,
        };
        Ok(Some(inside(mutation.payload, owner)))
    }

    /// Every value of an input in its position. A value that the table does not have is refused: it could be an id.
    fn input(&mut self, kind: &'static str, value: &Input<'d>, touched: &mut Touched) -> Result<(), OutOfScope> {
        let entries = value.entries().ok_or_else(|| malformed(format!("`{kind}` is an object")))?;
        for (key, value) in entries {
            let unknown = || {
                let message = format!("the value `{}` of `{kind}` is not known here, and so not allowed", quoted(key));
                OutOfScope::new(Code::NotAllowed, message)
            };
            let position = TABLE.position(kind, key).ok_or_else(unknown)?;
            if *value == Input::Null {
                continue;
            }
            for item in value.items() {
                self.value(position, key, item, touched)?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        position: Position,
        key: &str,
        value: &Input<'d>,
        touched: &mut Touched,
    ) -> Result<(), OutOfScope> {
        let text = || value.text().ok_or_else(|| malformed(format!("`{}` takes a string", quoted(key))));
        match position {
            Position::Free => Ok(()),
            Position::Input(kind) => self.input(kind, value, touched),
            Position::Closed => {
                Err(OutOfScope::new(Code::NotAllowed, format!("`{}` is not allowed here", quoted(key))))
            }
            Position::Account => self.node(text()?, Expect::Account).map(|_| ()),
            Position::Project => {
                let id = text()?;
                if self.rules.projects.iter().any(|project| project == id) {
                    return Ok(());
                }
                Err(OutOfScope::new(
                    Code::ForeignObject,
                    format!("the project `{}` is not one that may be used here", quoted(id)),
                ))
            }
            Position::Named => {
                let name = text()?;
                let name = RepoName::parse(name).map_err(|error| malformed(format!("`{}`: {error}", quoted(key))))?;
                self.allowed(&name)?;
                self.touch(RepositoryOf::Named(name), touched)
            }
            Position::Repository => match self.node(text()?, Expect::Repository)? {
                Some(NodeOwner::Repository(number)) => self.touch(RepositoryOf::Id(number), touched),
                Some(NodeOwner::Account | NodeOwner::Foreign) | None => Ok(()),
            },
        }
    }

    fn touch(&mut self, repository: RepositoryOf, touched: &mut Touched) -> Result<(), OutOfScope> {
        self.enter(repository.clone())?;
        if !touched.contains(&repository) {
            touched.push(repository);
        }
        Ok(())
    }

    /// The head of a new pull request: a branch of a fork would bring that repository's commits in.
    fn head(&self, mutation: &str, input: &Input<'_>) -> Result<(), OutOfScope> {
        if mutation != "createPullRequest" {
            return Ok(());
        }
        let head = required(input, "headRefName")?;
        let Some((owner, _)) = head.split_once(':') else { return Ok(()) };
        let base = required(input, "repositoryId")?;
        let own = match self.known.node(base) {
            Some(NodeOwner::Repository(number)) => self.known.repository_of_id(number),
            // Not known yet: the document is checked again.
            None => return Ok(()),
            Some(NodeOwner::Account | NodeOwner::Foreign) => None,
        };
        if own.is_some_and(|own| own.name.owner().eq_ignore_ascii_case(owner)) || self.rules.all {
            return Ok(());
        }
        let message = format!("the head `{}` is a branch of another owner's repository", quoted(head));
        Err(OutOfScope::new(Code::RepoNotAllowed, message))
    }

    /// The repository of an id in an input, where it is known.
    pub(super) fn repository_of(&self, id: &str) -> Option<RepositoryOf> {
        match self.known.node(id) {
            Some(NodeOwner::Repository(number)) => Some(RepositoryOf::Id(number)),
            Some(NodeOwner::Account | NodeOwner::Foreign) | None => None,
        }
    }
}

/// A string that an input has to have.
pub(super) fn required<'i>(input: &'i Input<'_>, key: &str) -> Result<&'i str, OutOfScope> {
    input.get(key).and_then(Input::text).ok_or_else(|| malformed(format!("the input needs `{key}` as a string")))
}
