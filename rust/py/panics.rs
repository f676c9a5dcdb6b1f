//! Panics of Rust threads in Python's log.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use pyo3::prelude::*;

use crate::io::panics;

pub fn register() {
    panics::report_to(tell);
}

/// Hands the line to a thread of its own: the one that met the panic may be waited for by whoever holds the interpreter.
fn tell(line: String) {
    static LINES: OnceLock<Option<Sender<String>>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (sender, lines) = channel();
        let thread = std::thread::Builder::new().name("ottla-panics".to_owned());
        let run = move || lines.iter().for_each(log);
        thread.spawn(run).ok().map(|_| sender)
    });
    match lines {
        Some(sender) => drop(sender.send(line)),
        None => eprintln!("{line}"),
    }
}

fn log(line: String) {
    let logged = Python::try_attach(|py| {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("ottla.native",))?;
        logger
            .call_method1("error", ("%s; others are served on", line.as_str()))
            .map(drop)
    });
    // The interpreter is about to end, or its log does not work.
    if !matches!(logged, Some(Ok(()))) {
        eprintln!("{line}");
    }
}
