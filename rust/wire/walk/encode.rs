//! From values to bytes.

use super::{Inside, Take, ValueError};
use crate::wire::error::{Problem, WireError};
use crate::wire::primitives::Writer;
use crate::wire::schema::{Op, Plan, Presence, Slot, StructPlan};

/// Encodes one message.
pub fn encode<T: Take>(plan: &Plan, message: &T) -> Result<Vec<u8>, T::Error> {
    let mut encoder = Encoder {
        plan,
        writer: Writer::with_capacity(256),
        is_whole: false,
    };
    encoder.structure(&plan.root, message)?;
    Ok(encoder.writer.into_bytes())
}

/// Encodes some items of a list of the message.
pub fn encode_items<T: Take>(
    plan: &Plan,
    item: &Op,
    list: &T,
    items: std::ops::Range<usize>,
) -> Result<Vec<u8>, T::Error> {
    let mut encoder = Encoder {
        plan,
        writer: Writer::with_capacity(256),
        is_whole: false,
    };
    for index in items {
        encoder
            .value(item, false, &list.item(index)?)
            .map_err(|error| ValueError::Item(error.into_inner(), index).into_inner())?;
    }
    Ok(encoder.writer.into_bytes())
}

struct Encoder<'a> {
    plan: &'a Plan,
    writer: Writer,
    /// Nothing is left for later: the length of what is written stands in front of it.
    is_whole: bool,
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
            .map_err(|error| error.named(&spec.name))
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
                is_whole: true,
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
                Op::Bytes | Op::Records => writer.bytes(flexible, None),
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
                Op::Bytes | Op::Records => {
                    value.bytes(|bytes| writer.bytes(flexible, Some(bytes)))?
                }
                Op::Array(item) => {
                    let count = value.count()?;
                    if let Err(problem) = writer.array(flexible, Some(count)) {
                        return Err(ValueError::Here(unwritable(problem.to_string())));
                    }
                    if !self.is_whole && value.is_later(item, writer.position(), count) {
                        return Ok(());
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
