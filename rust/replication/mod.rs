//! Replication: what a follower fetches from leaders and appends to its logs.
//!
//! One [`Fetcher`] is one thread that fetches from one leader. It knows neither Python nor roles: the control plane says which partitions it
//! fetches and in which leader epoch, and hears of everything that it has to decide as an [`Event`].
//!
//! * `quota`: how many bytes of throttled partitions may go in a second, for both sides of a broker.
//! * `replica`: what a fetcher needs of a log.
//! * `session`: which partitions a request names (KIP-227); values, without I/O.
//! * `table`: what the thread shares with the control plane: partitions, events, figures.
//! * `connection`: the socket to the leader, its deadlines and the one buffer of answers.
//! * `greeting`: the beginning of a connection to a leader that has TLS, or wants to know who comes.
//! * `large`: the memory of answers that are larger than what was asked for.
//! * `fetcher`: the thread.

mod connection;
mod fetcher;
mod greeting;
mod large;
mod quota;
mod replica;
mod session;
mod table;

pub use fetcher::{Fetcher, FetcherSettings};
pub use greeting::{Begun, Conversation, Greeting, Next};
pub use large::LargeAnswers;
pub use quota::{Quota, Throttled, Window};
pub use replica::Replica;
pub use table::{Event, Figures, Kind, PartitionKey, Terms};

#[cfg(test)]
mod tests;
