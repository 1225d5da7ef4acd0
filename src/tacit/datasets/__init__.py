"""One loader a format."""
