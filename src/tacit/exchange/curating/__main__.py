"""``python -m tacit.exchange.curating FILE``: run the curator that the file describes."""

from __future__ import annotations

import sys

from tacit.core.errors import InvalidInput
from tacit.exchange.curating.curator import Curator, open_curator, read_secret
from tacit.exchange.post.office import Office
from tacit.exchange.post.site import Site, read_site, run_site
from tacit.ledger.sqlite import SqliteLedger


def _opened(path: str) -> tuple[Site, Office]:
    site = read_site(path)
    if site.sealing is None or site.ledger is None or site.account is None:
        raise InvalidInput(f"{path}: a curator needs its sealing key, its ledger and its account")
    curator = Curator(read_secret(site.sealing), SqliteLedger(site.ledger), site.account)
    return site, open_curator(*site.store, curator)


if __name__ == "__main__":
    sys.exit(run_site(sys.argv[1:], _opened))
