"""GraphQL over the published schema: fields that somebody wrote here, and values of the right type for all others."""

import json
import re
import threading

import graphql

import graph_changes
import graph_fields
from answers import Refusal, as_json, message
from gitrepo import Failed
from graph_fields import NotThere
from rest import identify, with_limits
from world import NOW, Thing

schema_file = None
built, building = [], threading.Lock()
# gh asks for `state` of an issue and of a pull request under one name, and GitHub lets it.
RULES = [rule for rule in graphql.specified_rules if rule is not graphql.OverlappingFieldsCanBeMergedRule]
SCALARS = {"Int": 0, "Float": 0.0, "Boolean": False, "String": "", "ID": "", "DateTime": NOW, "URI": "https://github.com/"}


def schema():
    """Read once, when the first request needs it: it takes seconds."""
    with building:
        if not built:
            with open(schema_file, encoding="utf-8") as file:
                built.append(graphql.build_schema(file.read(), assume_valid=True, assume_valid_sdl=True, no_location=True))
    return built[0]


class Call:
    """Whom a document is answered to."""

    def __init__(self, world, token, site):
        self.world, self.token, self.site = world, token, site
        self.viewer = token.viewer


def serve(world, request):
    if request.method != "POST":
        return message(404, "Not Found")
    with world.lock:
        token = identify(world, request)
    body = request.json()
    query, variables = body.get("query"), body.get("variables") or {}
    if not isinstance(query, str):
        return message(400, "A query attribute must be specified and must be a string.")
    call = Call(world, token, request.site)
    return with_limits(run(call, query, variables, body.get("operationName")), token)


def run(call, query, variables, name):
    try:
        document = graphql.parse(query)
    except graphql.GraphQLError as error:
        return as_json(200, {"errors": [form(error)]})
    if errors := graphql.validate(schema(), document, RULES):
        return as_json(200, {"errors": [form(error) for error in errors]})
    with call.world.lock:
        done = graphql.execute(schema(), document, None, call, variables, name, field_resolver=resolve, type_resolver=type_of)
    answer = {"data": done.data}
    if done.errors:
        answer["errors"] = [form(error) for error in done.errors]
    return as_json(200, answer)


def form(error):
    """GitHub has the kind of an error beside its text."""
    told = {"message": error.message, "locations": [{"line": at.line, "column": at.column} for at in error.locations or []]}
    if error.path:
        told["path"] = error.path
    if isinstance(error.original_error, NotThere):
        told["type"] = error.original_error.kind
    return told


def resolve(source, info, **arguments):
    call, kind, name = info.context, info.parent_type.name, info.field_name
    if kind == "Mutation":
        return change(call, name, arguments.get("input") or {})
    value, found = look_up(source, call, kind, name, arguments)
    if isinstance(source, Thing) and name == "id" and not found:
        value, found = source.node, True
    return shape(value, info, arguments) if found else otherwise(info.return_type, info, arguments)


def look_up(source, call, kind, name, arguments):
    """The value, and whether there is one: written down for the type, or under the name in the thing."""
    if own := graph_fields.FIELDS.get(kind, {}).get(name):
        return own(source, arguments, call), True
    if isinstance(source, dict):
        return source.get(name), name in source
    if name == "id":
        return None, False
    if name == "databaseId" and isinstance(source, Thing):
        return source.id, True
    if name in ("url", "resourcePath") and getattr(source, "path", None):
        return (call.site.web if name == "url" else "") + source.path, True
    key = re.sub(r"([A-Z])", lambda match: "_" + match.group(1).lower(), name)
    value = getattr(source, key, None)
    return value, value is not None and not callable(value)


def change(call, name, given):
    if name not in graph_changes.CHANGES:
        raise NotThere(f"the fake knows no mutation {name}", "NOT_IMPLEMENTED")
    if not call.token.write:
        raise NotThere("Resource not accessible by integration", "FORBIDDEN")
    try:
        return {"clientMutationId": given.get("clientMutationId"), **graph_changes.CHANGES[name](call, given)}
    except Refusal as refusal:
        raise NotThere(json.loads(refusal.answer.body)["message"], "UNPROCESSABLE") from None
    except Failed as failed:
        raise NotThere(str(failed).strip(), "UNPROCESSABLE") from None


def shape(value, info, arguments):
    """A list where a connection is due becomes one page of it."""
    named = graphql.get_named_type(info.return_type)
    if not isinstance(value, list) or not named.name.endswith("Connection"):
        return value
    total, start = len(value), int(arguments.get("after") or 0)
    rows = list(enumerate(value))[start:]
    first, last = arguments.get("first"), arguments.get("last")
    page = rows[:first] if first is not None else rows[-last:] if last is not None else rows
    more = bool(page) and page[-1][0] < total - 1
    edges = [{"cursor": str(index + 1), "node": node} for index, node in page]
    cursors = {"startCursor": edges[0]["cursor"] if edges else None, "endCursor": edges[-1]["cursor"] if edges else None}
    info_of_page = {"hasNextPage": more, "hasPreviousPage": start > 0, **cursors}
    return {"nodes": [node for _, node in page], "edges": edges, "totalCount": total, "issueCount": total, "pageInfo": info_of_page}


def otherwise(kind, info, arguments):
    """A value of the type: nothing where it may be nothing, else the plainest one."""
    if not isinstance(kind, graphql.GraphQLNonNull):
        return shape([], info, arguments) if getattr(kind, "name", "").endswith("Connection") else None
    kind = kind.of_type
    if isinstance(kind, graphql.GraphQLList):
        return []
    if isinstance(kind, graphql.GraphQLScalarType):
        return SCALARS.get(kind.name, "")
    if isinstance(kind, graphql.GraphQLEnumType):
        return next(iter(kind.values))
    if kind.name.endswith("Connection"):
        return shape([], info, arguments)
    if isinstance(kind, graphql.GraphQLObjectType):
        return {}
    return {"__typename": info.schema.get_possible_types(kind)[0].name}


def type_of(value, _info, _kind):
    """The type of what stands behind an interface or a union."""
    return value.kind if isinstance(value, Thing) else value.get("__typename")
