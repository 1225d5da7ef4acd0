"""Encoders of mixed tables, texts and images, fitted to public samples; and the kinds of data."""
