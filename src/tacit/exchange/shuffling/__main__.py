"""``python -m tacit.exchange.shuffling FILE``: run the shuffler that the file describes."""

from __future__ import annotations

import sys

from tacit.exchange.post.office import Office
from tacit.exchange.post.site import Site, read_site, run_site
from tacit.exchange.shuffling.shuffler import open_shuffler


def _opened(path: str) -> tuple[Site, Office]:
    site = read_site(path)
    return site, open_shuffler(*site.store)


if __name__ == "__main__":
    sys.exit(run_site(sys.argv[1:], _opened))
