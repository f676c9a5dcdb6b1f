"""Discovered by Spark through its name; it must never raise when imported."""
