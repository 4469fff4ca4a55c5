//! The fields of a request: each read once, every problem named, unknown ones ignored.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::error::{ApiError, FieldProblem};
use crate::domain::{Identity, InstanceName, ParseError, PeerId, RunId};

/// Problems that are named in one answer.
const PROBLEMS_MAX: usize = 100;

/// A request's fields and what is wrong with them so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    object: Map<String, Value>,
    /// Where the object stands, such as `rooms[3].`; empty at the top.
    prefix: String,
    problems: Vec<FieldProblem>,
}

impl Fields {
    /// The fields of a JSON body.
    pub(super) fn of_json(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => Ok(Self {
                object,
                ..Self::default()
            }),
            Ok(_) | Err(_) => Err(ApiError::InvalidPayload),
        }
    }

    /// The parameters of a query; of one that is there twice the last counts.
    pub(super) fn of_query(query: &str) -> Self {
        let object = form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        Self {
            object,
            ..Self::default()
        }
    }

    /// Notes that a field is not what it must be.
    pub(super) fn complain(&mut self, field: &str, message: impl Display) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(FieldProblem {
                field: format!("{}{field}", self.prefix),
                message: message.to_string(),
            });
        }
    }

    /// True when something is wrong with a field.
    pub(super) fn is_bad(&self, field: &str) -> bool {
        let path = format!("{}{field}", self.prefix);
        self.problems.iter().any(|problem| problem.field == path)
    }

    /// A field's value; null is as good as absent.
    pub(super) fn value(&mut self, field: &str) -> Option<Value> {
        self.object.remove(field).filter(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&mut self, field: &str) -> Option<String> {
        match self.value(field)? {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.complain(field, "must be a text");
                None
            }
        }
    }

    /// A text of a certain form.
    pub(super) fn parsed<T>(
        &mut self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Option<T> {
        let text = self.text(field)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.complain(field, error);
                None
            }
        }
    }

    /// As [`Fields::parsed`], and it must be there.
    pub(super) fn required<T>(
        &mut self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Option<T> {
        self.expect(field).then(|| self.parsed(field, parse))?
    }

    /// True when a field is there and not read yet.
    pub(super) fn has(&self, field: &str) -> bool {
        self.object.get(field).is_some_and(|value| !value.is_null())
    }

    /// Complains when a field is not there.
    pub(super) fn expect(&mut self, field: &str) -> bool {
        let is_there = self.has(field);
        if !is_there {
            self.complain(field, "is required");
        }
        is_there
    }

    /// A whole number from 0; one that is too large for us is the largest.
    pub(super) fn whole(&mut self, field: &str) -> Option<i64> {
        let value = self.value(field)?;
        let number = whole_number(&value).filter(|number| *number >= 0);
        if number.is_none() {
            self.complain(field, "must be a whole number of at least 0");
        }
        number
    }

    /// Seconds from 0, as milliseconds; more than we can count is the most.
    pub(super) fn seconds(&mut self, field: &str) -> Option<i64> {
        let seconds = match self.value(field)? {
            Value::Number(number) => number.as_f64().filter(|seconds| *seconds >= 0.0),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        if seconds.is_none() {
            self.complain(field, "must be a number of at least 0");
        }
        seconds.map(|seconds| rounded(seconds * 1000.0))
    }

    /// True or false; absent is false.
    pub(super) fn flag(&mut self, field: &str) -> bool {
        match self.value(field) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(Value::String(text)) if text == "true" || text == "false" => text == "true",
            Some(_) => {
                self.complain(field, "must be true or false");
                false
            }
        }
    }

    /// A list of at most so many.
    pub(super) fn list(&mut self, field: &str, max: usize) -> Option<Vec<Value>> {
        match self.value(field)? {
            Value::Array(list) if list.len() <= max => Some(list),
            Value::Array(_) => {
                self.complain(field, format_args!("must hold at most {max}"));
                None
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {
                self.complain(field, "must be a list");
                None
            }
        }
    }

    /// The texts of a list, each of a certain form; absent is none.
    pub(super) fn texts<T>(
        &mut self,
        field: &str,
        max: usize,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Vec<T> {
        let list = self.list(field, max).unwrap_or_default();
        let mut found = Vec::with_capacity(list.len());
        for (position, value) in list.into_iter().enumerate() {
            let parsed = match value.as_str() {
                Some(text) => parse(text),
                None => Err(ParseError("must be a text")),
            };
            match parsed {
                Ok(value) => found.push(value),
                Err(error) => self.complain(&format!("{field}[{position}]"), error),
            }
        }
        found
    }

    /// Reads each object of a list with `read`, at its path.
    pub(super) fn objects<T>(
        &mut self,
        field: &str,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let list = self.list(field, max)?;
        let mut found = Vec::with_capacity(list.len());
        for (position, value) in list.into_iter().enumerate() {
            let path = format!("{field}[{position}]");
            let Value::Object(object) = value else {
                self.complain(&path, "must be an object");
                continue;
            };
            let mut inner = self.nested(object, &path);
            found.extend(read(&mut inner));
            self.problems = inner.problems;
        }
        Some(found)
    }

    /// Reads an object within this one with `read`, at its path.
    pub(super) fn object<T>(
        &mut self,
        field: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let Some(Value::Object(object)) = self.value(field) else {
            self.complain(field, "must be an object");
            return None;
        };
        let mut inner = self.nested(object, field);
        let found = read(&mut inner);
        self.problems = inner.problems;
        Some(found)
    }

    fn nested(&mut self, object: Map<String, Value>, path: &str) -> Self {
        Self {
            object,
            prefix: format!("{}{path}.", self.prefix),
            problems: std::mem::take(&mut self.problems),
        }
    }

    /// Who asks. A client without a name sends `default`.
    pub(super) fn identity(&mut self) -> Identity {
        let instance = self.parsed("instance", InstanceName::parse);
        Identity {
            instance: instance.unwrap_or_else(InstanceName::unnamed),
            peer: self.parsed("peer", PeerId::parse),
            run: self.parsed("run", RunId::parse),
        }
    }

    /// What was made of the fields, unless something is wrong with them.
    ///
    /// `made` is `None` only after a complaint.
    pub(super) fn finish<T>(self, made: Option<T>) -> Result<T, ApiError> {
        match made {
            Some(made) if self.problems.is_empty() => Ok(made),
            Some(_) | None => Err(ApiError::InvalidFields(self.problems)),
        }
    }
}

/// A number without a fraction; one beyond our range is clamped to it.
pub(super) fn whole_number(value: &Value) -> Option<i64> {
    let Value::Number(number) = value else {
        return None;
    };
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0).then(|| rounded(float))
    })
}

/// The nearest whole number, clamped to what an `i64` holds.
#[expect(
    clippy::as_conversions,
    reason = "a float becomes an integer by no other way; the cast saturates"
)]
fn rounded(float: f64) -> i64 {
    float.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(fields: Fields) -> Vec<(String, String)> {
        match fields.finish::<()>(None) {
            Err(ApiError::InvalidFields(problems)) => problems
                .into_iter()
                .map(|problem| (problem.field, problem.message))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_object_is_no_request() {
        for bad in [
            &b""[..],
            b"[]",
            b"1",
            b"{",
            b"{} x",
            b"\xef\xbb\xbf{}",
            b"{\"a\":\"\xff\"}",
        ] {
            assert!(matches!(
                Fields::of_json(bad),
                Err(ApiError::InvalidPayload)
            ));
        }
    }

    #[test]
    fn of_a_key_that_is_there_twice_the_last_counts() {
        let mut fields = Fields::of_json(br#"{"max": 1, "max": 2}"#).unwrap();
        assert_eq!(fields.whole("max"), Some(2));
    }

    #[test]
    fn numbers_are_clamped_and_what_is_none_is_named() {
        let text = br#"{"a": 3, "b": 3.0, "c": 1e300, "d": -1, "e": 1.5, "f": "3", "g": null,
                        "w": 0.25, "x": 1e300, "y": -0.1, "z": true}"#;
        let mut fields = Fields::of_json(text).unwrap();
        assert_eq!(fields.whole("a"), Some(3));
        assert_eq!(fields.whole("b"), Some(3));
        assert_eq!(fields.whole("c"), Some(i64::MAX));
        assert_eq!(fields.whole("g"), None);
        assert_eq!(fields.seconds("w"), Some(250));
        assert_eq!(fields.seconds("x"), Some(i64::MAX));
        for bad in ["d", "e", "f"] {
            assert_eq!(fields.whole(bad), None);
        }
        for bad in ["y", "z"] {
            assert_eq!(fields.seconds(bad), None);
        }
        let named: Vec<_> = problems(fields)
            .into_iter()
            .map(|(field, _)| field)
            .collect();
        assert_eq!(named, ["d", "e", "f", "y", "z"]);
    }

    #[test]
    fn a_problem_within_a_list_has_its_path() {
        let mut fields = Fields::of_json(br#"{"rooms": [{"ref": 1}, 2]}"#).unwrap();
        let rooms = fields.objects("rooms", 10, |room| {
            room.expect("channel");
            room.text("ref")
        });
        assert_eq!(rooms, Some(Vec::new()));
        assert_eq!(
            problems(fields),
            [
                ("rooms[0].channel".to_owned(), "is required".to_owned()),
                ("rooms[0].ref".to_owned(), "must be a text".to_owned()),
                ("rooms[1]".to_owned(), "must be an object".to_owned()),
            ]
        );
    }

    #[test]
    fn the_number_of_problems_in_one_answer_is_bounded() {
        let list = vec!["{}"; 1000].join(",");
        let mut fields = Fields::of_json(format!("{{\"a\":[{list}]}}").as_bytes()).unwrap();
        fields.objects("a", 10_000, |item| item.required("x", InstanceName::parse));
        assert_eq!(problems(fields).len(), PROBLEMS_MAX);
    }
}
