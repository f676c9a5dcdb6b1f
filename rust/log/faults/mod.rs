//! Faults on purpose: power cuts, torn and failing writes, bits that flip.
//!
//! [`model`] runs random steps against a list in memory; [`power`] takes the power away at every single change of the disk; [`tails`] cuts the
//! last batch at every byte; [`overflow`] opens what an old broker left; [`directory`] does it to whole data directories, [`flips`] flips a bit
//! in each kind of file, and in [`full`] a disk has no room; in [`ends`] offsets and times are at the ends of their range; [`refused`] tries an append again that the disk refused; [`truncation`] looks at what a power cut leaves of one, [`followers`] at what it leaves of many at once. In [`panics`]
//! the mistake is ours. What random runs found is kept in [`found`].
//! Random choices come from a seed that a failing test prints: see [`seeds`].

mod directory;
mod ends;
mod entries;
mod flips;
mod followers;
mod found;
mod full;
mod model;
mod overflow;
mod panics;
mod power;
mod rebuilt;
mod refused;
pub mod seeds;
mod steps;
mod tails;
mod transactions;
mod truncation;
