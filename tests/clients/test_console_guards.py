"""The console against hostile content, forged requests and guessed secrets; and its pages for
people with small screens, dark screens or screen readers."""

import json
import re
from pathlib import Path
from urllib.parse import quote, urlencode

import axe_core_python
import pytest
import urllib3

from api import add_policy, add_user, allow, fresh
from console import FORM
from server import fresh_bucket_name

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")

RUN_AXE = """
const finish = arguments[0];
axe.run(document, {resultTypes: ["violations"]})
    .then(found => finish(found.violations)).catch(error => finish(String(error)));
"""

IMAGE = "<img src=x onerror=alert(1)>"

HOSTILE = [
    IMAGE,
    f'"{IMAGE}',
    f"'><script>alert(1)</script>",
    "quotes \"double\" 'single' & <b>bold</b>.txt",
    "ünï ☃ 🎉.txt",
    "javascript:alert(1)",
    "a%2Fb%00&key=other#part?x=1+2",
]

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}

# The address of a client whose failed logins do not count for the browser's address.
OTHER_ADDRESS = "127.0.0.2"

LOGINS = 10


def origin_of(url):
    return url.rstrip("/")


def post(http, url, fields, **headers):
    """Posts a form without a browser."""
    body = urlencode(fields)
    return http.request(
        "POST", url, body=body, headers={"Content-Type": FORM, **headers}, redirect=False
    )


@pytest.fixture(scope="session")
def named(api):
    """Names of resources that pages show: a bucket with an object, a policy, a group and a user."""
    bucket, group = fresh_bucket_name(), fresh("group")
    api("PUT", f"/buckets/{bucket}", {"versioning": True}, expect=200)
    s3 = api.s3()
    s3.put_object(Bucket=bucket, Key=f"dir/{'long' * 50}.txt", Body=b"x", ContentType="text/plain")
    s3.put_object(Bucket=bucket, Key="a.txt", Body=b"word " * 400, Metadata={"k" * 60: "v" * 300})
    policy = add_policy(api, allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/*"))
    user = add_user(api, policies=[policy]).access_key
    api("POST", f"/users/{user}/keys", {"description": "laptop"}, expect=200)
    api("PUT", f"/groups/{group}", {"policies": [policy]}, expect=200)
    api("PATCH", f"/groups/{group}", {"add": [user]}, expect=200)
    return {"bucket": bucket, "policy": policy, "group": group, "user": user}


PAGES = [
    "/",
    "/buckets",
    "/buckets/{bucket}/objects",
    "/buckets/{bucket}/objects?prefix=dir/",
    "/buckets/{bucket}/object?key=a.txt",
    "/buckets/{bucket}/access",
    "/buckets/{bucket}/lifecycle",
    "/buckets/{bucket}/versions",
    "/buckets/{bucket}/trash",
    "/buckets/{bucket}/settings",
    "/users",
    "/users/{user}",
    "/groups",
    "/groups/{group}",
    "/policies",
    "/policies/{policy}",
    "/policies/consoleAdmin",
    "/accounts",
    "/gateways",
    "/jobs",
    "/trace",
    "/me",
    "/no-such-page",
]


def unfold_all(console):
    console.driver.execute_script("document.querySelectorAll('details').forEach(it => it.open = true)")


def check_axe(console):
    """The page has no serious and no critical violation of accessibility."""
    console.driver.execute_script(AXE.read_text())
    found = console.driver.execute_async_script(RUN_AXE)
    assert isinstance(found, list), found
    bad = [
        (it["id"], [node["html"][:200] for node in it["nodes"]])
        for it in found
        if it["impact"] in ("serious", "critical")
    ]
    assert not bad, f"{console.path}: {json.dumps(bad, indent=1)}"


@pytest.fixture(params=["light", "dark"])
def scheme(console_driver, request):
    """The color scheme of the browser's user."""
    feature = {"name": "prefers-color-scheme", "value": request.param}
    console_driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    yield request.param
    console_driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture
def phone(console_driver):
    """A narrow screen."""
    console_driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    yield
    console_driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_pages_are_accessible(scheme, visitor, server, named):
    visitor.open("/login")
    dark = visitor.driver.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (scheme == "dark")
    check_axe(visitor)
    visitor.log_in(server.access_key, "a-wrong-secret")
    check_axe(visitor)
    visitor.log_in(server.access_key, server.secret_key)
    for page in PAGES:
        visitor.open(page.format(**named))
        assert visitor.path != "/login", page
        unfold_all(visitor)
        check_axe(visitor)


def test_pages_fit_a_narrow_screen(phone, visitor, server, named):
    visitor.open("/login")
    width = "return [innerWidth, document.documentElement.scrollWidth]"
    assert visitor.driver.execute_script(width) == [390, 390]
    visitor.log_in(server.access_key, server.secret_key)
    wide = []
    for page in PAGES:
        visitor.open(page.format(**named))
        unfold_all(visitor)
        inner, scrolled = visitor.driver.execute_script(width)
        if scrolled > 390 or inner > 390:
            wide.append((page, inner, scrolled))
    assert not wide


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_key_is_shown_as_text(console, control, bucket, key):
    control.put_object(Bucket=bucket, Key=f"dir {key}/{key}", Body=b"x", Metadata={"m": IMAGE})
    console.open(f"/buckets/{bucket}/objects")
    console.find("a.folder").click()
    for _ in range(2 * key.count("/")):
        console.find("a.folder").click()
    images = len(console.all("img"))
    (link,) = console.all("tbody th a")
    assert link.text == key.rsplit("/", 1)[-1]
    link.click()
    assert not console.has_alert()
    assert console.find("h2.key").text == f"dir {key}/{key}"
    assert IMAGE in console.texts("dd"), "the metadata is text"
    assert len(console.all("img")) == images == 1 and not console.all("main script, main b")
    answer = console.fetch(console.find("main a[download]").get_attribute("href"))
    assert (answer["status"], answer["body"]) == (200, "x")
    console.unfold("Share")
    console.press_text("Make a link")
    assert not console.has_alert() and not console.all("main img")


def test_hostile_text_of_a_query_is_shown_as_text(console, bucket):
    hostile = quote(f'"{IMAGE}</textarea><script>alert(1)</script>', safe="")
    for page in (
        f"/buckets?prefix={hostile}",
        f"/buckets/{bucket}/objects?prefix={hostile}",
        f"/buckets/{bucket}/object?key={hostile}",
        f"/buckets/{bucket}/objects?done={hostile}",
        f"/buckets/{hostile}/objects",
        f"/policies/{hostile}",
        f"/users/{hostile}",
        f"/login?next={hostile}",
        f"/{hostile}",
    ):
        console.open(page)
        assert not console.has_alert(), page
        assert not console.all("main script") and not console.all("[onerror]"), page


def test_a_login_leads_to_no_other_site(visitor, server):
    for next in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"):
        visitor.forget()
        visitor.log_in(server.access_key, server.secret_key, f"/login?next={quote(next, safe='')}")
        assert visitor.driver.current_url.startswith(f"{server.console}/"), next
        assert visitor.path == "/", next


def test_a_form_posted_by_hand_needs_the_permission(visitor, api, server, bucket):
    hidden, policy, account = fresh_bucket_name(), fresh("policy"), fresh("account")
    api("PUT", f"/buckets/{hidden}", {}, expect=200)
    document = json.dumps(allow("admin:*"))
    user = add_user(api, "s3:ListBucket", resource=f"arn:aws:s3:::{bucket}")
    forms = [
        ("/policies", {"name": policy, "document": document}),
        ("/accounts", {"action": "make", "name": account}),
        ("/users", {"name": fresh("user"), "policies": "consoleAdmin", "action": "make"}),
        ("/groups", {"name": fresh("group"), "policies": "consoleAdmin"}),
        ("/buckets", {"name": fresh_bucket_name()}),
        (f"/buckets/{hidden}/access", {"action": "public", "access": "public"}),
        (f"/buckets/{bucket}/access", {"action": "public", "access": "public"}),
        (f"/buckets/{bucket}/settings", {"action": "quota", "bytes": "1"}),
        (f"/buckets/{bucket}/settings", {"action": "delete", "confirm": bucket}),
        (f"/buckets/{bucket}/objects", {"action": "folder", "folder": "f"}),
    ]
    visitor.log_in(user.access_key, user.secret)
    for path, fields in forms:
        assert visitor.post_by_hand(path, **fields) == 403, path
    api("GET", f"/policies/{policy}", expect=404)
    assert api("GET", f"/buckets/{hidden}/public").json == {"access": "private"}
    visitor.forget()
    # The same forms succeed for the operator, so the permission made the difference.
    visitor.log_in(server.access_key, server.secret_key)
    for path, fields in forms[:2] + forms[5:6]:
        assert visitor.post_by_hand(path, **fields) == 303, path
    api("GET", f"/policies/{policy}", expect=200)
    # Each user would see a public bucket.
    api("PUT", f"/buckets/{hidden}/public", {"access": "private"}, expect=200)


def test_a_forged_form_is_refused(console, api, server):
    http, url, origin = api.http, f"{server.console}/accounts", origin_of(server.console)
    cookie, token = console.cookie(), console.token

    def account(fields, **headers):
        name = fresh("account")
        answer = post(http, url, {"action": "make", "name": name, **fields}, **headers)
        names = [it["name"] for it in api("GET", "/accounts?limit=1000").json["items"]]
        assert (answer.status == 303) == (name in names)
        return answer.status

    right = {"form_token": token}
    assert account(right, Cookie=cookie, Origin=origin) == 303
    assert account({}, Cookie=cookie, Origin=origin) == 403
    assert account({"form_token": f"{token}x"}, Cookie=cookie, Origin=origin) == 403
    for other in ("https://evil.example", "null", f"{origin}.evil.example", f"{origin}0"):
        assert account(right, Cookie=cookie, Origin=other) == 403, other
    assert account(right, Cookie=cookie) == 403, "without an origin"
    site = {"Sec-Fetch-Site": "cross-site"}
    assert account(right, Cookie=cookie, Origin=origin, **site) == 403
    assert account(right, Origin=origin) == 401, "without the cookie"


def test_a_form_token_belongs_to_one_login(console, api, server):
    other = add_user(api, "admin:CreateAccount", "admin:ListAccounts")
    url, origin = f"{server.console}/login", origin_of(server.console)
    fields = {"access_key": other.access_key, "secret": other.secret}
    answer = post(api.http, url, fields, Origin=origin)
    cookie = answer.headers["set-cookie"].split(";")[0]
    fields = {"action": "make", "name": fresh("account"), "form_token": console.token}
    answer = post(api.http, f"{server.console}/accounts", fields, Cookie=cookie, Origin=origin)
    assert answer.status == 403 and b"WrongForm" in answer.data


def test_a_login_ends_when_its_user_is_disabled(visitor, api):
    user = add_user(api, "admin:ListAccounts")
    visitor.log_in(user.access_key, user.secret, "/accounts")
    assert visitor.path == "/accounts"
    api("PATCH", f"/users/{user.access_key}", {"enabled": False}, expect=200)
    visitor.open("/accounts")
    assert visitor.path == "/login" and "disabled" in visitor.problem()


def test_a_copy_of_the_cookie_ends_with_the_logout(api, server):
    url, origin = f"{server.console}/login", origin_of(server.console)
    fields = {"access_key": server.access_key, "secret": server.secret_key}
    answer = post(api.http, url, fields, Origin=origin)
    cookie = answer.headers["set-cookie"].split(";")[0]

    def me():
        headers = {"Cookie": cookie}
        return api.http.request("GET", f"{server.console}/me", headers=headers, redirect=False)

    page = me()
    assert page.status == 200
    token = re.search(rb'name="form_token" value="([^"]+)"', page.data).group(1).decode()
    fields = {"form_token": token}
    answer = post(api.http, f"{server.console}/logout", fields, Cookie=cookie, Origin=origin)
    assert answer.status == 303
    answer = me()
    assert answer.status == 303 and answer.headers["location"].startswith("/login")


def test_a_form_of_an_old_state_changes_nothing_and_loses_no_text(console, api):
    name = add_policy(api, allow("s3:GetObject"))
    console.open(f"/policies/{name}")
    newer = allow("s3:PutObject")
    api("PUT", f"/policies/{name}", {"document": newer}, expect=200)
    mine = json.dumps(allow("s3:ListBucket"))
    console.fill("#document", mine)
    console.press("save")
    assert "changed" in console.problem()
    assert mine in console.find("main pre").text
    assert api("GET", f"/policies/{name}", expect=200).json["document"] == newer
    # The page of the new state can be saved.
    console.open(f"/policies/{name}")
    console.fill("#document", mine)
    console.press("save")
    assert api("GET", f"/policies/{name}", expect=200).json["document"] == json.loads(mine)


def test_logins_are_throttled_after_ten_failures(api, server):
    verified = {"cert_reqs": "CERT_REQUIRED", "ca_certs": server.ca} if server.ca else {}
    http = urllib3.PoolManager(source_address=(OTHER_ADDRESS, 0), **verified)
    url, origin = f"{server.console}/login", origin_of(server.console)

    def login(http, secret):
        fields = {"access_key": server.access_key, "secret": secret}
        return post(http, url, fields, Origin=origin).status

    assert login(http, server.secret_key) == 303
    assert [login(http, "a-wrong-secret") for _ in range(LOGINS)] == [403] * LOGINS
    assert login(http, "a-wrong-secret") == 429
    assert login(http, server.secret_key) == 429, "the right secret waits, too"
    other = add_user(api)
    fields = {"access_key": other.access_key, "secret": other.secret}
    assert post(http, url, fields, Origin=origin).status == 303, "another person does not wait"
    assert login(api.http, server.secret_key) == 303, "another address does not wait"


def test_pages_are_kept_by_no_cache_and_shown_in_no_frame(console):
    answer = console.fetch("/buckets")
    headers = answer["headers"]
    assert headers["cache-control"] == "no-store" and headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
