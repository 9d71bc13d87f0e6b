"""Server-side encryption: keys of the key management service, and keys of clients."""

from encryption import PREFIX, CustomerKey

from . import Row, argument
from .every import GOOD

COPY = GOOD["CopyObject"]
# The key of the object `secret` and of the upload `$sealed` of the scene, and another one.
KEY, OTHER = CustomerKey("a"), CustomerKey("b")
SOURCE = "x-amz-copy-source-server-side-encryption"

NO_KEY = (
    "The object was stored using a form of Server Side Encryption. The correct parameters must be "
    "provided to retrieve the object."
)
WRONG_KEY = (
    "Requests specifying Server Side Encryption with Customer provided keys must provide the "
    "correct secret key."
)
NO_ALGORITHM = (
    "Requests specifying Server Side Encryption with Customer provided keys must provide a valid "
    "encryption algorithm."
)
NO_MD5 = (
    "Requests specifying Server Side Encryption with Customer provided keys must provide the "
    "client calculated MD5 of the secret key."
)
OTHER_MD5 = "The calculated MD5 hash of the key did not match the hash that was provided."
TWO_MODES = (
    "Server Side Encryption with Customer provided key is incompatible with the encryption method "
    "specified"
)
NO_KMS = (
    "Server Side Encryption with AWS KMS managed key requires HTTP header "
    "x-amz-server-side-encryption : aws:kms"
)


def under(ask, key, prefix=PREFIX):
    """Returns a request with the key of a client."""
    # Names in a signature are in lower case.
    headers = {name.lower().replace(PREFIX, prefix): text for name, text in key.headers().items()}
    return ask.but(headers=(*ask.headers, *headers.items()))


def rows():
    yield from services()
    yield from reads()
    yield from headers()
    yield from parts()


def services():
    for name in ("PutObject", "CopyObject", "CreateMultipartUpload"):
        kms = ((PREFIX, "aws:kms"),)
        ask = GOOD[name].but(headers=(*GOOD[name].headers, *kms))
        message = "Invalid keyId 'aws/s3'"
        yield Row(name, "no key and no default", ask, 400, "KMS.NotFoundException", message)
        unknown = ((f"{PREFIX}-aws-kms-key-id", "no-such-key"),)
        ask = ask.but(headers=(*ask.headers, *unknown))
        yield Row(name, "an unknown key of the KMS", ask, 400, "KMS.NotFoundException")
        alone = GOOD[name].but(headers=(*GOOD[name].headers, *unknown))
        yield argument(name, "a key without SSE-KMS", alone, PREFIX, "no-such-key", NO_KMS)


def reads():
    for name in ("GetObject", "HeadObject", "GetObjectAttributes"):
        small = GOOD[name]
        secret = small.but(line=small.line.replace("small", "secret"))
        yield Row(name, "no key of the client", secret, 400, "InvalidRequest", NO_KEY)
        wrong = under(secret, OTHER)
        yield Row(name, "a wrong key of the client", wrong, 400, "InvalidArgument", WRONG_KEY)
        message = "The encryption parameters are not applicable to this object."
        needless = under(small, KEY)
        yield Row(name, "a key that is not needed", needless, 400, "InvalidRequest", message)
    secret = COPY.but(headers=(("x-amz-copy-source", "/$bucket/secret"),))
    yield Row("CopyObject", "no key of the source", secret, 400, "InvalidRequest", NO_KEY)
    wrong = under(secret, OTHER, SOURCE)
    yield Row("CopyObject", "a wrong key of the source", wrong, 400, "InvalidArgument", WRONG_KEY)


def headers():
    for name in ("GetObject", "PutObject", "CreateMultipartUpload"):
        whole = under(GOOD[name], KEY)

        def without(part):
            kept = [pair for pair in whole.headers if pair[0] != f"{PREFIX}-customer-{part}"]
            return whole.but(headers=tuple(kept))

        ask = without("algorithm")
        yield argument(name, "a key without a cipher", ask, PREFIX, "null", NO_ALGORITHM)
        ask = without("key-md5")
        yield argument(name, "a key without its MD5", ask, PREFIX, "null", NO_MD5)
        md5 = ((f"{PREFIX}-customer-key-md5", OTHER.md5),)
        ask = ask.but(headers=(*ask.headers, *md5))
        yield argument(name, "the MD5 of another key", ask, PREFIX, "null", OTHER_MD5)
    both = under(GOOD["PutObject"].but(headers=((PREFIX, "AES256"),)), KEY)
    yield argument("PutObject", "two modes", both, PREFIX, "AES256", TWO_MODES)


def parts():
    message = (
        "The multipart upload initiate requested encryption. Subsequent part requests must include "
        "the appropriate encryption parameters."
    )
    differs = "The provided encryption parameters did not match the ones used originally."
    for name in ("UploadPart", "UploadPartCopy"):
        plain = GOOD[name]
        line = plain.line.replace("/up?", "/sealed?").replace("$upload", "$sealed")
        sealed = plain.but(line=line)
        yield Row(name, "no key of the upload", sealed, 400, "InvalidRequest", message)
        other = under(sealed, OTHER)
        yield Row(name, "another key than the upload", other, 400, "InvalidRequest", differs)
        needless = under(plain, KEY)
        yield Row(name, "a key for a plain upload", needless, 400, "InvalidRequest", message)
