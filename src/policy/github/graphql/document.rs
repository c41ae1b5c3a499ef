//! The text of a GraphQL request as a tree: the grammar of requests, which counts and bounds what it builds. A name given twice, which
//! servers read differently, is refused.

use apollo_parser::TokenKind;

use super::super::denial::OutOfScope;
use super::names::{NameId, Names};
use super::words::{Word, Words, malformed, quoted, string};

/// How long a document may be, in bytes.
pub const LENGTH: usize = 256 * 1024;
/// How many fields and fragments a document may write down.
const SELECTIONS: usize = 5_000;
/// How deep its brackets may be nested, of whichever kind.
const NESTING: usize = 64;

/// All operations and fragments.
#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    pub operations: Vec<Operation<'a>>,
    pub fragments: Vec<Fragment<'a>>,
    /// How many fields and fragments it writes down.
    pub selections: usize,
}

#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub kind: Kind,
    pub name: Option<&'a str>,
    pub variables: Vec<Variable<'a>>,
    pub selections: Vec<Selection<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Query,
    Mutation,
}

#[derive(Debug)]
pub(super) struct Variable<'a> {
    pub name: &'a str,
    pub default: Option<Value<'a>>,
}

#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub name: &'a str,
    pub on: &'a str,
    pub selections: Vec<Selection<'a>>,
}

#[derive(Debug)]
pub(super) enum Selection<'a> {
    Field(Field<'a>),
    Spread(&'a str),
    Inline { on: Option<&'a str>, selections: Vec<Selection<'a>> },
}

#[derive(Debug)]
pub(super) struct Field<'a> {
    /// Under which name the answer has it.
    pub key: &'a str,
    pub key_id: NameId,
    pub name: &'a str,
    pub name_id: NameId,
    pub arguments: Vec<(&'a str, Value<'a>)>,
    pub selections: Vec<Selection<'a>>,
}

#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number,
    Enum(&'a str),
    /// As written, without the quotes, its escapes not resolved.
    Text(&'a str),
    Variable(&'a str),
    List(Vec<Value<'a>>),
    Object(Vec<(&'a str, Value<'a>)>),
}

impl<'a> Document<'a> {
    /// The tree of a text.
    ///
    /// # Errors
    /// `Code::Malformed`: no GraphQL request, one that can be read in two ways, or one above the bounds.
    pub fn parse(text: &'a str) -> Result<Self, OutOfScope> {
        if text.len() > LENGTH {
            return Err(malformed(format!("the query is longer than {LENGTH} bytes")));
        }
        let mut parser =
            Parser { words: Words::new(text)?, next: None, names: Names::default(), nesting: 0, selections: 0 };
        parser.advance()?;
        let mut document = parser.document()?;
        document.selections = parser.selections;
        document.check_names()?;
        Ok(document)
    }

    fn check_names(&self) -> Result<(), OutOfScope> {
        once(self.operations.iter().filter_map(|operation| operation.name), "operation")?;
        once(self.fragments.iter().map(|fragment| fragment.name), "fragment")?;
        if self.operations.is_empty() {
            return Err(malformed("the query has no operation"));
        }
        if self.operations.len() > 1 && self.operations.iter().any(|operation| operation.name.is_none()) {
            return Err(malformed("of several operations, each needs a name"));
        }
        Ok(())
    }
}

struct Parser<'a> {
    words: Words<'a>,
    /// The word that is looked at; none at the end.
    next: Option<Word<'a>>,
    names: Names<'a>,
    nesting: usize,
    selections: usize,
}

type Parsed<T> = Result<T, OutOfScope>;

impl<'a> Parser<'a> {
    fn document(&mut self) -> Parsed<Document<'a>> {
        let mut document = Document::default();
        while let Some(word) = self.next {
            match (word.kind, word.text) {
                (TokenKind::LCurly, _) => document.operations.push(self.operation(Kind::Query, true)?),
                (TokenKind::Name, "query") => document.operations.push(self.operation(Kind::Query, false)?),
                (TokenKind::Name, "mutation") => document.operations.push(self.operation(Kind::Mutation, false)?),
                (TokenKind::Name, "fragment") => document.fragments.push(self.fragment()?),
                (TokenKind::Name, "subscription") => return Err(malformed("subscriptions are not served")),
                _ => return Err(self.unexpected("an operation or a fragment")),
            }
        }
        Ok(document)
    }

    fn operation(&mut self, kind: Kind, short: bool) -> Parsed<Operation<'a>> {
        let (mut name, mut variables) = (None, Vec::new());
        if !short {
            self.advance()?;
            if self.at(TokenKind::Name) {
                name = Some(self.name()?);
            }
            if self.at(TokenKind::LParen) {
                variables = self.variables()?;
            }
            self.directives()?;
        }
        Ok(Operation { kind, name, variables, selections: self.selection_set()? })
    }

    fn variables(&mut self) -> Parsed<Vec<Variable<'a>>> {
        let variables = self.list(TokenKind::LParen, TokenKind::RParen, |parser| {
            parser.expect(TokenKind::Dollar, "a variable")?;
            let name = parser.name()?;
            parser.expect(TokenKind::Colon, "`:`")?;
            parser.variable_type()?;
            let default = if parser.eat(TokenKind::Eq)? { Some(parser.value(true)?) } else { None };
            parser.directives()?;
            Ok(Variable { name, default })
        })?;
        once(variables.iter().map(|variable| variable.name), "variable")?;
        Ok(variables)
    }

    fn variable_type(&mut self) -> Parsed<()> {
        if self.at(TokenKind::LBracket) {
            self.enter()?;
            self.variable_type()?;
            self.leave(TokenKind::RBracket)?;
        } else {
            self.name()?;
        }
        self.eat(TokenKind::Bang)?;
        Ok(())
    }

    fn fragment(&mut self) -> Parsed<Fragment<'a>> {
        self.advance()?;
        let name = self.name()?;
        if name == "on" || self.name()? != "on" {
            return Err(malformed("write fragments as `fragment NAME on TYPE { … }`"));
        }
        let on = self.name()?;
        self.directives()?;
        Ok(Fragment { name, on, selections: self.selection_set()? })
    }

    fn selection_set(&mut self) -> Parsed<Vec<Selection<'a>>> {
        self.list(TokenKind::LCurly, TokenKind::RCurly, |parser| {
            parser.selections += 1;
            if parser.selections > SELECTIONS {
                return Err(malformed(format!("the query has more than {SELECTIONS} fields")));
            }
            if parser.eat(TokenKind::Spread)? { parser.spread() } else { parser.field().map(Selection::Field) }
        })
    }

    fn spread(&mut self) -> Parsed<Selection<'a>> {
        let mut on = None;
        if self.at(TokenKind::Name) {
            let name = self.name()?;
            if name != "on" {
                self.directives()?;
                return Ok(Selection::Spread(name));
            }
            on = Some(self.name()?);
        }
        self.directives()?;
        Ok(Selection::Inline { on, selections: self.selection_set()? })
    }

    fn field(&mut self) -> Parsed<Field<'a>> {
        let key = self.name()?;
        let key_id = self.names.id(key);
        let (mut name, mut name_id) = (key, key_id);
        if self.eat(TokenKind::Colon)? {
            name = self.name()?;
            name_id = self.names.id(name);
        }
        let arguments = self.arguments()?;
        self.directives()?;
        let selections = if self.at(TokenKind::LCurly) { self.selection_set()? } else { Vec::new() };
        Ok(Field { key, key_id, name, name_id, arguments, selections })
    }

    fn arguments(&mut self) -> Parsed<Vec<(&'a str, Value<'a>)>> {
        if !self.at(TokenKind::LParen) {
            return Ok(Vec::new());
        }
        let arguments = self.list(TokenKind::LParen, TokenKind::RParen, |parser| parser.entry(false))?;
        once(arguments.iter().map(|(name, _)| *name), "argument")?;
        Ok(arguments)
    }

    /// What a directive says is ignored: every branch of a document counts.
    fn directives(&mut self) -> Parsed<()> {
        let mut seen = Vec::new();
        while self.eat(TokenKind::At)? {
            let name = self.name()?;
            if !matches!(name, "include" | "skip") {
                return Err(malformed(format!(
                    "the directive `@{}` is not served; @include and @skip are",
                    quoted(name)
                )));
            }
            self.arguments()?;
            seen.push(name);
        }
        once(seen.into_iter(), "directive")
    }

    fn entry(&mut self, constant: bool) -> Parsed<(&'a str, Value<'a>)> {
        let name = self.name()?;
        self.expect(TokenKind::Colon, "`:`")?;
        Ok((name, self.value(constant)?))
    }

    fn value(&mut self, constant: bool) -> Parsed<Value<'a>> {
        let Some(word) = self.next else { return Err(self.unexpected("a value")) };
        let value = match (word.kind, word.text) {
            (TokenKind::LBracket, _) => return Ok(Value::List(self.items(constant)?)),
            (TokenKind::LCurly, _) => return Ok(Value::Object(self.object(constant)?)),
            (TokenKind::Dollar, _) if !constant => {
                self.advance()?;
                return Ok(Value::Variable(self.name()?));
            }
            (TokenKind::Int | TokenKind::Float, _) => Value::Number,
            (TokenKind::StringValue, text) => Value::Text(string(text)?),
            (TokenKind::Name, "null") => Value::Null,
            (TokenKind::Name, "true") => Value::Bool(true),
            (TokenKind::Name, "false") => Value::Bool(false),
            (TokenKind::Name, name) => Value::Enum(name),
            _ => return Err(self.unexpected("a value")),
        };
        self.advance()?;
        Ok(value)
    }

    fn items(&mut self, constant: bool) -> Parsed<Vec<Value<'a>>> {
        let mut items = Vec::new();
        self.enter()?;
        while !self.at(TokenKind::RBracket) {
            items.push(self.value(constant)?);
        }
        self.leave(TokenKind::RBracket)?;
        Ok(items)
    }

    fn object(&mut self, constant: bool) -> Parsed<Vec<(&'a str, Value<'a>)>> {
        let mut entries = Vec::new();
        self.enter()?;
        while !self.at(TokenKind::RCurly) {
            entries.push(self.entry(constant)?);
        }
        self.leave(TokenKind::RCurly)?;
        once(entries.iter().map(|(name, _)| *name), "key")?;
        Ok(entries)
    }

    /// One or more of these between two brackets.
    fn list<T>(
        &mut self,
        open: TokenKind,
        close: TokenKind,
        mut one: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        if !self.at(open) {
            return Err(self.unexpected(if open == TokenKind::LCurly { "`{`" } else { "`(`" }));
        }
        self.enter()?;
        let mut all = vec![one(self)?];
        while !self.at(close) {
            all.push(one(self)?);
        }
        self.leave(close)?;
        Ok(all)
    }

    fn enter(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > NESTING {
            return Err(malformed(format!("the query is nested deeper than {NESTING} brackets")));
        }
        self.advance()
    }

    fn leave(&mut self, close: TokenKind) -> Parsed<()> {
        self.nesting -= 1;
        self.expect(close, "a closing bracket")
    }

    fn name(&mut self) -> Parsed<&'a str> {
        match self.next {
            Some(Word { kind: TokenKind::Name, text }) => {
                self.advance()?;
                Ok(text)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<()> {
        if self.eat(kind)? { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn eat(&mut self, kind: TokenKind) -> Parsed<bool> {
        let here = self.at(kind);
        if here {
            self.advance()?;
        }
        Ok(here)
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.next.is_some_and(|word| word.kind == kind)
    }

    fn advance(&mut self) -> Parsed<()> {
        self.next = self.words.next()?;
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> OutOfScope {
        match self.next {
            Some(word) => malformed(format!("the query has `{}` where {wanted} should be", quoted(word.text))),
            None => malformed(format!("the query ends where {wanted} should be")),
        }
    }
}

fn once<'a>(names: impl Iterator<Item = &'a str>, what: &str) -> Parsed<()> {
    let mut names: Vec<_> = names.collect();
    if names.len() < 2 {
        return Ok(());
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(malformed(format!("the {what} `{}` is there twice", quoted(pair[0])))),
        None => Ok(()),
    }
}
