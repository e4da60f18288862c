use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::syntax::{parse_literal, parse_selection, write_selection};
use super::*;
use crate::catalog::openapi::answer::HttpAnswer;
use crate::catalog::schema::check_arguments;
use crate::catalog::tool::{GraphqlBinding, ToolOutcome};

/// A type as it is written: `[ID!]!`.
fn type_ref(text: &str) -> Value {
    if let Some(inner) = text.strip_suffix('!') {
        return json!({ "kind": "NON_NULL", "name": null, "ofType": type_ref(inner) });
    }
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inner) => json!({ "kind": "LIST", "name": null, "ofType": type_ref(inner) }),
        None => json!({ "kind": "OBJECT", "name": text, "ofType": null }),
    }
}

fn input(name: &str, takes: &str) -> Value {
    let (takes, default) = takes.split_once(" = ").map_or((takes, None), |(takes, default)| (takes, Some(default)));
    json!({ "name": name, "description": null, "type": type_ref(takes), "defaultValue": default })
}

/// `name(argument: Type, …): Type`
fn field(text: &str) -> Value {
    let (head, result) = text.rsplit_once(": ").unwrap();
    let (name, arguments) = head.split_once('(').map_or((head, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let arguments = arguments.split("; ").filter(|text| !text.is_empty());
    let arguments: Vec<Value> = arguments
        .map(|text| {
            let (name, takes) = text.split_once(": ").unwrap();
            input(name, takes)
        })
        .collect();
    json!({ "name": name, "description": null, "args": arguments, "type": type_ref(result), "isDeprecated": false, "deprecationReason": null })
}

fn object(name: &str, fields: &[&str]) -> Value {
    json!({ "kind": "OBJECT", "name": name, "fields": fields.iter().map(|text| field(text)).collect::<Vec<_>>() })
}

fn scalar(name: &str) -> Value {
    json!({ "kind": "SCALAR", "name": name, "description": "As it is." })
}

fn choice(name: &str, values: &[&str]) -> Value {
    let values: Vec<Value> = values.iter().map(|name| json!({ "name": name })).collect();
    json!({ "kind": "ENUM", "name": name, "enumValues": values })
}

fn takes(name: &str, fields: &[(&str, &str)]) -> Value {
    let fields: Vec<Value> = fields.iter().map(|(name, takes)| input(name, takes)).collect();
    json!({ "kind": "INPUT_OBJECT", "name": name, "inputFields": fields })
}

fn schema(types: &[Value]) -> String {
    let has = |name: &str| types.iter().any(|one| one["name"] == name);
    let root = |name: &str| if has(name) { json!({ "name": name }) } else { Value::Null };
    json!({ "data": { "__schema": {
        "queryType": root("Query"), "mutationType": root("Mutation"), "subscriptionType": root("Subscription"), "types": types,
    } } })
    .to_string()
}

fn import(text: &str) -> (Vec<Tool>, Vec<ReportEntry>) {
    let known = BTreeMap::new();
    let mut importer = GraphqlImporter::new(text, &GraphqlOptions { source: "api", known_names: &known }).unwrap();
    let tools = std::iter::from_fn(|| importer.next_tool()).collect();
    (tools, importer.into_report())
}

fn only(types: &[Value]) -> Tool {
    let (mut tools, report) = import(&schema(types));
    assert_eq!(tools.len(), 1, "{report:?}");
    tools.remove(0)
}

fn binding(tool: &Tool) -> &GraphqlBinding {
    let Binding::Graphql(binding) = &tool.binding else { panic!("{tool:?}") };
    binding
}

/// The default selection of `Query.it`.
fn selected(types: &[Value]) -> String {
    binding(&only(types)).selection.as_ref().map(|selection| selection.default.clone()).unwrap_or_default()
}

fn sent(tool: &Tool, arguments: Value) -> Value {
    let arguments = check_arguments(&tool.input_schema, arguments).unwrap();
    let request = build_request(binding(tool), "https://api.example/graphql", &arguments).unwrap();
    serde_json::from_slice(&request.body.unwrap()).unwrap()
}

#[test]
fn of_an_input_that_is_one_of_several_exactly_one_field_is_given() {
    let mut by = takes("By", &["id: ID", "name: String"].map(|field| field.split_once(": ").unwrap()));
    by["isOneOf"] = true.into();
    let tool = only(&[object("Query", &["user(by: By!): String"]), by]);
    for (given, fits) in [
        (json!({ "id": "1" }), true),
        (json!({ "name": "Ada" }), true),
        (json!({ "id": "1", "name": "Ada" }), false),
        (json!({}), false),
    ] {
        assert_eq!(check_arguments(&tool.input_schema, json!({ "by": given })).is_ok(), fits, "{given}");
    }
}

#[test]
fn a_query_and_a_mutation_become_tools_with_their_natures() {
    let (tools, report) = import(&schema(&[
        object("Query", &["user(id: ID!): User", "version: String!"]),
        object("Mutation", &["user(id: ID!; name: String): User"]),
        object("Subscription", &["changed: User"]),
        object("User", &["id: ID!", "name: String"]),
    ]));
    let addresses: Vec<&str> = tools.iter().map(|tool| tool.address.as_str()).collect();
    assert_eq!(addresses, ["api.user", "api.version", "api.mutation.user"]);
    assert_eq!(tools[0].hints, ToolHints { read_only: true, destructive: false, idempotent: true });
    assert_eq!(tools[2].hints, ToolHints { read_only: false, destructive: true, idempotent: false });
    assert_eq!(binding(&tools[0]).document(), "query user($id: ID!) { user(id: $id) { id name } }");
    assert_eq!(binding(&tools[1]).document(), "query version { version }");
    assert!(tools[1].input_schema["properties"].get("select").is_none(), "nothing of a scalar can be selected");
    let told: Vec<(Option<&str>, ReportAction)> =
        report.iter().map(|entry| (entry.operation.as_deref(), entry.action)).collect();
    assert!(told.contains(&(Some("subscription changed"), ReportAction::Skipped)), "{told:?}");
    assert!(told.contains(&(Some("mutation user"), ReportAction::Renamed)), "{told:?}");
}

#[test]
fn a_name_that_was_given_stays() {
    let text = schema(&[object("Query", &["a: Int", "b: Int"])]);
    let known = BTreeMap::from([("query a".to_owned(), "first".to_owned())]);
    let mut importer = GraphqlImporter::new(&text, &GraphqlOptions { source: "api", known_names: &known }).unwrap();
    let names: Vec<String> = std::iter::from_fn(|| importer.next_tool()).map(|tool| tool.address).collect();
    assert_eq!(names, ["api.first", "api.b"]);
}

#[test]
fn arguments_become_variables_under_their_types() {
    let tool = only(&[
        object(
            "Query",
            &["it(id: ID!; first: Int = 10; order: [Order!]; filter: Filter!; at: When; select: String): Int"],
        ),
        choice("Order", &["ASC", "DESC"]),
        scalar("When"),
        takes("Filter", &[("name", "String!"), ("limit", "Int! = 5"), ("and", "[Filter!]")]),
    ]);
    let input = &tool.input_schema;
    assert_eq!(input["required"], json!(["id", "filter"]));
    assert_eq!(input["properties"]["id"], json!({ "type": ["string", "integer"] }));
    assert_eq!(input["properties"]["first"]["default"], json!(10));
    assert_eq!(input["properties"]["order"]["items"]["enum"], json!(["ASC", "DESC"]));
    assert!(input["properties"]["at"].get("type").is_none(), "{input}");
    assert_eq!(input["properties"]["filter"], json!({ "$ref": "#/$defs/Filter" }));
    let filter = &input["$defs"]["Filter"];
    assert_eq!(filter["required"], json!(["name"]));
    assert_eq!(filter["properties"]["and"]["items"], json!({ "$ref": "#/$defs/Filter" }));
    assert_eq!(
        binding(&tool).document(),
        "query it($id: ID!, $first: Int, $order: [Order!], $filter: Filter!, $at: When, $select: String) { it(id: $id, first: $first, order: $order, filter: $filter, at: $at, select: $select) }"
    );
    let body = sent(&tool, json!({ "id": 7, "filter": { "name": "\"}){ evil }" }, "order": null }));
    assert_eq!(body["variables"], json!({ "id": 7, "order": null, "filter": { "name": "\"}){ evil }" } }));
    assert_eq!(body["operationName"], "it");
    assert_eq!(body["query"], binding(&tool).document());
    for wrong in [
        json!({ "filter": { "name": "a" } }),
        json!({ "id": "1", "filter": {} }),
        json!({ "id": "1", "filter": { "name": "a", "other": 1 } }),
        json!({ "id": "1", "filter": { "name": "a" }, "order": ["UP"] }),
        json!({ "id": "1", "filter": { "name": "a" }, "first": 2_147_483_648_u64 }),
    ] {
        assert!(check_arguments(input, wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn an_argument_called_select_keeps_its_name() {
    let tool = only(&[object("Query", &["it(select: String): Thing"]), object("Thing", &["id: ID"])]);
    assert_eq!(binding(&tool).selection.as_ref().unwrap().key, "result_select");
    let body = sent(&tool, json!({ "select": "x", "result_select": "{ name }" }));
    assert_eq!(body["query"], "query it($select: String) { it(select: $select) { name } }");
    assert_eq!(body["variables"], json!({ "select": "x" }));
}

#[test]
fn a_default_selection_has_scalars_and_ends_where_a_type_is_met_again() {
    let user =
        object("User", &["id: ID!", "name: String", "photo(size: Int!): String", "friends: [User!]", "team: Team"]);
    let team = object("Team", &["id: ID!", "lead: User", "office: Office", "rooms: [Office]"]);
    let office = object("Office", &["city: String", "boss: User"]);
    let types = |it: &str| [object("Query", &[it]), user.clone(), team.clone(), office.clone()];
    assert_eq!(selected(&types("it: [User!]!")), "{ id name team { id office { city } } }");
    let tool = only(&types("it: [User!]!"));
    assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "array");
    assert_eq!(
        tool.output_schema.unwrap()["items"]["properties"]["team"]["properties"]["office"]["properties"]["city"],
        json!({ "type": ["string", "null"] })
    );
}

#[test]
fn a_default_selection_takes_the_nodes_of_a_connection() {
    let node = object("Issue", &["number: Int!", "title: String", "comments(first: Int): Comments"]);
    let page = object("PageInfo", &["hasNextPage: Boolean!", "endCursor: String"]);
    let nodes = object("Issues", &["nodes: [Issue]", "edges: [Edge]", "totalCount: Int!", "pageInfo: PageInfo!"]);
    let edge = object("Edge", &["cursor: String!", "node: Issue"]);
    let edges = object("Issues", &["edges: [Edge]", "pageInfo: PageInfo!"]);
    let comments = object("Comments", &["totalCount: Int"]);
    let query = object("Query", &["it(first: Int): Issues"]);
    let others = [query, node, page, edge, comments];
    let with = |connection: Value| others.iter().cloned().chain([connection]).collect::<Vec<_>>();
    assert_eq!(selected(&with(nodes)), "{ nodes { number title } totalCount pageInfo { hasNextPage endCursor } }");
    assert_eq!(selected(&with(edges)), "{ edges { cursor node { number title } } pageInfo { hasNextPage endCursor } }");
}

#[test]
fn a_default_selection_tells_types_apart_and_gives_a_second_shape_a_name_of_its_own() {
    let possible = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let union = json!({ "kind": "UNION", "name": "Hit", "possibleTypes": possible(&["Issue", "Repo", "Gone"]) });
    let types = [
        object("Query", &["it: Hit"]),
        union,
        object("Issue", &["id: ID!", "title: String!"]),
        object("Repo", &["id: ID!", "title: String"]),
    ];
    assert_eq!(selected(&types), "{ __typename ... on Issue { id title } ... on Repo { id title_Repo: title } }");
    let mut interface = object("Hit", &["id: ID!"]);
    interface["kind"] = json!("INTERFACE");
    interface["possibleTypes"] = json!(possible(&["Issue", "Repo"]));
    let types = [types[0].clone(), interface, types[2].clone(), types[3].clone()];
    assert_eq!(selected(&types), "{ __typename id ... on Issue { title } ... on Repo { title_Repo: title } }");
}

#[test]
fn a_default_selection_is_never_empty_and_leaves_deprecated_fields_out() {
    let mut thing = object("Thing", &["old: String"]);
    thing["fields"][0]["isDeprecated"] = json!(true);
    assert_eq!(selected(&[object("Query", &["it: Thing"]), thing]), "{ __typename }");
}

#[test]
fn a_default_selection_has_a_bound_whatever_the_schema() {
    let names: Vec<String> = (0..30).map(|number| format!("T{number}")).collect();
    let types: Vec<Value> = names
        .iter()
        .map(|name| {
            let scalars = (0..100).map(|number| format!("s{number}: String"));
            let objects = names.iter().map(|name| format!("to{name}: {name}"));
            let fields: Vec<String> = scalars.chain(objects).collect();
            object(name, &fields.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .chain([object("Query", &["it: T0"])])
        .collect();
    let text = selected(&types);
    assert!(text.len() < 4_000, "{}", text.len());
    let tool = only(&types);
    assert!(tool.input_schema.to_string().len() < 4_000);
}

#[test]
fn a_chain_of_connections_ends() {
    let types: Vec<Value> = (0..20_000)
        .map(|number| object(&format!("C{number}"), &[&format!("nodes: C{}", number + 1), "pageInfo: Int"]))
        .chain([object("Query", &["it: C0"])])
        .collect();
    let text = selected(&types);
    assert!(text.len() < 500, "{text}");
}

#[test]
fn a_wide_schema_is_read_up_to_its_limit() {
    let wide: Vec<String> = (0..500).map(|number| format!("s{number}: String")).collect();
    let roots: Vec<String> = (0..5_100).map(|number| format!("q{number}: Wide")).collect();
    let all = |fields: &[String]| fields.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    let (wide, roots) = (all(&wide), all(&roots));
    let text = schema(&[
        object("Query", &roots.split('\n').collect::<Vec<_>>()),
        object("Wide", &wide.split('\n').collect::<Vec<_>>()),
    ]);
    let (tools, report) = import(&text);
    assert_eq!((tools.len(), report.len()), (TOOLS, 100));
}

#[test]
fn graphql_binding_format_unchanged() {
    let tool = only(&[object("Query", &["it(id: ID!; n: Int = 1): Thing"]), object("Thing", &["id: ID"])]);
    let Binding::Graphql(mut binding) = tool.binding else { panic!() };
    binding.definition_hash = "h".to_owned();
    let binding = Binding::Graphql(binding);
    let text = concat!(
        r#"{"kind":"graphql","operation":"query","field":"it","#,
        r#""variables":[{"key":"id","name":"id","takes":"ID!"},{"key":"n","name":"n","takes":"Int"}],"#,
        r#""selection":{"key":"select","default":"{ id }"},"definitionHash":"h"}"#
    );
    assert_eq!(serde_json::to_string(&binding).unwrap(), text);
    assert_eq!(serde_json::from_str::<Binding>(text).unwrap(), binding);
    let identity = binding.identity(Some("https://api.example/graphql?v=1"));
    assert_eq!(identity["origin"], "https://api.example");
    assert_eq!(identity["document"], "query it($id: ID!, $n: Int) { it(id: $id, n: $n) { id } }");
}

#[test]
fn a_selection_is_read_and_written_anew() {
    for (text, written) in [
        ("{ id name }", "{ id name }"),
        ("id, name", "{ id name }"),
        (
            "{a:b(c:1,d:[E,\"f\\n\\u0041\"],g:{h:true i:null}){j}}",
            "{ a: b(c: 1, d: [E, \"f\\nA\"], g: {h: true, i: null}) { j } }",
        ),
        ("{ # a comment }\n id }", "{ id }"),
        ("... on User { id }", "{ ... on User { id } }"),
        ("{ ... { id } }", "{ ... { id } }"),
        ("{ a(x: -1.5e3) }", "{ a(x: -1.5e3) }"),
    ] {
        let mut again = String::new();
        write_selection(&parse_selection(text).unwrap(), &mut again);
        assert_eq!(again, written, "{text}");
    }
}

#[test]
fn what_is_no_selection_is_refused() {
    for text in [
        "",
        "{}",
        "{ id",
        "{ id } }",
        "{ id } mutation { drop }",
        "} mutation { drop } {",
        "{ a(x: $y) }",
        "{ id @include(if: true) }",
        "{ ...Named }",
        "{ ... on }",
        "query { id }} query {",
        "{ a(x: \"\"\"b\"\"\") }",
        "{ a(x: \"b\n\") }",
        "{ a(x: 01) }",
        "{ a(x: .5) }",
        "{ a: }",
        "{ a(b) }",
        "{ é }",
        "[\"id\"]",
    ] {
        assert!(parse_selection(text).is_err(), "{text}");
    }
    let deep = "{a".repeat(100) + &"}".repeat(100);
    assert_eq!(parse_selection(&deep).unwrap_err().to_string(), "nests deeper than 24 levels");
    let values = format!("{{ a(x: {}{}) }}", "[".repeat(100), "]".repeat(100));
    assert!(parse_selection(&values).is_err());
    assert!(parse_selection(&"a ".repeat(20_000)).is_err());
}

#[test]
fn a_wrong_selection_is_named_before_anybody_is_asked() {
    let tool = only(&[object("Query", &["it: Thing"]), object("Thing", &["id: ID"])]);
    let error =
        build_request(binding(&tool), "https://a.example", &json!({ "select": "{ id } mutation" })).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("\"select\"") && told.contains("mutation"), "{told}");
}

#[test]
fn defaults_are_values() {
    for (text, value) in [
        ("10", json!(10)),
        ("\"a\\\"b\"", json!("a\"b")),
        ("[A, B]", json!(["A", "B"])),
        ("{field: NAME, direction: ASC}", json!({ "field": "NAME", "direction": "ASC" })),
        ("null", Value::Null),
        ("true", json!(true)),
    ] {
        assert_eq!(parse_literal(text).unwrap().json(), value, "{text}");
    }
    assert!(parse_literal("1 2").is_err());
}

#[test]
fn a_broken_schema_is_read_as_far_as_it_can_be() {
    let mut broken =
        object("Query", &["good: Int", "gone: Missing", "bad: Int", "also(x: Nothing): Int", "__type: Int"]);
    broken["fields"][2]["type"] =
        json!({ "kind": "NON_NULL", "ofType": { "kind": "NON_NULL", "ofType": type_ref("Int") } });
    broken["fields"].as_array_mut().unwrap().extend([
        json!(7),
        json!({ "name": "a){b" }),
        json!({ "name": "notype" }),
        field("good: Int"),
    ]);
    let (tools, report) = import(&schema(&[broken, json!({ "kind": "OBJECT", "name": "x y" }), json!(null)]));
    let names: Vec<&str> = tools.iter().map(|tool| tool.address.as_str()).collect();
    assert_eq!(names, ["api.good", "api.also"]);
    assert!(tools[1].input_schema["properties"]["x"].get("type").is_none(), "what is not described takes anything");
    let whole = format!("{report:?}");
    for told in [
        "Missing, which is not described",
        "required twice",
        "no usable name",
        "has no type",
        "described twice",
        "The type Nothing",
        "belong to introspection",
    ] {
        assert!(whole.to_lowercase().contains(&told.to_lowercase()), "{told}: {whole}");
    }
}

#[test]
fn names_that_would_change_a_document_are_never_in_one() {
    let mut query = object("Query", &["it(x: Int): Int"]);
    query["fields"][0]["args"][0]["type"] = json!({ "kind": "SCALAR", "name": "Int) { evil } #" });
    let (tools, _) = import(&schema(&[query]));
    assert!(tools.is_empty());
}

#[test]
fn what_is_no_schema_is_refused_with_a_reason() {
    let known = BTreeMap::new();
    for (text, reason) in [
        ("", "not JSON"),
        ("<html>", "not JSON"),
        ("[]", "no object"),
        ("{}", "no __schema"),
        ("{\"data\":null}", "no __schema"),
        ("{\"data\":[]}", "no object"),
        ("{\"data\":null,\"errors\":[{\"message\":\"Introspection is off\"}]}", "Introspection is off"),
        ("{\"__schema\":{}}", "types are no list"),
        ("{\"__schema\":{\"types\":[]}}", "neither a query nor a mutation"),
    ] {
        let error = GraphqlImporter::new(text, &GraphqlOptions { source: "a", known_names: &known }).unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
}

#[test]
fn a_schema_is_read_in_whatever_it_is_wrapped() {
    let whole: Value = serde_json::from_str(&schema(&[object("Query", &["a: Int"])])).unwrap();
    for text in [whole.to_string(), whole["data"].to_string(), whole["data"]["__schema"].to_string()] {
        assert_eq!(import(&text).0.len(), 1, "{text}");
    }
}

#[test]
fn a_hostile_schema_costs_little() {
    let many = format!("[{}]", vec!["{}"; 300_000].join(","));
    let deep =
        format!("{{\"name\":\"A\",\"kind\":\"OBJECT\",\"fields\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cyclic = takes("A", &[("a", "A!"), ("b", "[A!]!")]);
    let query = object("Query", &["it(a: A): Int"]);
    for types in [many, format!("[{deep}]"), json!([cyclic, query]).to_string()] {
        let text = format!("{{\"__schema\":{{\"queryType\":{{\"name\":\"Query\"}},\"types\":{types}}}}}");
        let (tools, report) = import(&text);
        assert!(tools.len() <= 1 && report.len() < 10);
    }
}

fn answered(status: u16, body: &str) -> ToolOutcome {
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    read_answer("it", &HttpAnswer { status, headers: &headers, body: body.as_bytes() })
}

#[test]
fn an_answer_is_the_value_of_its_field() {
    let ToolOutcome::Success { data, status } = answered(200, "{\"data\": {\"it\": {\"n\": 12345678901234567890.10}}}")
    else {
        panic!()
    };
    assert_eq!((data.get(), status), ("{\"n\":12345678901234567890.10}", Some(200)));
    let ToolOutcome::Success { data, .. } = answered(200, "{\"data\":{\"it\":null},\"errors\":[]}") else { panic!() };
    assert_eq!(data.get(), "null");
}

#[test]
fn an_answer_with_errors_is_a_failure_that_keeps_what_came() {
    let body = json!({ "data": { "it": { "a": 1, "b": null } }, "errors": [{ "message": "No access", "path": ["it", "b", 0] }, { "message": "Slow" }] });
    let ToolOutcome::Failure(error) = answered(200, &body.to_string()) else { panic!() };
    assert_eq!((error.code.as_str(), error.message.as_str()), ("graphql_error", "No access (at b.0); Slow"));
    let details: Value = serde_json::from_str(error.details.unwrap().get()).unwrap();
    assert_eq!(details["data"]["it"]["a"], 1);
    assert_eq!(details["errors"][1]["message"], "Slow");
    assert_eq!(error.status, None);
}

#[test]
fn other_answers_say_what_they_are() {
    for (status, body, code, told) in [
        (401, "{\"message\":\"Bad credentials\"}", "http_error", "Bad credentials"),
        (502, "<html>", "http_error", "502"),
        (400, "{\"errors\":[{\"message\":\"Unknown field\"}]}", "graphql_error", "Unknown field"),
        (200, "<html>", "invalid_response", "no GraphQL response"),
        (200, "{}", "invalid_response", "no GraphQL response"),
        (200, "{\"data\":null}", "invalid_response", "no GraphQL response"),
        (302, "", "redirect_refused", "redirect"),
    ] {
        let ToolOutcome::Failure(error) = answered(status, body) else { panic!("{status} {body}") };
        assert_eq!(error.code, code, "{status} {body}");
        assert!(error.message.contains(told), "{}", error.message);
    }
    let many: Vec<Value> = (0..100).map(|_| json!({ "message": "x".repeat(2_000) })).collect();
    let ToolOutcome::Failure(error) =
        answered(200, &json!({ "data": { "it": "y".repeat(100_000) }, "errors": many }).to_string())
    else {
        panic!()
    };
    assert!(error.message.len() < 4_000 && error.message.ends_with("and 95 more"), "{}", error.message);
    assert!(error.details.unwrap().get().len() < 70_000);
}

proptest! {
    #[test]
    fn what_was_written_is_read_as_the_same(text in "[{}()a-c:\\[\\],\" .$@1#-]{0,40}") {
        if let Ok(parsed) = parse_selection(&text) {
            let mut written = String::new();
            write_selection(&parsed, &mut written);
            prop_assert_eq!(parse_selection(&written).unwrap(), parsed);
        }
    }

    #[test]
    fn no_text_breaks_the_reading(text in ".{0,200}") {
        let known = BTreeMap::new();
        let _ = parse_selection(&text);
        let _ = parse_literal(&text);
        let _ = GraphqlImporter::new(&text, &GraphqlOptions { source: "a", known_names: &known });
        let _ = answered(200, &text);
    }
}
