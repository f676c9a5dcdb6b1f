//! Certificates (X.509, RFC 5280): the parts that a broker looks at. Each is checked by somebody else, too.

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

const UTC_TIME: u8 = 23;
const OBJECT_IDENTIFIER: u8 = 6;
const VERSION: u8 = 0xA0;
const EXTENSIONS: u8 = 0xA3;
const DNS_NAME: u8 = 0x82;
/// subjectAltName (2.5.29.17) and commonName (2.5.4.3).
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// YYYYMMDDhhmmss: as text, moments are in their order.
const MOMENT_BYTES: usize = 14;

type Moment = [u8; MOMENT_BYTES];

#[derive(Debug)]
pub struct Certificate<'a> {
    begin: Moment,
    end: Moment,
    /// The name of whom it belongs to, as DER.
    pub subject: &'a [u8],
    /// Behind the name: the key, and extensions.
    rest: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// None: it is none.
    pub fn read(mut der: &'a [u8]) -> Option<Self> {
        let mut whole = take(&mut der)?.content;
        let mut signed = take(&mut whole)?.content;
        if signed.first() == Some(&VERSION) {
            take(&mut signed)?;
        }
        // serialNumber, signature, issuer
        for _ in 0..3 {
            take(&mut signed)?;
        }
        let mut validity = take(&mut signed)?.content;
        let begin = moment(&take(&mut validity)?)?;
        let end = moment(&take(&mut validity)?)?;
        let subject = take(&mut signed)?.whole;
        Some(Self {
            begin,
            end,
            subject,
            rest: signed,
        })
    }

    /// True if it is for a host by its common name, as certificates were before they had alternative names. One that
    /// names hosts there is for those alone (RFC 2818, 3.1).
    pub fn is_for_by_common_name(&self, host: &str) -> bool {
        if self.has_dns_names() {
            return false;
        }
        let Some(name) = self.common_name() else {
            return false;
        };
        match name.strip_prefix("*.") {
            None => name.eq_ignore_ascii_case(host),
            Some(domain) => host
                .split_once('.')
                .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
        }
    }

    /// The last one: it stands nearest to the owner.
    fn common_name(&self) -> Option<&'a str> {
        let mut found = None;
        let mut subject = self.subject;
        let mut sets = take(&mut subject)?.content;
        while let Some(set) = take(&mut sets) {
            let mut attributes = set.content;
            while let Some(attribute) = take(&mut attributes) {
                let mut fields = attribute.content;
                if take(&mut fields)?.content == COMMON_NAME {
                    found = std::str::from_utf8(take(&mut fields)?.content).ok();
                }
            }
        }
        found
    }

    fn has_dns_names(&self) -> bool {
        let mut rest = self.rest;
        while let Some(part) = take(&mut rest) {
            if part.tag == EXTENSIONS {
                return has_dns_names(part.content).unwrap_or(true);
            }
        }
        false
    }

    /// Both of its moments count as its time.
    pub fn check_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        let now = written(now.as_secs());
        match now {
            _ if now < self.begin => Err(CertificateError::NotValidYet),
            _ if now > self.end => Err(CertificateError::Expired),
            _ => Ok(()),
        }
    }
}

/// None: these are no extensions.
fn has_dns_names(mut extensions: &[u8]) -> Option<bool> {
    let mut extensions = take(&mut extensions)?.content;
    while let Some(extension) = take(&mut extensions) {
        let mut fields = extension.content;
        let identifier = take(&mut fields)?;
        if identifier.tag == OBJECT_IDENTIFIER && identifier.content == ALTERNATIVE_NAMES {
            let mut value = take(&mut fields)?;
            // Before the value, it may say whether it is critical.
            while !fields.is_empty() {
                value = take(&mut fields)?;
            }
            let mut value = value.content;
            let mut names = take(&mut value)?.content;
            while let Some(name) = take(&mut names) {
                if name.tag == DNS_NAME {
                    return Some(true);
                }
            }
        }
    }
    Some(false)
}

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// Takes the first element off DER.
fn take<'a>(der: &mut &'a [u8]) -> Option<Element<'a>> {
    let (tag, short) = (*der.first()?, *der.get(1)?);
    let (length, start) = match short {
        0..0x80 => (usize::from(short), 2),
        _ => {
            let start = 2 + usize::from(short & 0x7F);
            let bytes = der.get(2..start).filter(|bytes| bytes.len() <= 4)?;
            let length = bytes
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            (length, start)
        }
    };
    let whole = der.get(..start.checked_add(length)?)?;
    *der = &der[whole.len()..];
    let content = &whole[start..];
    Some(Element {
        tag,
        content,
        whole,
    })
}

/// UTCTime, whose years are 1950 to 2049, or GeneralizedTime.
fn moment(time: &Element<'_>) -> Option<Moment> {
    let mut digits = Vec::with_capacity(MOMENT_BYTES);
    if time.tag == UTC_TIME {
        digits.extend_from_slice(if time.content.first()? >= &b'5' {
            b"19"
        } else {
            b"20"
        });
    }
    digits.extend_from_slice(time.content.strip_suffix(b"Z")?);
    let is_one = digits.iter().all(u8::is_ascii_digit);
    digits.try_into().ok().filter(|_| is_one)
}

/// A moment by its seconds since 1970, in the calendar that holds for ever. Days are counted from the first of March of
/// the year 0, for the day that some years have more is the last before it.
fn written(seconds: u64) -> Moment {
    const DAY: u64 = 86_400;
    const DAYS_BEFORE_1970: u64 = 719_468;
    const OF_400_YEARS: u64 = 146_097;
    let day = (seconds / DAY).saturating_add(DAYS_BEFORE_1970);
    let (era, of_era) = (day / OF_400_YEARS, day % OF_400_YEARS);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = (era * 400 + year + u64::from(month <= 2)).min(9_999);
    let of_day = seconds % DAY;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let text = format!("{year:04}{month:02}{date:02}{hour:02}{minute:02}{second:02}");
    // Each number has as many digits as it is given.
    text.into_bytes().try_into().unwrap_or([b'9'; MOMENT_BYTES])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, b"19700101000000"),
            (951_782_400, b"20000229000000"),
            (951_868_800, b"20000301000000"),
            (1_709_251_199, b"20240229235959"),
            (4_107_542_400, b"21000301000000"),
            (253_402_300_799, b"99991231235959"),
        ] {
            assert_eq!(&written(seconds), text, "{seconds}");
        }
        assert!(written(u64::MAX).starts_with(b"9999"));
    }

    #[test]
    fn what_is_cut_off_is_no_certificate() {
        let pem = include_bytes!("../tests/tls/client.pem");
        let der = CertificateDer::from_pem_slice(pem).unwrap();
        let read = Certificate::read(&der).unwrap();
        assert!(read.subject.ends_with(b"client"));
        for length in 0..der.len() / 3 {
            assert!(Certificate::read(&der[..length]).is_none());
        }
        assert!(Certificate::read(&[0x30, 0x85, 1, 1, 1, 1, 1]).is_none());
    }

    #[test]
    fn both_ends_of_its_time_are_in_it() {
        let certificate = |begin, end| Certificate {
            begin: written(begin),
            end: written(end),
            subject: &[],
            rest: &[],
        };
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let one = certificate(1_000, 2_000);
        assert_eq!(one.check_time(at(999)), Err(CertificateError::NotValidYet));
        assert_eq!(one.check_time(at(1_000)), Ok(()));
        assert_eq!(one.check_time(at(2_000)), Ok(()));
        assert_eq!(one.check_time(at(2_001)), Err(CertificateError::Expired));
    }

    #[test]
    fn years_have_two_digits_or_four() {
        let time = |tag, content| {
            moment(&Element {
                tag,
                content,
                whole: &[],
            })
        };
        assert_eq!(time(UTC_TIME, b"490101000000Z"), Some(*b"20490101000000"));
        assert_eq!(time(UTC_TIME, b"500101000000Z"), Some(*b"19500101000000"));
        assert_eq!(time(24, b"21260101000000Z"), Some(*b"21260101000000"));
        assert_eq!(time(24, b"2126010100000xZ"), None);
        assert_eq!(time(24, b"21260101000000"), None);
    }
}
