//! Rows of a table into batches: what a sink for Spark does, with no work per record outside of this folder.
//!
//! * `column`: Arrow's layout (validity bits, positions, data), read where it lies.
//! * `encoder`: a batch per partition that is being filled; partitions chosen as Kafka's Java client does.
//! * `error`: which row, what is wrong.

pub mod column;
pub mod encoder;
pub mod error;

pub use column::{BinaryRows, FixedRows, HeaderRows};
pub use encoder::{Closed, RowEncoder, RowOptions, Rows, Stop, TopicOf};
pub use error::RowError;

#[cfg(test)]
mod tests;
