"""Replicas: what a partition is on this broker, which requests wait on it, and where its log lives."""
