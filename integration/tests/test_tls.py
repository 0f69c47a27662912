"""Calls to AWS over TLS, as all real ones are: the local AWS speaks plain HTTP."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command import curfew
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DENIED = b"<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>"


class Denial(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403)
        self.send_header("Content-Length", str(len(DENIED)))
        self.end_headers()
        self.wfile.write(DENIED)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def certify(folder: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> tuple[Path, Path]:
    """Writes a certificate of `localhost` that signs itself, and its key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    no_password = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password))
    return certificate, private


@contextmanager
def serving(certificate: Path, private: Path, version: ssl.TLSVersion) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Denial)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    context.maximum_version = version
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ec.generate_private_key(ec.SECP256R1()), ssl.TLSVersion.TLSv1_3),
        (rsa.generate_private_key(65537, 2048), ssl.TLSVersion.TLSv1_2),
    ],
    ids=["ECDSA, TLS 1.3", "RSA, TLS 1.2"],
)
def test_a_call_goes_over_tls_to_a_trusted_server_only(key: object, version: ssl.TLSVersion, tmp_path: Path) -> None:
    trusted, other = tmp_path / "trusted", tmp_path / "other"
    trusted.mkdir()
    other.mkdir()
    certificate, private = certify(trusted, key)
    stranger, _ = certify(other, ec.generate_private_key(ec.SECP256R1()))
    credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    with serving(certificate, private, version) as address:
        environment = {**credentials, "AWS_ENDPOINT_URL": address}
        said = curfew({**environment, "SSL_CERT_FILE": str(certificate)}, "scan", "--regions", "us-east-1")
        assert said.code == 2 and "UnauthorizedOperation" in said.err
        said = curfew({**environment, "SSL_CERT_FILE": str(stranger)}, "scan", "--regions", "us-east-1")
        assert said.code == 2 and "TLS handshake failed" in said.err and "UnauthorizedOperation" not in said.err
