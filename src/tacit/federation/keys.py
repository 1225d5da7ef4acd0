"""Keys of the parties for signing and encryption, from ``cryptography``.

Encryption uses X25519 key agreement, HKDF, ChaCha20 streams and ChaCha20-Poly1305 boxes. Every key is derived for one
purpose in one context between two parties, and is used once: a stream is read once from its beginning, and a key
encrypts one box, so its nonce may be zero.

An identity is an Ed25519 key with which a party signs its messages. Transport keys authenticate a machine to the
coordinator; identities authenticate a message to every other holder, so a coordinator that relays messages cannot forge
them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.files import write_file

__all__ = [
    "KEY_BYTES", "OVERHEAD", "SigningIdentity", "boxed", "derived", "public_key", "seal", "shared_secret", "signed_by",
    "stream", "unboxed", "unseal",
]  # fmt: skip

NONCE = b"\0" * 12
ZERO_COUNTER = b"\0" * 16
KEY_BYTES = 32
# Bytes that sealing adds: a fresh public key and a tag.
OVERHEAD = KEY_BYTES + 16


def derived(secret: bytes, purpose: str, *context: str | bytes) -> bytes:
    """A key of 32 bytes for one purpose in one context; each part of the context is bound with its length.

    >>> derived(b"s", "mask", "a", "bc") == derived(b"s", "mask", "ab", "c")
    False
    """
    parts = [purpose.encode(), *(each.encode() if isinstance(each, str) else each for each in context)]
    info = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return HKDF(SHA256(), KEY_BYTES, salt=b"tacit 1", info=info).derive(secret)


# A party uses one secret for key agreements with many others; loading it costs as much as an agreement.
@lru_cache(maxsize=16)
def _ready(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


def public_key(secret: bytes) -> bytes:
    """The public half of an X25519 key."""
    return _ready(secret).public_key().public_bytes_raw()


def shared_secret(secret: bytes, public: bytes) -> bytes:
    """The shared secret of an X25519 key agreement, known to the owners of the two keys only.

    >>> ada, bob = b"a" * 32, b"b" * 32
    >>> shared_secret(ada, public_key(bob)) == shared_secret(bob, public_key(ada))
    True
    """
    try:
        return _ready(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        # A point of small order would make the shared secret predictable.
        raise InvalidInput("not a valid public key for key agreement") from None


def stream(key: bytes, cells: int) -> NDArray[np.uint64]:
    """This many uniform 64-bit words from the ChaCha20 stream of a key that is used for nothing else.

    >>> stream(b"k" * 32, 2).shape
    (2,)
    """
    cipher = Cipher(algorithms.ChaCha20(key, ZERO_COUNTER), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * cells)), dtype="<u8").astype(np.uint64)


def boxed(key: bytes, content: bytes, label: bytes) -> bytes:
    """The content, encrypted with a key that encrypts nothing else, and authenticated together with the label."""
    return ChaCha20Poly1305(key).encrypt(NONCE, content, label)


def unboxed(key: bytes, box: bytes, label: bytes) -> bytes | None:
    """The content of a box, or None if it was not encrypted with this key and label.

    >>> unboxed(b"k" * 32, boxed(b"k" * 32, b"hello", b"to ada"), b"to ada")
    b'hello'
    >>> unboxed(b"k" * 32, boxed(b"k" * 32, b"hello", b"to ada"), b"to bob") is None
    True
    """
    try:
        return ChaCha20Poly1305(key).decrypt(NONCE, box, label)
    except InvalidTag:
        return None


def seal(public: bytes, content: bytes, context: str) -> bytes:
    """The content, encrypted for the owner of this public key, without a sender (a sealed box).

    The fresh key of every box is discarded, so not even its sender can decrypt it.

    >>> unseal(b"s" * 32, seal(public_key(b"s" * 32), b"hello", "run 1"), "run 1")
    b'hello'
    >>> unseal(b"s" * 32, seal(public_key(b"s" * 32), b"hello", "run 1"), "run 2") is None
    True
    """
    fresh = X25519PrivateKey.generate()
    own = fresh.public_key().public_bytes_raw()
    try:
        shared = fresh.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise InvalidInput("not a valid public key for encryption") from None
    return own + boxed(derived(shared, "seal", context, own, public), content, context.encode())


def unseal(secret: bytes, box: bytes, context: str) -> bytes | None:
    """The content, or None if it was not encrypted for this key and context."""
    own = box[:KEY_BYTES]
    try:
        shared = shared_secret(secret, own)
    except InvalidInput:
        return None
    return unboxed(derived(shared, "seal", context, own, public_key(secret)), box[KEY_BYTES:], context.encode())


@dataclass(frozen=True)
class SigningIdentity:
    """A party's signing key: the ``public`` half is for everyone, the ``secret`` half never leaves its owner.

    >>> ada = SigningIdentity.new()
    >>> signed_by(ada.public, b"hello", ada.sign(b"hello")), signed_by(ada.public, b"hullo", ada.sign(b"hello"))
    (True, False)
    >>> "secret" in repr(ada)
    False
    """

    public: bytes
    secret: bytes = field(repr=False, compare=False)

    @classmethod
    def new(cls) -> SigningIdentity:
        """A new identity from the system's random generator."""
        return cls.from_secret(os.urandom(KEY_BYTES))

    @classmethod
    def from_secret(cls, secret: bytes) -> SigningIdentity:
        """The identity with this secret key of 32 bytes."""
        if len(secret) != KEY_BYTES:
            raise InvalidInput(f"an identity's key has {KEY_BYTES} bytes, got {len(secret)}")
        return cls(Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw(), secret)

    @classmethod
    def read(cls, file: str | Path) -> SigningIdentity:
        """The identity in a file."""
        try:
            return cls.from_secret(bytes.fromhex(Path(file).read_text(encoding="ascii").strip()))
        except (OSError, ValueError):
            raise InvalidInput(f"{file}: not an identity's key; it is one line of 64 hexadecimal digits") from None

    def write(self, file: str | Path) -> None:
        """Write the secret key where only its owner can read it; a file that exists is not replaced."""
        try:
            write_file(Path(file), f"{self.secret.hex()}\n".encode("ascii"), private=True, replace=False)
        except OSError as error:
            raise InvalidInput(f"{file}: cannot be made ({error.strerror})") from None

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
