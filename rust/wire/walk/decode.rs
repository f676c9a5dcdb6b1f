//! From bytes to values.

use std::ops::Range;
use std::sync::Arc;
use std::vec::Drain;

use super::{Build, LONG_ITEMS, Long, ValueError};
use crate::wire::error::{Fault, Problem, WireError};
use crate::wire::primitives::Reader;
use crate::wire::schema::{Op, Plan, Presence, Slot, StructPlan};

/// Decodes one message of at most `items_max` array items. Bytes after its end are left alone, as
/// Kafka does.
pub fn decode<B: Build>(
    plan: &Plan,
    bytes: &[u8],
    items_max: usize,
    build: &mut B,
) -> Result<B::Value, B::Error> {
    decode_counted(plan, bytes, items_max, build).map(|(value, _)| value)
}

/// The same, with the number of array items that the message has.
pub fn decode_counted<B: Build>(
    plan: &Plan,
    bytes: &[u8],
    items_max: usize,
    build: &mut B,
) -> Result<(B::Value, usize), B::Error> {
    let mut decoder = Decoder {
        flexible: plan.flexible,
        reader: Reader::bounded(bytes, items_max),
        build,
        stack: Vec::new(),
    };
    let value = decoder.structure(&plan.root)?;
    Ok((value, items_max - decoder.reader.items_left()))
}

/// Decodes `count` items that a whole message has been checked with, from `position` on. Returns the
/// position behind them.
pub fn decode_items<B: Build>(
    item: &Op,
    flexible: bool,
    bytes: &[u8],
    position: usize,
    count: usize,
    build: &mut B,
    mut each: impl FnMut(&mut B, B::Value) -> Result<(), B::Error>,
) -> Result<usize, B::Error> {
    let mut decoder = Decoder {
        flexible,
        reader: Reader::again(bytes, position),
        build,
        stack: Vec::new(),
    };
    for index in 0..count {
        let value = decoder
            .value(item, false)
            .map_err(|error| ValueError::Item(error.into_inner(), index).into_inner())?;
        each(decoder.build, value)?;
    }
    Ok(decoder.reader.position())
}

/// Builds nothing: what is walked through with it is only checked.
struct Nothing {
    met: Vec<Long>,
}

impl Build for Nothing {
    type Value = ();
    type Error = WireError;

    fn null(&mut self) {}
    fn bool(&mut self, _value: bool) {}
    fn int(&mut self, _value: i64) -> Result<(), WireError> {
        Ok(())
    }
    fn float(&mut self, _value: f64) {}
    fn text(&mut self, _value: &str) {}
    fn bytes(&mut self, _value: &[u8]) {}
    fn records(&mut self, _range: Range<usize>) -> Result<(), WireError> {
        Ok(())
    }
    fn list(&mut self, _items: Drain<'_, ()>) -> Result<(), WireError> {
        Ok(())
    }
    fn met(&mut self, long: Vec<Long>) {
        self.met.extend(long);
    }
    fn structure(&mut self, _id: usize, _fields: Drain<'_, ()>) -> Result<(), WireError> {
        Ok(())
    }
    fn default(&mut self, _id: usize, _slot: usize) -> Result<(), WireError> {
        Ok(())
    }
}

struct Decoder<'a, 'b, B: Build> {
    flexible: bool,
    reader: Reader<'a>,
    build: &'b mut B,
    stack: Vec<B::Value>,
}

fn bare<E: From<WireError>>(fault: Fault) -> E {
    fault.named("").into()
}

impl<B: Build> Decoder<'_, '_, B> {
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
        self.value(op, spec.nullable)
            .map_err(|error| error.named(&spec.name))
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
            Op::Records => match self.reader.bytes(flexible).map_err(bare::<B::Error>)? {
                None => None,
                Some(range) => Some(self.build.records(range)?),
            },
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

    fn array(&mut self, item: &Arc<Op>, count: usize) -> Result<B::Value, ValueError<B::Error>> {
        if let Some(list) = self.build.later(item, self.reader.position(), count)? {
            match self.build.end_of(self.reader.position()) {
                Some(end) => self.reader.pass_to(end),
                None => self.check(item, count)?,
            }
            return Ok(list);
        }
        let position = self.reader.position();
        let base = self.stack.len();
        // At most as many as the bytes that are left can hold: the reader has compared them.
        self.stack.reserve(count);
        for index in 0..count {
            let value = self
                .value(item, false)
                .map_err(|error| ValueError::Item(error.into_inner(), index))?;
            self.stack.push(value);
        }
        if count >= LONG_ITEMS {
            let end = self.reader.position();
            self.build.met(vec![Long { position, end }]);
        }
        Ok(self.build.list(self.stack.drain(base..))?)
    }

    /// Goes over items without building them.
    fn check(&mut self, item: &Op, count: usize) -> Result<(), ValueError<B::Error>> {
        let (flexible, reader) = (self.flexible, self.reader.clone());
        let check = || {
            let mut nothing = Nothing { met: Vec::new() };
            let mut decoder = Decoder {
                flexible,
                reader,
                build: &mut nothing,
                stack: Vec::new(),
            };
            for index in 0..count {
                decoder
                    .value(item, false)
                    .map_err(|error| (error.into_inner(), index))?;
            }
            Ok((decoder.reader, nothing.met))
        };
        let checked: Result<_, (WireError, usize)> = self.build.apart(count, check);
        let (reader, met) =
            checked.map_err(|(error, index)| ValueError::Item(error.into(), index))?;
        self.reader = reader;
        self.build.met(met);
        Ok(())
    }
}
