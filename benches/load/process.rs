//! The CPU that other processes have used, from the system's own accounting.

/// Linux counts in these for everybody, whatever its own timer does.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of CPU, user and system, of all these processes since they began.
pub fn cpu_s(pids: &[u32]) -> f64 {
    let ticks: u64 = pids.iter().map(|&pid| ticks(pid)).sum();
    ticks as f64 / TICKS_PER_SECOND
}

fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name that may hold anything; the last ')' ends it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let number = |index: usize| fields.split_whitespace().nth(index)?.parse().ok();
    number(11).unwrap_or(0u64) + number(12).unwrap_or(0u64)
}
