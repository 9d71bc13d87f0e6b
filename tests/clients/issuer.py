"""An OpenID issuer on the loopback interface: keys, tokens, a server that publishes the keys, and the
login of a person with a browser (authorization code flow with a proof key).

Tokens are built by hand, because no library creates invalid ones.
"""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import secrets
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

import ports

AUDIENCE = "ashlar-test"


def encode(part):
    """Encodes a part of a token."""
    if not isinstance(part, bytes):
        part = json.dumps(part).encode()
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def single(parameters):
    """Returns parameters that are there once."""
    assert all(len(values) == 1 for values in parameters.values()), parameters
    return {name: values[0] for name, values in parameters.items()}


class Key:
    """An RSA key pair with its id."""

    def __init__(self, key_id):
        self.id = key_id
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwk(self):
        """Returns the public key as an issuer publishes it."""
        numbers = self.private.public_key().public_numbers()
        number = lambda value: encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))
        known = {"kid": self.id, "kty": "RSA", "alg": "RS256", "use": "sig"}
        return {**known, "n": number(numbers.n), "e": number(numbers.e)}

    def pem(self):
        """Returns the public key in PEM."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, form)

    def sign(self, message):
        return self.private.sign(message, padding.PKCS1v15(), hashes.SHA256())


class Authority:
    """A certificate authority, and the certificate that it issued for this machine."""

    def __init__(self, folder):
        authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        name = self._name("an authority")
        root = self._certificate(name, name, authority, authority, x509.BasicConstraints(True, None))
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        leaf = self._certificate(self._name("an issuer"), name, own, authority, here)
        pem = serialization.Encoding.PEM
        form = serialization.PrivateFormat.PKCS8
        private = own.private_bytes(pem, form, serialization.NoEncryption())
        self.file, self.chain = folder / "authority.pem", folder / "issuer.pem"
        self.file.write_bytes(root.public_bytes(pem))
        self.chain.write_bytes(private + leaf.public_bytes(pem))

    @staticmethod
    def _name(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    @staticmethod
    def _certificate(subject, issuer, key, signer, extension):
        now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - day).not_valid_after(now + day)
        return made.add_extension(extension, critical=True).sign(signer, hashes.SHA256())


class Client:
    """A client of the issuer: a program at which people log in."""

    def __init__(self, client_id, secret, redirect_url):
        self.id, self.secret, self.redirect_url = client_id, secret, redirect_url

    def is_sent(self, headers, form):
        """True if a request has the id and the secret of the client."""
        scheme, _, pair = headers.get("Authorization", "").partition(" ")
        if scheme != "Basic":
            return False
        given = [unquote_plus(part) for part in base64.b64decode(pair).decode().split(":")]
        return given == [self.id, self.secret] and form.get("client_id") == self.id


class Issuer:
    """An issuer. It serves until it is stopped."""

    def __init__(self, authority=None, host="127.0.0.1"):
        self.authority = authority
        # The client whose people can log in, and the codes that it has not redeemed.
        self.client = None
        self.codes = {}
        self.codes_given = []
        # The error that the next logins get, and the changes of the claims of their tokens.
        self.denies = None
        self.login_claims = {}
        self.keys = [Key("first")]
        self.padding = 0
        self.asked = []
        self._server = None
        self.port = ports.reserve()
        scheme = "https" if authority else "http"
        self.url = f"{scheme}://{host}:{self.port}/realm"
        self.start()

    def start(self):
        """Starts to listen."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked.append(self.path)
                if urlsplit(self.path).path == "/realm/authorize":
                    self.send_response(302)
                    self.send_header("Location", issuer.authorize(urlsplit(self.path).query))
                    self.finish_with(b"")
                    return
                body = issuer.answer(self.path)
                self.send_response(200 if body else 404)
                self.finish_with(body or b"")

            def do_POST(self):
                issuer.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = issuer.redeem(self.headers, single(parse_qs(body)))
                self.send_response(status)
                self.finish_with(json.dumps(answer).encode())

            def finish_with(self, body):
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        if self.authority:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self.authority.chain)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        """Stops the server, so that connections are refused."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path):
        if path == "/realm/.well-known/openid-configuration":
            members = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
            members["authorization_endpoint"] = f"{self.url}/authorize"
            members["token_endpoint"] = f"{self.url}/token"
            return json.dumps(members).encode()
        if path == "/realm/keys":
            keys = [key.jwk() for key in self.keys]
            return json.dumps({"keys": keys, "padding": "x" * self.padding}).encode()
        return None

    def authorize(self, query):
        """The login of a person who is known and agrees. Returns the URL to go back to."""
        asked = single(parse_qs(query))
        assert asked["client_id"] == self.client.id
        assert asked["redirect_uri"] == self.client.redirect_url
        assert asked["response_type"] == "code" and "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
        answer = {"state": asked["state"], "iss": self.url}
        if self.denies:
            answer["error"], answer["error_description"] = self.denies
        else:
            answer["code"] = secrets.token_urlsafe()
            self.codes[answer["code"]] = (asked["code_challenge"], asked["nonce"])
            self.codes_given.append(answer["code"])
        return f"{self.client.redirect_url}?{urlencode(answer)}"

    def redeem(self, headers, form):
        """Exchanges a code for a token, once. Returns the status and the document."""
        if not self.client.is_sent(headers, form):
            return 401, {"error": "invalid_client"}
        known = self.codes.pop(form["code"], None)
        hashed = encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        is_same_place = form["redirect_uri"] == self.client.redirect_url
        if not known or form["grant_type"] != "authorization_code" or not is_same_place:
            return 400, {"error": "invalid_grant", "error_description": "the code is unknown"}
        challenge, nonce = known
        if hashed != challenge:
            return 400, {"error": "invalid_grant", "error_description": "the verifier is wrong"}
        claims = {"aud": self.client.id, "nonce": nonce, **self.login_claims}
        return 200, {"token_type": "Bearer", "id_token": self.token(**claims)}

    def claims(self, **changes):
        """Returns the claims of a valid token, with changes; None removes a claim."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "anna-7", "iat": now, "exp": now + 3600}
        claims |= {"policy": "readwrite", "email": "anna@example.com"}
        claims |= {"email_verified": True, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, algorithm="RS256", key_id=None, **changes):
        """Returns a token, signed with the first key unless `key` is given."""
        key = key or self.keys[0]
        header = {"alg": algorithm, "typ": "JWT", "kid": key_id or key.id}
        message = f"{encode(header)}.{encode(self.claims(**changes))}"
        if algorithm == "none":
            signature = b""
        elif algorithm == "HS256":
            # Signs with the public key as if it were an HMAC secret.
            signature = hmac.new(key.pem(), message.encode(), hashlib.sha256).digest()
        else:
            signature = key.sign(message.encode())
        return f"{message}.{encode(signature)}"
