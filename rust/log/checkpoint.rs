//! Checkpoint files: small tables of text, replaced whole.
//!
//! ```text
//! 0                     version
//! 2                     number of lines
//! orders 0 1234         topic partition offset     (leader-epoch-checkpoint: epoch offset)
//! orders 1 5678
//! ```
//!
//! Kafka refuses to start on a file whose count differs from its lines, so a file is written beside, fsynced and renamed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::error::{Context, LogError, Result};
use super::names::TopicPartition;
use crate::records::batch::is_offset;
use crate::storage::Storage;

pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
pub const START_OFFSETS: &str = "log-start-offset-checkpoint";
pub const CLEANED_OFFSETS: &str = "cleaner-offset-checkpoint";
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// Present only between a clean stop and the next start.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

const FILE_BYTES_MAX: u64 = 1 << 28;

/// An offset for each partition.
pub type Offsets = BTreeMap<TopicPartition, i64>;

/// The text of a checkpoint file with these lines.
pub fn encode(count: usize, lines: impl FnOnce(&mut String)) -> String {
    let mut text = String::with_capacity(16 + count * 32);
    let _ = writeln!(text, "0\n{count}");
    lines(&mut text);
    text
}

/// The lines of a checkpoint file, split into fields; none for a file that is missing or empty.
pub fn read<T>(
    storage: &dyn Storage,
    path: &Path,
    parse: impl Fn(&[&str]) -> Option<T>,
) -> Result<Vec<T>> {
    let bytes = match storage.read(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("read", path)?,
    };
    let corrupt = |line: usize, problem: String| LogError::Corrupt {
        path: path.to_owned(),
        position: 0,
        problem: format!("line {line}: {problem}"),
    };
    let text = String::from_utf8(bytes).map_err(|error| corrupt(0, error.to_string()))?;
    // Without this, the beginning of a last line that a power cut tore could pass for a smaller number.
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(corrupt(
            text.lines().count(),
            "the line is not ended".to_owned(),
        ));
    }
    let mut lines = text.lines().enumerate();
    let Some((_, version)) = lines.next() else {
        return Ok(Vec::new());
    };
    if version.trim() != "0" {
        return Err(corrupt(1, format!("version {version:?} is unknown")));
    }
    let Some((_, count)) = lines.next() else {
        return Ok(Vec::new());
    };
    let count: usize = count
        .trim()
        .parse()
        .map_err(|_| corrupt(2, format!("{count:?} is not a count")))?;
    let mut parsed = Vec::new();
    for (at, line) in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        parsed.push(
            parse(&fields).ok_or_else(|| corrupt(at + 1, format!("{line:?} has another form")))?,
        );
    }
    if parsed.len() != count {
        return Err(corrupt(
            2,
            format!("{count} lines are announced, {} are there", parsed.len()),
        ));
    }
    Ok(parsed)
}

pub fn read_offsets(storage: &dyn Storage, path: &Path) -> Result<Offsets> {
    let lines = read(storage, path, |fields| {
        let [topic, partition, offset] = fields else {
            return None;
        };
        Some((
            TopicPartition {
                topic: (*topic).to_owned(),
                partition: partition.parse().ok()?,
            },
            offset.parse().ok().filter(|offset| is_offset(*offset))?,
        ))
    })?;
    Ok(lines.into_iter().collect())
}

pub fn encode_offsets(offsets: &Offsets) -> String {
    encode(offsets.len(), |text| {
        for (partition, offset) in offsets {
            let _ = writeln!(text, "{} {} {offset}", partition.topic, partition.partition);
        }
    })
}
