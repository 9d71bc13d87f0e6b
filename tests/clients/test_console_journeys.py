"""The console: longer journeys of people. Their network breaks, their keys change while programs
use them, and their administrators change their rights. S3 or the API checks each result."""

import hashlib
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.config import Config
from selenium.webdriver.common.by import By

from api import add_policy, add_user, allow, fresh
from console import Console, is_ours
from network import Network
from server import fresh_bucket_name, random_file, refused

TESTING = Path(__file__).parents[2] / "docs" / "TESTING.md"

PART_BYTES = 16 << 20
PARTS_AT_ONCE = 3

# The bytes of requests that are no content: heads of requests, and pages.
HEAD_BYTES = 1 << 20

# The time for which a network stays away: longer than the first pause of the page, and shorter than
# its last one.
AWAY_SECONDS = 3

UPLOADS = """
return [
    performance.timeOrigin,
    [...document.querySelectorAll("[data-progress] li")].map(it => it.textContent),
];
"""


@pytest.fixture
def network(server):
    network = Network(server.console)
    yield network
    network.close()


@pytest.fixture
def remote(console_driver, network, server):
    """The console as the operator, through a network that can be cut."""
    console = Console(console_driver, network.url)
    console.open("/login").forget()
    console.requested(), console.messages()
    console.log_in(server.access_key, server.secret_key)
    yield console
    # A page that still waits for the network must not go on in the next test.
    console.open("/buckets")
    other = [url for url in console.requested() if not is_ours(url, network.url)]
    assert not other, "requests to other origins"


def choose(console, path):
    """Chooses a file on the page of a bucket. Returns a function that is true when the upload is
    over, and fails if the page gives it up."""
    before, _ = console.driver.execute_script(UPLOADS)
    console.find("input[data-files][multiple]").send_keys(str(path))

    def is_over():
        loaded, uploads = console.driver.execute_script(UPLOADS)
        failed = [text for text in uploads if "Failed" in text]
        assert not failed, failed
        return loaded != before

    return is_over


def stored_bytes(control, bucket, key):
    """Returns the bytes of the parts of the only unfinished upload of a bucket."""
    (upload,) = control.list_multipart_uploads(Bucket=bucket)["Uploads"]
    parts = control.list_parts(Bucket=bucket, Key=key, UploadId=upload["UploadId"])
    return sum(part["Size"] for part in parts.get("Parts", []))


def digest_of(control, bucket, key):
    found = hashlib.sha256()
    for piece in control.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(1 << 20):
        found.update(piece)
    return found.hexdigest()


def test_an_upload_continues_when_the_network_comes_back(
    remote, network, server, control, bucket, tmp_path
):
    # The size that people try; half of it is enough for the second scheme.
    size = (200 if server.console.startswith("http:") else 100) << 20
    path = tmp_path / "film.bin"
    digest = random_file(path, size)
    is_over = choose(remote.open(f"/buckets/{bucket}/objects"), path)
    sent = network.sent
    network.cut_after(size // 2)
    assert network.is_cut.wait(60)
    time.sleep(AWAY_SECONDS)
    stored = stored_bytes(control, bucket, path.name)
    assert PART_BYTES <= stored <= size // 2
    at_cut = network.sent
    network.mend()
    remote.wait_for(is_over)
    assert digest_of(control, bucket, path.name) == digest
    # Only the parts that were in flight are sent again, and those whose answer was lost.
    in_flight = PARTS_AT_ONCE * PART_BYTES
    assert network.sent - at_cut <= size - stored + in_flight + HEAD_BYTES
    assert network.sent - sent <= size + in_flight + HEAD_BYTES
    assert "Uploads" not in control.list_multipart_uploads(Bucket=bucket)
    path.unlink()


def close_during_upload(remote, network, bucket, path, after):
    """Uploads a file, cuts the network after some bytes, closes the page, and mends the network."""
    choose(remote.open(f"/buckets/{bucket}/objects"), path)
    network.cut_after(after)
    assert network.is_cut.wait(60)
    remote.driver.get("about:blank")
    # The gateway may still store a part whose answer is lost.
    time.sleep(1)
    network.mend()


def test_an_upload_continues_after_the_page_was_closed(remote, network, control, bucket, tmp_path):
    size = 5 * PART_BYTES
    path = tmp_path / "closed.bin"
    digest = random_file(path, size)
    close_during_upload(remote, network, bucket, path, size * 3 // 4)
    stored = stored_bytes(control, bucket, path.name)
    assert PART_BYTES <= stored < size
    remote.open(f"/buckets/{bucket}/objects")
    (offer,) = remote.texts("[data-progress] li")
    assert offer.startswith("closed.bin is not complete. Choose the file again")
    # The network breaks again before the page knows the parts that are stored.
    network.cut_after(0)
    at_return = network.sent
    is_over = choose(remote, path)
    assert network.is_cut.wait(60)
    time.sleep(AWAY_SECONDS)
    network.mend()
    remote.wait_for(is_over)
    assert digest_of(control, bucket, path.name) == digest
    assert network.sent - at_return <= size - stored + HEAD_BYTES, "a stored part was sent again"
    assert remote.texts("[data-progress] li") == []


def test_an_upload_that_is_not_complete_is_discarded(remote, network, control, bucket, tmp_path):
    path = tmp_path / "discarded.bin"
    random_file(path, 2 * PART_BYTES)
    close_during_upload(remote, network, bucket, path, PART_BYTES // 2)
    assert len(control.list_multipart_uploads(Bucket=bucket)["Uploads"]) == 1
    remote.open(f"/buckets/{bucket}/objects").find("[data-progress] button").click()
    remote.wait_for(lambda: remote.texts("[data-progress] li") == [])
    assert "Uploads" not in control.list_multipart_uploads(Bucket=bucket)
    assert remote.open(f"/buckets/{bucket}/objects").texts("[data-progress] li") == []


class Load:
    """Programs that write and read objects without a pause and without retries. `use` gives them
    another key."""

    THREADS = 4

    def __init__(self, session, server, bucket, **keys):
        self.session, self.server, self.bucket = session, server, bucket
        self.failures, self.served = [], 0
        self.ends = threading.Event()
        self.use(**keys)
        self.pool = ThreadPoolExecutor(self.THREADS)
        for number in range(self.THREADS):
            self.pool.submit(self.run, number)

    def use(self, access_key, secret):
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret}
        config = Config(retries={"total_max_attempts": 1}, max_pool_connections=self.THREADS)
        settings = {**self.server.aws_settings(), **keys, "config": config}
        self.s3 = self.session.create_client("s3", **settings)

    def run(self, number):
        while not self.ends.is_set():
            client, key = self.s3, f"load-{number}"
            try:
                client.put_object(Bucket=self.bucket, Key=key, Body=b"x")
                client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
                self.served += 1
            except Exception as error:
                self.failures.append(str(error))

    def serve_more(self, count=20):
        """Waits until the programs had more successful requests, and none that failed."""
        until, end = self.served + count, time.monotonic() + 30
        while self.served < until:
            assert not self.failures, self.failures[0]
            assert time.monotonic() < end, "the programs make no progress"
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.pool.shutdown()


def issued(console):
    """Returns the access key and the secret that the page shows."""
    key, secret = (field.get_attribute("value") for field in console.all("input.link"))
    return {"access_key": key, "secret": secret}


def in_row(console, key, value):
    """Returns the button of an action in the row of an access key."""
    row = f"//tr[th//code[normalize-space()='{key}']]//button[@value='{value}']"
    return console.driver.find_element(By.XPATH, row)


def test_a_key_is_rotated_under_load_without_a_failed_request(
    visitor, botocore_session, server, api, bucket
):
    user = add_user(api, "s3:*", resource=[f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"])
    visitor.log_in(user.access_key, user.secret, "/me")
    visitor.fill("#description", "the programs")
    visitor.press("add-key")
    old = issued(visitor)
    with Load(botocore_session, server, bucket, **old) as load:
        load.serve_more()
        visitor.open("/me").leave_by(in_row(visitor, old["access_key"], "rotate"))
        new = issued(visitor)
        assert new["access_key"] != old["access_key"] and new["secret"] != old["secret"]
        load.serve_more()
        # Both keys are accepted, so programs may change one after the other.
        before = load.s3
        load.use(**new)
        load.serve_more()
        assert before.get_object(Bucket=bucket, Key="load-0")["Body"].read() == b"x"
        visitor.open("/me").leave_by(in_row(visitor, old["access_key"], "disable-key"))
        assert visitor.done == "The access key was disabled."
        with refused("InvalidAccessKeyId", "AccessDenied", status=403):
            before.list_objects_v2(Bucket=bucket)
        load.serve_more()
    assert not load.failures, load.failures[0]


def test_a_new_user_logs_in_with_the_secret_that_was_shown_once(console, server, control):
    name, bucket = fresh("anna"), fresh_bucket_name()
    console.open("/users").unfold("Make a user")
    console.fill("#name", name)
    console.fill("#policies", "readwrite")
    console.press_text("Make the user")
    keys = issued(console)
    assert keys["access_key"] == name
    console.driver.find_element(By.LINK_TEXT, "Go on").click()
    console.wait_for(lambda: console.path == f"/users/{name}")
    assert keys["secret"] not in console.driver.page_source
    console.press_text("Log out")
    console.log_in(*keys.values())
    assert console.path == "/buckets" and console.texts("nav.menu li") == ["Buckets", "My access"]
    console.unfold("Make a bucket")
    console.fill("#name", bucket)
    console.press_text("Make the bucket")
    assert bucket in [item["Name"] for item in control.list_buckets()["Buckets"]]
    # The new user gives itself no rights.
    assert console.post_by_hand(f"/users/{name}", action="policies", policies="consoleAdmin") == 403


def ask(console, user, action, resource):
    """Asks the simulator, and returns its answer."""
    console.open("/simulator").fill("#user", user)
    console.fill("#action", action)
    console.fill("#resource", resource)
    console.press_text("Ask")
    return console.find("main [role=status]").text


def test_the_simulator_explains_the_answer_of_s3(console, api, control, bucket):
    for key in ("open/a", "closed/a"):
        control.put_object(Bucket=bucket, Key=key, Body=b"x")
    arn = f"arn:aws:s3:::{bucket}"
    allows = add_policy(api, allow("s3:GetObject", resource=f"{arn}/*"))
    denies = add_policy(api, allow("s3:GetObject", resource=f"{arn}/closed/*", effect="Deny"))
    user = add_user(api, policies=[allows, denies])
    s3 = user.s3()
    answer = ask(console, user.access_key, "s3:GetObject", f"{bucket}/open/a")
    assert answer.startswith("Allowed.") and f"Policy {allows}: allow" in answer
    assert s3.get_object(Bucket=bucket, Key="open/a")["Body"].read() == b"x"
    answer = ask(console, user.access_key, "s3:GetObject", f"{bucket}/closed/a")
    assert answer.startswith("Refused.") and f"Policy {denies}: deny" in answer
    with refused("AccessDenied", status=403):
        s3.get_object(Bucket=bucket, Key="closed/a")
    answer = ask(console, user.access_key, "s3:PutObject", f"{bucket}/open/a")
    assert answer.startswith("Refused.") and ": deny" not in answer
    # The administrator follows the explanation, and removes the policy that denies.
    console.open(f"/users/{user.access_key}").fill("#policies", allows)
    console.press("policies")
    answer = ask(console, user.access_key, "s3:GetObject", f"{bucket}/closed/a")
    assert answer.startswith("Allowed.")
    assert s3.get_object(Bucket=bucket, Key="closed/a")["Body"].read() == b"x"


def keys_of(control, bucket):
    return [item["Key"] for item in control.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_a_deleted_folder_comes_back_and_the_rest_of_the_trash_goes(console, control, bucket):
    console.open(f"/buckets/{bucket}/trash").fill("#days", "30")
    console.press("set")
    for key in ("dir/a", "dir/b", "other"):
        control.put_object(Bucket=bucket, Key=key, Body=key.encode())
        control.delete_object(Bucket=bucket, Key=key)
    console.open(f"/buckets/{bucket}/trash").fill("#prefix", "dir/")
    console.press_text("Search")
    assert sorted(console.texts("tbody th")) == ["dir/a", "dir/b"]
    console.press("restore-all")
    assert keys_of(control, bucket) == ["dir/a", "dir/b"]
    assert control.get_object(Bucket=bucket, Key="dir/b")["Body"].read() == b"dir/b"
    assert console.open(f"/buckets/{bucket}/trash").texts("tbody th") == ["other"]
    console.press("empty", confirm=True)
    assert console.open(f"/buckets/{bucket}/trash").texts("tbody th") == []


def test_a_user_is_disabled_enabled_and_removed(console, api, control, bucket):
    user = add_user(api, policies=["readonly"])
    s3, page = user.s3(), f"/users/{user.access_key}"
    s3.list_objects_v2(Bucket=bucket)
    console.open(page).press("disable")
    assert console.done == "The user was disabled."
    with refused("InvalidAccessKeyId", "AccessDenied", status=403):
        s3.list_objects_v2(Bucket=bucket)
    console.press("enable")
    s3.list_objects_v2(Bucket=bucket)
    console.press("remove", confirm=True)
    assert console.done == "The user was removed."
    with refused("InvalidAccessKeyId", status=403):
        s3.list_objects_v2(Bucket=bucket)


def test_a_group_gives_rights_to_its_members(console, api, bucket):
    user, name = add_user(api), fresh("group")
    s3 = user.s3()
    console.open("/groups").unfold("Make a group")
    console.fill("#name", name)
    console.fill("#policies", "readonly")
    console.press_text("Make the group")
    with refused("AccessDenied", status=403):
        s3.list_objects_v2(Bucket=bucket)
    console.fill("#members", user.access_key)
    console.press("join")
    s3.list_objects_v2(Bucket=bucket)
    console.find(f"input[name=member][value='{user.access_key}']").click()
    console.press("leave")
    with refused("AccessDenied", status=403):
        s3.list_objects_v2(Bucket=bucket)
    console.press("remove", confirm=True)
    assert console.done == "The group was removed."


def test_a_bucket_policy_opens_one_folder(console, api, server, control, bucket):
    for key in ("open/a", "closed/a"):
        control.put_object(Bucket=bucket, Key=key, Body=b"x")
    document = allow("s3:GetObject", resource=f"arn:aws:s3:::{bucket}/open/*")
    document["Statement"][0]["Principal"] = "*"
    console.open(f"/buckets/{bucket}/access").fill("#policy", json.dumps(document))
    console.press("put-policy")
    assert console.done == "The change was saved."

    def status(key):
        return api.http.request("GET", f"{server.endpoint}/{bucket}/{key}").status

    assert (status("open/a"), status("closed/a")) == (200, 403)
    console.press("delete-policy", confirm=True)
    assert (status("open/a"), status("closed/a")) == (403, 403)


def test_a_page_of_another_origin_is_allowed_by_a_cors_rule(console, api, server, bucket):
    origin = "https://app.example"
    headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}

    def preflight():
        return api.http.request("OPTIONS", f"{server.endpoint}/{bucket}/k", headers=headers)

    assert preflight().status == 403
    rules = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": [origin]}]}
    console.open(f"/buckets/{bucket}/access").fill("#cors", json.dumps(rules))
    console.press("put-cors")
    answer = preflight()
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)


def test_many_objects_have_pages_and_a_search(console, control, bucket):
    names = [f"{number:04}" for number in range(205)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: control.put_object(Bucket=bucket, Key=key, Body=b""), names))
    console.open(f"/buckets/{bucket}/objects")
    assert console.texts("tbody th") == names[:200]
    console.driver.find_element(By.LINK_TEXT, "Next page").click()
    console.wait_for(lambda: console.texts("tbody th") == names[200:])
    console.fill("#search", "011")
    console.press_text("Search")
    # The names are whole, and new objects get no part of the search in their names.
    assert console.texts("tbody th") == names[110:120]
    console.unfold("Make a folder")
    console.fill("#folder", "made")
    console.press("folder")
    assert "made/" in keys_of(control, bucket)


def test_an_upload_above_the_quota_says_why(console, control, bucket, tmp_path):
    console.open(f"/buckets/{bucket}/settings").fill("#bytes", "1000")
    console.press("quota")
    path = tmp_path / "large.bin"
    random_file(path, 5000)
    console.open(f"/buckets/{bucket}/objects")
    console.find("input[data-files][multiple]").send_keys(str(path))

    def has_failed():
        _, uploads = console.driver.execute_script(UPLOADS)
        return any("Failed" in text and "quota" in text.lower() for text in uploads)

    console.wait_for(has_failed)
    assert keys_of(control, bucket) == []


def test_a_locked_version_cannot_be_deleted(console, control):
    bucket = fresh_bucket_name()
    console.open("/buckets").unfold("Make a bucket")
    console.fill("#name", bucket)
    console.find("input[name=object_lock]").click()
    console.press_text("Make the bucket")
    console.open(f"/buckets/{bucket}/versions")
    console.find("#mode option[value=GOVERNANCE]").click()
    console.fill("#days", "1")
    console.press("lock")
    version = control.put_object(Bucket=bucket, Key="k", Body=b"kept")["VersionId"]
    console.open_object(bucket, "k").press("delete", confirm=True)
    assert "AccessDenied" in console.problem()
    found = control.get_object(Bucket=bucket, Key="k", VersionId=version)
    assert found["Body"].read() == b"kept"


def test_an_account_is_made_and_removed(console, api):
    name = fresh("account")
    console.open("/accounts").unfold("Make an account")
    console.fill("#name", name)
    console.press("make")
    assert name in console.texts("tbody th")
    row = f"//tr[th[normalize-space()='{name}']]//button[@value='remove']"
    console.leave_by(console.driver.find_element(By.XPATH, row), confirm=True)
    assert name not in console.texts("tbody th")


def test_a_user_makes_uses_and_removes_a_key_of_its_own(visitor, api, bucket):
    user = add_user(api, policies=["readonly"])
    visitor.log_in(user.access_key, user.secret, "/me")
    visitor.fill("#description", "laptop")
    visitor.press("add-key")
    key = issued(visitor)
    s3 = api.having(**key).s3()
    s3.list_objects_v2(Bucket=bucket)
    visitor.open("/me").leave_by(in_row(visitor, key["access_key"], "remove-key"), confirm=True)
    assert key["access_key"] not in visitor.driver.page_source
    with refused("InvalidAccessKeyId", status=403):
        s3.list_objects_v2(Bucket=bucket)


def functions_of(path):
    return set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))


def test_the_page_of_tests_names_each_journey():
    page = TESTING.read_text().split("## Journeys in the console")[1].split("\n## ")[0]
    named = set(re.findall(r"^\|.*\| `(test_\w+)` \|$", page, re.MULTILINE))
    files = [functions_of(path) for path in Path(__file__).parent.glob("test_console*.py")]
    assert len(named) >= 25 and named <= set().union(*files)
    journeys = functions_of(Path(__file__)) - {"test_the_page_of_tests_names_each_journey"}
    assert journeys <= named, journeys - named
