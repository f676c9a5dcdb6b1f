//! The errors of bytes or of a message: always which field, and at which byte.

use std::borrow::Cow;

/// For bytes that are not a message, and for a message that contradicts itself.
pub const INVALID_REQUEST: i16 = 42;
/// For a version that is not served, and for a message that a version cannot express.
pub const UNSUPPORTED_VERSION: i16 = 35;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The peer's bytes are not a message. `position` counts bytes from the start of what was given to the decoder.
    #[error("{field} at byte {position}: {problem}")]
    Malformed {
        field: Cow<'static, str>,
        position: usize,
        problem: Problem,
    },
    /// A message of ours has a value that this version cannot express.
    #[error("{field}: {reason}")]
    Unwritable {
        field: Cow<'static, str>,
        reason: Cow<'static, str>,
    },
    #[error("version {version} of {what} is not known")]
    Version {
        what: Cow<'static, str>,
        version: i16,
    },
}

/// The problem at a position, before anybody knows the field's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{needed} bytes are needed, {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("the length is negative: {0}")]
    NegativeLength(i64),
    #[error("{count} items cannot fit in the {left} bytes that are left")]
    TooManyItems { count: usize, left: usize },
    #[error("null is not allowed here")]
    Null,
    #[error("the text is not UTF-8")]
    NotUtf8,
    #[error("the variable-length number does not end in {0} bytes")]
    EndlessVarint(usize),
    #[error("the tagged field has {declared} bytes, its value {actual}")]
    TagSize { declared: usize, actual: usize },
    #[error("{0}")]
    Other(&'static str),
}

/// A problem at a position; `at(field)` makes it a `WireError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub position: usize,
    pub problem: Problem,
}

/// Gives a fault the name of the field it was found in: `reader.i16().at("acks")?`.
pub trait At<T> {
    fn at(self, field: &'static str) -> Result<T, WireError>;
}

impl<T> At<T> for Result<T, Fault> {
    fn at(self, field: &'static str) -> Result<T, WireError> {
        self.map_err(|fault| fault.named(field))
    }
}

impl Fault {
    pub fn named(self, field: impl Into<Cow<'static, str>>) -> WireError {
        WireError::Malformed {
            field: field.into(),
            position: self.position,
            problem: self.problem,
        }
    }
}

impl WireError {
    pub fn unwritable(
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        WireError::Unwritable {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// The code a broker answers with where it can answer at all.
    pub fn code(&self) -> i16 {
        match self {
            WireError::Malformed { .. } => INVALID_REQUEST,
            WireError::Unwritable { .. } | WireError::Version { .. } => UNSUPPORTED_VERSION,
        }
    }

    /// True if the fault is in our own message, not in the peer's bytes.
    pub fn is_local(&self) -> bool {
        !matches!(self, WireError::Malformed { .. })
    }

    /// The same error one level further out: `partitions[3]` before `replicas` makes `partitions[3].replicas`.
    pub fn inside(mut self, outer: &str, index: Option<usize>) -> Self {
        if let WireError::Malformed { field, .. } | WireError::Unwritable { field, .. } = &mut self
        {
            let separator = if field.is_empty() || field.starts_with('[') {
                ""
            } else {
                "."
            };
            *field = match index {
                Some(index) => format!("{outer}[{index}]{separator}{field}"),
                None => format!("{outer}{separator}{field}"),
            }
            .into();
        }
        self
    }
}
