"""The services between holders and a coordinator: a shuffler or a curator, with their messages, store and server."""
