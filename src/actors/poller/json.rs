//! Writing payloads out of pieces that stay as the API sent them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::Failure;

/// The items of a JSON array, each as sent.
pub(super) fn items(text: &str) -> Result<Vec<&str>, Failure> {
    let items = serde_json::from_str::<Vec<&RawValue>>(text).ok();
    let items = items.ok_or(Failure::Malformed("no array"))?;
    Ok(items.into_iter().map(RawValue::get).collect())
}

/// The items of the array in a field of a JSON object, each as sent.
pub(super) fn items_of<'a>(text: &'a str, field: &'static str) -> Result<Vec<&'a str>, Failure> {
    fields(text)?
        .into_iter()
        .find(|(name, _)| name == field)
        .ok_or(Failure::Malformed("a list is missing"))
        .and_then(|(_, value)| items(value))
}

/// The fields of a JSON object in order, each value as sent; of one given twice the last.
pub(super) fn fields(text: &str) -> Result<Vec<(String, &str)>, Failure> {
    let object = serde_json::from_str::<Object<'_>>(text).ok();
    Ok(object.ok_or(Failure::Malformed("no object"))?.0)
}

/// An object from names and JSON texts; a field without a text is left out.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        if let Some(value) = value {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&quoted(name));
            text.push(':');
            text.push_str(value);
        }
    }
    text.push('}');
    text
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An object with the value of one field replaced, in place.
pub(super) fn with_field(text: &str, field: &str, value: &str) -> Result<String, Failure> {
    let fields = fields(text)?;
    let replaced = fields.iter().map(|(name, own)| {
        let value = if name == field { value } else { *own };
        (name.as_str(), Some(value))
    });
    Ok(object(replaced))
}

struct Object<'a>(Vec<(String, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> serde::de::Visitor<'de> for Fields {
            type Value = Vec<(String, &'de str)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut fields: Self::Value = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    match fields.iter_mut().find(|(own, _)| *own == name) {
                        Some(field) => field.1 = value.get(),
                        None => fields.push((name, value.get())),
                    }
                }
                Ok(fields)
            }
        }
        json.deserialize_map(Fields).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_fields_stay_as_sent() {
        let text = "[ {\"a\": 1.0}, null,\"x\" ]";
        assert_eq!(items(text).unwrap(), ["{\"a\": 1.0}", "null", "\"x\""]);
        let text = "{\"n\": 2, \"list\": [1, 2], \"n\": 3}";
        assert_eq!(items_of(text, "list").unwrap(), ["1", "2"]);
        assert_eq!(
            with_field(text, "n", "\"é\"").unwrap(),
            "{\"n\":\"é\",\"list\":[1, 2]}"
        );
        assert_eq!(items("{}").unwrap_err(), Failure::Malformed("no array"));
        assert!(items_of("{}", "list").is_err());
        assert!(fields("[]").is_err());
        assert!(items("[1, 2").is_err());
    }

    #[test]
    fn an_object_is_written_from_what_is_there() {
        let text = object([("a\"", Some("1")), ("b", None), ("c", Some("[ ]"))]);
        assert_eq!(text, "{\"a\\\"\":1,\"c\":[ ]}");
        assert_eq!(object([]), "{}");
    }
}
