//! Names of topics, copied out of a request that others go on to use or to drop.

use std::ops::Range;

/// Names one after the other. Partitions of a topic that follow each other share its name, as they
/// do in the request.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// The name that was copied last: where it is in the request, and where here.
    last: Option<(Range<usize>, Range<usize>)>,
}

impl Names {
    /// Copies the name at `topic` of `body` unless it was the last one, and returns where it is in
    /// the bytes here. All calls are about one body.
    pub fn copy(&mut self, body: &[u8], topic: &Range<usize>) -> Range<usize> {
        match &self.last {
            Some((known, copy)) if known == topic => copy.clone(),
            _ => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&body[topic.clone()]);
                let copy = start..self.bytes.len();
                self.last = Some((topic.clone(), copy.clone()));
                copy
            }
        }
    }

    /// The bytes of all names.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_copied_once_for_those_that_follow_each_other() {
        let body = b"..one.two";
        let mut names = Names::default();
        assert_eq!(names.copy(body, &(2..5)), 0..3);
        assert_eq!(names.copy(body, &(2..5)), 0..3);
        assert_eq!(names.copy(body, &(6..9)), 3..6);
        assert_eq!(
            names.copy(body, &(2..5)),
            6..9,
            "only the last one is known"
        );
        assert_eq!(names.into_bytes(), b"onetwoone");
    }

    #[test]
    fn names_of_no_length_lie_between_the_others() {
        let mut names = Names::default();
        assert_eq!(names.copy(b"a", &(0..0)), 0..0);
        assert_eq!(names.copy(b"a", &(0..1)), 0..1);
        assert_eq!(names.copy(b"a", &(1..1)), 1..1);
        assert_eq!(names.into_bytes(), b"a");
    }
}
