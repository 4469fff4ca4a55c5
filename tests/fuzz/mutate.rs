//! Makes inputs out of inputs.

use fastrand::Rng;
use serde_json::Value;

/// Pieces that parsers stumble over.
const PIECES: [&[u8]; 36] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"\n",
    b"\0",
    b"|",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"-0",
    b"1e999",
    b"18446744073709551616",
    b"0.1",
    b"-1",
    b"9007199254740993",
    b"&a ",
    b"*a",
    b"!!binary ",
    b"%7B",
    b"payload=",
    b"&",
    b"sha256=",
    b"{\"a\":{\"a\":{\"a\":",
];

/// One of the seeds with a few changes.
pub(crate) fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = pick(seeds, rng).clone();
    if rng.u32(0..3) == 0
        && let Some(changed) = with_other_values(&input, rng)
    {
        input = changed;
    }
    for _ in 0..rng.u32(0..6) {
        change(&mut input, seeds, rng);
    }
    input
}

fn pick<'a>(seeds: &'a [Vec<u8>], rng: &mut Rng) -> &'a Vec<u8> {
    &seeds[rng.usize(0..seeds.len())]
}

/// A range of the input, most of them short.
fn range(input: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.usize(0..=input.len());
    let longest = if rng.u32(0..8) == 0 { 4_096 } else { 24 };
    let end = (start + rng.usize(0..=longest)).min(input.len());
    start..end
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let place = rng.usize(0..=input.len());
    match rng.u32(0..9) {
        0 if !input.is_empty() => {
            let place = rng.usize(0..input.len());
            input[place] ^= 1 << rng.u32(0..8);
        }
        1 => input.insert(place, rng.u8(..)),
        2 => drop(input.drain(range(input, rng))),
        3 => {
            let piece = PIECES[rng.usize(0..PIECES.len())];
            input.splice(place..place, piece.iter().copied());
        }
        4 => {
            let piece = PIECES[rng.usize(0..PIECES.len())];
            input.splice(range(input, rng), piece.iter().copied());
        }
        5 => {
            let copied = input[range(input, rng)].to_vec();
            let times = if rng.u32(0..20) == 0 { 400 } else { 1 };
            input.splice(place..place, copied.repeat(times));
        }
        6 => {
            let other = pick(seeds, rng);
            let piece = other[range(other, rng)].to_vec();
            input.splice(range(input, rng), piece);
        }
        7 => input.truncate(place),
        _ => {
            let other = pick(seeds, rng);
            input.truncate(place);
            input.extend_from_slice(&other[rng.usize(0..=other.len())..]);
        }
    }
}

/// The JSON behind the first line with some values in place of others: still JSON, so that what
/// lies behind the parser is reached, too.
fn with_other_values(input: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let start = input.iter().position(|byte| *byte == b'{')?;
    let mut value: Value = serde_json::from_slice(&input[start..]).ok()?;
    for _ in 0..rng.u32(1..4) {
        let donor = some_place(&mut value, rng).clone();
        *some_place(&mut value, rng) = other(donor, rng);
    }
    let mut out = input[..start].to_vec();
    serde_json::to_writer(&mut out, &value).ok()?;
    Some(out)
}

fn other(donor: Value, rng: &mut Rng) -> Value {
    match rng.u32(0..10) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => Value::from(rng.i64(..)),
        3 => Value::from(rng.f64() * 1e300),
        4 => Value::from("\u{0} a/b#c:\u{e9}\u{200b}"),
        5 => Value::from("x".repeat(rng.usize(0..2_000))),
        6 => Value::Array(vec![donor]),
        7 => Value::Object(serde_json::Map::new()),
        _ => donor,
    }
}

/// What is in an object or a list.
fn inside(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A value somewhere below; the outer ones are as likely as the inner ones, but never the top,
/// unless there is nothing in it.
fn some_place<'v>(value: &'v mut Value, rng: &mut Rng) -> &'v mut Value {
    let is_leaf = inside(value).is_empty();
    if is_leaf {
        return value;
    }
    let mut inner = inside(value);
    let chosen = inner.swap_remove(rng.usize(0..inner.len()));
    if rng.u32(0..3) == 0 {
        chosen
    } else {
        some_place(chosen, rng)
    }
}
