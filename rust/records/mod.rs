//! Record batches, format v2 (KIP-98): read, check, stamp, write, and decode into columns.
//!
//! * `batch`: the header and the fields a broker stamps; `batches`: those of a buffer.
//! * `validate`: what a broker checks before it takes a batch.
//! * `encode`, `decode`: batches from records, records from batches; `control`: transaction markers.
//! * `columns`: many records into Arrow-shaped `chunk`s, with what a consumer must not see left out (`aborted`).
//! * `walk`, `varint`: one record, read where it lies.
//! * `error`: what is wrong, in which field, where.
//! * `compression`: gzip, snappy, lz4, zstd, each with a bound on what it may unpack.

pub mod aborted;
pub mod batch;
pub mod batches;
pub mod chunk;
pub mod columns;
pub mod compression;
pub mod control;
pub mod decode;
pub mod encode;
pub mod error;
pub mod validate;
pub mod varint;
pub mod walk;

pub use aborted::{AbortedTransaction, AbortedTransactions};
pub use batch::{BatchHeader, HEADER_BYTES, batch_size, check_crc, set_max_timestamp, stamp};
pub use batches::{Batch, Batches};
pub use chunk::{Chunk, Selection};
pub use columns::{ColumnDecoder, ColumnOptions, Pause, TimestampUnit};
pub use compression::Codec;
pub use control::{Marker, Outcome};
pub use decode::{Headers, Record, Records};
pub use encode::{BatchBuilder, BatchOptions, Header};
pub use error::{ErrorKind, RecordError};
pub use validate::{Limits, Scratch, Validated, keyless_records, validate};

#[cfg(test)]
mod tests;
