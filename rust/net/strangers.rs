//! Clients that speak another protocol, told from the four bytes which would be the length of a frame.

/// The end of the reason for which a connection is closed: what the client seems to speak.
pub fn seems(length: i32) -> &'static str {
    match &length.to_be_bytes() {
        [0x16, 3, 0..=4, _] => "; this looks like TLS, which this listener does not speak",
        b"GET " | b"HEAD" | b"POST" | b"PUT " | b"DELE" | b"OPTI" | b"CONN" | b"PATC" | b"TRAC"
        | b"PRI " => "; this looks like HTTP, which this port does not speak",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::seems;

    #[test]
    fn the_first_bytes_tell() {
        let said = |bytes: &[u8; 4]| seems(i32::from_be_bytes(*bytes));
        assert!(said(b"\x16\x03\x01\x02").contains("looks like TLS"));
        assert!(said(b"GET ").contains("looks like HTTP"));
        assert_eq!(said(b"\x16\x02\x01\x02"), "");
        assert_eq!(said(b"\xff\xff\xff\xff"), "");
    }
}
