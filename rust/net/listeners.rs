//! Listening sockets, and how many connections may come from where.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::limits::ConnectionLimits;
use super::rate::Rate;
use super::tls::{ServerConfig, Tls};
use super::transport::Transport;

/// Where a connection comes from and where it was accepted.
#[derive(Debug)]
pub struct Origin {
    pub peer: SocketAddr,
    /// The address the client reached, also behind a wildcard listener.
    pub local: SocketAddr,
    /// The name of the listener, such as `PLAINTEXT`.
    pub listener: Arc<str>,
    /// The client's certificate, if it has shown one.
    pub subject: Option<Subject>,
    /// The number by which leases know the client; 0: none.
    client: AtomicU64,
}

/// The name in a client's certificate.
#[derive(Debug)]
pub struct Subject {
    /// As DER.
    pub name: Box<[u8]>,
    /// It is known which principal that is.
    pub is_known: AtomicBool,
}

impl Origin {
    /// True before it is known which principal the client's certificate stands for. Such a client is
    /// served by nobody who does not find that out.
    pub fn awaits_principal(&self) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| !subject.is_known.load(Ordering::Relaxed))
    }

    /// The number by which leases know the client; 0 if they do not.
    pub fn client(&self) -> u64 {
        self.client.load(Ordering::Relaxed)
    }

    /// Leases know the client by this number from now on.
    pub fn number(&self, client: u64) {
        self.client.store(client, Ordering::Relaxed);
    }
}

pub struct Listener {
    socket: TcpListener,
    pub name: Arc<str>,
    /// Whether the epoll set watches it.
    pub watched: bool,
    /// Its connections, and how many it may have (`listener.name.X.max.connections`).
    pub connections: usize,
    pub connections_max: usize,
    /// How many may come in a second (`listener.name.X.max.connection.creation.rate`).
    pub rate: Option<Rate>,
    /// How the bytes of its connections move.
    pub transport: Security,
    pub handshakes: Handshaken,
    /// How long its connections have to say who they are before they may speak; None: everybody may speak.
    pub greeting_ms: Option<u64>,
    /// Nobody is accepted until then.
    pub rest_until_ms: Option<u64>,
    /// It rests until another connection leaves.
    pub awaits_place: bool,
}

/// The TLS handshakes of a listener that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshaken {
    pub succeeded: u64,
    /// Those of clients who said something and did not come in.
    pub failed: u64,
}

/// The transports of a listener's connections.
pub enum Security {
    Plain,
    Tls(Arc<ServerConfig>),
    #[cfg(test)]
    Other(fn(OwnedFd) -> Transport),
}

impl Security {
    fn transport(&self, socket: OwnedFd) -> Option<Transport> {
        match self {
            Self::Plain => Some(Transport::Plain(socket)),
            // Sessions of this configuration can be made: `Hub::secure` made one.
            Self::Tls(config) => Some(Transport::Tls(Box::new(Tls::new(socket, config).ok()?))),
            #[cfg(test)]
            Self::Other(transport) => Some(transport(socket)),
        }
    }
}

/// What one accept brought.
pub enum Accepted {
    Connection(Transport, Origin),
    /// Nobody waits.
    Nobody,
    /// The process or the machine has no descriptor or memory left for more.
    Exhausted,
}

impl Listener {
    /// Binds and listens; `host` may be a name or an address, port 0 takes a free one. Nothing, and each of the addresses that mean all, takes
    /// both families where the system has IPv6, as in Java. Of a name with addresses of both, one of IPv4 is preferred.
    pub fn bind(host: &str, port: u16, name: &str) -> io::Result<Self> {
        let socket = match host {
            "" | "0.0.0.0" => match listen_to_both_families(port) {
                Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?
                }
                other => other?,
            },
            "::" => listen_to_both_families(port)?,
            name => {
                let addresses = ipv4_first((name, port).to_socket_addrs()?);
                TcpListener::bind(addresses.as_slice())?
            }
        };
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            name: name.into(),
            watched: false,
            connections: 0,
            connections_max: usize::MAX,
            rate: None,
            transport: Security::Plain,
            handshakes: Handshaken::default(),
            greeting_ms: None,
            rest_until_ms: None,
            awaits_place: false,
        })
    }

    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next connection, set up as `limits` say.
    pub fn accept(&self, limits: &ConnectionLimits) -> io::Result<Accepted> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = loop {
            match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok(accepted) => break accepted,
                // The client went away while it waited, or an error of its network is reported here: look at the next.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PERM | Errno::PROTO) => {}
                Err(
                    Errno::NETDOWN
                    | Errno::NETUNREACH
                    | Errno::HOSTDOWN
                    | Errno::HOSTUNREACH
                    | Errno::NOPROTOOPT
                    | Errno::NONET
                    | Errno::OPNOTSUPP,
                ) => {}
                Err(Errno::AGAIN) => return Ok(Accepted::Nobody),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Ok(Accepted::Exhausted);
                }
                Err(error) => return Err(error.into()),
            }
        };
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let local = rustix::net::getsockname(&socket)
            .ok()
            .and_then(|local| SocketAddr::try_from(local).ok());
        let (Some(peer), Some(local)) = (peer, local) else {
            return Ok(Accepted::Nobody);
        };
        // Answers are written whole; waiting for more to send would only delay them. A socket that is gone already will say so when it is read.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        if let Some(bytes) = limits.send_buffer_bytes {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, bytes);
        }
        if let Some(bytes) = limits.receive_buffer_bytes {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes);
        }
        let Some(transport) = self.transport.transport(socket) else {
            return Ok(Accepted::Nobody);
        };
        Ok(Accepted::Connection(
            transport,
            Origin {
                peer,
                local,
                listener: Arc::clone(&self.name),
                subject: None,
                client: AtomicU64::default(),
            },
        ))
    }
}

/// Clients look for a name's IPv4 address at least; many systems put `::1` first.
fn ipv4_first(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (mut first, others): (Vec<_>, Vec<_>) = addresses.partition(SocketAddr::is_ipv4);
    first.extend(others);
    first
}

/// What the standard library takes.
const BACKLOG: i32 = 128;

/// Whatever `net.ipv6.bindv6only` says.
fn listen_to_both_families(port: u16) -> rustix::io::Result<TcpListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(
        &socket,
        &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0),
    )?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connections by the address they come from (`max.connections.per.ip`).
#[derive(Default)]
pub struct PerIp(HashMap<IpAddr, usize>);

impl PerIp {
    /// Counts one more from `ip`, or says why not.
    pub fn enter(&mut self, ip: IpAddr, limits: &ConnectionLimits) -> Result<(), String> {
        let ip = ip.to_canonical();
        let limit = *limits
            .per_ip_overrides
            .get(&ip)
            .unwrap_or(&limits.per_ip_max);
        let count = self.0.entry(ip).or_default();
        if *count >= limit {
            let reason = format!("too many connections from {ip} (maximum is {limit})");
            if *count == 0 {
                self.0.remove(&ip);
            }
            return Err(reason);
        }
        *count += 1;
        Ok(())
    }

    /// Counts one more from `ip`, however many there are.
    pub fn add(&mut self, ip: IpAddr) {
        *self.0.entry(ip.to_canonical()).or_default() += 1;
    }

    /// The address from which there are most.
    pub fn most(&self) -> Option<IpAddr> {
        let most = self.0.iter().max_by_key(|(_, count)| **count);
        most.map(|(ip, _)| *ip)
    }

    /// How many there are from `ip`.
    pub fn count(&self, ip: IpAddr) -> usize {
        self.0.get(&ip.to_canonical()).copied().unwrap_or(0)
    }

    pub fn leave(&mut self, ip: IpAddr) {
        let ip = ip.to_canonical();
        if let Some(count) = self.0.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_with_both_families_the_older_is_preferred() {
        let addresses: Vec<SocketAddr> = ["[::1]:9", "127.0.0.1:9", "[::2]:9", "10.0.0.1:9"]
            .map(|one| one.parse().unwrap())
            .to_vec();
        let sorted = ipv4_first(addresses.clone().into_iter());
        assert_eq!(sorted, [1, 3, 0, 2].map(|index| addresses[index]));
    }

    #[test]
    fn connections_per_address_are_bounded() {
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let two: IpAddr = "10.0.0.2".parse().unwrap();
        let limits = ConnectionLimits {
            per_ip_max: 2,
            per_ip_overrides: HashMap::from([(two, 0)]),
            ..ConnectionLimits::default()
        };
        let mut per_ip = PerIp::default();
        assert!(per_ip.enter(one, &limits).is_ok());
        assert!(
            per_ip
                .enter("::ffff:10.0.0.1".parse().unwrap(), &limits)
                .is_ok()
        );
        assert_eq!(
            per_ip.enter(one, &limits).unwrap_err(),
            "too many connections from 10.0.0.1 (maximum is 2)"
        );
        per_ip.leave(one);
        assert!(per_ip.enter(one, &limits).is_ok());
        assert!(per_ip.enter(two, &limits).is_err());
        assert_eq!(per_ip.0.len(), 1);
    }
}
