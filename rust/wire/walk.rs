//! Encoding and decoding along a plan (schema.rs), for whatever the values are: Python objects in rust/py, a plain enum in the tests.
//!
//! Decoding keeps all unfinished values on one stack: a structure or an array is built from the top of it, so that nothing is allocated per
//! structure. Errors are named on their way out: the innermost field first, then `partitions[3]` and so on; the happy path never touches a name.

use std::vec::Drain;

use super::error::{Fault, Problem, WireError};
use super::primitives::{Reader, Writer};
use super::schema::{Op, Plan, Presence, Slot, StructPlan};

/// An error that can be told where it happened.
pub trait Inside: From<WireError> {
    fn inside(self, outer: &str, index: Option<usize>) -> Self;
}

impl Inside for WireError {
    fn inside(self, outer: &str, index: Option<usize>) -> Self {
        WireError::inside(self, outer, index)
    }
}

/// Makes values out of what is decoded.
pub trait Build {
    type Value;
    type Error: Inside;

    fn null(&mut self) -> Self::Value;
    fn bool(&mut self, value: bool) -> Self::Value;
    fn int(&mut self, value: i64) -> Result<Self::Value, Self::Error>;
    fn float(&mut self, value: f64) -> Self::Value;
    fn text(&mut self, value: &str) -> Self::Value;
    /// Byte strings, and the 16 bytes of a UUID.
    fn bytes(&mut self, value: &[u8]) -> Self::Value;
    fn list(&mut self, items: Drain<'_, Self::Value>) -> Result<Self::Value, Self::Error>;
    /// A structure from the values of all its slots.
    fn structure(
        &mut self,
        id: usize,
        fields: Drain<'_, Self::Value>,
    ) -> Result<Self::Value, Self::Error>;
    /// What a slot holds when the version lacks it or the sender left it out.
    fn default(&mut self, id: usize, slot: usize) -> Result<Self::Value, Self::Error>;
}

/// A value to encode.
pub trait Take: Sized {
    type Error: Inside;

    /// The value of a slot of a structure.
    fn field(&self, id: usize, slot: usize) -> Result<Self, Self::Error>;
    fn is_null(&self) -> bool;
    fn is_default(&self, id: usize, slot: usize) -> Result<bool, Self::Error>;
    fn bool(&self) -> Result<bool, Self::Error>;
    fn int(&self) -> Result<i64, Self::Error>;
    fn float(&self) -> Result<f64, Self::Error>;
    fn text<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;
    fn bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;
    fn count(&self) -> Result<usize, Self::Error>;
    fn item(&self, index: usize) -> Result<Self, Self::Error>;
}

/// Decodes one message. Bytes after its end are left alone, as Kafka does.
pub fn decode<B: Build>(plan: &Plan, bytes: &[u8], build: &mut B) -> Result<B::Value, B::Error> {
    let mut decoder = Decoder {
        flexible: plan.flexible,
        reader: Reader::new(bytes),
        build,
        stack: Vec::new(),
    };
    decoder.structure(&plan.root)
}

struct Decoder<'a, B: Build> {
    flexible: bool,
    reader: Reader<'a>,
    build: &'a mut B,
    stack: Vec<B::Value>,
}

fn bare<E: From<WireError>>(fault: Fault) -> E {
    fault.named("").into()
}

impl<B: Build> Decoder<'_, B> {
    fn structure(&mut self, plan: &StructPlan) -> Result<B::Value, B::Error> {
        let base = self.stack.len();
        for (slot, spec) in plan.slots.iter().enumerate() {
            let value = match &spec.presence {
                Presence::Plain(op) => self.named(spec, op)?,
                Presence::Tagged(_) | Presence::Absent { .. } => {
                    self.build.default(plan.id, slot)?
                }
            };
            self.stack.push(value);
        }
        if self.flexible {
            self.tagged(plan, base)?;
        }
        self.build.structure(plan.id, self.stack.drain(base..))
    }

    fn named(&mut self, spec: &Slot, op: &Op) -> Result<B::Value, B::Error> {
        self.value(op, spec.nullable).map_err(|error| match error {
            // An array's own error has its index in front already.
            ValueError::Here(error) => error.inside(&spec.name, None),
            ValueError::Item(error, index) => error.inside(&spec.name, Some(index)),
        })
    }

    fn tagged(&mut self, plan: &StructPlan, base: usize) -> Result<(), B::Error> {
        let outer = self.reader.clone();
        let mut tags = outer.clone();
        let mut known = Vec::new();
        // First where the values are, then the values: `self` cannot be lent to the visitor.
        tags.tagged(|tag, value| {
            if let Ok(index) = plan.tagged.binary_search_by_key(&tag, |(tag, _)| *tag) {
                known.push((plan.tagged[index].1, value.clone()));
            }
            Ok(false)
        })?;
        for (slot, value) in known {
            let spec = &plan.slots[slot];
            let Presence::Tagged(op) = &spec.presence else {
                continue;
            };
            let (start, declared) = (value.position(), value.left());
            let earlier = std::mem::replace(&mut self.reader, value);
            self.reader.follow(&earlier);
            let value = self.named(spec, op)?;
            if self.reader.left() != 0 {
                let problem = Problem::TagSize {
                    declared,
                    actual: declared - self.reader.left(),
                };
                return Err(Fault {
                    position: start,
                    problem,
                }
                .named(spec.name.to_string())
                .into());
            }
            self.stack[base + slot] = value;
        }
        tags.follow(&self.reader);
        self.reader = tags;
        Ok(())
    }

    fn value(&mut self, op: &Op, nullable: bool) -> Result<B::Value, ValueError<B::Error>> {
        let start = self.reader.position();
        let flexible = self.flexible;
        let value = match op {
            Op::Bool => {
                let value = self.reader.bool().map_err(bare::<B::Error>)?;
                Some(self.build.bool(value))
            }
            Op::Int8 => Some(self.int(|reader| reader.i8().map(i64::from))?),
            Op::Int16 => Some(self.int(|reader| reader.i16().map(i64::from))?),
            Op::Int32 => Some(self.int(|reader| reader.i32().map(i64::from))?),
            Op::Int64 => Some(self.int(|reader| reader.i64())?),
            Op::Float64 => {
                let value = self.reader.f64().map_err(bare::<B::Error>)?;
                Some(self.build.float(value))
            }
            Op::Uuid => {
                let value = self.reader.uuid().map_err(bare::<B::Error>)?;
                Some(self.build.bytes(&value))
            }
            Op::String => {
                let text = self.reader.string(flexible).map_err(bare::<B::Error>)?;
                text.map(|text| self.build.text(text))
            }
            Op::Bytes => {
                let range = self.reader.bytes(flexible).map_err(bare::<B::Error>)?;
                let buffer = self.reader.buffer();
                range.map(|range| self.build.bytes(&buffer[range]))
            }
            Op::Array(item) => {
                let count = self
                    .reader
                    .array(flexible, item.bytes_min(flexible))
                    .map_err(bare::<B::Error>)?;
                match count {
                    None => None,
                    Some(count) => Some(self.array(item, count)?),
                }
            }
            Op::Struct(plan) => Some(self.structure(plan)?),
        };
        match value {
            Some(value) => Ok(value),
            None if nullable => Ok(self.build.null()),
            None => Err(ValueError::Here(bare(Fault {
                position: start,
                problem: Problem::Null,
            }))),
        }
    }

    fn int(
        &mut self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<i64, Fault>,
    ) -> Result<B::Value, B::Error> {
        let value = read(&mut self.reader).map_err(bare::<B::Error>)?;
        self.build.int(value)
    }

    fn array(&mut self, item: &Op, count: usize) -> Result<B::Value, ValueError<B::Error>> {
        let base = self.stack.len();
        // At most as many as the bytes that are left can hold: the reader has compared them.
        self.stack.reserve(count);
        for index in 0..count {
            let value = self
                .value(item, false)
                .map_err(|error| ValueError::Item(error.into_inner(), index))?;
            self.stack.push(value);
        }
        Ok(self.build.list(self.stack.drain(base..))?)
    }
}

/// An error of a value itself, or of an item of the array that the value is.
enum ValueError<E> {
    Here(E),
    Item(E, usize),
}

impl<E> From<E> for ValueError<E> {
    fn from(error: E) -> Self {
        ValueError::Here(error)
    }
}

impl<E: Inside> ValueError<E> {
    fn into_inner(self) -> E {
        match self {
            ValueError::Here(error) => error,
            ValueError::Item(error, index) => error.inside("", Some(index)),
        }
    }
}

/// Encodes one message.
pub fn encode<T: Take>(plan: &Plan, message: &T) -> Result<Vec<u8>, T::Error> {
    let mut encoder = Encoder {
        plan,
        writer: Writer::with_capacity(256),
    };
    encoder.structure(&plan.root, message)?;
    Ok(encoder.writer.into_bytes())
}

struct Encoder<'a> {
    plan: &'a Plan,
    writer: Writer,
}

fn unwritable<E: From<WireError>>(reason: impl Into<std::borrow::Cow<'static, str>>) -> E {
    WireError::unwritable("", reason).into()
}

impl Encoder<'_> {
    fn structure<T: Take>(&mut self, plan: &StructPlan, value: &T) -> Result<(), T::Error> {
        for (slot, spec) in plan.slots.iter().enumerate() {
            match &spec.presence {
                Presence::Plain(op) => {
                    let value = value.field(plan.id, slot)?;
                    self.named(spec, op, &value)?;
                }
                Presence::Absent { ignorable: false } => {
                    if !value.field(plan.id, slot)?.is_default(plan.id, slot)? {
                        let error: T::Error =
                            unwritable(format!("version {} lacks this field", self.plan.version));
                        return Err(error.inside(&spec.name, None));
                    }
                }
                Presence::Absent { ignorable: true } | Presence::Tagged(_) => {}
            }
        }
        if self.plan.flexible {
            self.tagged(plan, value)?;
        }
        Ok(())
    }

    fn named<T: Take>(&mut self, spec: &Slot, op: &Op, value: &T) -> Result<(), T::Error> {
        self.value(op, spec.nullable, value)
            .map_err(|error| match error {
                ValueError::Here(error) => error.inside(&spec.name, None),
                ValueError::Item(error, index) => error.inside(&spec.name, Some(index)),
            })
    }

    /// Tagged fields are written if they differ from their default, in the order of their tags (KIP-482).
    fn tagged<T: Take>(&mut self, plan: &StructPlan, value: &T) -> Result<(), T::Error> {
        let mut chosen = Vec::new();
        for (tag, slot) in &plan.tagged {
            let field = value.field(plan.id, *slot)?;
            if !field.is_default(plan.id, *slot)? {
                chosen.push((*tag, &plan.slots[*slot], field));
            }
        }
        self.writer.uvarint(chosen.len() as u32);
        for (tag, spec, field) in chosen {
            let Presence::Tagged(op) = &spec.presence else {
                continue;
            };
            let mut inner = Encoder {
                plan: self.plan,
                writer: Writer::default(),
            };
            inner.named(spec, op, &field)?;
            let bytes = inner.writer.into_bytes();
            let size = u32::try_from(bytes.len())
                .map_err(|_| unwritable::<T::Error>("too long").inside(&spec.name, None))?;
            self.writer.uvarint(tag);
            self.writer.uvarint(size);
            self.writer.raw(&bytes);
        }
        Ok(())
    }

    fn value<T: Take>(
        &mut self,
        op: &Op,
        nullable: bool,
        value: &T,
    ) -> Result<(), ValueError<T::Error>> {
        let flexible = self.plan.flexible;
        let writer = &mut self.writer;
        let written = if value.is_null() {
            if !nullable {
                return Err(ValueError::Here(unwritable(format!(
                    "null is not allowed in version {}",
                    self.plan.version
                ))));
            }
            match op {
                Op::String => writer.text(flexible, None),
                Op::Bytes => writer.bytes(flexible, None),
                Op::Array(_) => writer.array(flexible, None),
                _ => Err(Problem::Null),
            }
        } else {
            match op {
                Op::Bool => {
                    writer.bool(value.bool()?);
                    Ok(())
                }
                Op::Int8 => {
                    writer.i8(narrow::<i8, _>(value)?);
                    Ok(())
                }
                Op::Int16 => {
                    writer.i16(narrow::<i16, _>(value)?);
                    Ok(())
                }
                Op::Int32 => {
                    writer.i32(narrow::<i32, _>(value)?);
                    Ok(())
                }
                Op::Int64 => {
                    writer.i64(value.int()?);
                    Ok(())
                }
                Op::Float64 => {
                    writer.f64(value.float()?);
                    Ok(())
                }
                Op::Uuid => value.bytes(|bytes| {
                    if bytes.len() != 16 {
                        return Err(Problem::Other("a UUID has 16 bytes"));
                    }
                    writer.raw(bytes);
                    Ok(())
                })?,
                Op::String => value.text(|text| writer.text(flexible, Some(text)))?,
                Op::Bytes => value.bytes(|bytes| writer.bytes(flexible, Some(bytes)))?,
                Op::Array(item) => {
                    let count = value.count()?;
                    if let Err(problem) = writer.array(flexible, Some(count)) {
                        return Err(ValueError::Here(unwritable(problem.to_string())));
                    }
                    for index in 0..count {
                        self.value(item, false, &value.item(index)?)
                            .map_err(|error| ValueError::Item(error.into_inner(), index))?;
                    }
                    Ok(())
                }
                Op::Struct(plan) => return Ok(self.structure(plan, value)?),
            }
        };
        written.map_err(|problem| ValueError::Here(unwritable(problem.to_string())))
    }
}

fn narrow<N: TryFrom<i64>, T: Take>(value: &T) -> Result<N, T::Error> {
    let value = value.int()?;
    N::try_from(value).map_err(|_| unwritable(format!("{value} does not fit its type")))
}
