//! What a Produce names: topics and partitions, for Python and for the answer.
//!
//! Clients name the same partitions again and again, so the last few are kept: a name that Python has seen need not be made again, and looking up
//! a string that is the very one in the table costs neither a hash nor a comparison.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::checksum::crc32c;
use crate::wire::produce::PartitionData;

/// Requests of more partitions are not kept: with the longest names an entry has 4 KB,
const PARTITIONS_MAX: usize = 16;
/// and all of them 1 MB.
const KEPT: usize = 256;

/// The partitions of a Produce, in its order.
pub struct Asked {
    /// The topics' names, one after the other.
    names: Vec<u8>,
    /// Each partition's topic in them, its number, and whether there are records for it.
    partitions: Vec<(Range<usize>, i32, bool)>,
    /// The same for Python, once it has asked for all of them.
    tuple: OnceLock<Py<PyTuple>>,
}

static RECENT: Mutex<[Option<Arc<Asked>>; KEPT]> = Mutex::new([const { None }; KEPT]);

impl Asked {
    /// What `partitions` of a decoded body name.
    pub fn of(body: &[u8], partitions: &[PartitionData]) -> Arc<Self> {
        let Some(place) = place(body, partitions) else {
            return Arc::new(Self::new(body, partitions));
        };
        if let Some(known) = RECENT.lock()[place].as_ref()
            && known.is(body, partitions)
        {
            return Arc::clone(known);
        }
        let asked = Arc::new(Self::new(body, partitions));
        let replaced = RECENT.lock()[place].replace(Arc::clone(&asked));
        // Objects of Python are not dropped under a lock.
        drop(replaced);
        asked
    }

    fn new(body: &[u8], asked: &[PartitionData]) -> Self {
        let mut names = Vec::with_capacity(32);
        let mut partitions = Vec::with_capacity(asked.len());
        let mut last: Option<(&Range<usize>, Range<usize>)> = None;
        for data in asked {
            let name = match &last {
                Some((topic, name)) if **topic == data.topic => name.clone(),
                _ => {
                    let start = names.len();
                    names.extend_from_slice(&body[data.topic.clone()]);
                    start..names.len()
                }
            };
            last = Some((&data.topic, name.clone()));
            partitions.push((name, data.partition, has_records(data)));
        }
        Self {
            names,
            partitions,
            tuple: OnceLock::new(),
        }
    }

    /// All partitions for Python, which are made once.
    pub fn tuple(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        if let Some(tuple) = self.tuple.get() {
            return Ok(tuple.clone_ref(py));
        }
        let made = self.some(py, 0..self.len())?.unbind();
        Ok(self.tuple.get_or_init(|| made).clone_ref(py))
    }

    /// Those of `range` for Python, as far as there are any.
    pub fn some<'py>(&self, py: Python<'py>, range: Range<usize>) -> PyResult<Bound<'py, PyTuple>> {
        let stop = range.end.min(self.len());
        let rows = &self.partitions[range.start.min(stop)..stop];
        let mut last: Option<(&Range<usize>, Bound<'py, PyString>)> = None;
        let tuples = rows.iter().map(|(at, number, has_records)| {
            let name = match &last {
                Some((of, name)) if *of == at => name.clone(),
                // The decoder has checked that it is UTF-8.
                _ => PyString::new(
                    py,
                    std::str::from_utf8(&self.names[at.clone()]).unwrap_or_default(),
                ),
            };
            last = Some((at, name.clone()));
            (name, *number, *has_records).into_pyobject(py)
        });
        PyTuple::new(py, tuples.collect::<PyResult<Vec<_>>>()?)
    }

    fn is(&self, body: &[u8], asked: &[PartitionData]) -> bool {
        self.partitions.len() == asked.len()
            && self.partitions().zip(asked).all(|(known, data)| {
                known == (&body[data.topic.clone()], data.partition, has_records(data))
            })
    }

    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Topic, number, and whether there are records.
    pub fn partitions(&self) -> impl Iterator<Item = (&[u8], i32, bool)> {
        let partitions = self.partitions.iter();
        partitions.map(|(topic, number, has)| (&self.names[topic.clone()], *number, *has))
    }
}

fn has_records(data: &PartitionData) -> bool {
    data.records.as_ref().is_some_and(|range| !range.is_empty())
}

fn place(body: &[u8], asked: &[PartitionData]) -> Option<usize> {
    let (first, others) = asked.split_first()?;
    if others.len() >= PARTITIONS_MAX {
        return None;
    }
    let topic = crc32c(&body[first.topic.clone()]);
    let hash = asked.iter().fold(topic, |hash, data| {
        hash.rotate_left(5).wrapping_add(data.partition as u32)
    });
    // The high bits are as good as the low ones, and numbers that follow each other get places that do.
    Some((hash ^ hash >> 16) as usize % KEPT)
}
