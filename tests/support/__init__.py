"""What tests of several rooms share: clients, operations in one line each, and waits that end."""
