//! The schema, the built-in defaults and the documentation agree.

use super::*;

const DOCUMENTATION: &str = include_str!("../../../../docs/CONFIGURATION.md");

/// One key of the schema.
pub(super) struct Key {
    /// Its dotted path; `[]` stands for an element of a list.
    pub(super) path: String,
    /// Its rules, with those that it refers to.
    pub(super) rules: Value,
}

impl Key {
    /// The text of a file that holds nothing but this key.
    pub(super) fn file_with(&self, value: &Value) -> String {
        let file = self.path.rsplit('.').fold(value.clone(), |inner, step| {
            match step.strip_suffix("[]") {
                Some(list) => serde_json::json!({ list: [inner] }),
                None => serde_json::json!({ step: inner }),
            }
        });
        file.to_string()
    }
}

/// Every key of the schema, parents first.
pub(super) fn keys(schema: &Value) -> Vec<Key> {
    let mut keys = Vec::new();
    collect(schema, schema, "", &mut keys);
    keys
}

fn collect(schema: &Value, node: &Value, prefix: &str, keys: &mut Vec<Key>) {
    for (name, rules) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let rules = resolved(schema, rules);
        let items = resolved(schema, &rules["items"]);
        collect(schema, &rules, &format!("{path}."), keys);
        collect(schema, &items, &format!("{path}[]."), keys);
        keys.push(Key { path, rules });
    }
}

fn resolved(schema: &Value, rules: &Value) -> Value {
    let mut resolved = rules.clone();
    if let Some(reference) = rules["$ref"].as_str() {
        let target = schema.pointer(reference.trim_start_matches('#')).unwrap();
        for (name, rule) in target.as_object().unwrap() {
            resolved
                .as_object_mut()
                .unwrap()
                .entry(name)
                .or_insert_with(|| rule.clone());
        }
    }
    resolved
}

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

#[test]
fn the_schema_is_valid_and_closed_everywhere() {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for key in keys(&schema) {
        for rules in [&key.rules, &resolved(&schema, &key.rules["items"])] {
            if rules["type"] == "object" {
                assert_eq!(rules["additionalProperties"], false, "{}", key.path);
            }
        }
    }
}

#[test]
fn each_key_says_its_default_and_its_bounds_in_words() {
    for Key { path, rules } in keys(&schema()) {
        let description = rules["description"].as_str().expect(&path);
        let type_name = rules["type"].as_str().expect(&path);
        if type_name != "object" {
            let says = description.contains("Default") || description.contains("Required");
            assert!(says, "{path}: {description}");
        }
        if let Some(default) = rules.get("default").filter(|default| !default.is_array()) {
            let default = default
                .as_str()
                .map_or_else(|| default.to_string(), str::to_owned);
            assert!(description.contains(&default), "{path}: {default}");
        }
        for bound in ["minimum", "maximum"] {
            if type_name == "integer" {
                let bound = rules[bound].as_u64().expect(&path).to_string();
                assert!(description.contains(&bound), "{path}: {bound}");
            }
        }
        let is_transport = matches!(
            path.as_str(),
            "github.webhook.enabled"
                | "github.poll.enabled"
                | "jira.webhook.enabled"
                | "jira.poll.enabled"
                | "slack.socket.enabled"
                | "slack.http.enabled"
        );
        if is_transport {
            assert_eq!(rules["default"], false, "{path}");
        }
        if path.ends_with("Env") {
            assert_eq!(rules["pattern"], ENV_NAME_PATTERN, "{path}");
        }
    }
}

#[test]
fn the_built_in_defaults_are_those_of_the_schema() {
    let bare = format!("{:#?}", parse_text("{}").unwrap());
    let built_in = GatewayConfig {
        path: Some(PathBuf::from("/nowhere/etc/gateway-config.yaml")),
        ..GatewayConfig::below_home(Path::new(HOME))
    };
    assert_eq!(bare, format!("{built_in:#?}"));
    let mut checked = 0;
    for key in keys(&schema()) {
        let Some(default) = key.rules.get("default") else {
            continue;
        };
        if key.path.starts_with("listen.ingress.") {
            continue;
        }
        let text = key.file_with(default);
        assert_eq!(format!("{:#?}", parse_text(&text).unwrap()), bare, "{text}");
        checked += 1;
    }
    assert!(checked > 45, "{checked}");
}

#[test]
fn a_key_that_differs_from_its_default_makes_a_difference() {
    let base = serde_json::json!({
        "repositories": ["a/b"],
        "jira": { "site": "a.example", "poll": { "tokenEnv": "T", "emailEnv": "E" } },
    });
    let bare = format!("{:#?}", parse_text(&base.to_string()).unwrap());
    let mut checked = 0;
    for key in keys(&schema()) {
        let Some(other) = other_than_default(&key) else {
            continue;
        };
        let mut file = base.clone();
        let (parents, last) = key.path.rsplit_once('.').unwrap();
        let parent = parents
            .split('.')
            .fold(&mut file, |node, step| &mut node[step]);
        parent[last] = other;
        let config = parse_text(&file.to_string()).unwrap();
        assert_ne!(format!("{config:#?}"), bare, "{file}");
        checked += 1;
    }
    assert!(checked > 40, "{checked}");
}

/// Another valid value of a flag, a number or the name of a variable.
fn other_than_default(key: &Key) -> Option<Value> {
    match key.rules.get("default")? {
        Value::Bool(default) => Some(Value::from(!default)),
        Value::Number(default) if key.rules["minimum"].as_u64() == default.as_u64() => {
            default.as_u64()?.checked_add(1).map(Value::from)
        }
        Value::Number(default) => default.as_u64()?.checked_sub(1).map(Value::from),
        Value::String(default) if key.path.ends_with("Env") => {
            Some(Value::from(format!("{default}_2")))
        }
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[test]
fn the_documentation_names_each_key_with_its_default_and_its_bounds() {
    for Key { path, rules } in keys(&schema()) {
        let row = DOCUMENTATION
            .lines()
            .find(|line| line.starts_with(&format!("| `{path}` |")))
            .unwrap_or_else(|| panic!("{path} has no row in docs/CONFIGURATION.md"));
        let cells: Vec<&str> = row.split(" | ").collect();
        if let Some(default) = rules.get("default") {
            let default = default
                .as_str()
                .map_or_else(|| default.to_string(), str::to_owned);
            assert_eq!(cells[1], format!("`{default}`"), "{path}");
        }
        if rules["type"] == "integer" {
            let bounds = format!("{}–{}", rules["minimum"], rules["maximum"]);
            assert!(row.contains(&bounds), "{path}: {bounds}");
        }
    }
}
