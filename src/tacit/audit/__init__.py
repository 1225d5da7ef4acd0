"""Audits: tests of claimed privacy losses against samples, and of protocols on neighboring data sets."""
