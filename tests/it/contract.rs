//! The HTTP contract against the program, and against itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::openapi::{OpenApi, openapi};
use crate::support::{Call, Consumer, TestGateway};

/// The operations that there are.
fn operations() -> Vec<(String, String)> {
    openapi().operations()
}

/// A gateway that has an answer for everything that can be asked for by number.
fn furnished() -> TestGateway {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    gateway
}

/// A request of an operation, without anything that it needs but what tells it from no operation.
fn bare(gateway: &TestGateway, method: &str, path: &str) -> Call {
    let mut target = path.replace("{id}", "1");
    if method == "GET" && path.starts_with("/slack/") {
        target.push_str("?ssl_check=1");
    }
    gateway
        .call(method, &target)
        .header("Content-Type", "application/json")
        .body("{}")
}

#[test]
fn every_documented_operation_is_answered_by_a_route_of_its_own() {
    let gateway = furnished();
    for (path, method) in operations() {
        let reply = bare(&gateway, &method, &path).send();
        let code = reply.error();
        let is_generic = code == "not-found" || code == "method-not-allowed";
        assert!(!is_generic, "{method} {path}: {}", reply.text());
    }
}

#[test]
fn every_other_method_is_refused_and_told_which_ones_there_are() {
    let gateway = furnished();
    let mut by_path: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, method) in operations() {
        by_path.entry(path).or_default().insert(method);
    }
    for (path, methods) in &by_path {
        for other in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "PURGE"] {
            if methods.contains(other) {
                continue;
            }
            let reply = bare(&gateway, other, path).send();
            reply.assert_error(405, "method-not-allowed");
            let allowed = reply.header("allow").unwrap();
            let allowed: BTreeSet<String> = allowed.split(", ").map(str::to_owned).collect();
            assert_eq!(&allowed, methods, "{other} {path}");
        }
    }
}

/// The routes of the API are one a line, so they can be read from the source.
#[test]
fn every_route_is_documented() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/mod.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let mut routes = BTreeSet::new();
    for part in source.split("at(\"").skip(1) {
        let (path, rest) = part.split_once('"').unwrap();
        let methods = rest.split('"').nth(1).unwrap();
        let is_root = ["/", "/metrics"].contains(&path);
        let prefix = if is_root { "" } else { "/api/v1/gateway" };
        for method in methods.split(", ") {
            routes.insert((format!("{prefix}{path}"), method.to_owned()));
        }
    }
    let config = the_loop_gateway::config::GatewayConfig::rooted_at(Path::new("/nowhere"));
    for path in [
        config.github.webhook.path.as_str(),
        config.jira.webhook.path.as_str(),
        "/slack/events",
        "/slack/interactions",
        "/slack/commands",
    ] {
        routes.insert((path.to_owned(), "POST".to_owned()));
        if path.starts_with("/slack/") {
            routes.insert((path.to_owned(), "GET".to_owned()));
        }
    }
    let documented: BTreeSet<(String, String)> = operations().into_iter().collect();
    assert_eq!(routes, documented);
}

#[test]
fn every_schema_is_one() {
    let openapi = openapi();
    let schemas = openapi.document["components"]["schemas"]
        .as_object()
        .unwrap();
    for (name, schema) in schemas {
        jsonschema::draft202012::meta::validate(schema)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        openapi.validator(&format!("component {name}"), schema);
    }
}

/// An example of the document, with the schema that it must fit.
struct Example<'a> {
    place: String,
    schema: &'a Value,
    value: &'a Value,
}

/// Every example below a value: those of bodies, parameters and headers, and those of schemas.
fn examples<'a>(openapi: &'a OpenApi, place: &str, value: &'a Value, into: &mut Vec<Example<'a>>) {
    if let Some(members) = value.as_object() {
        let mut add = |name: &str, schema: &'a Value, value: &'a Value| {
            into.push(Example {
                place: format!("{place}/{name}"),
                schema,
                value,
            });
        };
        if let Some(schema) = members.get("schema") {
            let named = members.get("examples").and_then(Value::as_object);
            for (name, example) in named.into_iter().flatten() {
                add(name, schema, &openapi.resolve(example)["value"]);
            }
            if let Some(example) = members.get("example") {
                add("example", schema, example);
            }
        } else if members.contains_key("type") {
            for example in members
                .get("examples")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                add("examples", value, example);
            }
            if let Some(example) = members.get("example").filter(|_| place.contains("schemas")) {
                add("example", value, example);
            }
        }
        for (name, member) in members {
            // An example may hold a member called like one of the document's.
            if name != "examples" && name != "example" {
                examples(openapi, &format!("{place}/{name}"), member, into);
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        examples(openapi, &format!("{place}/{index}"), item, into);
    }
}

#[test]
fn every_example_is_what_its_schema_says() {
    let openapi = openapi();
    let mut found = Vec::new();
    examples(openapi, "", &openapi.document, &mut found);
    assert!(found.len() > 60, "{}", found.len());
    let problems: Vec<String> = found
        .iter()
        .flat_map(|example| {
            let problems = openapi.problems(&example.place, example.schema, example.value);
            let place = &example.place;
            problems
                .into_iter()
                .map(move |problem| format!("{place}: {problem}"))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_answer_and_every_body_has_an_example() {
    let openapi = openapi();
    for (path, method) in openapi.operations() {
        let operation = &openapi.document["paths"][&path][method.to_ascii_lowercase()];
        let responses = operation["responses"].as_object().unwrap();
        let bodies = responses
            .values()
            .map(|response| openapi.resolve(response))
            .chain(operation.get("requestBody"));
        for body in bodies {
            for (kind, content) in body["content"].as_object().into_iter().flatten() {
                let is_shown = content.get("examples").or(content.get("example")).is_some();
                assert!(is_shown, "{method} {path} {kind}");
            }
        }
    }
}

fn envelope_schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/envelope.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The names of an object's members.
fn keys(object: &Value) -> BTreeSet<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// A schema as it is compared: how its texts are wrapped does not matter.
fn unwrapped(schema: &Value) -> Value {
    if let Some(text) = schema.as_str() {
        Value::String(text.split_whitespace().collect::<Vec<_>>().join(" "))
    } else if let Some(members) = schema.as_object() {
        let members = members.iter();
        members
            .map(|(name, member)| (name.clone(), unwrapped(member)))
            .collect()
    } else {
        schema.clone()
    }
}

#[test]
fn the_envelope_is_the_same_in_both_schemas() {
    let (schema, openapi) = (envelope_schema(), openapi());
    let documented = &openapi.document["components"]["schemas"]["Envelope"];
    assert_eq!(keys(&schema["properties"]).len(), 11);
    for part in ["type", "properties", "required", "additionalProperties"] {
        assert_eq!(unwrapped(&documented[part]), unwrapped(&schema[part]));
    }
}

#[test]
fn what_is_handed_out_is_an_envelope() {
    let gateway = furnished();
    let answer = Consumer::new("laptop").fetch(&gateway, 9, &[]);
    let event = &answer["deliveries"][0]["event"];
    let schema = envelope_schema();
    assert_eq!(keys(event), keys(&schema["properties"]));
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let problems: Vec<String> = validator
        .iter_errors(event)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn an_answer_that_is_not_as_documented_is_noticed() {
    let gateway = furnished();
    let mut reply = gateway.get("/ready");
    reply.body = json!({"ready": true, "more": 1}).to_string().into_bytes();
    let wrong = |reply: &crate::support::Reply| {
        let check = || openapi().check("GET", "/api/v1/gateway/ready", reply);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err()
    };
    assert!(wrong(&reply));
    reply.body = json!({"ready": true}).to_string().into_bytes();
    assert!(!wrong(&reply));
    reply.status = 201;
    assert!(wrong(&reply));
}
