//! Which segments become one: neighbours that together fit into one segment, so that cleaning does not leave thousands of small files.

use std::sync::Arc;

use crate::log::config::LogConfig;
use crate::log::error::Result;
use crate::log::index::Entry;
use crate::log::offset_index::OffsetPosition;
use crate::log::segment::Segment;
use crate::log::time_index::TimestampOffset;

/// The files of a group are held for a moment when it is swapped.
const SEGMENTS_MAX: usize = 1000;

/// The sizes of a segment that count for its group.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    base_offset: i64,
    bytes: u64,
    offset_index_bytes: usize,
    time_index_bytes: usize,
}

/// Splits segments (all closed, in order) into groups; `end_offset` is where the last one ends.
pub fn group(
    segments: &[Arc<Segment>],
    end_offset: i64,
    config: &LogConfig,
) -> Result<Vec<Vec<Arc<Segment>>>> {
    let sizes: Vec<Size> = segments
        .iter()
        .map(|segment| {
            Ok(Size {
                base_offset: segment.base_offset,
                bytes: segment.size_bytes(),
                offset_index_bytes: segment.offset_index.len()? * OffsetPosition::BYTES,
                time_index_bytes: segment.time_index.len()? * TimestampOffset::BYTES,
            })
        })
        .collect::<Result<_>>()?;
    let mut rest = segments.iter().cloned();
    Ok(lengths(&sizes, end_offset, config)
        .into_iter()
        .map(|length| rest.by_ref().take(length).collect())
        .collect())
}

/// How many segments each group has.
fn lengths(sizes: &[Size], end_offset: i64, config: &LogConfig) -> Vec<usize> {
    let (mut lengths, mut group, mut count) = (Vec::new(), Size::default(), 0);
    for (at, size) in sizes.iter().enumerate() {
        let next_base = sizes
            .get(at + 1)
            .map_or(end_offset, |next| next.base_offset);
        let joined = Size {
            base_offset: group.base_offset,
            bytes: group.bytes + size.bytes,
            offset_index_bytes: group.offset_index_bytes + size.offset_index_bytes,
            time_index_bytes: group.time_index_bytes + size.time_index_bytes,
        };
        let index_bytes_max = config.segment_index_bytes as usize;
        let fits = joined.bytes <= u64::from(config.segment_bytes)
            && joined.offset_index_bytes <= index_bytes_max
            && joined.time_index_bytes <= index_bytes_max
            && next_base - 1 - group.base_offset <= i64::from(i32::MAX)
            && count < SEGMENTS_MAX;
        if count > 0 && fits {
            (group, count) = (joined, count + 1);
        } else {
            if count > 0 {
                lengths.push(count);
            }
            (group, count) = (*size, 1);
        }
    }
    if count > 0 {
        lengths.push(count);
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base_offset: i64, bytes: u64, index_bytes: usize) -> Size {
        Size {
            base_offset,
            bytes,
            offset_index_bytes: index_bytes,
            time_index_bytes: index_bytes,
        }
    }

    fn config() -> LogConfig {
        LogConfig {
            segment_bytes: 1000,
            segment_index_bytes: 80,
            ..LogConfig::default()
        }
    }

    #[test]
    fn neighbours_are_joined_while_they_fit() {
        let bytes = [600, 400, 1, 2000, 500, 0, 500, 1];
        let sizes: Vec<_> = (0..8)
            .map(|at| segment(at as i64 * 10, bytes[at], 0))
            .collect();
        assert_eq!(lengths(&sizes, 80, &config()), [2, 1, 1, 3, 1]);
        assert_eq!(lengths(&[], 0, &config()), [0; 0]);
    }

    #[test]
    fn indexes_fit_too() {
        let sizes: Vec<_> = (0..5).map(|at| segment(at * 10, 1, 32)).collect();
        assert_eq!(lengths(&sizes, 50, &config()), [2, 2, 1]);
    }

    #[test]
    fn offsets_stay_in_reach_of_the_first() {
        let far = i64::from(i32::MAX);
        let sizes = [segment(0, 1, 0), segment(10, 1, 0), segment(far, 1, 0)];
        assert_eq!(lengths(&sizes, far + 1, &config()), [3]);
        assert_eq!(lengths(&sizes, far + 2, &config()), [2, 1]);
        let sizes = [segment(0, 1, 0), segment(10, 1, 0), segment(far + 2, 1, 0)];
        assert_eq!(lengths(&sizes, far + 3, &config()), [1, 2]);
    }
}
