//! The errors of a record batch or a message: which field, where, whose fault.

use std::borrow::Cow;
use std::fmt;

/// The kinds of damage, each with Kafka's error code for an answer to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The buffer ends inside a batch. Normal at the end of a fetched buffer or of a log that is being written.
    Incomplete,
    /// Checksum, lengths or compressed bytes that no writer of the format produces.
    Corrupt,
    /// Readable, but the content breaks a rule (counts that disagree, a null key where one is needed, ...).
    InvalidRecord,
    /// A compression codec that the format does not know.
    UnsupportedCompression,
    /// Larger than the limit, packed or unpacked.
    TooLarge,
    /// A timestamp that the topic does not accept.
    InvalidTimestamp,
}

/// An error in a batch: the field (named as in the format's description), its position in bytes and what is wrong.
///
/// `position` counts from the start of the buffer that was given; for records of a compressed batch it counts from
/// the start of the decompressed records, and `in_decompressed` is true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RecordError {
    pub kind: ErrorKind,
    pub field: &'static str,
    pub position: usize,
    pub in_decompressed: bool,
    /// The index of the record in its batch, where one record is at fault.
    pub record: Option<u32>,
    pub problem: Cow<'static, str>,
}

impl RecordError {
    #[cold]
    pub fn new(
        kind: ErrorKind,
        field: &'static str,
        position: usize,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        RecordError {
            kind,
            field,
            position,
            in_decompressed: false,
            record: None,
            problem: problem.into(),
        }
    }

    #[cold]
    pub fn corrupt(
        field: &'static str,
        position: usize,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorKind::Corrupt, field, position, problem)
    }

    #[cold]
    pub fn invalid(
        field: &'static str,
        position: usize,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorKind::InvalidRecord, field, position, problem)
    }

    pub fn of_record(mut self, index: u32) -> Self {
        self.record = Some(index);
        self
    }

    /// The same error seen from a buffer in which the batch starts at `start`.
    pub fn moved_by(mut self, start: usize) -> Self {
        if !self.in_decompressed {
            self.position += start;
        }
        self
    }

    /// True if more bytes could make the buffer valid.
    pub fn is_incomplete(&self) -> bool {
        self.kind == ErrorKind::Incomplete
    }

    /// Kafka's error code, as in a Produce response.
    pub fn code(&self) -> i16 {
        match self.kind {
            ErrorKind::Incomplete | ErrorKind::Corrupt => 2,
            ErrorKind::TooLarge => 10,
            ErrorKind::InvalidTimestamp => 32,
            ErrorKind::UnsupportedCompression => 76,
            ErrorKind::InvalidRecord => 87,
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if let Some(record) = self.record {
            write!(f, " of record {record}")?;
        }
        let space = if self.in_decompressed {
            " of the decompressed records"
        } else {
            ""
        };
        write!(f, " at byte {}{space}: {}", self.position, self.problem)
    }
}
