"""Services that collect from holders for a coordinator, a shuffler or a curator: messages, a store, a service."""
