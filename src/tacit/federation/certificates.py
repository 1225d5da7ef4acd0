"""Keys and certificates of a federation: its own certificate authority, the coordinator's certificate, a key per node.

A renewed certificate keeps its key, so whoever trusts the old one trusts the new one. Files are replaced atomically.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.core import InvalidInput
from tacit.core.files import write_file

__all__ = [
    "Validity", "client_context", "expiry_warnings", "make_authority", "make_node_key", "make_server_certificate",
    "on_loopback", "read_validity", "renew_authority", "renew_node_key", "renew_server_certificate", "replace_file",
    "why_untrusted", "write_private",
]  # fmt: skip

DAYS = 3 * 365
WARNING = datetime.timedelta(days=30)
AUTHORITY = "Tacit federation authority"
# What OpenSSL's error codes mean in a federation, which has its own certificate authority.
UNTRUSTED = {
    9: "its certificate is not valid yet: is the clock of this machine right?",
    10: "its certificate has expired: its operator renews it with `tacit federation nodes renew`, "
    "unless the clock of this machine is wrong",
    18: "its certificate is not signed by the authority in this node's file",
    19: "its certificate is not signed by the authority in this node's file",
    20: "its certificate is not signed by the authority in this node's file",
    62: "its certificate is for another name; its operator makes one for this name",
    64: "its certificate is for another address; its operator makes one for this address",
}


@dataclass(frozen=True)
class Validity:
    """The period in which a certificate is valid.

    >>> day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    >>> found = Validity(Path("coordinator.pem"), day, day + datetime.timedelta(days=90))
    >>> found.problem(day + datetime.timedelta(days=10)) is None
    True
    >>> found.problem(day + datetime.timedelta(days=80))
    'coordinator.pem: expires in 10 days, on 2026-04-01'
    >>> found.expired(day + datetime.timedelta(days=91))
    True
    """

    file: Path
    begins: datetime.datetime
    ends: datetime.datetime

    def expired(self, now: datetime.datetime | None = None) -> bool:
        """Whether the certificate has expired."""
        return (now or _now()) >= self.ends

    def early(self, now: datetime.datetime | None = None) -> bool:
        """Whether the certificate is not valid yet; most often the clock of this machine is wrong."""
        return (now or _now()) < self.begins

    def problem(self, now: datetime.datetime | None = None) -> str | None:
        """What is wrong with the certificate now or will be within 30 days, as a sentence; None if nothing."""
        now = now or _now()
        if self.expired(now):
            return f"{self.file}: expired on {self.ends:%Y-%m-%d}, so it is no longer trusted"
        if self.early(now):
            begins = f"{self.begins:%Y-%m-%d %H:%M}"
            return f"{self.file}: not valid before {begins} UTC; this machine's clock says {now:%Y-%m-%d %H:%M}"
        if self.ends - now <= WARNING:
            days = (self.ends - now).days
            return f"{self.file}: expires in {days} day{'' if days == 1 else 's'}, on {self.ends:%Y-%m-%d}"
        return None


def read_validity(file: Path) -> Validity:
    """The validity period of the certificate in a file."""
    found = _certificate(file)
    return Validity(file, found.not_valid_before_utc, found.not_valid_after_utc)


def expiry_warnings(files: Iterable[Path]) -> list[str]:
    """One line for each certificate that has expired, expires within 30 days, or is not valid yet."""
    return [problem for file in files if (problem := read_validity(file).problem()) is not None]


def client_context(authority: str | Path | None) -> ssl.SSLContext:
    """A TLS context for clients that trust this certificate authority only."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"{authority}: cannot be used as an authority ({error})") from None


def why_untrusted(error: BaseException) -> str | None:
    """Why the server's certificate is not trusted, and what to do; None where the call failed for another reason.
    Libraries wrap the error, so its causes are searched.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
        found = found.__cause__ or found.__context__
    if found is None:
        return None
    return UNTRUSTED.get(found.verify_code, f"its certificate is not trusted ({found.verify_message})")


def on_loopback(host: str) -> bool:
    """Whether an address is a loopback address, which needs no TLS.

    >>> on_loopback("127.0.0.1"), on_loopback("localhost"), on_loopback("0.0.0.0"), on_loopback("shuffler.example")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_authority(folder: Path, days: float = DAYS) -> None:
    """Make the federation's certificate authority: ``authority.pem`` is public, ``authority.key`` secret.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> make_authority(folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['authority.key', 'authority.pem']
    """
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(folder / "authority.key", _pem(key))
    replace_file(folder / "authority.pem", _authority(key, days))


def renew_authority(folder: Path) -> Path:
    """A new certificate for the authority's existing key; copies of the old one stay valid until they expire."""
    replace_file(folder / "authority.pem", _authority(_key(folder / "authority.key"), DAYS))
    return folder / "authority.pem"


def make_server_certificate(folder: Path, name: str, hosts: Sequence[str], days: float = DAYS) -> None:
    """Write ``<name>.pem`` and ``<name>.key`` for a server with these host names, signed by the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    content = _signed(folder, name, [_host(each) for each in hosts], key.public_key(), days)
    write_private(folder / f"{name}.key", _pem(key))
    replace_file(folder / f"{name}.pem", content)


def renew_server_certificate(folder: Path, name: str) -> Path:
    """A new certificate for a server's existing key and host names; it expires no later than its authority's."""
    file = folder / f"{name}.pem"
    names = _certificate(file).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    replace_file(file, _signed(folder, name, list(names), _key(folder / f"{name}.key").public_key(), DAYS))
    return file


def make_node_key(folder: Path, name: str) -> None:
    """Write ``<name>.key``, which never leaves the node, and ``<name>.pub``, which the coordinator registers."""
    secret, public = _node_key()
    write_private(folder / f"{name}.key", secret)
    replace_file(folder / f"{name}.pub", public)


def renew_node_key(file: Path) -> Path:
    """Replace a node's key and keep the old one beside it; returns the new public half, for the coordinator."""
    if not file.is_file():
        raise InvalidInput(f"{file}: there is no key to renew")
    secret, public = _node_key()
    replace_file(file.with_suffix(".key.old"), file.read_bytes(), private=True)
    replace_file(file, secret, private=True)
    replace_file(file.with_suffix(".pub"), public)
    return file.with_suffix(".pub")


def write_private(file: Path, content: bytes) -> None:
    """Write a secret that only its owner may read; an existing file is never replaced."""
    try:
        write_file(file, content, private=True, replace=False)
    except FileExistsError:
        raise InvalidInput(f"{file}: exists already; a key is never replaced. Choose another folder") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None


def replace_file(file: Path, content: bytes, private: bool = False) -> None:
    """Write a file atomically, replacing an existing one."""
    try:
        write_file(file, content, private=private)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise InvalidInput(f"{file}: not a certificate in PEM") from None


def _key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        found = serialization.load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError):
        raise InvalidInput(f"{file}: not a key in PEM") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{file}: not an elliptic-curve key as `tacit federation init` makes it")
    return found


def _authority(key: ec.EllipticCurvePrivateKey, days: float) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)])
    certificate = (
        _begun(name, name, key.public_key(), _now() + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signing=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    folder: Path, name: str, names: Sequence[x509.GeneralName], key: ec.EllipticCurvePublicKey, days: float
) -> bytes:
    authority, signer = _certificate(folder / "authority.pem"), _key(folder / "authority.key")
    if Validity(folder / "authority.pem", authority.not_valid_before_utc, authority.not_valid_after_utc).expired():
        raise InvalidInput(f"{folder / 'authority.pem'}: has expired; renew it first, with --authority")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    ends = min(_now() + datetime.timedelta(days=days), authority.not_valid_after_utc)
    certificate = (
        _begun(subject, authority.subject, key, ends)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signing=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _node_key() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return secret, public + b"\n"


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of two machines differ.
        .not_valid_before(min(_now(), ends) - datetime.timedelta(hours=1))
        .not_valid_after(ends)
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
