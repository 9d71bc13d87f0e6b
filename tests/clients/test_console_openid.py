"""The login to the console at an OpenID issuer, with a browser and with forged returns; and browsers at
the S3 endpoint.

The suite starts its own gateway, because issuers are settings. The issuer is on `localhost` and the
console on `127.0.0.1`, which are two sites for a browser.
"""

import json
import os
import secrets
import socket
import subprocess
import time
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import boto3
import pytest
import urllib3

import ports
from console import Console
from issuer import Client, Issuer

STARTS_SECONDS = 60

ROLE = "arn:aws:iam::000000000001:role/staff"
CLIENT_ID = "ashlar-console"
IMAGE = "<img src=x onerror=alert(1)>"

LOGIN = "ashlar-login"
ATTEMPT = "ashlar-openid"


class Gateway:
    """A gateway whose console has a login at an issuer."""

    def __init__(self, program, folder, issuer):
        self.program, self.folder = program, folder
        self.console = f"http://127.0.0.1:{ports.reserve()}"
        self.s3 = f"http://127.0.0.1:{ports.reserve()}"
        self.operator = ("operator", secrets.token_hex(16))
        client = Client(CLIENT_ID, secrets.token_hex(8), f"{self.console}/login/callback")
        issuer.client = client
        secret = folder / "client-secret"
        secret.write_text(client.secret + "\n")
        secret.chmod(0o600)
        self.config = folder / "ashlar.toml"
        self.config.write_text(
            f'[[openid]]\nrole = "staff"\nissuer = "{issuer.url}"\naudience = ["{CLIENT_ID}"]\n'
            f'[openid.login]\nclient_id = "{CLIENT_ID}"\nlabel = "Company"\n'
            f'client_secret_file = "{secret}"\nredirect_url = "{client.redirect_url}"\n'
        )
        self.log, self.access_log = folder / "log", folder / "access-log"
        self.process = None

    def start(self):
        environment = {name: value for name, value in os.environ.items() if "ASHLAR" not in name}
        environment |= {"ASHLAR_ROOT_USER": self.operator[0]}
        environment |= {"ASHLAR_ROOT_PASSWORD": self.operator[1]}
        words = ["serve", "--create", "--config", self.config, "--data-dir", self.folder / "data"]
        words += ["--listen", self.s3.removeprefix("http://"), "--admin-listen", "off"]
        words += ["--console-url", f"{self.console}/buckets"]
        words += ["--console-listen", self.console.removeprefix("http://")]
        words += ["--access-log", self.access_log]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, *map(str, words)], env=environment, stdout=log, stderr=log
            )
        end = time.monotonic() + STARTS_SECONDS
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)

    def answers(self):
        try:
            address = urlsplit(self.console)
            socket.create_connection((address.hostname, address.port), timeout=5).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text()

    def lines(self, operation):
        """The lines of an operation in the access log."""
        lines = [json.loads(line) for line in self.access_log.read_text().splitlines()]
        return [line for line in lines if line.get("operation") == operation]


class Browser:
    """A client that keeps cookies, and follows no redirection by itself."""

    def __init__(self, gateway):
        self.gateway, self.cookies = gateway, {}
        self.http = urllib3.PoolManager(retries=False)

    def get(self, url):
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": cookie} if cookie else {}
        answer = self.http.request("GET", url, headers=headers, redirect=False)
        for line in answer.headers.getlist("Set-Cookie"):
            name, _, value = line.split(";")[0].partition("=")
            self.cookies[name] = value
            if "max-age=0" in line.lower():
                del self.cookies[name]
        return answer

    def begin(self, path="/"):
        """Presses the button. Returns the page of the issuer."""
        query = f"role={quote(ROLE, safe='')}&next={quote(path, safe='')}"
        answer = self.get(f"{self.gateway.console}/login/openid?{query}")
        assert answer.status == 303, answer.data
        return answer.headers["Location"]

    def log_in_at(self, page):
        """Logs in at the page of the issuer. Returns the URL to go back to."""
        return self.http.request("GET", page, redirect=False).headers["Location"]

    def back(self, url, **changes):
        """Returns from the issuer, with changes of the parameters; None removes one."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        query = {name: value for name, value in {**query, **changes}.items() if value is not None}
        return self.get(f"{self.gateway.console}/login/callback?{urlencode(query)}")

    def is_logged_in(self):
        return self.get(f"{self.gateway.console}/me").status == 200


@pytest.fixture(scope="module")
def provider():
    issuer = Issuer(host="localhost")
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def gateway(server, tmp_path_factory, provider):
    if not server.program:
        pytest.skip("set ASHLAR_TEST_PROGRAM to start a gateway with an issuer")
    gateway = Gateway(server.program, tmp_path_factory.mktemp("openid"), provider)
    gateway.start()
    yield gateway
    gateway.stop()
    log = gateway.log.read_text() + gateway.access_log.read_text()
    credentials = ["eyJ", provider.client.secret, *provider.codes_given]
    assert not [word for word in credentials if word in log], "no credentials in the logs"


@pytest.fixture(autouse=True)
def plain_provider(provider):
    """The provider admits everyone again after each test."""
    yield
    provider.denies, provider.login_claims = None, {}


@pytest.fixture
def browser(gateway):
    return Browser(gateway)


@pytest.fixture
def person(console_driver, gateway):
    """The console of the gateway in Chromium, without a login."""
    console = Console(console_driver, gateway.console)
    console.open("/login").forget()
    console.messages()
    yield console
    broken = [text for text in console.messages() if "Content Security Policy" in text]
    assert not broken, "the pages break their own policy"


def press_company(person):
    link = "//a[normalize-space()='Log in with Company']"
    person.driver.find_element("xpath", link).click()


def refused(answer, status, code, *words):
    page = answer.data.decode()
    assert (answer.status, code in page) == (status, True), page
    for word in words:
        assert word in page, page


def test_a_person_logs_in_at_the_provider_and_out(person, gateway, provider):
    person.open("/buckets?page=&sort=name")
    assert person.path == "/login"
    press_company(person)
    person.wait_for(lambda: person.path == "/buckets")
    assert person.driver.current_url.endswith("/buckets?page=&sort=name")
    cookies = {it["name"]: it for it in person.driver.get_cookies()}
    assert cookies[LOGIN]["httpOnly"] and cookies[LOGIN]["sameSite"] == "Strict"
    assert ATTEMPT not in cookies
    person.open("/me")
    assert person.path == "/me"
    (line,) = gateway.lines("ConsoleWebLogin")
    assert line["status"] == 200
    text = json.dumps(line)
    for word in ("anna-7", "readwrite", "staff", provider.url):
        assert word in text, text
    before = person.cookie()
    person.press_text("Log out")
    assert person.path == "/login"
    http = urllib3.PoolManager(retries=False)
    headers = {"Cookie": before}
    answer = http.request("GET", f"{gateway.console}/me", headers=headers, redirect=False)
    assert answer.status == 303, "a copy of the cookie is refused after the logout"


def test_a_login_replaces_another_one_in_the_same_browser(person, gateway):
    person.log_in(*gateway.operator)
    before, token = person.cookie(), person.token
    person.open("/login")
    press_company(person)
    # A user without administrative actions sees the buckets first.
    person.wait_for(lambda: person.path == "/buckets" and "ASIA" in person.find("form.who").text)
    assert person.token != token and person.cookie() != before


def test_a_provider_that_refuses_is_quoted_as_text(person, provider, gateway):
    provider.denies = ("access_denied", IMAGE)
    person.open("/login")
    press_company(person)
    person.wait_for(lambda: person.path == "/login/callback")
    assert not person.has_alert()
    shown = person.problem()
    assert "The provider refused the login." in shown and "access_denied" in shown
    assert IMAGE in shown, "it is text"
    assert "administrator of the provider" in person.find("main").text
    assert LOGIN not in person.cookie()
    assert gateway.lines("ConsoleWebLogin")[-1]["code"] == "ProviderRefused"


def test_the_return_needs_the_browser_and_the_state_of_the_login(gateway, browser):
    back = browser.log_in_at(browser.begin())
    refused(Browser(gateway).back(back), 400, "LoginNotBegun", "this browser")
    other = Browser(gateway)
    other.begin()
    # An attacker sends another browser to the end of the own login.
    refused(other.back(back), 403, "WrongState", "another login")
    assert ATTEMPT in other.cookies, "another site cannot end a login"
    for changes in ({"state": None}, {"state": ""}, {"state": "x"}):
        refused(browser.back(back, **changes), 403, "WrongState")
    assert not browser.is_logged_in() and not other.is_logged_in()
    assert browser.back(back).status == 200
    assert browser.is_logged_in() and ATTEMPT not in browser.cookies


def test_a_login_is_finished_once(browser, gateway, provider):
    back = browser.log_in_at(browser.begin())
    again = Browser(gateway)
    again.cookies = dict(browser.cookies)
    assert browser.back(back).status == 200
    asked = provider.asked.count("/realm/token")
    refused(again.back(back), 403, "LoginUsed", "used already")
    assert provider.asked.count("/realm/token") == asked, "the provider is not asked again"
    assert not again.is_logged_in()
    # A used code with a new login.
    code = parse_qs(urlsplit(back).query)["code"][0]
    fresh = again.log_in_at(again.begin())
    refused(again.back(fresh, code=code), 403, "ProviderRefused", "invalid_grant", "unknown")
    assert not again.is_logged_in()


def test_a_code_of_another_login_is_worth_nothing(browser, gateway):
    stolen = browser.log_in_at(browser.begin())
    code = parse_qs(urlsplit(stolen).query)["code"][0]
    thief = Browser(gateway)
    own = thief.log_in_at(thief.begin())
    refused(thief.back(own, code=code), 403, "ProviderRefused", "the verifier is wrong")
    assert not thief.is_logged_in()


@pytest.mark.parametrize(
    "changes, status, code",
    [
        ({"nonce": "another"}, 403, "WrongNonce"),
        ({"nonce": None}, 403, "WrongNonce"),
        ({"azp": "another"}, 403, "WrongParty"),
        ({"aud": "another"}, 400, "InvalidIdentityToken"),
        ({"iss": "https://other.example.com"}, 400, "InvalidIdentityToken"),
        ({"exp": 1_000_000_000}, 400, "ExpiredTokenException"),
        ({"policy": None}, 403, "AccessDenied"),
        ({"policy": "no-such-policy"}, 403, "AccessDenied"),
    ],
)
def test_a_token_that_does_not_fit_the_login_is_refused(browser, provider, changes, status, code):
    back = browser.log_in_at(browser.begin())
    provider.login_claims = changes
    refused(browser.back(back), status, code, "Go to the login")
    assert LOGIN not in browser.cookies and ATTEMPT not in browser.cookies
    assert not browser.is_logged_in()


def test_a_return_without_a_code_or_from_another_provider_is_refused(browser):
    for changes, status, code in [
        ({"code": None}, 400, "NoCode"),
        ({"code": "x" * 5000}, 400, "NoCode"),
        ({"iss": "https://other.example.com"}, 403, "WrongIssuer"),
    ]:
        back = browser.log_in_at(browser.begin())
        refused(browser.back(back, **changes), status, code)
        assert not browser.is_logged_in()


def test_the_page_after_the_login_is_one_of_the_console(browser):
    for path, opened in [("/users", "/users"), ("//evil.example", "/"), ("https://evil", "/")]:
        answer = browser.back(browser.log_in_at(browser.begin(path)))
        assert f'content="0; url={opened}"' in answer.data.decode()
        assert "<script>" not in answer.data.decode()


def test_only_a_configured_login_is_offered(gateway, browser, server, visitor):
    answer = browser.get(f"{gateway.console}/login/openid?role=other")
    refused(answer, 404, "NoSuchLogin")
    visitor.open("/login")
    assert "Log in with" not in visitor.find("main").text
    visitor.open(f"/login/openid?role={quote(ROLE, safe='')}")
    assert "There is no such login." in visitor.problem()


def test_a_browser_at_the_s3_endpoint_goes_to_the_console(person, gateway):
    person.driver.get(gateway.s3)
    person.wait_for(lambda: person.path == "/login")
    assert person.driver.current_url == f"{gateway.console}/login?next=%2Fbuckets"
    person.log_in(*gateway.operator)
    http = urllib3.PoolManager(retries=False)
    page = {"User-Agent": "Mozilla/5.0", "Accept": "text/html,*/*"}
    for headers, path in [
        ({}, "/"),
        ({**page, "Accept": "*/*"}, "/"),
        ({**page, "X-Amz-Date": "20260101T000000Z"}, "/"),
        ({**page, "Authorization": "AWS4-HMAC-SHA256 x"}, "/"),
        (page, "/a-bucket"),
        (page, "/?X-Amz-Signature=5ec"),
    ]:
        answer = http.request("GET", gateway.s3 + path, headers=headers, redirect=False)
        assert answer.status in (400, 403, 404) and b"<Error>" in answer.data, (headers, path)
    key, secret = gateway.operator
    s3 = boto3.client(
        "s3",
        endpoint_url=gateway.s3,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
    )
    assert "Buckets" in s3.list_buckets()
