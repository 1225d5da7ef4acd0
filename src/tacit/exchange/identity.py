"""Who a party is: an Ed25519 key that signs what it sends, and the public half by which the others know it.

Transport keys say which machine a connection comes from. These say, to every other holder and not only to the
coordinator, that a message was made by the party it names: a coordinator that relays messages cannot make them up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.core.errors import InvalidInput

__all__ = ["Identity", "signed_by"]

KEY = 32


@dataclass(frozen=True)
class Identity:
    """A party's signing key. ``public`` is for everybody, ``secret`` for nobody.

    >>> ada = Identity.new()
    >>> signed_by(ada.public, b"hello", ada.sign(b"hello")), signed_by(ada.public, b"hullo", ada.sign(b"hello"))
    (True, False)
    >>> "secret" in repr(ada)
    False
    """

    public: bytes
    secret: bytes = field(repr=False, compare=False)

    @classmethod
    def new(cls) -> Identity:
        """A fresh one, from the system's generator."""
        return cls.from_secret(os.urandom(KEY))

    @classmethod
    def from_secret(cls, secret: bytes) -> Identity:
        """The identity with this secret key of 32 bytes."""
        if len(secret) != KEY:
            raise InvalidInput(f"an identity's key has {KEY} bytes, got {len(secret)}")
        return cls(Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw(), secret)

    @classmethod
    def read(cls, file: str | Path) -> Identity:
        """The identity in a file of its owner's."""
        try:
            return cls.from_secret(bytes.fromhex(Path(file).read_text(encoding="ascii").strip()))
        except (OSError, ValueError):
            raise InvalidInput(f"{file}: not an identity's key; it is one line of 64 hexadecimal digits") from None

    def write(self, file: str | Path) -> None:
        """Write the secret key where only its owner can read it; a file that exists is not replaced."""
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise InvalidInput(f"{file}: cannot be made ({error.strerror})") from None
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(self.secret.hex() + "\n")

    def sign(self, message: bytes) -> bytes:
        """A signature of 64 bytes."""
        return Ed25519PrivateKey.from_private_bytes(self.secret).sign(message)


def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of this public key signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
