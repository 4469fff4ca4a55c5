//! The HTTP contract, and whether an answer is as it says. Every answer that a test gets through
//! [`Call::send`](super::Call::send) is held against it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Reply;

/// The methods that an item of `paths` may have.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// The document, read once.
pub(crate) struct OpenApi {
    pub(crate) document: Value,
    validators: Mutex<BTreeMap<String, Arc<Validator>>>,
}

/// The document of this crate.
pub(crate) fn openapi() -> &'static OpenApi {
    static OPENAPI: OnceLock<OpenApi> = OnceLock::new();
    OPENAPI.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/the-loop-gateway.v1.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        OpenApi {
            document: serde_yaml::from_str(&text).unwrap(),
            validators: Mutex::default(),
        }
    })
}

impl OpenApi {
    /// Every operation: its path and its method in capitals.
    pub(crate) fn operations(&self) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = METHODS.iter().filter(|method| item.get(method).is_some());
                methods.map(|method| (path.clone(), method.to_ascii_uppercase()))
            })
            .collect()
    }

    /// Follows a reference, if it is one.
    pub(crate) fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        match value["$ref"].as_str() {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').unwrap();
                self.document.pointer(pointer).unwrap()
            }
            None => value,
        }
    }

    /// A schema of the document, ready to validate with; `name` tells it from all others.
    pub(crate) fn validator(&self, name: &str, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap();
        let make = || {
            let whole = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "allOf": [schema],
                "components": self.document["components"],
            });
            let options = jsonschema::options().should_validate_formats(true);
            let validator = options.build(&whole);
            Arc::new(validator.unwrap_or_else(|error| panic!("{name}: {error}")))
        };
        validators
            .entry(name.to_owned())
            .or_insert_with(make)
            .clone()
    }

    /// What is wrong with a value, in words.
    pub(crate) fn problems(&self, name: &str, schema: &Value, value: &Value) -> Vec<String> {
        let validator = self.validator(name, schema);
        let errors = validator.iter_errors(value);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }

    /// Fails unless an answer is one that the document describes.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, target: &str, reply: &Reply) {
        if let Err(problem) = self.try_check(method, target, reply) {
            panic!("{method} {target} answers {}: {problem}", reply.status);
        }
    }

    fn try_check(&self, method: &str, target: &str, reply: &Reply) -> Result<(), String> {
        // Answers that are made before a request reaches a route have no body.
        if reply.body.is_empty() && [400, 408, 431].contains(&reply.status) {
            return Ok(());
        }
        let path = target.split('?').next().unwrap_or(target);
        let found = self.find(path);
        // What is posted elsewhere and found is a webhook whose path was configured.
        let configured = || self.find("/gh-webhook").filter(|_| reply.status != 404);
        let Some((template, item)) = found.or_else(configured) else {
            return self.check_error(reply, &[404]);
        };
        let Some(operation) = item.get(method.to_ascii_lowercase()) else {
            return self.check_error(reply, &[403, 404, 405, 503]);
        };
        let responses = &operation["responses"];
        match responses.get(reply.status.to_string()) {
            Some(response) => {
                let name = format!("{method} {template} {}", reply.status);
                self.check_response(&name, self.resolve(response), reply)
            }
            // The other listener answers this path.
            None => self.check_error(reply, &[404]),
        }
    }

    /// The item of a path, and how the document writes it.
    fn find(&self, path: &str) -> Option<(&str, &Value)> {
        let path = match path.strip_suffix('/') {
            Some(rest) if !rest.is_empty() && !rest.starts_with("/api/") => rest,
            _ => path,
        };
        let is_it = |template: &str| {
            let (ours, theirs) = (template.split('/'), path.split('/'));
            ours.clone().count() == theirs.clone().count()
                && ours.zip(theirs).all(|(ours, theirs)| {
                    ours == theirs || (ours.starts_with('{') && !theirs.is_empty())
                })
        };
        let paths = self.document["paths"].as_object()?;
        let mut found = paths.iter().filter(|(template, _)| is_it(template));
        found
            .next()
            .map(|(template, item)| (template.as_str(), item))
    }

    fn check_error(&self, reply: &Reply, statuses: &[u16]) -> Result<(), String> {
        if !statuses.contains(&reply.status) {
            return Err("it is not documented".to_owned());
        }
        let error = json!({"$ref": "#/components/schemas/Error"});
        let response = json!({"content": {"application/json": {"schema": error}}});
        self.check_response("Error", &response, reply)
    }

    fn check_response(&self, name: &str, response: &Value, reply: &Reply) -> Result<(), String> {
        self.check_headers(response, reply)?;
        let Some(contents) = response["content"].as_object() else {
            let is_empty = reply.body.is_empty();
            return is_empty
                .then_some(())
                .ok_or(format!("a body: {}", reply.text()));
        };
        // Slack shows to a user what it is answered: nothing, but for a few questions.
        if reply.body.is_empty() && name.contains(" /slack/") && reply.status == 200 {
            return Ok(());
        }
        let kind = reply.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let content = contents.get(kind).ok_or(format!("content type {kind:?}"))?;
        let value = if kind == "application/json" {
            readable(&reply.body)?
        } else {
            Value::String(reply.text())
        };
        let problems = self.problems(&format!("{name} {kind}"), &content["schema"], &value);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!("{} in {}", problems.join("; "), reply.text()))
        }
    }

    fn check_headers(&self, response: &Value, reply: &Reply) -> Result<(), String> {
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let is_required = self.resolve(header)["required"] == true;
            if is_required && reply.header(&name.to_ascii_lowercase()).is_none() {
                return Err(format!("no header {name}"));
            }
        }
        Ok(())
    }
}

/// An answer as a value. A payload may be what no value can hold (deeper than any parser goes,
/// half a character): that one is taken for an empty object.
fn readable(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let not_json = |error: serde_json::Error| format!("no JSON: {error}");
    let value_of = |raw: &RawValue| serde_json::from_str(raw.get()).map_err(not_json);
    let answer: Members<'_> = serde_json::from_slice(body).map_err(not_json)?;
    let Some(raw) = answer.get("deliveries") else {
        // The bytes of one payload.
        return Ok(json!({}));
    };
    let mut deliveries = Vec::new();
    let members: Vec<Members<'_>> = serde_json::from_str(raw.get()).map_err(not_json)?;
    for delivery in members {
        let mut readable = serde_json::Map::new();
        for (name, raw) in delivery {
            if name != "event" {
                readable.insert(name, value_of(raw)?);
                continue;
            }
            let event: Members<'_> = serde_json::from_str(raw.get()).map_err(not_json)?;
            let mut whole = serde_json::Map::new();
            for (name, raw) in event {
                let is_odd = name == "payload" && raw.get().starts_with('{');
                let value = value_of(raw);
                let value = if is_odd {
                    value.unwrap_or(json!({}))
                } else {
                    value?
                };
                whole.insert(name, value);
            }
            readable.insert(name, Value::Object(whole));
        }
        deliveries.push(Value::Object(readable));
    }
    let mut readable = serde_json::Map::new();
    for (name, raw) in answer {
        if name != "deliveries" {
            readable.insert(name, value_of(raw)?);
        }
    }
    readable.insert("deliveries".to_owned(), Value::Array(deliveries));
    Ok(Value::Object(readable))
}
