"""The default: a plan made from public data and releases, of votes, of sums, or of both in turn."""
