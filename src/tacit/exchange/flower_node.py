"""A SuperNode that waits long enough for its own processes."""

from __future__ import annotations

from tacit.exchange.flower_environment import be_patient, require_version

__all__ = ["main"]


def main() -> None:
    """``flower-supernode``, on a machine that may be busy."""
    require_version()
    be_patient()
    from flwr.supernode.cli import flower_supernode

    flower_supernode()


if __name__ == "__main__":
    main()
