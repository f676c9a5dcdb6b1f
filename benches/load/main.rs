//! The load generator of the benchmarks: `load '{"run": "drive", "address": "127.0.0.1:9092", ...}'`.
//!
//! One run is one JSON object in, as an argument, and one out, on stdout. It must never be the bottleneck beside a broker on the
//! same two cores: frames are encoded before the run, one thread serves all connections, nothing is allocated per request.
//!
//! * `drive`: sends the frames of files on many connections, closed loop (DEPTH in flight on each) or open loop (a fixed rate).
//! * `in_turn`: one frame after the other, each to its own server when the one before was answered.
//! * `check`: consumes partitions to their ends: count, checksum and whether each value is one of those that were sent.
//! * `end_to_end`: records at a fixed rate, from the moment each should have been sent until a consumer holds it.
//! * `handshakes`: connections by TLS that only begin.
//! * `echo`, `sendfile`: what a socket can do without a broker. `write`, `memory`: what the file system and the memory can.

mod check;
mod drive;
mod end_to_end;
mod handshakes;
mod in_turn;
mod latency;
mod limits;
mod link;
mod process;
mod socket;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(tag = "run", rename_all = "snake_case")]
enum Run {
    Drive(drive::Options),
    Check(check::Options),
    EndToEnd(end_to_end::Options),
    InTurn(in_turn::Options),
    Handshakes(handshakes::Options),
    Echo(limits::Echo),
    Sendfile(limits::Sendfile),
    Write(limits::Write),
    Memory(limits::Memory),
}

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|one| one != "--bench").collect();
    let [_, asked] = &arguments[..] else {
        eprintln!("usage: load JSON; see benches/load/main.rs");
        return;
    };
    let result = match serde_json::from_str(asked) {
        Err(error) => {
            eprintln!("load: {error} in {asked}");
            std::process::exit(2);
        }
        Ok(Run::Drive(options)) => drive::run(&options),
        Ok(Run::Check(options)) => check::run(&options),
        Ok(Run::EndToEnd(options)) => end_to_end::run(&options),
        Ok(Run::InTurn(options)) => in_turn::run(&options),
        Ok(Run::Handshakes(options)) => handshakes::run(&options),
        Ok(Run::Echo(options)) => limits::echo(&options),
        Ok(Run::Sendfile(options)) => limits::sendfile(&options),
        Ok(Run::Write(options)) => limits::write(&options),
        Ok(Run::Memory(options)) => limits::memory(&options),
    };
    println!("{result}");
}
