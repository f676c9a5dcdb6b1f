//! Message schemas: what a message's fields are in every version, and the plan of one version.
//!
//! A schema is declared in Python (one file per API), handed over once, and compiled per version when that version is first used. The plan holds
//! only what the version has, in wire order, so that the walk (walk.rs) decides nothing twice. A structure's fields keep their *slot*, the
//! position among all declared fields, in every version; a field that a version lacks has its default there.

use std::sync::{Arc, OnceLock};

use super::error::WireError;

/// Inclusive; empty if `min > max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub min: i16,
    pub max: i16,
}

impl Versions {
    pub const NONE: Versions = Versions { min: 1, max: 0 };

    pub fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

#[derive(Clone, Debug)]
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    /// On the wire as bytes; decoded as a view of the message instead of a copy.
    Records,
    Array(Box<Kind>),
    Struct(Arc<Struct>),
}

#[derive(Debug)]
pub struct Struct {
    pub name: String,
    /// The structure's number within its schema; the builder of values has a table by it.
    pub id: usize,
    pub fields: Vec<Field>,
}

#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
    pub versions: Versions,
    pub nullable: Versions,
    /// The tag, and the versions in which the field is a tagged one.
    pub tagged: Option<(u32, Versions)>,
    /// True if a value may be dropped silently when the version lacks the field.
    pub ignorable: bool,
}

/// One message in all its versions.
#[derive(Debug)]
pub struct Schema {
    root: Arc<Struct>,
    versions: Versions,
    /// The first flexible version.
    flexible_from: i16,
    plans: Vec<OnceLock<Plan>>,
}

/// One message in one version.
#[derive(Debug)]
pub struct Plan {
    pub version: i16,
    pub flexible: bool,
    pub root: StructPlan,
}

#[derive(Debug)]
pub struct StructPlan {
    pub id: usize,
    /// By slot.
    pub slots: Vec<Slot>,
    /// The slots of tagged fields, ascending by tag.
    pub tagged: Vec<(u32, usize)>,
    /// The fewest bytes it takes.
    pub bytes_min: usize,
}

#[derive(Debug)]
pub struct Slot {
    pub name: Box<str>,
    pub nullable: bool,
    pub presence: Presence,
}

#[derive(Debug)]
pub enum Presence {
    /// In wire order.
    Plain(Op),
    /// Among the tagged fields at the structure's end.
    Tagged(Op),
    /// Not in this version.
    Absent { ignorable: bool },
}

#[derive(Debug)]
pub enum Op {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    /// Shared with whoever comes back for the items later.
    Array(Arc<Op>),
    Struct(Box<StructPlan>),
}

impl Op {
    /// The fewest bytes a value takes.
    pub fn bytes_min(&self, flexible: bool) -> usize {
        match self {
            Op::Bool | Op::Int8 => 1,
            Op::Int16 => 2,
            Op::Int32 => 4,
            Op::Int64 | Op::Float64 => 8,
            Op::Uuid => 16,
            Op::String | Op::Bytes | Op::Records | Op::Array(_) if flexible => 1,
            Op::String => 2,
            Op::Bytes | Op::Records | Op::Array(_) => 4,
            Op::Struct(plan) => plan.bytes_min,
        }
    }
}

impl Schema {
    pub fn new(root: Arc<Struct>, versions: Versions, flexible_from: i16) -> Self {
        let count = usize::try_from(i32::from(versions.max) + 1).unwrap_or(0);
        Self {
            root,
            versions,
            flexible_from,
            plans: (0..count).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The plan of a version, compiled at its first use.
    pub fn plan(&self, version: i16) -> Result<&Plan, WireError> {
        let cell = usize::try_from(version)
            .ok()
            .filter(|_| self.versions.contains(version))
            .and_then(|index| self.plans.get(index))
            .ok_or_else(|| WireError::Version {
                what: self.root.name.clone().into(),
                version,
            })?;
        Ok(cell.get_or_init(|| {
            let flexible = version >= self.flexible_from;
            Plan {
                version,
                flexible,
                root: plan_of(&self.root, version, flexible),
            }
        }))
    }
}

fn plan_of(structure: &Struct, version: i16, flexible: bool) -> StructPlan {
    let mut bytes_min = usize::from(flexible);
    let mut tagged = Vec::new();
    let slots = structure
        .fields
        .iter()
        .enumerate()
        .map(|(slot, field)| {
            let presence = if !field.versions.contains(version) {
                Presence::Absent {
                    ignorable: field.ignorable,
                }
            } else {
                let op = op_of(&field.kind, version, flexible);
                match field.tagged {
                    Some((tag, versions)) if flexible && versions.contains(version) => {
                        tagged.push((tag, slot));
                        Presence::Tagged(op)
                    }
                    _ => {
                        bytes_min += op.bytes_min(flexible);
                        Presence::Plain(op)
                    }
                }
            };
            Slot {
                name: field.name.as_str().into(),
                nullable: field.nullable.contains(version),
                presence,
            }
        })
        .collect();
    tagged.sort_unstable();
    StructPlan {
        id: structure.id,
        slots,
        tagged,
        bytes_min,
    }
}

fn op_of(kind: &Kind, version: i16, flexible: bool) -> Op {
    match kind {
        Kind::Bool => Op::Bool,
        Kind::Int8 => Op::Int8,
        Kind::Int16 => Op::Int16,
        Kind::Int32 => Op::Int32,
        Kind::Int64 => Op::Int64,
        Kind::Float64 => Op::Float64,
        Kind::Uuid => Op::Uuid,
        Kind::String => Op::String,
        Kind::Bytes => Op::Bytes,
        Kind::Records => Op::Records,
        Kind::Array(item) => Op::Array(Arc::new(op_of(item, version, flexible))),
        Kind::Struct(structure) => Op::Struct(Box::new(plan_of(structure, version, flexible))),
    }
}
