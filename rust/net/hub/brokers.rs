//! Connections that are other brokers': which ones are taken for that, and have a reserve.

use super::*;

impl<T> Hub<T> {
    /// A connection says that it is another broker's. True if its listener is one where brokers come.
    pub fn says_it_is_broker(&mut self, connection: u64) -> bool {
        let Some(mut connection) = self.connections.take(connection) else {
            return false;
        };
        let may_be = connection.is_broker || self.believes(&connection);
        connection.is_broker |= may_be && !self.acceptor.lock().brokers_have_rights;
        self.connections.put(connection);
        may_be
    }

    /// A connection is another broker's: Python knows it.
    pub fn mark_broker(&mut self, connection: u64) {
        if let Some(mut connection) = self.connections.take(connection) {
            connection.is_broker = true;
            self.connections.put(connection);
        }
    }

    /// From now on rights tell brokers from clients: no connection is taken for a broker's because it says so.
    pub fn know_brokers_by_rights(&mut self) {
        self.acceptor.lock().brokers_have_rights = true;
    }

    /// Listeners that clients do not use: connections that come to them from now on have a reserve of memory, and only
    /// there a connection is taken for a broker's because it says so. Without any it is taken for one everywhere, but
    /// for what concerns memory.
    pub fn reserve_for(&mut self, listeners: Vec<String>) {
        self.acceptor.lock().reserve_for(listeners);
    }

    pub(super) fn believes(&self, connection: &Connection) -> bool {
        connection.is_reserved || self.acceptor.lock().reserves_none()
    }
}
