//! Kafka's protocol: primitives and headers, a walker for declared message schemas, and Produce and Fetch by hand.
//!
//! * `error`: what can be wrong with bytes or with a message.
//! * `piece`: answers as bytes and file slices.
//! * `primitives`: checked readers and writers of the basic types.
//! * `headers`: request and response headers, and from which version each API is flexible.

pub mod error;
pub mod headers;
pub mod piece;
pub mod primitives;
pub mod schema;
pub mod walk;

pub use error::WireError;
