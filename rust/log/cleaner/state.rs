//! The state that a log has of its own cleaning.

use crate::log::error::LogError;
use crate::log::log::Log;

#[derive(Debug, Default)]
pub struct Cleaned {
    /// Everything before is clean; None if the log never was cleaned.
    offset: Option<i64>,
    /// Why it is not cleaned any more.
    set_aside: Option<String>,
}

impl Log {
    /// Where the last cleaning ended: everything before is clean. None if there was none.
    pub fn cleaned_offset(&self) -> Option<i64> {
        self.cleaned.lock().offset
    }

    /// Everything before `offset` is clean.
    pub fn note_cleaned(&self, offset: i64) {
        self.cleaned.lock().offset = Some(offset);
    }

    pub(in crate::log) fn restore_cleaned_offset(&self, offset: Option<i64>) {
        self.cleaned.lock().offset = offset;
    }

    /// Notes that everything at or after `offset` is gone: what comes there is dirty.
    pub(in crate::log) fn note_cleaned_truncated(&self, offset: i64) {
        let mut cleaned = self.cleaned.lock();
        cleaned.offset = cleaned.offset.map(|cleaned| cleaned.min(offset));
    }

    /// Why the log is not cleaned any more; None while it is.
    pub fn uncleanable(&self) -> Option<String> {
        self.cleaned.lock().set_aside.clone()
    }

    /// A cleaning failed. Where another one would fail too, the log is left alone until it is opened anew, so that one bad log does not keep the
    /// others from being cleaned; not where the cleaning was stopped, or the disk is to blame.
    pub fn set_aside(&self, error: &LogError) {
        let passing = matches!(
            error,
            LogError::CleaningStopped(_)
                | LogError::Closed(_)
                | LogError::Offline { .. }
                | LogError::Io { .. }
        );
        if !passing {
            self.cleaned.lock().set_aside = Some(error.to_string());
        }
    }
}
