//! Reads the wanted fields of a JSON text and skips the rest, forgiving what senders get wrong.
//!
//! Invariant: the text as a whole is valid JSON or the reading fails, because the text is later
//! embedded into answers as it came; but a wanted field of another type, `null` or a text that
//! is no Unicode (a lone surrogate) merely counts as absent. Of duplicate keys the last wins;
//! what is skipped may nest without limit.
//!
//! Must not build a tree of the payload, and must not recurse deeper than the tree of wants.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::value::RawValue;

/// How many items of an array are read; the rest is skipped.
pub const ITEMS_MAX: usize = 256;
/// Characters of a name; those of the providers are far shorter.
const NAME_CHARS_MAX: usize = 200;

/// The fields wanted of an object, by name.
pub type Fields = &'static [(&'static str, Want)];

/// What is wanted of one value: a static tree.
#[derive(Debug)]
pub enum Want {
    /// A text, a number, or whatever it is as exact JSON.
    Leaf,
    /// These fields of an object.
    Object(Fields),
    /// As `Object`, and its exact JSON too. Also for what is an object in some payloads and a
    /// plain value in others: then it reads as a leaf. Costs a second look at the value.
    Whole(Fields),
    /// These fields of each object in an array; items of other types are passed over.
    Items(Fields),
}

/// The text is not a JSON object in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object in UTF-8")]
pub struct NotJson;

impl From<NotJson> for super::Rejection {
    fn from(NotJson: NotJson) -> Self {
        Self::InvalidPayload
    }
}

/// The wanted fields of an object as found.
#[derive(Debug)]
pub struct Node<'a> {
    fields: Fields,
    slots: Vec<Slot<'a>>,
}

#[derive(Debug)]
enum Slot<'a> {
    Absent,
    /// The exact JSON of anything but `null`.
    Leaf(&'a str),
    Object(Node<'a>),
    Whole(Node<'a>, &'a str),
    Items(Vec<Node<'a>>),
}

static EMPTY: Node<'static> = Node {
    fields: &[],
    slots: Vec::new(),
};

/// The text of a body without the JSON whitespace around it: what is stored of it.
///
/// Says nothing yet of its being JSON; [`read`] does.
///
/// # Errors
/// When the body is not UTF-8.
pub fn text_of(body: &[u8]) -> Result<&str, NotJson> {
    let text = std::str::from_utf8(body).ok().ok_or(NotJson)?;
    Ok(text.trim_matches([' ', '\t', '\n', '\r']))
}

/// Reads the wanted fields of a JSON object; `want` is its `Want::Object`.
///
/// # Errors
/// When the text is not valid JSON (a byte order mark included), or not an object.
pub fn read<'a>(text: &'a str, want: &'static Want) -> Result<Node<'a>, NotJson> {
    let fields = match want {
        Want::Object(fields) | Want::Whole(fields) => fields,
        Want::Leaf | Want::Items(_) => return Err(NotJson),
    };
    // The quick pass gives up at a wanted object or array that is something else.
    read_in(text, fields, Pass::Quick)
        .or_else(|_| read_in(text, fields, Pass::Careful))
        .ok()
        .flatten()
        .ok_or(NotJson)
}

fn read_in<'a>(text: &'a str, fields: Fields, pass: Pass) -> serde_json::Result<Option<Node<'a>>> {
    let mut json = serde_json::Deserializer::from_str(text);
    let node = ObjectSeed { fields, pass }.deserialize(&mut json)?;
    json.end()?;
    Ok(node)
}

impl<'a> Node<'a> {
    /// The object in a field; a node without any field when there is none.
    #[must_use]
    pub fn at(&self, name: &str) -> &Self {
        match self.slot(name) {
            Slot::Object(node) | Slot::Whole(node, _) => node,
            Slot::Absent | Slot::Leaf(_) | Slot::Items(_) => &EMPTY,
        }
    }

    /// The text in a field; `None` when it is blank.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text_in(self.leaf(name)?).filter(|text| !text.trim().is_empty())
    }

    /// The text in a field that names a person or a place; `None` when it is longer than any name.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<Cow<'a, str>> {
        self.text(name)
            .filter(|text| text.chars().nth(NAME_CHARS_MAX).is_none())
    }

    /// The number in a field, when it is a whole one from 0 to 2⁶⁴ − 1.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.leaf(name)?.parse().ok()
    }

    /// The id in a field, which some senders write as a text and others as a number.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<Cow<'a, str>> {
        self.number(name)
            .map(|number| Cow::Owned(number.to_string()))
            .or_else(|| self.text(name))
    }

    /// The exact JSON of a `Leaf` or `Whole` field; `None` for `null`.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        match self.slot(name) {
            Slot::Whole(_, raw) => Some(raw),
            Slot::Leaf(raw) => Some(raw),
            Slot::Absent | Slot::Object(_) | Slot::Items(_) => None,
        }
    }

    /// The objects of an array, in order.
    pub fn items(&self, name: &str) -> impl Iterator<Item = &Self> {
        let items: &[Self] = match self.slot(name) {
            Slot::Items(items) => items,
            Slot::Absent | Slot::Leaf(_) | Slot::Object(_) | Slot::Whole(..) => &[],
        };
        items.iter()
    }

    /// True when the field is there, of the wanted type and not `null`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.slot(name), Slot::Absent)
    }

    fn leaf(&self, name: &str) -> Option<&'a str> {
        match self.slot(name) {
            Slot::Leaf(raw) => Some(raw),
            Slot::Absent | Slot::Object(_) | Slot::Whole(..) | Slot::Items(_) => None,
        }
    }

    fn slot(&self, name: &str) -> &Slot<'a> {
        let place = self.fields.iter().position(|(own, _)| *own == name);
        debug_assert!(
            place.is_some() || self.fields.is_empty(),
            "{name} is read but not wanted"
        );
        place
            .and_then(|place| self.slots.get(place))
            .unwrap_or(&Slot::Absent)
    }
}

/// The text that a JSON string stands for, when it is one and it is Unicode.
fn text_in(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// How to read what is wanted as an object or array. Both passes find the same.
#[derive(Debug, Clone, Copy)]
enum Pass {
    /// Straight on; fails when it is something else, because serde cannot look ahead.
    Quick,
    /// Takes its exact text first, then reads that; each level of wants looks once more.
    Careful,
}

/// Reads one object; `None` for anything else.
#[derive(Clone, Copy)]
struct ObjectSeed {
    fields: Fields,
    pass: Pass,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Option<Node<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.pass {
            Pass::Quick => json.deserialize_option(self),
            Pass::Careful => match exact(json)? {
                raw if raw.starts_with('{') => {
                    again(raw).deserialize_map(self).map_err(D::Error::custom)
                }
                _ => Ok(None),
            },
        }
    }
}

impl<'de> Visitor<'de> for ObjectSeed {
    type Value = Option<Node<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { fields, pass } = self;
        let mut slots: Vec<Slot<'de>> = fields.iter().map(|_| Slot::Absent).collect();
        // A key is taken as exact JSON: decoding would refuse a lone surrogate.
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let key = text_in(key.get()).unwrap_or_default();
            let wanted = fields.iter().zip(&mut slots);
            match wanted.into_iter().find(|((name, _), _)| *name == key) {
                Some(((_, want), slot)) => *slot = map.next_value_seed(SlotSeed { want, pass })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(Node { fields, slots }))
    }
}

/// Reads one wanted field.
#[derive(Clone, Copy)]
struct SlotSeed {
    want: &'static Want,
    pass: Pass,
}

impl<'de> DeserializeSeed<'de> for SlotSeed {
    type Value = Slot<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        let pass = self.pass;
        match *self.want {
            Want::Leaf => exact(json).map(leaf),
            Want::Object(fields) => {
                let node = ObjectSeed { fields, pass }.deserialize(json)?;
                Ok(node.map_or(Slot::Absent, Slot::Object))
            }
            Want::Whole(fields) => {
                let raw = exact(json)?;
                let node = ObjectSeed {
                    fields,
                    pass: Pass::Careful,
                }
                .deserialize(&mut again(raw));
                match node.map_err(D::Error::custom)? {
                    Some(node) => Ok(Slot::Whole(node, raw)),
                    None => Ok(leaf(raw)),
                }
            }
            Want::Items(fields) => {
                let items = ItemsSeed { fields, pass }.deserialize(json)?;
                Ok(items.map_or(Slot::Absent, Slot::Items))
            }
        }
    }
}

/// Reads one array of objects; `None` for anything else.
#[derive(Clone, Copy)]
struct ItemsSeed {
    fields: Fields,
    pass: Pass,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed {
    type Value = Option<Vec<Node<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.pass {
            Pass::Quick => json.deserialize_option(self),
            Pass::Careful => match exact(json)? {
                raw if raw.starts_with('[') => {
                    again(raw).deserialize_seq(self).map_err(D::Error::custom)
                }
                _ => Ok(None),
            },
        }
    }
}

impl<'de> Visitor<'de> for ItemsSeed {
    type Value = Option<Vec<Node<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Self { fields, pass } = self;
        let mut items = Vec::new();
        for _ in 0..ITEMS_MAX {
            match seq.next_element_seed(ObjectSeed { fields, pass })? {
                Some(item) => items.extend(item),
                None => return Ok(Some(items)),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(items))
    }
}

fn leaf(raw: &str) -> Slot<'_> {
    if raw == "null" {
        Slot::Absent
    } else {
        Slot::Leaf(raw)
    }
}

/// The exact JSON of one value.
fn exact<'de, D: Deserializer<'de>>(json: D) -> Result<&'de str, D::Error> {
    <&RawValue>::deserialize(json).map(RawValue::get)
}

fn again(raw: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(raw)
}

#[cfg(test)]
#[path = "lenient_tests.rs"]
mod tests;
