//! Columns of records in memory as Arrow lays them out, so that they become Arrow arrays without a copy.
//!
//! A binary column is int32 positions (one more than rows), the bytes, and a bitmap (bit i of byte i/8, low bits first) of what
//! is not null. Headers are a list per record: positions into two columns of names and values. Appending takes no allocation
//! per record: all vectors double, and a new chunk starts with about the room that the last one needed.

/// Not-null flags, one bit a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bitmap {
    pub bits: Vec<u8>,
    pub null_count: usize,
    rows: usize,
}

impl Bitmap {
    #[inline(always)]
    fn push(&mut self, valid: bool) {
        if self.rows % 8 == 0 {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(valid) << (self.rows % 8);
        }
        self.null_count += usize::from(!valid);
        self.rows += 1;
    }

    /// For columns that hardly ever have a null: nothing is noted before the first one, which comes after `before` rows.
    #[inline(always)]
    fn push_rare(&mut self, valid: bool, before: usize) {
        if valid && self.rows == 0 {
            return;
        }
        while self.rows < before {
            self.push(true);
        }
        self.push(valid);
    }
}

/// Nullable byte strings.
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryColumn {
    /// Where each row starts in `data`, and at the end where the last one ends.
    pub positions: Vec<i32>,
    pub data: Vec<u8>,
    pub validity: Bitmap,
}

impl BinaryColumn {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut positions = Vec::with_capacity(rows + 1);
        positions.push(0);
        let bits = Vec::with_capacity(rows.div_ceil(8));
        BinaryColumn {
            positions,
            data: Vec::with_capacity(bytes),
            validity: Bitmap {
                bits,
                ..Bitmap::default()
            },
        }
    }

    #[inline(always)]
    fn push(&mut self, bytes: Option<&[u8]>) {
        self.data.extend_from_slice(bytes.unwrap_or_default());
        // The decoder keeps a chunk's bytes under 2^31.
        self.positions.push(self.data.len() as i32);
        self.validity.push(bytes.is_some());
    }

    /// The bytes of a row; `None` for null or a row that is not there.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let valid = self.validity.bits.get(row / 8)? >> (row % 8) & 1 == 1;
        let (start, end) = (
            *self.positions.get(row)? as usize,
            *self.positions.get(row + 1)? as usize,
        );
        if valid {
            self.data.get(start..end)
        } else {
            None
        }
    }
}

/// A list of (name, value) per record; null for a record without headers, as Spark's Kafka source has it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderColumn {
    /// Where each record's headers start in `names` and `values`.
    pub positions: Vec<i32>,
    pub validity: Bitmap,
    /// Valid UTF-8; what is not is replaced by U+FFFD, as the Java client does.
    pub names: BinaryColumn,
    pub values: BinaryColumn,
}

impl HeaderColumn {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut positions = Vec::with_capacity(rows + 1);
        positions.push(0);
        let some = bytes.min(1);
        HeaderColumn {
            positions,
            validity: Bitmap::default(),
            names: BinaryColumn::with_capacity(rows * some, bytes),
            values: BinaryColumn::with_capacity(rows * some, bytes),
        }
    }

    pub(super) fn push_header(&mut self, name: &[u8], value: Option<&[u8]>) {
        match std::str::from_utf8(name) {
            Ok(_) => self.names.push(Some(name)),
            Err(_) => self
                .names
                .push(Some(String::from_utf8_lossy(name).as_bytes())),
        }
        self.values.push(value);
    }

    /// Ends the headers of one record.
    #[inline(always)]
    pub(super) fn end_record(&mut self, has_headers: bool) {
        self.positions.push((self.names.positions.len() - 1) as i32);
        self.validity.push(has_headers);
    }
}

/// Which columns are decoded. The others stay empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    pub offset: bool,
    pub timestamp: bool,
    pub timestamp_type: bool,
    pub key: bool,
    pub value: bool,
    pub headers: bool,
}

impl Selection {
    pub const NAMES: [&'static str; 6] = [
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    ];

    pub const ALL: Selection = Selection {
        offset: true,
        timestamp: true,
        timestamp_type: true,
        key: true,
        value: true,
        headers: true,
    };

    pub const NONE: Selection = Selection {
        offset: false,
        timestamp: false,
        timestamp_type: false,
        key: false,
        value: false,
        headers: false,
    };

    /// Adds a column by its name; false for a name that is none.
    pub fn add(&mut self, name: &str) -> bool {
        match name {
            "offset" => self.offset = true,
            "timestamp" => self.timestamp = true,
            "timestamp_type" => self.timestamp_type = true,
            "key" => self.key = true,
            "value" => self.value = true,
            "headers" => self.headers = true,
            _ => return false,
        }
        true
    }
}

/// Some consecutive records of a partition, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub selection: Selection,
    pub rows: usize,
    pub offsets: Vec<i64>,
    pub timestamps: Vec<i64>,
    /// Empty if no timestamp is null.
    pub timestamp_validity: Bitmap,
    /// 0: the producer's time, 1: the append time, -1: format 0, which has none.
    pub timestamp_types: Vec<i32>,
    pub keys: BinaryColumn,
    pub values: BinaryColumn,
    pub headers: HeaderColumn,
    /// The bytes that the selected variable columns take, for the limit of a chunk.
    pub bytes: usize,
}

/// One record, as the decoder hands it over.
pub(super) struct Row<'a> {
    pub offset: i64,
    /// `None`: null.
    pub timestamp: Option<i64>,
    pub timestamp_type: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

impl Chunk {
    /// An empty chunk with about as much room as `last` took.
    pub fn like(selection: Selection, last: Option<&Chunk>) -> Self {
        let rows_of = |selected: bool| {
            if selected {
                last.map_or(0, |last| last.rows)
            } else {
                0
            }
        };
        // A little more than last time: growing copies everything.
        let bytes_of =
            |column: fn(&Chunk) -> usize| last.map_or(0, |last| column(last) + column(last) / 8);
        Chunk {
            selection,
            rows: 0,
            offsets: Vec::with_capacity(rows_of(selection.offset)),
            timestamps: Vec::with_capacity(rows_of(selection.timestamp)),
            timestamp_validity: Bitmap::default(),
            timestamp_types: Vec::with_capacity(rows_of(selection.timestamp_type)),
            keys: BinaryColumn::with_capacity(
                rows_of(selection.key),
                bytes_of(|last| last.keys.data.len()),
            ),
            values: BinaryColumn::with_capacity(
                rows_of(selection.value),
                bytes_of(|last| last.values.data.len()),
            ),
            headers: HeaderColumn::with_capacity(
                rows_of(selection.headers),
                bytes_of(|last| {
                    last.headers
                        .names
                        .data
                        .len()
                        .max(last.headers.values.data.len())
                }),
            ),
            bytes: 0,
        }
    }

    /// The caller pushes the headers, before, and only if they are selected.
    #[inline(always)]
    pub(super) fn push(&mut self, row: &Row<'_>) {
        if self.selection.offset {
            self.offsets.push(row.offset);
        }
        if self.selection.timestamp {
            self.timestamps.push(row.timestamp.unwrap_or_default());
            self.timestamp_validity
                .push_rare(row.timestamp.is_some(), self.rows);
        }
        if self.selection.timestamp_type {
            self.timestamp_types.push(row.timestamp_type);
        }
        if self.selection.key {
            self.keys.push(row.key);
        }
        if self.selection.value {
            self.values.push(row.value);
        }
        self.rows += 1;
    }
}
