"""Requests built by hand, which S3 clients would not send because they are refused.

A request is signed as S3 documents it (version 4, in a header or a URL). Each part of the
signature can be replaced by a wrong one.
"""

import base64
import binascii
import datetime
import hashlib
import hmac
import http.client
import ssl
import xml.etree.ElementTree
from dataclasses import dataclass, field, replace
from typing import Optional, Tuple
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
ANSWER_SECONDS = 60


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def md5(content):
    """Returns a Content-MD5."""
    return base64.b64encode(hashlib.md5(content).digest()).decode()


def crc32(content):
    """Returns an x-amz-checksum-crc32."""
    return base64.b64encode(binascii.crc32(content).to_bytes(4, "big")).decode()


@dataclass(frozen=True)
class Form:
    """A form for an upload, signed with version 4."""

    key: Optional[str] = "k"
    conditions: str = '{"bucket": "$bucket"}, {"key": "k"}'
    fields: Tuple[Tuple[str, str], ...] = ()
    content: bytes = b"x"
    expiration: str = "2100-01-01T00:00:00Z"
    # The policy as sent; None to build it from the conditions.
    policy: Optional[str] = None
    signed: bool = True
    by: str = "root"
    secret: Optional[str] = None
    algorithm: str = ALGORITHM
    region: str = "us-east-1"

    def encoded(self, key, secret, fill):
        """Returns the form as a browser sends it: the content type and the body."""
        signer = Signer(Ask("POST /", region=self.region, secret=self.secret), key, secret, "")
        own = {
            "x-amz-algorithm": self.algorithm,
            "x-amz-credential": f"{key}/{signer.scope}",
            "x-amz-date": signer.moment,
        }
        covered = "".join(f', {{"{name}": "{value}"}}' for name, value in own.items())
        text = f'{{"expiration": "{self.expiration}", "conditions": [{self.conditions}{covered}]}}'
        policy = base64.b64encode(fill(text).encode()).decode()
        policy = policy if self.policy is None else self.policy
        own = {**own, "policy": policy, "x-amz-signature": signer.of(policy)}
        fields = [*([("key", self.key)] if self.key else []), *self.fields]
        fields += own.items() if self.signed else []
        lead = '--b\r\nContent-Disposition: form-data; name="'
        body = "".join(f'{lead}{name}"\r\n\r\n{value}\r\n' for name, value in fields)
        body = f'{body}{lead}file"; filename="f"\r\n\r\n'.encode()
        return "multipart/form-data; boundary=b", body + self.content + b"\r\n--b--\r\n"


@dataclass(frozen=True)
class Ask:
    """A request. `line` is method and target as sent, without further escapes."""

    line: str
    headers: Tuple[Tuple[str, str], ...] = ()
    body: bytes = b""
    # The signer, by the name of the scene; None for an anonymous request.
    by: Optional[str] = "root"
    # The place of the signature: "header", or "url" for a presigned URL.
    how: str = "header"
    # The value of x-amz-content-sha256: None for the body's hash, empty for no header.
    claim: Optional[str] = None
    # Additional headers that are not signed.
    unsigned: Tuple[Tuple[str, str], ...] = ()
    secret: Optional[str] = None
    token: Optional[str] = None
    region: str = "us-east-1"
    service: str = "s3"
    terminal: str = "aws4_request"
    # The delay of the signer's clock in seconds.
    late: int = 0
    # The day in the credential, if it differs from that of the signature.
    day: Optional[str] = None
    expires: str = "300"
    # Replacements in the Authorization header or the signed target, after the signature.
    forged: Tuple[Tuple[str, str], ...] = ()
    # True to send neither a length nor a body.
    without_length: bool = False
    # The lengths of the signed chunks of the body; the last signature may be wrong.
    chunks: Tuple[int, ...] = ()
    wrong_chunk: bool = False
    # A form as the body.
    form: Optional[Form] = None

    def but(self, **changes):
        """Returns a copy with changed fields."""
        return replace(self, **changes)

    def more(self, **headers):
        """Returns a copy with more headers; `_` in a name becomes a dash."""
        added = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return replace(self, headers=self.headers + added)

    @property
    def method(self):
        return self.line.split(" ", 1)[0]

    @property
    def target(self):
        return self.line.split(" ", 1)[1]


@dataclass(frozen=True)
class Answer:
    """A response. `error` has the elements of the error document; None without one."""

    status: int
    headers: object
    body: bytes
    error: Optional[dict] = field(default=None)


class Signer:
    """Signs one request."""

    def __init__(self, ask, key, secret, host):
        self.ask, self.key, self.host = ask, key, host
        self.secret = ask.secret or secret
        moment = datetime.datetime.now(datetime.timezone.utc)
        moment += datetime.timedelta(seconds=ask.late)
        self.moment = moment.strftime("%Y%m%dT%H%M%SZ")
        day = ask.day or self.moment[:8]
        self.scope = f"{day}/{ask.region}/{ask.service}/{ask.terminal}"

    def of(self, text):
        """Returns the signature of a string to sign."""
        key = f"AWS4{self.secret}".encode()
        for step in (*self.scope.split("/"), text):
            key = hmac.new(key, step.encode(), hashlib.sha256).digest()
        return key.hex()

    def of_request(self, query, signed, claim):
        path = self.ask.target.partition("?")[0]
        pairs = (part.partition("=") for part in query.split("&") if part)
        canonical = "&".join(sorted(f"{name}={value}" for name, _, value in pairs))
        names = sorted(signed)
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        request = [self.ask.method, path, canonical, lines, ";".join(names), claim]
        return self.of(self.string_to_sign("\n".join(request).encode()))

    def string_to_sign(self, request):
        return "\n".join([ALGORITHM, self.moment, self.scope, sha256(request)])

    def chunk(self, before, content):
        """Returns the signature of a chunk that follows another signature."""
        lines = [f"{ALGORITHM}-PAYLOAD", self.moment, self.scope, before, sha256(b"")]
        return self.of("\n".join([*lines, sha256(content)]))


def wire(ask, host, key, secret):
    """Returns target, headers and body of a request as they are sent."""
    headers = {"host": host, **dict(ask.headers)}
    claim = sha256(ask.body) if ask.claim is None else ask.claim
    target, body = ask.target, ask.body
    signer = Signer(ask, key, secret, host) if ask.by else None
    if signer and ask.how == "url":
        target = presigned(ask, signer, headers)
    elif signer:
        headers["x-amz-date"] = signer.moment
        if claim:
            headers["x-amz-content-sha256"] = claim
        if ask.token:
            headers["x-amz-security-token"] = ask.token
        query = target.partition("?")[2]
        signature = signer.of_request(query, headers, claim)
        headers["authorization"] = (
            f"{ALGORITHM} Credential={key}/{signer.scope}, "
            f"SignedHeaders={';'.join(sorted(set(headers)))}, Signature={signature}"
        )
        if ask.chunks:
            body = chunked(ask, signer, signature)
    elif ask.claim:
        headers["x-amz-content-sha256"] = ask.claim
    for old, new in ask.forged:
        if "authorization" in headers:
            headers["authorization"] = headers["authorization"].replace(old, new)
        target = target.replace(old, new)
    return target, [*headers.items(), *ask.unsigned], body


def presigned(ask, signer, headers):
    path, _, query = ask.target.partition("?")
    own = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{signer.key}/{signer.scope}",
        "X-Amz-Date": signer.moment,
        "X-Amz-Expires": ask.expires,
        "X-Amz-SignedHeaders": ";".join(sorted(headers)),
    }
    if ask.token:
        own["X-Amz-Security-Token"] = ask.token
    own = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in own.items())
    query = f"{query}&{own}" if query else own
    signature = signer.of_request(query, headers, ask.claim or "UNSIGNED-PAYLOAD")
    return f"{path}?{query}&X-Amz-Signature={signature}"


def chunked(ask, signer, signature):
    body, at = b"", 0
    for place, length in enumerate((*ask.chunks, 0)):
        content = ask.body[at : at + length]
        signature = signer.chunk(signature, content)
        at += length
        shown = "0" * 64 if ask.wrong_chunk and place == len(ask.chunks) - 1 else signature
        body += f"{length:x};chunk-signature={shown}\r\n".encode() + content + b"\r\n"
    return body


def send(server, ask, key=None, secret=None):
    """Sends a request and reads its response."""
    parts = urlsplit(server.endpoint)
    target, headers, body = wire(ask, parts.netloc, key, secret)
    if server.ca:
        context = ssl.create_default_context(cafile=server.ca)
        connection = http.client.HTTPSConnection(
            parts.netloc, timeout=ANSWER_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=ANSWER_SECONDS)
    # Disables the checks of the library, which would refuse or change some targets.
    connection._validate_path = lambda url: None
    connection.putrequest(ask.method, target, skip_host=True, skip_accept_encoding=True)
    names = {name.lower() for name, _ in headers}
    for name, value in headers:
        connection.putheader(name, value.encode() if isinstance(value, str) else value)
    if not ask.without_length and not names & {"content-length", "transfer-encoding"}:
        if body or ask.method in ("PUT", "POST"):
            connection.putheader("content-length", str(len(body)))
    connection.endheaders()
    if body and not ask.without_length:
        try:
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            pass  # It was refused before it was read.
    response = connection.getresponse()
    content = response.read()
    answer = Answer(response.status, response.headers, content, elements(content))
    connection.close()
    return answer


def fill(server, bucket, keys):
    """Puts an empty object under each key, on one connection. The client of an SDK takes
    longer for each of them than the gateway."""
    parts = urlsplit(server.endpoint)
    context = ssl.create_default_context(cafile=server.ca) if server.ca else None
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    more = {"context": context} if context else {}
    connection = kind(parts.netloc, timeout=ANSWER_SECONDS, **more)
    for key in keys:
        ask = Ask(f"PUT /{bucket}/{quote(key)}")
        target, headers, body = wire(ask, parts.netloc, server.access_key, server.secret_key)
        connection.request("PUT", target, body, dict(headers))
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
    connection.close()


def elements(content):
    """Returns the elements of an error document; of elements with one name, the last."""
    if b"<Error>" not in content and b"<ErrorResponse" not in content:
        return None
    root = xml.etree.ElementTree.fromstring(content)
    found = (
        root if root.tag == "Error" else next(it for it in root.iter() if it.tag.endswith("Error"))
    )
    return {child.tag.rpartition("}")[2]: child.text or "" for child in found}
