"""Keys and certificates of a federation: an authority of its own, the coordinator's certificate, a key a node."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.core.errors import InvalidInput

__all__ = ["make_authority", "make_node_key", "make_server_certificate", "write_private"]

YEARS = 3


def make_authority(folder: Path) -> None:
    """An authority of the federation's own: ``authority.pem`` for everybody, ``authority.key`` for its operator alone.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> make_authority(folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['authority.key', 'authority.pem']
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tacit federation authority")])
    certificate = (
        _begun(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signing=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(folder / "authority.key", _pem(key))
    (folder / "authority.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make_server_certificate(folder: Path, name: str, hosts: Sequence[str]) -> None:
    """``<name>.pem`` and ``<name>.key`` for a server that is reached under these names, signed by the authority."""
    try:
        authority = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
        signer = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{folder}: the authority cannot be read ({error})") from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _begun(subject, authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signing=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    write_private(folder / f"{name}.key", _pem(key))
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make_node_key(folder: Path, name: str) -> None:
    """``<name>.key``, which never leaves the node, and ``<name>.pub``, which the coordinator registers."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(
        folder / f"{name}.key",
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        ),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def write_private(file: Path, content: bytes) -> None:
    """Write a secret that only its owner may read; one that is there is never replaced."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"{file}: exists already; a key is never replaced. Choose another folder") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of two machines differ.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )


def _usage(signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signing,
        key_cert_sign=signing,
        crl_sign=signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
