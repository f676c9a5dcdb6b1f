//! Looking for damage without changing anything: every file of a partition, every batch, every record.
//!
//! Unlike recovery, which stops at the first damage, the search goes on: behind a batch that is broken inside it continues with the next
//! one, behind bytes that are no batch at all it looks for the next place where a whole valid batch starts.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::LEADER_EPOCHS;
use super::error::{Context, LogError, Result};
use super::files::Folder;
use super::index::Entry;
use super::leader_epochs::LeaderEpochs;
use super::names::{Kind, Suffix, parse_file_name};
use super::offset_index::{OffsetPosition, fits};
use super::producer_state::ProducerState;
use super::snapshots::end_marker;
use super::time_index::TimestampOffset;
use super::transaction_index;
use crate::records::{BatchHeader, HEADER_BYTES, Limits, Outcome, Scratch, batch_size, validate};
use crate::storage::{File, Mode, Storage};

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub path: PathBuf,
    /// In bytes from the start of the file.
    pub position: u64,
    pub problem: String,
}

/// The findings, and the numbers of what was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub damage: Vec<Damage>,
    pub segments: u64,
    pub batches: u64,
    pub records: u64,
    pub bytes: u64,
    /// The first and the next offset of what is whole, None in an empty log.
    pub offsets: Option<(i64, i64)>,
}

/// A batch as the indexes must know it.
struct Seen {
    position: u64,
    first_offset: i64,
    last_offset: i64,
    max_timestamp: i64,
    /// The producer whose transaction it aborts, and whether any of the transaction's batches is there.
    aborts: Option<(i64, bool)>,
}

struct Verifier<'a> {
    folder: Arc<Folder>,
    report: &'a mut Report,
    /// The first offset that may come next.
    next_offset: i64,
    last_epoch: i32,
    /// (epoch, first offset) as the batches say.
    epochs: Vec<(i32, i64)>,
    /// The table of the leader-epoch file, if it can be read.
    table: Option<LeaderEpochs>,
    /// Producers with batches of a transaction that is not ended yet.
    open: HashSet<i64>,
}

/// Checks the partition in `path`. An error only if its files cannot be read at all.
pub fn verify(storage: &Arc<dyn Storage>, path: &Path) -> Result<Report> {
    let mut report = Report::default();
    let folder = Folder::new(Arc::clone(storage), path);
    let mut files: BTreeMap<i64, Vec<(Kind, Suffix)>> = BTreeMap::new();
    let mut names: Vec<String> = storage
        .list(path)
        .context("list", path)?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    for name in names {
        if let Some((base_offset, kind, suffix)) = parse_file_name(&name) {
            files.entry(base_offset).or_default().push((kind, suffix));
        }
    }
    let table = LeaderEpochs::load(&folder).ok();
    let mut verifier = Verifier {
        folder,
        report: &mut report,
        next_offset: 0,
        last_epoch: -1,
        epochs: Vec::new(),
        table,
        open: HashSet::new(),
    };
    let last = files
        .iter()
        .rev()
        .find(|(_, files)| files.contains(&(Kind::Log, Suffix::None)));
    let last = last.map(|(base_offset, _)| *base_offset);
    for (base_offset, files) in &files {
        verifier.segment(*base_offset, files, Some(*base_offset) == last)?;
    }
    verifier.leader_epochs()?;
    Ok(report)
}

impl Verifier<'_> {
    fn damage(&mut self, path: &Path, position: u64, problem: impl Into<String>) {
        let damage = Damage {
            path: path.to_owned(),
            position,
            problem: problem.into(),
        };
        self.report.damage.push(damage);
    }

    /// An error about the content becomes a finding, any other is one.
    fn found<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(LogError::Corrupt {
                path,
                position,
                problem,
            }) => {
                self.damage(&path, position, problem);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn segment(
        &mut self,
        base_offset: i64,
        files: &[(Kind, Suffix)],
        is_active: bool,
    ) -> Result<()> {
        let has = |kind| files.contains(&(kind, Suffix::None));
        if !has(Kind::Log) {
            for kind in [Kind::OffsetIndex, Kind::TimeIndex, Kind::TransactionIndex] {
                if has(kind) {
                    let path = self.folder.file(base_offset, kind, Suffix::None);
                    self.damage(&path, 0, "an index without a log");
                }
            }
        } else {
            let seen = self.batches(base_offset)?;
            for kind in [Kind::OffsetIndex, Kind::TimeIndex] {
                let path = self.folder.file(base_offset, kind, Suffix::None);
                if !has(kind) {
                    self.damage(&path, 0, "missing");
                } else if kind == Kind::OffsetIndex {
                    self.offset_index(base_offset, &seen, &path)?;
                } else {
                    self.time_index(base_offset, &seen, &path, is_active)?;
                }
            }
            let kind = Kind::TransactionIndex;
            self.transaction_index(base_offset, &seen, has(kind))?;
        }
        if has(Kind::Snapshot) {
            let path = self.folder.file(base_offset, Kind::Snapshot, Suffix::None);
            let bytes = self
                .folder
                .storage
                .read(&path, u64::MAX)
                .context("read", &path)?;
            if ProducerState::from_snapshot(&bytes, base_offset).is_none() {
                self.damage(&path, 0, "its checksum or length is wrong");
            }
        }
        Ok(())
    }

    fn batches(&mut self, base_offset: i64) -> Result<Vec<Seen>> {
        let path = self.folder.file(base_offset, Kind::Log, Suffix::None);
        let file = self
            .folder
            .storage
            .open(&path, Mode::Read)
            .context("open", &path)?;
        let length = file.length().context("look at", &path)?;
        self.report.segments += 1;
        self.report.bytes += length;
        if base_offset < self.next_offset {
            let end = self.next_offset;
            self.damage(
                &path,
                0,
                format!("the segment starts before the one before it ends, at {end}"),
            );
        }
        self.next_offset = base_offset;
        let mut reader = Reader {
            file,
            path: path.clone(),
            length,
            bytes: Vec::new(),
        };
        let (mut seen, mut position, mut scratch) = (Vec::new(), 0, Scratch::default());
        while position < length {
            match self.batch(base_offset, &mut reader, position, &mut scratch)? {
                Ok(batch) => {
                    position += reader.bytes.len() as u64;
                    seen.push(batch);
                }
                Err((problem, size)) => {
                    self.damage(&path, position, problem);
                    position = match size {
                        Some(size) => position + size,
                        None => reader.next_batch(position + 1)?.unwrap_or(length),
                    };
                }
            }
        }
        Ok(seen)
    }

    /// The batch at `position`, left in the reader; or what is wrong, and its size if that can be believed.
    #[allow(clippy::type_complexity)]
    fn batch(
        &mut self,
        base_offset: i64,
        reader: &mut Reader,
        position: u64,
        scratch: &mut Scratch,
    ) -> Result<std::result::Result<Seen, (String, Option<u64>)>> {
        let header = match reader.header(position)? {
            Ok(header) => header,
            Err(problem) => return Ok(Err((problem, None))),
        };
        reader.read(position, header.size_bytes())?;
        // Of a message set only its records know the first offset.
        let header = match validate(&reader.bytes, &Limits::default(), scratch) {
            Ok(validated) => validated.header,
            Err(error) => {
                // The length is right if a batch starts behind it.
                let size = header.size_bytes() as u64;
                let follows =
                    position + size == reader.length || reader.header(position + size)?.is_ok();
                return Ok(Err((error.to_string(), follows.then_some(size))));
            }
        };
        let (first_offset, last_offset) = (header.base_offset, header.last_offset());
        let size = Some(header.size_bytes() as u64);
        if first_offset < self.next_offset || last_offset < first_offset {
            let problem = format!(
                "offset {first_offset}, {} or more was expected",
                self.next_offset
            );
            return Ok(Err((problem, size)));
        }
        if !fits(base_offset, last_offset) {
            return Ok(Err((
                format!("offset {last_offset} is too far from the segment's first"),
                size,
            )));
        }
        // A message of an old format has none.
        let is_lower = header.leader_epoch < self.last_epoch && !header.is_message();
        // Leader epochs begin anew below those of a log when the coordination tree was restored, or made anew. Then the table says so.
        let is_known = self
            .table
            .as_ref()
            .is_some_and(|table| table.epoch_of(first_offset) == header.leader_epoch);
        if is_lower && !is_known {
            let problem = format!(
                "leader epoch {} after {}",
                header.leader_epoch, self.last_epoch
            );
            return Ok(Err((problem, size)));
        }
        if header.is_message() {
            // What has no epoch ends what is known of epochs.
            self.epochs.clear();
            self.last_epoch = -1;
        } else if header.leader_epoch != self.last_epoch {
            self.epochs
                .retain(|(epoch, _)| *epoch < header.leader_epoch);
            self.epochs.push((header.leader_epoch, first_offset));
            self.last_epoch = header.leader_epoch;
        }
        let aborts = self.transaction(&header, &reader.bytes);
        self.next_offset = last_offset + 1;
        self.report.batches += 1;
        self.report.records += header.record_count as u64;
        let start = self.report.offsets.map_or(first_offset, |(start, _)| start);
        self.report.offsets = Some((start, self.next_offset));
        Ok(Ok(Seen {
            position,
            first_offset,
            last_offset,
            max_timestamp: header.max_timestamp,
            aborts,
        }))
    }

    /// Follows the transaction of the batch's producer. For a marker that aborts it, returns the
    /// producer id, and true if batches of the transaction are in the log.
    fn transaction(&mut self, header: &BatchHeader, bytes: &[u8]) -> Option<(i64, bool)> {
        let producer_id = header.producer_id;
        if !header.is_transactional() {
            return None;
        }
        if !header.is_control() {
            self.open.insert(producer_id);
            return None;
        }
        let has_batches = self.open.remove(&producer_id);
        let marker = end_marker(bytes, header)?;
        (marker.outcome == Outcome::Abort).then_some((producer_id, has_batches))
    }

    /// Every entry is about an abortion in this segment, and every abortion of a batch that is there has an entry.
    fn transaction_index(&mut self, base_offset: i64, seen: &[Seen], is_there: bool) -> Result<()> {
        let folder = Arc::clone(&self.folder);
        let path = folder.file(base_offset, Kind::TransactionIndex, Suffix::None);
        let bytes = if is_there {
            let bytes = folder.storage.read(&path, u64::MAX);
            bytes.context("read", &path)?
        } else {
            Vec::new()
        };
        let (entries, unread) = transaction_index::entries(&bytes);
        if let Some(at) = unread {
            self.damage(&path, at as u64, "no entry of a known version");
        }
        let mut known = HashSet::new();
        let mut last = (i64::MIN, i64::MIN);
        for (number, entry) in entries.iter().enumerate() {
            let at = (number * transaction_index::ENTRY_BYTES) as u64;
            let marker = seen.binary_search_by_key(&entry.last_offset, |batch| batch.first_offset);
            let aborts = marker.ok().and_then(|marker| seen[marker].aborts);
            if aborts.map(|(producer_id, _)| producer_id) != Some(entry.producer_id) {
                let (producer_id, offset) = (entry.producer_id, entry.last_offset);
                let problem = format!("no marker at {offset} aborts for producer {producer_id}");
                self.damage(&path, at, problem);
            }
            let current = (entry.last_offset, entry.last_stable_offset);
            if current.0 <= last.0
                || current.1 < last.1
                || entry.first_offset > entry.last_offset
                || entry.last_stable_offset > entry.last_offset.saturating_add(1)
            {
                let problem = match number {
                    0 => format!("{entry} cannot be"),
                    _ => format!("{entry} cannot stand behind {}", entries[number - 1]),
                };
                self.damage(&path, at, problem);
            }
            last = current;
            known.insert(entry.last_offset);
        }
        for batch in seen {
            if let Some((producer_id, true)) = batch.aborts
                && !known.contains(&batch.first_offset)
            {
                let problem = format!(
                    "the transaction of producer {producer_id} that was aborted at {} is missing",
                    batch.first_offset
                );
                self.damage(&path, 0, problem);
            }
        }
        Ok(())
    }

    fn offset_index(&mut self, base_offset: i64, seen: &[Seen], path: &Path) -> Result<()> {
        for (at, entry) in self.entries::<OffsetPosition>(base_offset, path)? {
            let place = u64::from(entry.position);
            let batch = seen.binary_search_by_key(&place, |batch| batch.position);
            match batch.map(|batch| &seen[batch]) {
                Err(_) => self.damage(
                    path,
                    at,
                    format!("offset {}: no whole batch at byte {place}", entry.offset),
                ),
                // Kafka's followers index the last of several batches that they append at once.
                Ok(batch) if entry.offset < batch.first_offset => {
                    self.damage(
                        path,
                        at,
                        format!(
                            "offset {}: the batch has {}",
                            entry.offset, batch.first_offset
                        ),
                    );
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    fn time_index(
        &mut self,
        base_offset: i64,
        seen: &[Seen],
        path: &Path,
        is_active: bool,
    ) -> Result<()> {
        let mut last = -1;
        for (at, entry) in self.entries::<TimestampOffset>(base_offset, path)? {
            let upto = seen.partition_point(|batch| batch.first_offset <= entry.offset);
            let greatest = seen[..upto].iter().map(|batch| batch.max_timestamp).max();
            if upto == 0 || entry.offset > seen[upto - 1].last_offset {
                self.damage(path, at, format!("no batch has offset {}", entry.offset));
            } else if greatest != Some(entry.timestamp_ms) {
                let problem = format!(
                    "timestamp {} at offset {}, the batches have {greatest:?}",
                    entry.timestamp_ms, entry.offset
                );
                self.damage(path, at, problem);
            }
            last = entry.timestamp_ms;
        }
        // The active segment gets its last entry when it is closed.
        let greatest = seen
            .iter()
            .map(|batch| batch.max_timestamp)
            .max()
            .unwrap_or(-1);
        if !is_active && greatest > last {
            self.damage(
                path,
                0,
                format!("ends with timestamp {last}, the segment's greatest is {greatest}"),
            );
        }
        Ok(())
    }

    /// The entries of an index with their positions in the file, as far as they are in order.
    fn entries<E: Entry>(&mut self, base_offset: i64, path: &Path) -> Result<Vec<(u64, E)>> {
        let bytes = self
            .folder
            .storage
            .read(path, u64::MAX)
            .context("read", path)?;
        if bytes.len() % E::BYTES != 0 {
            let at = bytes.len() - bytes.len() % E::BYTES;
            self.damage(
                path,
                at as u64,
                format!("{} bytes are no multiple of {}", bytes.len(), E::BYTES),
            );
        }
        let mut entries: Vec<(u64, E)> = Vec::new();
        for (number, chunk) in bytes.chunks_exact(E::BYTES).enumerate() {
            if chunk.iter().all(|byte| *byte == 0) {
                // What Kafka preallocates for an active segment.
                continue;
            }
            let (at, entry) = ((number * E::BYTES) as u64, E::decode(chunk, base_offset));
            match entries.last() {
                Some((_, last)) if entry.key() <= last.key() || entry.offset() < last.offset() => {
                    self.damage(path, at, format!("{entry} stands behind {last}"));
                }
                _ => entries.push((at, entry)),
            }
        }
        Ok(entries)
    }

    fn leader_epochs(&mut self) -> Result<()> {
        let folder = Arc::clone(&self.folder);
        let path = folder.join(LEADER_EPOCHS);
        let loaded = LeaderEpochs::load(&folder);
        let Some(table) = self.found(loaded)? else {
            return Ok(());
        };
        let Some(first) = table.entries().first() else {
            return Ok(());
        };
        for (epoch, first_offset) in std::mem::take(&mut self.epochs) {
            let known = table.epoch_of(first_offset);
            // What was deleted from the front goes from the table at once, and from the files with the whole segment.
            let deleted = first_offset < first.start_offset && epoch <= first.epoch;
            if epoch >= 0 && known != epoch && !deleted {
                self.damage(
                    &path,
                    0,
                    format!("offset {first_offset} is of epoch {epoch}, the table says {known}"),
                );
            }
        }
        Ok(())
    }
}

struct Reader {
    file: Arc<dyn File>,
    path: PathBuf,
    length: u64,
    bytes: Vec<u8>,
}

impl Reader {
    fn read(&mut self, position: u64, length: usize) -> Result<()> {
        self.bytes.resize(length, 0);
        let read = self
            .file
            .read_at(&mut self.bytes, position)
            .context("read", &self.path)?;
        self.bytes.truncate(read);
        Ok(())
    }

    fn header(&self, position: u64) -> Result<std::result::Result<BatchHeader, String>> {
        let mut bytes = [0; HEADER_BYTES];
        let read = self
            .file
            .read_at(&mut bytes, position)
            .context("read", &self.path)?;
        let left = self.length - position;
        Ok(match BatchHeader::parse(&bytes[..read]) {
            Ok(header) if header.size_bytes() as u64 > left => Err(format!(
                "a torn batch: it has {} bytes, {left} are there",
                header.size_bytes()
            )),
            Ok(header) => Ok(header),
            Err(error) => Err(error.to_string()),
        })
    }

    /// The first position from `position` on where a whole valid batch starts.
    fn next_batch(&mut self, position: u64) -> Result<Option<u64>> {
        let (mut at, mut scratch) = (position, Scratch::default());
        while at < self.length {
            self.read(at, 1 << 20)?;
            let chunk = std::mem::take(&mut self.bytes);
            for (offset, window) in chunk.windows(17).enumerate() {
                // All zeros look like a message of format 0, of no length.
                let sized = batch_size(window).is_ok_and(|size| size as u64 <= self.length - at);
                if !sized {
                    continue;
                }
                let candidate = at + offset as u64;
                if let Ok(header) = self.header(candidate)? {
                    self.read(candidate, header.size_bytes())?;
                    if validate(&self.bytes, &Limits::default(), &mut scratch).is_ok() {
                        return Ok(Some(candidate));
                    }
                }
            }
            if chunk.len() <= 17 {
                break;
            }
            at += chunk.len() as u64 - 16;
        }
        Ok(None)
    }
}
