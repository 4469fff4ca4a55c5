//! A configuration file as a tree that remembers the order of its keys.
//!
//! It exists because the values that the schema is checked against forget that order, swallow a
//! key that is given twice and turn other keys into text; and because aliases can make a small
//! file into a huge tree, which stops here at a fixed size.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_json::{Map, Number, Value};

use super::problem::{KeyPath, Problems, Step, is_shown};

const NODES_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The tree of one file.
pub(super) struct Document(Node);

/// Why there is no tree.
pub(super) enum Unread<E> {
    /// It grew beyond the bound.
    TooLarge,
    /// The text is not well-formed.
    Broken(E),
}

enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    Unusable(&'static str),
}

enum Key {
    Text(String),
    Other,
}

impl Document {
    /// A file without content: every key has its default.
    pub(super) const fn empty() -> Self {
        Self(Node::Map(Vec::new()))
    }

    /// Reads the tree; a file that holds nothing but comments is empty.
    pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, Unread<D::Error>> {
        let budget = Budget {
            nodes: Cell::new(NODES_MAX),
            text_bytes: Cell::new(TEXT_BYTES_MAX),
        };
        match NodeSeed(&budget).deserialize(from) {
            Ok(Node::Scalar(Value::Null)) => Ok(Self::empty()),
            Ok(root) => Ok(Self(root)),
            Err(_) if budget.is_spent() => Err(Unread::TooLarge),
            Err(error) => Err(Unread::Broken(error)),
        }
    }

    /// The tree as the schema sees it, and what no schema can see.
    pub(super) fn to_value(&self) -> (Value, Problems) {
        let mut problems = Problems::default();
        let value = self.0.to_value(&KeyPath::default(), &mut problems);
        (value, problems)
    }

    /// Where in the file a path stands: compares as the file reads, a parent before its children.
    pub(super) fn position(&self, path: &KeyPath) -> Vec<usize> {
        let mut node = Some(&self.0);
        let mut position = Vec::with_capacity(path.0.len());
        for step in &path.0 {
            let Some((ordinal, child)) = node.and_then(|node| node.child(step)) else {
                break;
            };
            position.push(ordinal);
            node = Some(child);
        }
        position
    }

    /// A path as it is shown: `(root)`, `a.b`, `list[0].k`; a key that could be a secret by its
    /// number.
    pub(super) fn show(&self, path: &KeyPath) -> String {
        let mut node = Some(&self.0);
        let mut shown = String::new();
        for step in &path.0 {
            let child = node.and_then(|node| node.child(step));
            match step {
                Step::Index(index) => shown.push_str(&format!("[{index}]")),
                Step::Key(key) => {
                    if !shown.is_empty() {
                        shown.push('.');
                    }
                    if is_shown(key) {
                        shown.push_str(key);
                    } else {
                        let number = child.map_or(0, |(ordinal, _)| ordinal).saturating_add(1);
                        shown.push_str(&format!("(key {number})"));
                    }
                }
            }
            node = child.map(|(_, child)| child);
        }
        if shown.is_empty() {
            "(root)".to_owned()
        } else {
            shown
        }
    }
}

impl Node {
    fn child(&self, step: &Step) -> Option<(usize, &Self)> {
        match (self, step) {
            (Self::List(items), Step::Index(index)) => Some((*index, items.get(*index)?)),
            (Self::Map(entries), Step::Key(wanted)) => {
                let named = |(key, _): &(Key, Self)| matches!(key, Key::Text(key) if key == wanted);
                let ordinal = entries.iter().position(named)?;
                Some((ordinal, &entries.get(ordinal)?.1))
            }
            _ => None,
        }
    }

    fn to_value(&self, path: &KeyPath, problems: &mut Problems) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(index, item)| item.to_value(&path.join(index), problems))
                    .collect()
            }
            Self::Map(entries) => Value::Object(map_to_object(entries, path, problems)),
            Self::Unusable(why) => {
                problems.spoil(path.clone(), *why);
                Value::Null
            }
        }
    }
}

fn map_to_object(
    entries: &[(Key, Node)],
    path: &KeyPath,
    problems: &mut Problems,
) -> Map<String, Value> {
    let mut object = Map::new();
    for (key, node) in entries {
        match key {
            Key::Text(key) if object.contains_key(key) => {
                problems.add(path.join(key.as_str()), "duplicate key");
            }
            Key::Text(key) => {
                object.insert(
                    key.clone(),
                    node.to_value(&path.join(key.as_str()), problems),
                );
            }
            Key::Other => problems.add(path.clone(), "every key must be text"),
        }
    }
    object
}

struct Budget {
    nodes: Cell<usize>,
    text_bytes: Cell<usize>,
}

impl Budget {
    fn spend<E: serde::de::Error>(&self, text_bytes: usize) -> Result<(), E> {
        self.nodes.set(self.nodes.get().saturating_sub(1));
        self.text_bytes
            .set(self.text_bytes.get().saturating_sub(text_bytes));
        if self.is_spent() {
            Err(E::custom("the document is too large"))
        } else {
            Ok(())
        }
    }

    fn is_spent(&self) -> bool {
        self.nodes.get() == 0 || self.text_bytes.get() == 0
    }
}

#[derive(Clone, Copy)]
struct NodeSeed<'a>(&'a Budget);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML node")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Scalar(Value::from(value)))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Scalar(Value::from(value)))
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Unusable("is a number out of every range"))
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<Node, E> {
        self.visit_i128(0)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(number(value).map_or(Node::Unusable("is not a finite number"), Node::Scalar))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.0.spend(value.len())?;
        Ok(Node::Scalar(Value::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.0.spend(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.0.spend(0)?;
        let mut map = Vec::new();
        while let Some((key, node)) = entries.next_entry_seed(self, self)? {
            let key = match key {
                Node::Scalar(Value::String(text)) => Key::Text(text),
                Node::Scalar(_) | Node::List(_) | Node::Map(_) | Node::Unusable(_) => Key::Other,
            };
            map.push((key, node));
        }
        Ok(Node::Map(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        self.0.spend(0)?;
        let (IgnoredAny, content) = tagged.variant()?;
        let IgnoredAny = content.newtype_variant()?;
        Ok(Node::Unusable("a YAML tag has no meaning here"))
    }
}

/// A float as a number; one without a fraction is an integer, as the schema counts it.
fn number(value: f64) -> Option<Value> {
    let whole = (value.fract() == 0.0)
        .then(|| format!("{value:.0}").parse::<i64>().ok())
        .flatten();
    match whole {
        Some(whole) => Some(Value::from(whole)),
        None => Number::from_f64(value).map(Value::Number),
    }
}
