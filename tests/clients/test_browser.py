"""A real browser: pages of one origin that use the gateway at another one.

The browser decides by the gateway's responses which requests may cross origins. So the suite uses
only pages, forms and `fetch` in Chromium, with default settings.
"""

import hashlib
import html
import http.server
import json
import os
import threading
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from browser import PAGE_SECONDS

# The browser's cache of a displayed page lacks the headers for other origins.
FETCH = """
const [url, init, finish] = arguments;
fetch(url, {cache: "no-store", ...init}).then(async answer => finish({
    status: answer.status,
    headers: Object.fromEntries(answer.headers),
    body: await answer.text(),
})).catch(error => finish({refused: String(error)}));
"""


class Site:
    """A web site with `pages`; each other path is an empty page."""

    def __init__(self):
        self.pages = pages = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                content = pages.get(urlsplit(self.path).path, "<title>a page</title>").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()


@pytest.fixture
def site():
    """A site that the bucket admits."""
    site = Site()
    yield site
    site.close()


@pytest.fixture
def other_site():
    """A site that the bucket does not admit."""
    site = Site()
    yield site
    site.close()


@pytest.fixture
def fetch(driver):
    """Fetches a URL as a script of a site's page does."""

    def fetch(site, url, **init):
        if driver.current_url.split("/", 3)[:3] != site.origin.split("/"):
            driver.get(f"{site.origin}/")
        return driver.execute_async_script(FETCH, url, init)

    return fetch


@pytest.fixture(params=["s3v4", "s3"])
def signer(server, request):
    """A client that signs URLs and forms with version 4, or 2."""
    config = Config(signature_version=request.param)
    return boto3.client("s3", config=config, **server.aws_settings())


def allow(control, bucket, site, **more):
    """Admits the pages of a site."""
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": [getattr(site, "origin", site)]}
    control.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [{**rule, **more}]})


def make_public(control, bucket):
    """Lets everyone read the bucket's objects."""
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    control.put_bucket_policy(Bucket=bucket, Policy=text)


def presigned(signer, method, bucket, key, **parameters):
    return signer.generate_presigned_url(
        method, Params={"Bucket": bucket, "Key": key, **parameters}
    )


def form_page(post):
    """A page with a form, as the documentation of presigned forms shows it."""
    fields = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in post["fields"].items()
    )
    return (
        f'<form action="{html.escape(post["url"])}" method="post" enctype="multipart/form-data">'
        f'{fields}<input type="file" name="file"><input type="submit" name="submit"></form>'
    )


def submit(driver, page, path):
    """Chooses a file in a page's form, and sends it."""
    driver.get(page)
    driver.find_element(By.NAME, "file").send_keys(str(path))
    driver.find_element(By.NAME, "submit").click()


def test_a_form_uploads_a_file_and_redirects(
    server, control, bucket, signer, driver, site, fetch, tmp_path
):
    content = os.urandom(300_000)
    path = tmp_path / "a photo é.bin"
    path.write_bytes(content)
    done = {"success_action_redirect": f"{site.origin}/done?from=form"}
    post = signer.generate_presigned_post(
        bucket,
        "up/${filename}",
        Fields=done,
        Conditions=[done, ["content-length-range", 1, 400_000]],
    )
    site.pages["/form"] = form_page(post)
    submit(driver, f"{site.origin}/form", path)
    WebDriverWait(driver, PAGE_SECONDS).until(lambda it: "/done" in it.current_url)
    told = parse_qs(urlsplit(driver.current_url).query)
    key = "up/a photo é.bin"
    assert told["from"] == ["form"] and told["bucket"] == [bucket] and told["key"] == [key]
    found = control.get_object(Bucket=bucket, Key=key)
    assert found["Body"].read() == content and told["etag"] == [found["ETag"]]

    # The page to which the browser was redirected reads the uploaded object.
    allow(control, bucket, site)
    script = """
    const [url, finish] = arguments;
    fetch(url).then(it => it.arrayBuffer()).then(it => crypto.subtle.digest("SHA-256", it))
        .then(it => finish([...new Uint8Array(it)])).catch(error => finish(String(error)));
    """
    digest = driver.execute_async_script(script, presigned(signer, "get_object", bucket, key))
    assert digest == list(hashlib.sha256(content).digest())


def test_a_form_that_is_refused_shows_why(control, bucket, signer, driver, site, tmp_path):
    path = tmp_path / "long.txt"
    path.write_bytes(b"x" * 11)
    limit = ["content-length-range", 1, 10]
    post = signer.generate_presigned_post(bucket, "k", Conditions=[limit])
    site.pages["/form"] = form_page(post)
    submit(driver, f"{site.origin}/form", path)
    WebDriverWait(driver, PAGE_SECONDS).until(lambda it: "EntityTooLarge" in it.page_source)
    assert control.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_page_reads_what_the_cors_rules_allow(control, bucket, signer, site, other_site, fetch):
    control.put_object(Bucket=bucket, Key="k", Body=b"hello", Metadata={"by": "hand", "of": "one"})
    url = presigned(signer, "get_object", bucket, "k")
    assert "refused" in fetch(site, url), "without a configuration nothing crosses origins"
    allow(control, bucket, site, ExposeHeaders=["x-amz-meta-by", "Content-Range"])
    found = fetch(site, url)
    assert (found["status"], found["body"]) == (200, "hello")
    assert found["headers"]["x-amz-meta-by"] == "hand" and "etag" in found["headers"]
    assert "x-amz-meta-of" not in found["headers"], "what is not exposed is not seen"
    found = fetch(site, url, headers={"Range": "bytes=1-2"})
    assert (found["status"], found["body"]) == (206, "el")
    assert found["headers"]["content-range"] == "bytes 1-2/5"
    # The page can also read error responses.
    found = fetch(site, presigned(signer, "get_object", bucket, "none"))
    assert found["status"] == 404 and "<Code>NoSuchKey</Code>" in found["body"]
    assert "refused" in fetch(other_site, url), "other origins stay out"


def test_a_request_with_other_headers_needs_a_preflight(
    control, bucket, signer, site, other_site, fetch
):
    control.put_object(Bucket=bucket, Key="k", Body=b"hello")
    url = presigned(signer, "get_object", bucket, "k")
    allow(control, bucket, site, AllowedHeaders=["x-trace-*"])
    found = fetch(site, url, headers={"X-Trace-Id": "7"})
    assert (found.get("status"), found.get("body")) == (200, "hello"), found
    assert "refused" in fetch(site, url, headers={"X-Other": "7"})
    assert "refused" in fetch(site, url, method="DELETE"), "nor is another method allowed"
    assert "refused" in fetch(other_site, url, headers={"X-Trace-Id": "7"})
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


def test_a_page_with_credentials_needs_an_explicit_origin(control, bucket, signer, site, fetch):
    control.put_object(Bucket=bucket, Key="k", Body=b"hello")
    url = presigned(signer, "get_object", bucket, "k")
    asked = {"credentials": "include", "headers": {"X-Trace-Id": "7"}}
    allow(control, bucket, site, AllowedHeaders=["*"])
    assert fetch(site, url, **asked).get("body") == "hello"
    # A wildcard admits all pages, but none with credentials.
    allow(control, bucket, "*", AllowedHeaders=["*"])
    other = presigned(signer, "get_object", bucket, "k", ResponseCacheControl="no-store")
    assert "refused" in fetch(site, other, **asked)
    assert fetch(site, other).get("body") == "hello"


def test_a_page_uploads_by_a_presigned_url(control, bucket, signer, site, other_site, fetch):
    named = {"ContentType": "text/x-note", "Metadata": {"by": "page"}}
    url = presigned(signer, "put_object", bucket, "k", **named)
    asked = {
        "method": "PUT",
        "headers": {"Content-Type": "text/x-note", "x-amz-meta-by": "page"},
        "body": "written by a page",
    }
    assert "refused" in fetch(site, url, **asked)
    headers = ["content-type", "x-amz-meta-*"]
    allow(control, bucket, site, AllowedMethods=["PUT"], AllowedHeaders=headers)
    assert "refused" in fetch(other_site, url, **asked)
    assert control.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    answer = fetch(site, url, **asked)
    assert answer.get("status") == 200, answer
    found = control.get_object(Bucket=bucket, Key="k")
    assert found["Body"].read() == b"written by a page"
    assert found["ContentType"] == "text/x-note" and found["Metadata"] == {"by": "page"}
    assert answer["headers"]["etag"] == found["ETag"]


def test_every_page_reads_a_public_object(server, control, bucket, driver, site, fetch):
    control.put_object(
        Bucket=bucket, Key="dir/page é.html", Body=b"<h1>public</h1>", ContentType="text/html"
    )
    url = f"{server.endpoint}/{bucket}/dir/page%20%C3%A9.html"
    driver.get(url)
    assert "AccessDenied" in driver.page_source
    make_public(control, bucket)
    driver.get(url)
    assert driver.find_element(By.TAG_NAME, "h1").text == "public"
    assert "refused" in fetch(site, url), "what is public may still not cross origins"
    allow(control, bucket, "*")
    assert fetch(site, url).get("body") == "<h1>public</h1>"
