//! The walker on a schema that has everything, with plain values.

use std::ops::Range;
use std::sync::Arc;
use std::vec::Drain;

use proptest::prelude::*;

use super::names_field_and_position;
use crate::wire::WireError;
use crate::wire::primitives::ITEMS_MAX;
use crate::wire::schema::{Field, Kind, Schema, Struct, Versions};
use crate::wire::walk::{Build, Take, decode, encode};

const FLEXIBLE_FROM: i16 = 2;
const VERSION_MAX: i16 = 3;
const ALL: Versions = Versions { min: 0, max: 99 };
const LATER: Versions = Versions { min: 1, max: 99 };
const FLEXIBLE: Versions = Versions {
    min: FLEXIBLE_FROM,
    max: 99,
};

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Range(Range<usize>),
    List(Vec<Value>),
    Struct(Vec<Value>),
}

fn field(name: &str, kind: Kind, versions: Versions) -> Field {
    Field {
        name: name.into(),
        kind,
        versions,
        nullable: Versions::NONE,
        tagged: None,
        ignorable: false,
    }
}

fn schema() -> Schema {
    let inner = Struct {
        name: "Inner".into(),
        id: 1,
        fields: vec![
            field("number", Kind::Int32, ALL),
            Field {
                ignorable: true,
                ..field("later", Kind::Int64, LATER)
            },
        ],
    };
    let root = Struct {
        name: "Everything".into(),
        id: 0,
        fields: vec![
            field("bool", Kind::Bool, ALL),
            field("int8", Kind::Int8, ALL),
            field("int16", Kind::Int16, LATER),
            field("float", Kind::Float64, ALL),
            field("uuid", Kind::Uuid, ALL),
            Field {
                nullable: LATER,
                ..field("text", Kind::String, ALL)
            },
            Field {
                nullable: ALL,
                ..field("bytes", Kind::Bytes, ALL)
            },
            field(
                "inners",
                Kind::Array(Box::new(Kind::Struct(Arc::new(inner)))),
                ALL,
            ),
            Field {
                tagged: Some((3, FLEXIBLE)),
                ..field("tagged", Kind::Array(Box::new(Kind::Int16)), FLEXIBLE)
            },
        ],
    };
    Schema::new(
        Arc::new(root),
        Versions {
            min: 0,
            max: VERSION_MAX,
        },
        FLEXIBLE_FROM,
    )
}

fn default_of(id: usize, slot: usize) -> Value {
    match (id, slot) {
        (0, 0) => Value::Bool(false),
        (0, 3) => Value::Float(0.0),
        (0, 4) => Value::Bytes(vec![0; 16]),
        (0, 5) => Value::Text(String::new()),
        (0, 6) => Value::Bytes(Vec::new()),
        (0, 7 | 8) => Value::List(Vec::new()),
        _ => Value::Int(0),
    }
}

struct Plain;

impl Build for Plain {
    type Value = Value;
    type Error = WireError;

    fn null(&mut self) -> Value {
        Value::Null
    }
    fn bool(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }
    fn int(&mut self, value: i64) -> Result<Value, WireError> {
        Ok(Value::Int(value))
    }
    fn float(&mut self, value: f64) -> Value {
        Value::Float(value)
    }
    fn text(&mut self, value: &str) -> Value {
        Value::Text(value.into())
    }
    fn bytes(&mut self, value: &[u8]) -> Value {
        Value::Bytes(value.into())
    }
    fn records(&mut self, range: Range<usize>) -> Result<Value, WireError> {
        Ok(Value::Range(range))
    }
    fn list(&mut self, items: Drain<'_, Value>) -> Result<Value, WireError> {
        Ok(Value::List(items.collect()))
    }
    fn structure(&mut self, _id: usize, fields: Drain<'_, Value>) -> Result<Value, WireError> {
        Ok(Value::Struct(fields.collect()))
    }
    fn default(&mut self, id: usize, slot: usize) -> Result<Value, WireError> {
        Ok(default_of(id, slot))
    }
}

fn wrong<T>() -> Result<T, WireError> {
    Err(WireError::unwritable("", "of another type"))
}

impl Take for &Value {
    type Error = WireError;

    fn field(&self, _id: usize, slot: usize) -> Result<Self, WireError> {
        match self {
            Value::Struct(fields) => Ok(&fields[slot]),
            _ => wrong(),
        }
    }
    fn is_null(&self) -> bool {
        **self == Value::Null
    }
    fn is_default(&self, id: usize, slot: usize) -> Result<bool, WireError> {
        Ok(**self == default_of(id, slot))
    }
    fn bool(&self) -> Result<bool, WireError> {
        match self {
            Value::Bool(value) => Ok(*value),
            _ => wrong(),
        }
    }
    fn int(&self) -> Result<i64, WireError> {
        match self {
            Value::Int(value) => Ok(*value),
            _ => wrong(),
        }
    }
    fn float(&self) -> Result<f64, WireError> {
        match self {
            Value::Float(value) => Ok(*value),
            _ => wrong(),
        }
    }
    fn text<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, WireError> {
        match self {
            Value::Text(text) => Ok(use_it(text.as_bytes())),
            _ => wrong(),
        }
    }
    fn bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, WireError> {
        match self {
            Value::Bytes(bytes) => Ok(use_it(bytes)),
            _ => wrong(),
        }
    }
    fn count(&self) -> Result<usize, WireError> {
        match self {
            Value::List(items) => Ok(items.len()),
            _ => wrong(),
        }
    }
    fn item(&self, index: usize) -> Result<Self, WireError> {
        match self {
            Value::List(items) => Ok(&items[index]),
            _ => wrong(),
        }
    }
}

fn everything(version: i16) -> impl Strategy<Value = Value> {
    let inner = any::<(i32, i64)>().prop_map(move |(number, later)| {
        let later = if version >= 1 { later } else { 0 };
        Value::Struct(vec![Value::Int(number.into()), Value::Int(later)])
    });
    let text = proptest::option::of("[a-zé]{0,200}");
    let bytes = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200));
    (
        any::<(bool, i8, i16, [u8; 16])>(),
        -1e9..1e9f64,
        text,
        bytes,
        proptest::collection::vec(inner, 0..4),
        proptest::collection::vec(any::<i16>(), 0..4),
    )
        .prop_map(
            move |((bool, int8, int16, uuid), float, text, bytes, inners, tagged)| {
                let tagged = tagged.into_iter().map(|item| Value::Int(item.into()));
                Value::Struct(vec![
                    Value::Bool(bool),
                    Value::Int(int8.into()),
                    Value::Int(if version >= 1 { int16.into() } else { 0 }),
                    Value::Float(float),
                    Value::Bytes(uuid.to_vec()),
                    match text {
                        None if version >= 1 => Value::Null,
                        other => Value::Text(other.unwrap_or_default()),
                    },
                    bytes.map_or(Value::Null, Value::Bytes),
                    Value::List(inners),
                    Value::List(if version >= FLEXIBLE_FROM {
                        tagged.collect()
                    } else {
                        Vec::new()
                    }),
                ])
            },
        )
}

fn versioned() -> impl Strategy<Value = (i16, Value)> {
    (0..=VERSION_MAX).prop_flat_map(|version| (Just(version), everything(version)))
}

proptest! {
    #[test]
    fn messages_come_back((version, message) in versioned()) {
        let schema = schema();
        let plan = schema.plan(version).unwrap();
        let bytes = encode(plan, &&message).unwrap();
        prop_assert_eq!(decode(plan, &bytes, ITEMS_MAX, &mut Plain).unwrap(), message);
        for length in 0..bytes.len() {
            names_field_and_position(&decode(plan, &bytes[..length], ITEMS_MAX, &mut Plain).unwrap_err(), length);
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_message(version in 0..=VERSION_MAX, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let schema = schema();
        if let Err(error) = decode(schema.plan(version).unwrap(), &bytes, ITEMS_MAX, &mut Plain) {
            names_field_and_position(&error, bytes.len());
        }
    }

    #[test]
    fn changed_bytes_are_an_error_or_a_message((version, message) in versioned(), at: usize, to: u8) {
        let schema = schema();
        let plan = schema.plan(version).unwrap();
        let mut bytes = encode(plan, &&message).unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Err(error) = decode(plan, &bytes, ITEMS_MAX, &mut Plain) {
            names_field_and_position(&error, bytes.len());
        }
    }
}

fn sample() -> Vec<Value> {
    (0..9).map(|slot| default_of(0, slot)).collect()
}

#[test]
fn an_error_says_where() {
    let schema = schema();
    let plan = schema.plan(1).unwrap();
    let mut fields = sample();
    let inner = Value::Struct(vec![Value::Int(7), Value::Int(8)]);
    fields[7] = Value::List(vec![inner.clone(), inner]);
    let bytes = encode(plan, &&Value::Struct(fields)).unwrap();
    let error = decode(plan, &bytes[..bytes.len() - 1], ITEMS_MAX, &mut Plain).unwrap_err();
    // The number of inners does not fit any more: that is found before the first is read.
    let start = bytes.len() - 2 * 12 - 4;
    assert_eq!(
        error.to_string(),
        format!("inners at byte {start}: 2 items cannot fit in the 23 bytes that are left")
    );
    let fields = {
        let mut fields = sample();
        fields[7] = Value::List(vec![Value::Struct(vec![
            Value::Text("seven".into()),
            Value::Int(8),
        ])]);
        fields
    };
    let error = encode(plan, &&Value::Struct(fields)).unwrap_err();
    assert_eq!(error.to_string(), "inners[0].number: of another type");
}

#[test]
fn what_a_version_lacks_must_be_default_unless_it_may_be_dropped() {
    let schema = schema();
    let plan = schema.plan(0).unwrap();
    let mut fields = sample();
    // An inner's `later` may be dropped.
    fields[7] = Value::List(vec![Value::Struct(vec![Value::Int(7), Value::Int(8)])]);
    let bytes = encode(plan, &&Value::Struct(fields.clone())).unwrap();
    let Value::Struct(back) = decode(plan, &bytes, ITEMS_MAX, &mut Plain).unwrap() else {
        panic!("a structure");
    };
    assert_eq!(
        back[7],
        Value::List(vec![Value::Struct(vec![Value::Int(7), Value::Int(0)])])
    );
    fields[2] = Value::Int(1);
    let error = encode(plan, &&Value::Struct(fields)).unwrap_err();
    assert_eq!(error.to_string(), "int16: version 0 lacks this field");
    assert!(schema.plan(VERSION_MAX + 1).is_err() && schema.plan(-1).is_err());
}

#[test]
fn null_only_where_the_version_has_it() {
    let schema = schema();
    let mut fields = sample();
    fields[5] = Value::Null;
    let message = Value::Struct(fields);
    let bytes = encode(schema.plan(1).unwrap(), &&message).unwrap();
    assert_eq!(
        decode(schema.plan(1).unwrap(), &bytes, ITEMS_MAX, &mut Plain).unwrap(),
        message
    );
    let error = encode(schema.plan(0).unwrap(), &&message).unwrap_err();
    assert_eq!(error.to_string(), "text: null is not allowed in version 0");
    // bool, int8, float and uuid, then the text's length.
    let mut bytes = vec![0; 1 + 1 + 8 + 16];
    bytes.extend_from_slice(&[0xFF, 0xFF]);
    let error = decode(schema.plan(0).unwrap(), &bytes, ITEMS_MAX, &mut Plain).unwrap_err();
    assert_eq!(
        error.to_string(),
        "text at byte 26: null is not allowed here"
    );
}

#[test]
fn unknown_tags_are_skipped_and_a_known_one_must_fill_its_size() {
    let schema = schema();
    let plan = schema.plan(FLEXIBLE_FROM).unwrap();
    let message = Value::Struct(sample());
    let mut bytes = encode(plan, &&message).unwrap();
    assert_eq!(bytes.pop(), Some(0), "no tagged field");
    let known = [3, 3, 2, 0, 5];
    for tags in [
        &[1, 9, 2, 0xAA, 0xBB][..],
        &[2, 1, 1, 0, 9, 2, 0xAA, 0xBB][..],
    ] {
        let with_tags = [&bytes[..], tags].concat();
        assert_eq!(
            decode(plan, &with_tags, ITEMS_MAX, &mut Plain).unwrap(),
            message
        );
    }
    let with_known = [&bytes[..], &[2], &known, &[9, 0]].concat();
    let Value::Struct(fields) = decode(plan, &with_known, ITEMS_MAX, &mut Plain).unwrap() else {
        panic!("a structure");
    };
    assert_eq!(fields[8], Value::List(vec![Value::Int(5)]));
    let too_large = [&bytes[..], &[1, 3, 4, 2, 0, 5, 0]].concat();
    let error = decode(plan, &too_large, ITEMS_MAX, &mut Plain).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the tagged field has 4 bytes, its value 3"),
        "{error}"
    );
}

#[test]
fn a_message_of_very_many_small_items_is_refused() {
    use crate::wire::primitives::ITEMS_MAX;
    let item = Struct {
        name: "Item".into(),
        id: 1,
        fields: vec![field("flag", Kind::Bool, ALL)],
    };
    let root = Struct {
        name: "Many".into(),
        id: 0,
        fields: vec![field(
            "items",
            Kind::Array(Box::new(Kind::Struct(Arc::new(item)))),
            ALL,
        )],
    };
    let schema = Schema::new(Arc::new(root), Versions { min: 0, max: 0 }, 1);
    let plan = schema.plan(0).unwrap();
    let mut bytes = (ITEMS_MAX as i32 + 1).to_be_bytes().to_vec();
    bytes.resize(bytes.len() + ITEMS_MAX + 1, 1);
    assert_eq!(
        decode(plan, &bytes, ITEMS_MAX, &mut Plain)
            .unwrap_err()
            .to_string(),
        "items at byte 0: a message may not have so many items"
    );
}

#[test]
fn records_are_a_range_of_the_message() {
    let root = Struct {
        name: "Data".into(),
        id: 0,
        fields: vec![
            field("number", Kind::Int8, ALL),
            Field {
                nullable: ALL,
                ..field("records", Kind::Records, ALL)
            },
        ],
    };
    let schema = Schema::new(Arc::new(root), Versions { min: 0, max: 1 }, 1);
    for (version, start) in [(0, 5), (1, 2)] {
        let plan = schema.plan(version).unwrap();
        let message = |records| Value::Struct(vec![Value::Int(7), records]);
        let bytes = encode(plan, &&message(Value::Bytes(b"abc".to_vec()))).unwrap();
        let back = decode(plan, &bytes, ITEMS_MAX, &mut Plain).unwrap();
        assert_eq!(back, message(Value::Range(start..start + 3)));
        assert_eq!(&bytes[start..start + 3], b"abc");
        let bytes = encode(plan, &&message(Value::Null)).unwrap();
        assert_eq!(
            decode(plan, &bytes, ITEMS_MAX, &mut Plain).unwrap(),
            message(Value::Null)
        );
    }
}
