//! What happens to a frame before anybody handles it: the header is read, and keys and versions that are not served are refused.

use std::collections::HashMap;

use super::frames::Buffer;
use crate::wire::error::UNSUPPORTED_VERSION;
use crate::wire::headers::{RequestHeader, parse_request_header};
use crate::wire::keys::API_VERSIONS;

/// The declaration of a served API, as far as the hub needs it (`python/ottla/wire`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    pub lowest: i16,
    pub highest: i16,
    /// The first version in the flexible encoding, served or not; none: `i16::MAX`.
    pub flexible_from: i16,
    /// Answers are small, whatever is asked for.
    pub has_small_answers: bool,
    /// Nobody but a broker sends it.
    pub is_between_brokers: bool,
}

impl Api {
    /// An API of clients with these versions, none of them flexible.
    pub fn plain(lowest: i16, highest: i16) -> Self {
        Self {
            lowest,
            highest,
            flexible_from: i16::MAX,
            has_small_answers: false,
            is_between_brokers: false,
        }
    }
}

/// The APIs that are served, by key.
pub struct Supported(Vec<Option<Api>>);

pub enum Admission {
    /// To be handled.
    Start(RequestHeader, Buffer),
    /// Answered here, with this body in the form of header version 0.
    Answer { correlation_id: i32, body: Vec<u8> },
    /// The connection is to be closed, for this reason.
    Refuse {
        reason: String,
        client_id: Option<String>,
    },
}

impl Supported {
    /// Keys below 0 are ignored.
    pub fn new(apis: &HashMap<i16, Api>) -> Self {
        let keys = apis.keys().copied().max().unwrap_or(-1) + 1;
        let mut table = vec![None; usize::try_from(keys).unwrap_or(0)];
        for (&key, &api) in apis {
            if let Ok(key) = usize::try_from(key) {
                table[key] = Some(api);
            }
        }
        Self(table)
    }

    pub fn api(&self, api_key: i16) -> Option<&Api> {
        self.0.get(usize::try_from(api_key).ok()?)?.as_ref()
    }

    fn range(&self, api_key: i16) -> Option<(i16, i16)> {
        self.api(api_key).map(|api| (api.lowest, api.highest))
    }

    fn is_flexible(&self, api_key: i16, api_version: i16) -> bool {
        self.api(api_key)
            .is_some_and(|api| api_version >= api.flexible_from)
    }

    /// Decides about one frame.
    pub fn admit(&self, frame: Buffer) -> Admission {
        let header =
            match parse_request_header(&frame, |key, version| self.is_flexible(key, version)) {
                Ok(header) => header,
                Err(error) => return self.refuse_malformed(&frame, &error.to_string()),
            };
        let (key, version) = (header.api_key, header.api_version);
        match self.range(key) {
            Some((low, high)) if (low..=high).contains(&version) => Admission::Start(header, frame),
            _ => self.refuse_version(key, version, header.correlation_id, || {
                client_id(&header, &frame)
            }),
        }
    }

    /// The header is cut, or its tags are broken. Nobody can know what the header of an unknown version looks like, apart from what has been
    /// at its beginning for ever; an unknown version of ApiVersions is answered by that.
    fn refuse_malformed(&self, frame: &[u8], error: &str) -> Admission {
        let Some((&[key, key2, version, version2, a, b, c, d], rest)) = frame.split_first_chunk()
        else {
            return Admission::Refuse {
                reason: format!("a frame of {} bytes without a header", frame.len()),
                client_id: None,
            };
        };
        let key = i16::from_be_bytes([key, key2]);
        let version = i16::from_be_bytes([version, version2]);
        if let Some((low, high)) = self.range(key)
            && !(low..=high).contains(&version)
        {
            return self.refuse_version(key, version, i32::from_be_bytes([a, b, c, d]), || {
                let (length, rest) = rest.split_first_chunk()?;
                let name = rest.get(..usize::try_from(i16::from_be_bytes(*length)).ok()?)?;
                Some(String::from_utf8_lossy(name).into_owned())
            });
        }
        Admission::Refuse {
            reason: describe(key, version, &format!("malformed header: {error}")),
            client_id: None,
        }
    }

    /// The key, or this version of it, is not served.
    fn refuse_version(
        &self,
        key: i16,
        version: i16,
        correlation_id: i32,
        client_id: impl FnOnce() -> Option<String>,
    ) -> Admission {
        let reason = match self.range(key) {
            Some((_, high)) if key == API_VERSIONS => {
                return Admission::Answer {
                    correlation_id,
                    body: unsupported_api_versions(high),
                };
            }
            Some((low, high)) => format!("unsupported version, {low} to {high} are served"),
            None => "unknown API key".to_owned(),
        };
        Admission::Refuse {
            reason: describe(key, version, &reason),
            client_id: client_id(),
        }
    }
}

/// A reason that names the request.
pub fn describe(api_key: i16, api_version: i16, reason: &str) -> String {
    format!("API key {api_key} version {api_version}: {reason}")
}

/// The client id of a frame as text, for people.
pub fn client_id(header: &RequestHeader, frame: &[u8]) -> Option<String> {
    let bytes = frame.get(header.client_id.clone()?)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// The answer to an ApiVersions request of an unknown version (KIP-511): version 0 of the body, error 35, and exactly one entry, which tells the
/// client which versions of ApiVersions itself it may ask with. Without the entry, or without an answer, clients give up.
fn unsupported_api_versions(version_max: i16) -> Vec<u8> {
    let mut body = Vec::with_capacity(12);
    body.extend_from_slice(&UNSUPPORTED_VERSION.to_be_bytes());
    body.extend_from_slice(&1i32.to_be_bytes());
    for number in [API_VERSIONS, 0, version_max] {
        body.extend_from_slice(&number.to_be_bytes());
    }
    body
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::io::Wake;
    use crate::net::budget::{Account, Bounds, Budget};
    use crate::net::frames::Pool;
    use crate::wire::headers::request_frame;

    const fn api(highest: i16, flexible_from: i16) -> Api {
        Api {
            lowest: 0,
            highest,
            flexible_from,
            has_small_answers: false,
            is_between_brokers: false,
        }
    }

    const APIS: [(i16, Api); 3] = [(0, api(8, 9)), (3, api(9, 9)), (18, api(3, 3))];

    fn admit(frame: &[u8]) -> Admission {
        let wake = Arc::new(Wake::new().unwrap());
        let bounds = Bounds::new(1 << 20, 1 << 10);
        let pool = Arc::new(Pool::new(Arc::new(Budget::new(bounds, wake))));
        let mut buffer = pool.take(frame.len(), Account::Frames).unwrap();
        buffer.copy_from_slice(frame);
        Supported::new(&HashMap::from(APIS)).admit(buffer)
    }

    fn request(key: i16, version: i16) -> Vec<u8> {
        let is_flexible = APIS
            .iter()
            .any(|(known, api)| *known == key && version >= api.flexible_from);
        request_frame(key, version, is_flexible, 77, Some("probe"), b"")
            .unwrap()
            .split_off(4)
    }

    fn refusal(frame: &[u8]) -> (String, Option<String>) {
        match admit(frame) {
            Admission::Refuse { reason, client_id } => (reason, client_id),
            _ => panic!("not refused"),
        }
    }

    #[test]
    fn what_is_served_starts() {
        for (key, version) in [(0, 0), (0, 8), (3, 9), (18, 3)] {
            assert!(matches!(
                admit(&request(key, version)),
                Admission::Start(..)
            ));
        }
    }

    #[test]
    fn refusals_name_key_version_and_client() {
        assert_eq!(
            refusal(&request(999, 3)),
            (
                "API key 999 version 3: unknown API key".into(),
                Some("probe".into())
            )
        );
        assert_eq!(
            refusal(&request(3, 10)),
            (
                "API key 3 version 10: unsupported version, 0 to 9 are served".into(),
                Some("probe".into())
            )
        );
        assert!(
            refusal(&request(3, 9)[..10])
                .0
                .starts_with("API key 3 version 9: malformed header")
        );
        assert_eq!(refusal(&[1, 2, 3]).0, "a frame of 3 bytes without a header");
        assert_eq!(refusal(&[]).0, "a frame of 0 bytes without a header");
    }

    #[test]
    fn unknown_api_versions_are_answered_in_the_oldest_form() {
        let mut broken = request(18, 99);
        broken.truncate(9);
        for frame in [request(18, 4), request(18, 99), broken] {
            let Admission::Answer {
                correlation_id,
                body,
            } = admit(&frame)
            else {
                panic!("not answered");
            };
            assert_eq!(correlation_id, 77);
            assert_eq!(body, [0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3]);
        }
    }
}
