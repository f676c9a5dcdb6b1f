//! Tries a server's settings with a client's, without a network.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::{Client, Failed, Progress, ServerConfig, Tls};

/// A handshake has a few turns; this only bounds one that goes nowhere.
const TURNS_MAX: usize = 64;

/// Returns the reason why the client would not come in at the server, or would not trust it. The client asks for
/// `host`.
pub fn meet(client: &Client, host: &str, server: &Arc<ServerConfig>) -> Result<(), String> {
    let (near, far) = UnixStream::pair().map_err(|error| error.to_string())?;
    let mut client = Tls::to_server(near.into(), client, host)?;
    let mut server = Tls::new(far.into(), server).map_err(|error| error.to_string())?;
    for _ in 0..TURNS_MAX {
        match (client.handshake(), server.handshake()) {
            (Ok(Progress::Done), Ok(Progress::Done)) => return Ok(()),
            (Err(Failed::Because(reason)), _) | (_, Err(Failed::Because(reason))) => {
                return Err(reason);
            }
            (Err(Failed::Left), _) | (_, Err(Failed::Left)) => break,
            _ => {}
        }
    }
    Err("the TLS handshake does not come to its end".to_owned())
}
