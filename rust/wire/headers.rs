//! Request and response headers.
//!
//! A frame is a size of four bytes, then a header, then a body. The request header:
//!
//! | bytes | field | since header version |
//! |---|---|---|
//! | 2 | API key | 0 |
//! | 2 | API version | 0 |
//! | 4 | correlation id | 0 |
//! | 2 + n | client id, nullable, never compact | 1 |
//! | 1 + n | tagged fields | 2 |
//!
//! Requests whose body is flexible (KIP-482) carry header 2, all others header 1, except version 0 of ControlledShutdown,
//! which predates client ids. The response header is the correlation id, followed by tagged fields if the body is flexible;
//! ApiVersions never has them, since a client reads that answer before it knows what the broker speaks (KIP-511). Which
//! versions are flexible is part of an API's declaration (`python/ottla/wire`), and given to these functions.

use std::ops::Range;

use super::error::{At, WireError};
use super::keys::{API_VERSIONS, CONTROLLED_SHUTDOWN};
use super::primitives::{Reader, Writer};

/// Tagged fields that a request header may have, and their bytes in all. No release of Kafka has defined one; without a bound a frame of the
/// largest size has 50 million of them, which the loop would walk through.
const TAGGED_FIELDS_MAX: u32 = 32;
const TAGGED_BYTES_MAX: usize = 4096;

pub fn request_header_version(api_key: i16, api_version: i16, is_flexible: bool) -> i16 {
    if api_key == CONTROLLED_SHUTDOWN && api_version == 0 {
        0
    } else if is_flexible {
        2
    } else {
        1
    }
}

pub fn response_header_version(api_key: i16, is_flexible: bool) -> i16 {
    i16::from(api_key != API_VERSIONS && is_flexible)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
    /// Where in the frame the client id is; text from outside, not yet known to be UTF-8.
    pub client_id: Option<Range<usize>>,
    /// True if the bodies of this version are in the flexible encoding.
    pub is_flexible: bool,
    /// Where in the frame the body begins.
    pub body_start: usize,
}

/// The header of a request; `frame` is what follows the size. `is_flexible` says of a key and a version whether its bodies
/// are in the flexible encoding; false for those that nobody knows.
///
/// Unknown keys and versions are parsed as far as their header is known (the client id is where it always is), so that the
/// refusal can name the client. An ApiVersions request of an unknown version is answered without reading past the client id
/// (KIP-511).
pub fn parse_request_header(
    frame: &[u8],
    is_flexible: impl FnOnce(i16, i16) -> bool,
) -> Result<RequestHeader, WireError> {
    let mut reader = Reader::new(frame);
    let api_key = reader.i16().at("api_key")?;
    let api_version = reader.i16().at("api_version")?;
    let correlation_id = reader.i32().at("correlation_id")?;
    let is_flexible = is_flexible(api_key, api_version);
    let header_version = request_header_version(api_key, api_version, is_flexible);
    let client_id = if header_version >= 1 {
        reader.text(false).at("client_id")?
    } else {
        None
    };
    if header_version >= 2 {
        reader
            .skip_few_tagged(TAGGED_FIELDS_MAX, TAGGED_BYTES_MAX)
            .map_err(|error| error.inside("request_header", None))?;
    }
    Ok(RequestHeader {
        api_key,
        api_version,
        correlation_id,
        client_id,
        is_flexible,
        body_start: reader.position(),
    })
}

/// A whole request frame, its size in front.
pub fn request_frame(
    api_key: i16,
    api_version: i16,
    is_flexible: bool,
    correlation_id: i32,
    client_id: Option<&str>,
    body: &[u8],
) -> Result<Vec<u8>, WireError> {
    let header_version = request_header_version(api_key, api_version, is_flexible);
    let mut writer = Writer::with_capacity(4 + 8 + 3 + client_id.map_or(0, str::len) + body.len());
    writer.i32(0);
    writer.i16(api_key);
    writer.i16(api_version);
    writer.i32(correlation_id);
    if header_version >= 1 {
        writer
            .text(false, client_id.map(str::as_bytes))
            .map_err(|problem| WireError::unwritable("client_id", problem.to_string()))?;
    }
    writer.no_tagged(header_version >= 2);
    writer.raw(body);
    let mut frame = writer.into_bytes();
    let size = i32::try_from(frame.len() - 4)
        .map_err(|_| WireError::unwritable("frame", "more than 2 GiB"))?;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    Ok(frame)
}

/// The correlation id of a response, and where its body begins; `frame` is what follows the size.
pub fn parse_response_header(
    api_key: i16,
    is_flexible: bool,
    frame: &[u8],
) -> Result<(i32, usize), WireError> {
    let mut reader = Reader::new(frame);
    let correlation_id = reader.i32().at("correlation_id")?;
    if response_header_version(api_key, is_flexible) >= 1 {
        reader
            .skip_tagged()
            .map_err(|error| error.inside("response_header", None))?;
    }
    Ok((correlation_id, reader.position()))
}

/// The header of a response; the size goes in front of it, the body behind it.
pub fn write_response_header(
    api_key: i16,
    is_flexible: bool,
    correlation_id: i32,
    to: &mut Vec<u8>,
) {
    to.extend_from_slice(&correlation_id.to_be_bytes());
    if response_header_version(api_key, is_flexible) >= 1 {
        to.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As for ControlledShutdown before version 3, Metadata before 9 and ApiVersions before 3.
    fn is_flexible(key: i16, version: i16) -> bool {
        version >= if key == 3 { 9 } else { 3 }
    }

    fn frame(key: i16, version: i16, client_id: Option<&str>, body: &[u8]) -> Vec<u8> {
        let is_flexible = is_flexible(key, version);
        request_frame(key, version, is_flexible, 7, client_id, body).unwrap()[4..].to_vec()
    }

    fn parsed(frame: &[u8]) -> Result<RequestHeader, WireError> {
        parse_request_header(frame, is_flexible)
    }

    #[test]
    fn round_trip_of_every_header_version() {
        for (key, version, named) in [(7, 0, false), (3, 8, true), (3, 9, true), (18, 3, true)] {
            let frame = frame(key, version, Some("client"), b"body");
            let header = parsed(&frame).unwrap();
            assert_eq!(
                (header.api_key, header.api_version, header.correlation_id),
                (key, version, 7)
            );
            assert_eq!(header.client_id.is_some(), named);
            if let Some(range) = header.client_id {
                assert_eq!(&frame[range], b"client");
            }
            assert_eq!(&frame[header.body_start..], b"body");
        }
    }

    #[test]
    fn null_client_id_and_unknown_tags() {
        let mut bytes = frame(3, 9, None, b"");
        // One unknown tag of three bytes.
        bytes.pop();
        bytes.extend_from_slice(&[1, 9, 3, 1, 2, 3, b'!']);
        let header = parsed(&bytes).unwrap();
        assert_eq!(header.client_id, None);
        assert_eq!(&bytes[header.body_start..], b"!");
    }

    #[test]
    fn a_header_has_few_tagged_fields() {
        let with = |fields: &[u8]| {
            let mut bytes = frame(18, 3, None, b"");
            bytes.pop();
            bytes.extend_from_slice(fields);
            bytes
        };
        let fields = |count: u8| {
            let each = (0..count).flat_map(|tag| [tag, 0]);
            with(&[count].into_iter().chain(each).collect::<Vec<_>>())
        };
        assert!(parsed(&fields(32)).is_ok());
        let error = parsed(&fields(33)).unwrap_err();
        assert!(error.to_string().contains("more of them than"), "{error}");
        let one_of = |bytes: usize| {
            let size = [(bytes & 127) as u8 | 128, (bytes >> 7) as u8];
            with(&[&[1, 0][..], &size, &vec![0; bytes]].concat())
        };
        assert!(parsed(&one_of(4092)).is_ok());
        let error = parsed(&one_of(4093)).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }

    #[test]
    fn a_cut_header_names_field_and_position() {
        let whole = frame(3, 9, Some("client"), b"");
        for length in 0..whole.len() {
            let error = parsed(&whole[..length]).unwrap_err();
            assert!(
                matches!(error, WireError::Malformed { position, .. } if position <= length),
                "{error}"
            );
        }
        let error = parsed(&whole[..9]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "client_id at byte 8: 2 bytes are needed, 1 are left"
        );
    }

    #[test]
    fn api_versions_answers_in_the_oldest_header() {
        assert_eq!(response_header_version(18, true), 0);
        assert_eq!(response_header_version(3, true), 1);
        assert_eq!(response_header_version(3, false), 0);
        assert_eq!(request_header_version(18, 3, true), 2);
        assert_eq!(request_header_version(-1, 0, false), 1);
        assert_eq!(request_header_version(7, 0, false), 0);
    }
}
