"""The common part of tests of several rooms: clients, operations in one line each, and waits that end."""
