//! One log against what it should do; the whole against a model and a breaking disk is in `model.rs`.

use std::sync::Arc;

use super::log::OpenMode;
use super::recovery::Hints;
use super::{AppendInfo, Home, Log, LogConfig, Origin};
use crate::records::{BatchBuilder, BatchOptions};

pub fn batch(values: &[&str], timestamp_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (at, value) in values.iter().enumerate() {
        let key = format!("k{at}");
        builder
            .append(
                timestamp_ms + at as i64,
                Some(key.as_bytes()),
                Some(value.as_bytes()),
                &[],
            )
            .unwrap();
    }
    builder.finish().unwrap()
}

pub fn append(log: &Log, values: &[&str], timestamp_ms: i64) -> AppendInfo {
    log.append(
        &mut batch(values, timestamp_ms),
        0,
        Origin::Client,
        timestamp_ms,
    )
    .unwrap()
}

pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.0.path().join("t-0")).unwrap();
        folder
    }

    pub fn open(&self, config: LogConfig, clean: bool) -> Arc<Log> {
        let home = Home::real(self.0.path());
        Log::open(
            &home,
            "t-0",
            config,
            Hints {
                clean,
                ..Hints::default()
            },
            OpenMode::Append,
        )
        .unwrap()
    }
}

#[test]
fn what_is_appended_is_read_and_survives_reopening() {
    let folder = Folder::new();
    for clean in [true, false] {
        let log = folder.open(LogConfig::default(), true);
        let start = log.end_offset();
        let first = append(&log, &["a", "b", "c"], 1000);
        assert_eq!((first.base_offset, first.last_offset), (start, start + 2));
        let second = append(&log, &["d"], 2000);
        assert_eq!(second.base_offset, start + 3);
        let info = log.read(start + 1, 1 << 20, i64::MAX, true).unwrap();
        let bytes = info.slice.unwrap().read().unwrap();
        let batches: Vec<_> = crate::records::Batches::new(&bytes)
            .map(Result::unwrap)
            .collect();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[0].header.base_offset, start);
        assert_eq!(
            log.offset_for_timestamp(1500)
                .unwrap()
                .unwrap()
                .timestamp_ms,
            2000
        );
        log.close(true).unwrap();
        let log = folder.open(LogConfig::default(), clean);
        assert_eq!(log.end_offset(), start + 4);
        log.close(true).unwrap();
    }
}
