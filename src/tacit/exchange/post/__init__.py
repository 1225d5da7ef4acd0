"""Parties that collect from holders for a coordinator, a shuffler or a curator: envelopes, a store, a service."""
