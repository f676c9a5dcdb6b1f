//! The hub: sockets, frames in, ordered replies out.
//!
//! * `hub`: readiness and turns: who is read, served and sent to when (`turns`), which frames become requests (`gate`),
//!   what handlers say (`answers`), who comes and goes (`arrivals`).
//!   Several threads may have a hub each: `hubs`, `acceptor`, `joint`.
//! * `listeners`: accepting, and how many may come from where; `rate`: how many in a second.
//! * `connection`: one connection's parts and what can be done with them; `table`: all of one hub.
//! * `input`: bytes to frames; `frames`: their pooled memory.
//! * `session`: who may speak. `admission`: what is refused before anybody handles it; `strangers`: who
//!   seems to have come to the wrong port.
//! * `parts`: a frame shared by the appends of its partitions.
//! * `slots`: the order of answers, and who may pass whom.
//! * `transport`: how the bytes of a connection move; `tls`: how they are encrypted.
//! * `reply`: unsent output, memory and file slices; `cold`: slices that are not in the page cache.
//! * `meter`: what requests cost, for metrics; `times`: which part of a request's time went where.
//! * `limits`: every bound, with its reason.
//! * `budget`: the accounts of memory, and who holds it without need while it is short.

pub mod admission;
pub mod budget;
pub mod cold;
pub mod connection;
pub mod frames;
pub mod hub;
pub mod input;
pub mod limits;
pub mod listeners;
pub mod meter;
pub mod parts;
pub mod rate;
pub mod reply;
pub mod session;
pub mod slots;
pub mod strangers;
pub mod table;
#[cfg(test)]
mod tests;
pub mod times;
pub mod tls;
pub mod transport;
