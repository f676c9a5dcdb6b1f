//! Names of files and folders inside a log directory.
//!
//! | name | what |
//! |---|---|
//! | `orders-3/` | partition 3 of the topic `orders` |
//! | `orders-3.<32 hex digits>-delete/` | the same on its way out |
//! | `orders-3.<32 hex digits>-future/` | a copy that moves between data directories |
//! | `00000000000000012345.log` | record batches from offset 12345 on |
//! | `....index`, `....timeindex`, `....txnindex` | its offset, time and aborted-transaction index |
//! | `....snapshot` | producer state before that offset |
//! | `....deleted`, `....cleaned`, `....swap` | behind any of these: on its way out, being compacted, being put in place |

use std::fmt::{self, Write};

use super::error::LogError;
use crate::records::batch::is_offset;

/// The topic and number of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: i32,
}

/// The longest name of a topic.
pub const TOPIC_LENGTH_MAX: usize = 249;

/// The problem with the name of a topic, by the rules of Kafka's `Topic.validate`; None if nothing
/// is.
pub fn topic_problem(topic: &str) -> Option<&'static str> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match topic {
        "" => Some("the name is empty"),
        "." | ".." => Some("the name is that of a folder's parent or of itself"),
        _ if topic.len() > TOPIC_LENGTH_MAX => Some("the name is longer than 249 characters"),
        _ if !topic.bytes().all(is_legal) => {
            Some("the name has other characters than ASCII letters, digits, '.', '_' and '-'")
        }
        _ => None,
    }
}

impl TopicPartition {
    /// A partition whose name may become that of a folder.
    ///
    /// Whatever comes from outside goes through here: no name leaves the log directory, and none is one that the
    /// file system refuses.
    pub fn new(topic: impl Into<String>, partition: i32) -> Result<Self, LogError> {
        let topic = topic.into();
        let problem = topic_problem(&topic).or((partition < 0).then_some("the number is below 0"));
        match problem {
            Some(problem) => Err(LogError::InvalidName {
                topic,
                partition,
                problem,
            }),
            None => Ok(Self { topic, partition }),
        }
    }

    /// For tests, whose names are good.
    #[cfg(test)]
    pub fn of(topic: &str, partition: i32) -> Self {
        Self {
            topic: topic.to_owned(),
            partition,
        }
    }

    /// The name of the partition's folder; also how it is printed.
    pub fn folder_name(&self) -> String {
        self.to_string()
    }

    /// The partition whose folder is called `name`, or why there is none.
    pub fn parse_folder_name(name: &str) -> Result<Self, &'static str> {
        let (topic, number) = name.rsplit_once('-').ok_or("it has no '-'")?;
        if topic.is_empty() {
            return Err("there is no topic before the '-'");
        }
        if topic.contains(char::is_whitespace) {
            return Err("a topic's name has no white space");
        }
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("what follows the last '-' is no number");
        }
        // Two folders would be the same partition.
        if number.len() > 1 && number.starts_with('0') {
            return Err("the number begins with 0");
        }
        let partition = number.parse().map_err(|_| "the number is too large")?;
        Ok(Self {
            topic: topic.to_owned(),
            partition,
        })
    }

    /// The partition whose folder is called `name`; None for any other folder.
    pub fn from_folder_name(name: &str) -> Option<Self> {
        Self::parse_folder_name(name).ok()
    }

    /// The partition whose copy in another data directory is called `name`; None for any other folder.
    pub fn from_future_folder_name(name: &str) -> Option<Self> {
        let (partition, _) = name.strip_suffix(FUTURE_FOLDER)?.rsplit_once('.')?;
        Self::from_folder_name(partition)
    }

    /// The name of its folder while it moves to another data directory.
    pub fn future_folder_name(&self, unique_id: u128) -> String {
        format!("{self}.{unique_id:032x}{FUTURE_FOLDER}")
    }

    /// The name under which the folder waits for its deletion. A file name has at most 255 bytes, so a long topic name is cut.
    pub fn deleted_folder_name(&self, unique_id: u128) -> String {
        let tail = format!("-{}.{unique_id:032x}{DELETED_FOLDER}", self.partition);
        let room = 255 - tail.len();
        let mut topic = self.topic.as_str();
        while topic.len() > room {
            topic = &topic[..topic.len() - topic.chars().next_back().map_or(1, char::len_utf8)];
        }
        format!("{topic}{tail}")
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

pub const DELETED_FOLDER: &str = "-delete";
pub const FUTURE_FOLDER: &str = "-future";

/// The kinds of files that belong to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Log,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    Snapshot,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Log,
        Kind::OffsetIndex,
        Kind::TimeIndex,
        Kind::TransactionIndex,
        Kind::Snapshot,
    ];

    pub fn extension(self) -> &'static str {
        match self {
            Kind::Log => ".log",
            Kind::OffsetIndex => ".index",
            Kind::TimeIndex => ".timeindex",
            Kind::TransactionIndex => ".txnindex",
            Kind::Snapshot => ".snapshot",
        }
    }
}

/// The suffix that may stand behind a segment's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Suffix {
    None,
    Deleted,
    Cleaned,
    Swap,
}

impl Suffix {
    pub fn text(self) -> &'static str {
        match self {
            Suffix::None => "",
            Suffix::Deleted => ".deleted",
            Suffix::Cleaned => ".cleaned",
            Suffix::Swap => ".swap",
        }
    }
}

/// `00000000000000012345.index.deleted` and the like.
pub fn file_name(base_offset: i64, kind: Kind, suffix: Suffix) -> String {
    let mut name = String::with_capacity(40);
    let _ = write!(
        name,
        "{base_offset:020}{}{}",
        kind.extension(),
        suffix.text()
    );
    name
}

/// The base offset, kind and suffix that a file name means; None for files that are none of a
/// segment's (they are left alone).
pub fn parse_file_name(name: &str) -> Option<(i64, Kind, Suffix)> {
    let (name, suffix) = [Suffix::Deleted, Suffix::Cleaned, Suffix::Swap]
        .into_iter()
        .find_map(|suffix| Some((name.strip_suffix(suffix.text())?, suffix)))
        .unwrap_or((name, Suffix::None));
    let (digits, _) = name.split_once('.')?;
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| name[digits.len()..] == *kind.extension())?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // No log gets beyond OFFSET_MAX: such a file is somebody else's.
    let base_offset = digits.parse().ok().filter(|offset| is_offset(*offset))?;
    Some((base_offset, kind, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::batch::OFFSET_MAX;

    #[test]
    fn file_names_read_as_they_are_written() {
        assert_eq!(
            file_name(12345, Kind::Log, Suffix::None),
            "00000000000000012345.log"
        );
        for kind in Kind::ALL {
            for suffix in [Suffix::None, Suffix::Deleted, Suffix::Cleaned, Suffix::Swap] {
                for base_offset in [0, 7, OFFSET_MAX] {
                    let name = file_name(base_offset, kind, suffix);
                    assert_eq!(parse_file_name(&name), Some((base_offset, kind, suffix)));
                }
            }
        }
        for name in [
            "leader-epoch-checkpoint",
            "partition.metadata",
            ".log",
            "x.log",
            "-1.log",
            "1.log.tmp",
            "09223372036854775807.log",
        ] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_are_no_folder_are_refused() {
        let long = "t".repeat(250);
        for topic in [
            "",
            ".",
            "..",
            "a/b",
            "../evil",
            "/etc",
            "sub/evil",
            "a b",
            "a\nb",
            "a\0",
            "snow\u{2603}",
            &long,
        ] {
            let refused = TopicPartition::new(topic, 0);
            assert!(
                matches!(refused, Err(LogError::InvalidName { .. })),
                "{topic}"
            );
        }
        assert!(TopicPartition::new("a", -1).is_err());
        for topic in ["a", "...", "a.b_c-D9", &long[1..]] {
            assert_eq!(TopicPartition::new(topic, 0).unwrap().topic, topic);
        }
    }

    #[test]
    fn folder_names() {
        let partition = TopicPartition::of("a-b.c", 12);
        assert_eq!(
            TopicPartition::from_folder_name(&partition.folder_name()),
            Some(partition.clone())
        );
        assert_eq!(
            partition.deleted_folder_name(255),
            format!("a-b.c-12.{:032x}-delete", 255)
        );
        let long = TopicPartition::of(&"t".repeat(249), 12345).deleted_folder_name(u128::MAX);
        assert!(long.len() == 255 && long.ends_with("f-delete"));
        let future = partition.future_folder_name(7);
        assert_eq!(future, format!("a-b.c-12.{:032x}-future", 7));
        assert_eq!(
            TopicPartition::from_future_folder_name(&future),
            Some(partition)
        );
        for name in ["a-1-future", "a-1.7-delete", "a.7-future", "a-1"] {
            assert_eq!(
                TopicPartition::from_future_folder_name(name),
                None,
                "{name}"
            );
        }
        for (name, why) in [
            ("a", "no '-'"),
            ("a-", "no number"),
            ("-1", "no topic"),
            ("a-1.00-delete", "no number"),
            ("a--1x", "no number"),
            ("lost+found", "no '-'"),
            ("a b-0", "white space"),
            ("a-00", "begins with 0"),
            ("a-01", "begins with 0"),
            ("a-2147483648", "too large"),
        ] {
            assert_eq!(TopicPartition::from_folder_name(name), None, "{name}");
            let problem = TopicPartition::parse_folder_name(name).unwrap_err();
            assert!(problem.contains(why), "{name}: {problem}");
        }
    }
}
