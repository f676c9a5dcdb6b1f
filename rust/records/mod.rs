//! Records: batches of format v2 (KIP-98) and messages of formats v0 and v1, read, checked, stamped, written, and decoded into columns.
//!
//! * `batch`: the header and the fields a broker stamps; `batches`: those of a buffer.
//! * `message_set`: the old formats, read as batches; `message_builder`: written; `convert`: from a new to an older one.
//! * `format_07`: what Kafka 0.7 wrote, to be imported.
//! * `validate`: what a broker checks before it takes a batch; `scratch`: the memory for records that are unpacked.
//! * `encode`, `decode`: batches from records, records from batches; `control`: transaction markers.
//! * `columns`: many records into Arrow-shaped `chunk`s, with what a consumer must not see left out (`aborted`).
//! * `rows`: a table's rows into batches, with the partition of each.
//! * `rewrite`: batches with fewer records than they had; `mirror`: batches for a partition of another cluster.
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
pub mod convert;
pub mod decode;
pub mod encode;
pub mod error;
pub mod format_07;
pub mod message_builder;
pub mod message_set;
pub mod mirror;
pub mod rewrite;
pub mod rows;
pub mod scratch;
pub mod validate;
pub mod varint;
pub mod walk;

pub use aborted::{AbortedTransaction, AbortedTransactions};
pub use batch::{BatchHeader, HEADER_BYTES, batch_size, check_crc, set_max_timestamp, stamp};
pub use batches::{Batch, Batches};
pub use chunk::{Chunk, Selection};
pub use columns::{ColumnDecoder, ColumnOptions, Pause, TimestampOverflow, TimestampUnit};
pub use compression::{Codec, Compressor};
pub use control::{Marker, Outcome};
pub use convert::{DownConverted, Wanted, down_convert};
pub use decode::{Headers, Record, Records};
pub use encode::{BatchBuilder, BatchOptions, Header};
pub use error::{ErrorKind, RecordError};
pub use message_builder::MessageBuilder;
pub use message_set::{set_timestamp, stamp_message};
pub use mirror::{Mirror, MirrorOptions, Mirrored};
pub use scratch::{Limits, Opened, Scratch};
pub use validate::{Produced, Validated, validate, validate_produced, validate_sent};

#[cfg(test)]
mod tests;
