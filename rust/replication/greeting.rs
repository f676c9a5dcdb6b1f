//! The beginning of a connection to a leader that has TLS, or wants to know who comes (SASL). The words somebody else
//! knows.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{Answer, Broken, Connection, Leader, Room, SIZE_BYTES};
use super::large::LargeAnswers;
use crate::io::Wake;
use crate::net::tls::Client;

/// The largest answer to a greeting.
const ANSWER_BYTES_MAX: usize = 512 << 10;

/// Says how each new connection begins.
pub trait Greeting: Debug + Send + Sync {
    fn begin(&self) -> Result<Begun, String>;
}

pub struct Begun {
    /// None: the connection is not encrypted.
    pub tls: Option<Client>,
    pub conversation: Box<dyn Conversation>,
}

pub trait Conversation {
    /// The next request, with its size, after the answer to the one before, without its size.
    fn next(&mut self, answer: Option<&[u8]>) -> Result<Next, String>;
}

#[derive(Debug)]
pub enum Next {
    Send(Vec<u8>),
    /// The leader knows who it is: for so long, or for ever.
    Done(Option<Duration>),
}

/// The connection that is kept between requests.
#[derive(Default)]
pub(super) struct Kept {
    connection: Option<Connection>,
    /// When it is of no more use, though nothing is wrong with it.
    ends_at: Option<Instant>,
}

impl Kept {
    /// The connection that is kept, or a new one, on which the leader has been told who comes if it wants to know.
    pub fn take(
        &mut self,
        leader: &Leader<'_>,
        large: &Arc<LargeAnswers>,
        closing: &Wake,
    ) -> Result<Connection, Broken> {
        let is_over = |ends_at| ends_at <= Instant::now();
        if let Some(connection) = self.connection.take()
            && !self.ends_at.is_some_and(is_over)
        {
            return Ok(connection);
        }
        let mut connection = Connection::open(leader, closing)?;
        self.ends_at = None;
        if let Some(greeting) = leader.greeting {
            let begun = greeting.begin().map_err(Broken::Lost)?;
            if let Some(tls) = begun.tls {
                connection = connection.secure(&tls, leader, closing)?;
            }
            let conversation = begun.conversation;
            let lasts = greet(&mut connection, conversation, large, leader, closing)?;
            self.ends_at = lasts.map(|lasts| Instant::now() + lasts);
        }
        Ok(connection)
    }

    pub fn keep(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    pub fn end(&mut self) {
        self.connection = None;
    }
}

/// Holds a conversation. Returns for how long the connection is of use; None: for ever.
fn greet(
    connection: &mut Connection,
    mut conversation: Box<dyn Conversation>,
    large: &Arc<LargeAnswers>,
    leader: &Leader<'_>,
    closing: &Wake,
) -> Result<Option<Duration>, Broken> {
    let room = Room {
        frame_bytes_max: ANSWER_BYTES_MAX,
        own_bytes: ANSWER_BYTES_MAX + SIZE_BYTES,
        large,
    };
    let timeout = leader.timeout;
    let mut answer = Answer::default();
    let mut next = conversation.next(None);
    loop {
        match next.map_err(Broken::Lost)? {
            Next::Send(frame) => connection.send(&frame, timeout, closing)?,
            Next::Done(lasts) => return Ok(lasts),
        }
        connection.receive(&mut answer, &room, timeout, closing)?;
        next = conversation.next(Some(answer.frame()));
    }
}
