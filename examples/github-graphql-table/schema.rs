//! The published schema, as far as the table needs it.

use std::collections::{BTreeMap, BTreeSet};

use apollo_parser::Parser;
use apollo_parser::cst::{Definition, FieldsDefinition, ImplementsInterfaces, Type};

/// One field, or one value of an input.
pub struct Field {
    pub name: String,
    /// The type without lists and `!`.
    pub target: String,
}

/// A type.
pub enum Kind {
    Scalar,
    Object(Vec<Field>),
    Interface(Vec<Field>),
    Union,
    Input(Vec<Field>),
}

/// All types by name.
pub struct Schema {
    pub types: BTreeMap<String, Kind>,
    /// Of interfaces and unions, which types they can be.
    members: BTreeMap<String, BTreeSet<String>>,
    /// The input type of each mutation.
    inputs: BTreeMap<String, String>,
}

impl Schema {
    pub fn parse(text: &str) -> Result<Self, String> {
        let tree = Parser::new(text).parse();
        if let Some(error) = tree.errors().next() {
            return Err(format!("the schema: {error}"));
        }
        let mut schema = Self { types: BTreeMap::new(), members: BTreeMap::new(), inputs: BTreeMap::new() };
        for definition in tree.document().definitions() {
            schema.add(&definition);
        }
        Ok(schema)
    }

    fn add(&mut self, definition: &Definition) {
        let Some(name) = definition.name().map(|name| name.text().to_string()) else { return };
        let kind = match definition {
            Definition::ObjectTypeDefinition(it) => {
                if name == "Mutation" {
                    self.read_inputs(it.fields_definition());
                }
                self.implements(&name, it.implements_interfaces());
                Kind::Object(fields(it.fields_definition()))
            }
            Definition::InterfaceTypeDefinition(it) => {
                self.implements(&name, it.implements_interfaces());
                Kind::Interface(fields(it.fields_definition()))
            }
            Definition::UnionTypeDefinition(it) => {
                for member in it.union_member_types().iter().flat_map(|members| members.named_types()) {
                    self.member(&name, &target(&Type::NamedType(member)));
                }
                Kind::Union
            }
            Definition::InputObjectTypeDefinition(it) => {
                let values = it.input_fields_definition();
                let values = values.iter().flat_map(|values| values.input_value_definitions());
                Kind::Input(values.filter_map(|value| field(value.name(), value.ty())).collect())
            }
            Definition::ScalarTypeDefinition(_) | Definition::EnumTypeDefinition(_) => Kind::Scalar,
            // What the published schema does not have, and what is no type. A field that is not read here is one that is refused later.
            Definition::OperationDefinition(_)
            | Definition::FragmentDefinition(_)
            | Definition::DirectiveDefinition(_)
            | Definition::SchemaDefinition(_)
            | Definition::SchemaExtension(_)
            | Definition::ScalarTypeExtension(_)
            | Definition::ObjectTypeExtension(_)
            | Definition::InterfaceTypeExtension(_)
            | Definition::UnionTypeExtension(_)
            | Definition::EnumTypeExtension(_)
            | Definition::InputObjectTypeExtension(_) => return,
        };
        self.types.insert(name, kind);
    }

    fn read_inputs(&mut self, mutations: Option<FieldsDefinition>) {
        for mutation in mutations.iter().flat_map(|fields| fields.field_definitions()) {
            let arguments = mutation.arguments_definition();
            let input = arguments.iter().flat_map(|list| list.input_value_definitions()).find_map(|value| value.ty());
            if let (Some(name), Some(input)) = (mutation.name(), input) {
                self.inputs.insert(name.text().to_string(), target(&input));
            }
        }
    }

    fn implements(&mut self, name: &str, interfaces: Option<ImplementsInterfaces>) {
        for interface in interfaces.iter().flat_map(|list| list.named_types()) {
            self.member(&target(&Type::NamedType(interface)), name);
        }
    }

    fn member(&mut self, of: &str, name: &str) {
        self.members.entry(of.to_owned()).or_default().insert(name.to_owned());
    }

    /// The types that an interface or union can be; none of an object.
    pub fn members(&self, name: &str) -> Vec<String> {
        self.members.get(name).into_iter().flatten().cloned().collect()
    }

    pub fn field(&self, parent: &str, name: &str) -> Option<&Field> {
        self.types.get(parent)?.fields().iter().find(|field| field.name == name)
    }

    pub fn input_of(&self, mutation: &str) -> Option<&str> {
        self.inputs.get(mutation).map(String::as_str)
    }

    /// What a connection or an edge is one of, else the type itself.
    pub fn item(&self, name: &str) -> String {
        let mut name = name.to_owned();
        while name.ends_with("Connection") || name.ends_with("Edge") {
            let next = ["nodes", "node", "edges"].iter().find_map(|field| self.field(&name, field));
            let Some(next) = next else { break };
            name = next.target.clone();
        }
        name
    }
}

impl Kind {
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::Object(fields) | Self::Interface(fields) | Self::Input(fields) => fields,
            Self::Scalar | Self::Union => &[],
        }
    }
}

fn fields(list: Option<FieldsDefinition>) -> Vec<Field> {
    let list = list.iter().flat_map(|fields| fields.field_definitions());
    list.filter_map(|one| field(one.name(), one.ty())).collect()
}

fn field(name: Option<apollo_parser::cst::Name>, ty: Option<Type>) -> Option<Field> {
    Some(Field { name: name?.text().to_string(), target: target(&ty?) })
}

fn target(ty: &Type) -> String {
    let text = match ty {
        Type::NamedType(named) => named.name().map(|name| name.text().to_string()),
        Type::ListType(list) => list.ty().map(|ty| target(&ty)),
        Type::NonNullType(non_null) => {
            let inner = non_null.named_type().map(|named| target(&Type::NamedType(named)));
            inner.or_else(|| non_null.list_type().map(|list| target(&Type::ListType(list))))
        }
    };
    text.unwrap_or_default()
}
