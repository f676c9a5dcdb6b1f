//! Kafka's protocol: primitives and headers, a walker for declared message schemas, and Produce and Fetch by hand.
//!
//! * `error`: what can be wrong with bytes or with a message.
//! * `primitives`: checked readers and writers of the basic types.
//! * `keys`: the numbers of APIs.
//! * `headers`: request and response headers.
//! * `schema`, `walk`: declared messages, compiled per version, and the walk along them.
//! * `produce`, `fetch`: the hot ones by hand.
//! * `piece`: answers as bytes and file slices.
//! * `names`, `named`: names of topics and the partitions of a request, kept without its body.

pub mod error;
pub mod fetch;
pub mod headers;
pub mod keys;
pub mod named;
pub mod names;
pub mod piece;
pub mod primitives;
pub mod produce;
pub mod schema;
pub mod walk;

pub use error::WireError;

#[cfg(test)]
mod tests;
