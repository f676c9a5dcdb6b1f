//! Properties of the wire: whatever is encoded is decoded again, and no bytes from outside make anything worse than an error.

mod fetch;
mod produce;
mod walk;

use super::error::WireError;

/// A decoder given the first bytes of a whole message names a field and a position in what it was given.
fn names_field_and_position(error: &WireError, given: usize) {
    match error {
        WireError::Malformed {
            field, position, ..
        } => {
            assert!(!field.is_empty() && *position <= given, "{error}");
        }
        other => panic!("not about the bytes: {other}"),
    }
}
