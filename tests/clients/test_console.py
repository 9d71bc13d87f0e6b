"""The console: journeys of people through its pages, each checked by S3 or by the API."""

import hashlib
import json
import struct
import zlib

import pytest
from selenium.webdriver.common.by import By

from api import add_user, fresh
from server import fresh_bucket_name, random_file, write_tree

# More than the size above which the console uploads in parts, and more than two parts.
LARGE_BYTES = 40 << 20

# The time at which the page was loaded, and the texts of its uploads.
PROGRESS = """
return [
    performance.timeOrigin,
    [...document.querySelectorAll("[data-progress] li")].map(it => it.textContent),
];
"""

ALERT = "<script>alert(1)</script>"


def png():
    """Returns an image of one pixel."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(
            ">I", zlib.crc32(kind + content)
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def keys_of(control, bucket):
    return [item["Key"] for item in control.list_objects_v2(Bucket=bucket).get("Contents", [])]


def upload(console, bucket, path, folder=False):
    """Chooses a file, or a folder, on the page of a bucket, and waits for its upload."""
    console.open(f"/buckets/{bucket}/objects")
    kind = "[webkitdirectory]" if folder else "[multiple]"
    before, _ = console.driver.execute_script(PROGRESS)
    console.find(f"input[data-files]{kind}").send_keys(str(path))

    def is_over():
        loaded, uploads = console.driver.execute_script(PROGRESS)
        failed = [text for text in uploads if "Failed" in text]
        assert not failed, failed
        return loaded != before

    console.wait_for(is_over)


def test_a_login_needs_the_right_secret_and_leads_to_the_page(visitor, server):
    visitor.log_in(server.access_key, "a-wrong-secret", "/policies")
    assert visitor.path == "/login" and "wrong" in visitor.problem()
    assert not visitor.driver.get_cookies()
    visitor.log_in(server.access_key, server.secret_key, "/policies")
    assert visitor.path == "/policies"
    (cookie,) = visitor.driver.get_cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert cookie["secure"] == server.console.startswith("https:")
    visitor.press_text("Log out")
    assert visitor.path == "/login" and not visitor.driver.get_cookies()
    assert visitor.open("/policies").path == "/login"


def test_a_bucket_is_made_and_deleted(console, control):
    name = fresh_bucket_name()
    console.open("/buckets").unfold("Make a bucket")
    console.fill("#name", name)
    console.find("input[name=versioning]").click()
    console.press_text("Make the bucket")
    assert console.done == "The bucket was created."
    assert control.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    console.open(f"/buckets/{name}/settings")
    console.fill("#confirm", "another-name")
    console.press("delete")
    assert "another" in console.problem()
    console.open(f"/buckets/{name}/settings").fill("#confirm", name)
    console.press("delete")
    assert console.done == "The bucket was deleted."
    assert name not in [item["Name"] for item in control.list_buckets()["Buckets"]]


def test_a_bucket_is_made_public_and_private_again(console, api, server, control, bucket):
    control.put_object(Bucket=bucket, Key="k", Body=b"hello")
    url = f"{server.endpoint}/{bucket}/k"
    assert api.http.request("GET", url).status == 403
    for access, status in (("download", 200), ("private", 403)):
        console.open(f"/buckets/{bucket}/access")
        console.find(f"input[name=access][value={access}]").click()
        console.press("public")
        assert console.done == "The change was saved."
        assert ("public" in console.texts(".badge")) == (status == 200)
        answer = api.http.request("GET", url)
        assert answer.status == status
        assert (answer.data == b"hello") == (status == 200)


def test_a_small_file_is_uploaded_and_downloaded(console, control, bucket, tmp_path):
    path = tmp_path / "a photo é.bin"
    digest = random_file(path, 300_000)
    upload(console, bucket, path)
    assert path.name in console.texts("tbody th")
    found = control.get_object(Bucket=bucket, Key=path.name)["Body"].read()
    assert hashlib.sha256(found).hexdigest() == digest
    console.open_object(bucket, path.name).find("main a[download]").click()
    downloaded = console.driver.downloads / path.name
    console.wait_for(downloaded.exists)
    assert hashlib.sha256(downloaded.read_bytes()).hexdigest() == digest


def test_a_large_file_is_uploaded_in_parts(console, control, bucket, tmp_path):
    path = tmp_path / "large.bin"
    digest = random_file(path, LARGE_BYTES)
    upload(console, bucket, path)
    found = control.get_object(Bucket=bucket, Key="large.bin")
    assert hashlib.sha256(found["Body"].read()).hexdigest() == digest
    assert found["ETag"].endswith('-3"'), "it has three parts"
    assert "Uploads" not in control.list_multipart_uploads(Bucket=bucket)


def test_a_folder_is_uploaded(console, control, bucket, tmp_path):
    files = {"tree/a.txt": b"a", "tree/deep/b.txt": b"b"}
    write_tree(tmp_path, files)
    upload(console, bucket, tmp_path / "tree", folder=True)
    assert keys_of(control, bucket) == sorted(files)
    console.find("a.folder").click()
    assert "a.txt" in console.texts("tbody th") and "deep/" in console.texts("tbody th")


def test_objects_are_selected_and_deleted(console, control, bucket):
    for key in ("a", "b", "c"):
        control.put_object(Bucket=bucket, Key=key, Body=b"")
    console.open(f"/buckets/{bucket}/objects")
    for key in ("a", "c"):
        console.find(f"input[name=key][value={key}]").click()
    console.press("delete", confirm=True)
    assert keys_of(control, bucket) == ["b"]
    console.unfold("Make a folder")
    console.fill("#folder", "new folder")
    console.press("folder")
    assert keys_of(control, bucket) == ["b", "new folder/"]


def test_text_and_images_have_a_preview(console, control, bucket):
    control.put_object(Bucket=bucket, Key="a.txt", Body=b"the text <b>", ContentType="text/plain")
    control.put_object(Bucket=bucket, Key="a.png", Body=png(), ContentType="image/png")
    assert console.open_object(bucket, "a.txt").find("pre.preview").text == "the text <b>"
    console.open_object(bucket, "a.png")
    width = "return document.querySelector('figure.preview img').naturalWidth"
    assert console.driver.execute_script(width) == 1


@pytest.mark.parametrize("key, kind", [("a.html", "text/html"), ("a.svg", "image/svg+xml")])
def test_a_page_in_an_object_is_never_run(console, control, bucket, key, kind):
    content = f'<svg xmlns="http://www.w3.org/2000/svg">{ALERT}</svg>'
    control.put_object(Bucket=bucket, Key=key, Body=content.encode(), ContentType=kind)
    console.open_object(bucket, key)
    assert not console.has_alert()
    assert console.find("pre.preview").text == content and not console.all("figure.preview")
    for inline in ("", "&inline=1"):
        answer = console.fetch(f"/buckets/{bucket}/download?key={key}{inline}")
        assert answer["status"] == 200 and answer["body"] == content
        headers = answer["headers"]
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"].startswith("attachment")
        assert "sandbox" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_version_is_restored_and_deleted(console, control, bucket):
    control.put_bucket_versioning(
        Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    first = control.put_object(Bucket=bucket, Key="k", Body=b"first")["VersionId"]
    control.put_object(Bucket=bucket, Key="k", Body=b"second")
    console.open_object(bucket, "k").press("restore")
    assert console.done == "The object was restored."
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    versions = control.list_object_versions(Bucket=bucket)["Versions"]
    assert len(versions) == 3
    row = f"//tr[.//code[normalize-space()='{first}']]//button[@value='delete']"
    console.leave_by(console.driver.find_element(By.XPATH, row), confirm=True)
    left = [item["VersionId"] for item in control.list_object_versions(Bucket=bucket)["Versions"]]
    assert len(left) == 2 and first not in left


def test_a_deleted_object_comes_back_from_the_trash(console, control, bucket):
    console.open(f"/buckets/{bucket}/trash").fill("#days", "30")
    console.press("set")
    control.put_object(Bucket=bucket, Key="k", Body=b"hello")
    control.delete_object(Bucket=bucket, Key="k")
    console.open(f"/buckets/{bucket}/trash").press("restore")
    assert control.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


def test_a_link_reads_one_object_without_a_login(console, api, control, bucket):
    key = "a photo & é+.txt"
    control.put_object(Bucket=bucket, Key=key, Body=b"shared")
    console.open_object(bucket, key).unfold("Share")
    console.press_text("Make a link")
    link = console.find("input.link").get_attribute("value")
    answer = api.http.request("GET", link)
    assert (answer.status, answer.data) == (200, b"shared")
    assert api.http.request("GET", link.replace("Expires=3600", "Expires=3601")).status == 403
    assert api.http.request("GET", link.split("?")[0]).status == 403


def test_a_lifecycle_rule_is_added(console, control, bucket):
    console.open(f"/buckets/{bucket}/lifecycle").fill("#prefix", "logs/")
    console.fill("#days", "30")
    console.press("add")
    console.fill("#abort_days", "2")
    console.press("add")
    one, other = control.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert one["Filter"] == {"Prefix": "logs/"} and one["Expiration"] == {"Days": 30}
    assert other["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}
    console.press("delete-lifecycle", confirm=True)
    assert console.done == "The setting was removed."


def test_a_quota_and_tags_are_saved(console, api, control, bucket):
    console.open(f"/buckets/{bucket}/settings").fill("#bytes", "1000")
    console.press("quota")
    assert api("GET", f"/buckets/{bucket}/quota").json == {"bytes": 1000, "objects": None}
    console.fill("#bytes", "")
    console.fill("#objects", "7")
    console.press("quota")
    assert api("GET", f"/buckets/{bucket}/quota").json == {"bytes": None, "objects": 7}
    tags = [{"Key": "team", "Value": "one"}]
    console.fill("#tags", json.dumps({"TagSet": tags}))
    console.press("put-tags")
    assert control.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    console.fill("#tags", "{not json")
    console.press("put-tags")
    assert "not JSON" in console.problem()


def test_a_policy_is_made_checked_and_saved(console, api):
    name = fresh("policy")
    console.open("/policies").unfold("Make a policy")
    console.fill("#name", name)
    console.press_text("Save the policy")
    assert console.path == f"/policies/{name}" and console.done == "The policy was saved."
    bad = json.loads(console.find("#document").get_attribute("value"))
    bad["Statement"][0]["Action"] = "s3:NoSuchAction"
    console.fill("#document", json.dumps(bad))
    console.press("check")
    assert "NoSuchAction" in console.problem()
    good = json.loads(json.dumps(bad).replace("NoSuchAction", "GetObject"))
    good["Statement"][0]["Resource"] = "arn:aws:s3:::a/*"
    console.fill("#document", json.dumps(good))
    console.press("check")
    assert console.done == "The document is a valid policy."
    console.press("save")
    assert api("GET", f"/policies/{name}", expect=200).json["document"] == good
    console.press("remove", confirm=True)
    api("GET", f"/policies/{name}", expect=404)


def test_a_user_of_one_bucket_sees_this_bucket_alone(visitor, api, bucket):
    hidden = fresh_bucket_name()
    api("PUT", f"/buckets/{hidden}", {}, expect=200)
    user = add_user(api, "s3:ListBucket", resource=f"arn:aws:s3:::{bucket}")
    visitor.log_in(user.access_key, user.secret)
    seen = visitor.texts("tbody th")
    # Other suites of the cell leave public buckets.
    assert visitor.path == "/buckets" and bucket in seen and hidden not in seen
    assert visitor.texts("nav.menu li") == ["Buckets", "My access"]
    visitor.open(f"/buckets/{hidden}/objects")
    assert "NoSuchBucket" in visitor.problem()
    for path in ("/users", "/groups", "/policies", "/accounts", "/gateways"):
        assert "AccessDenied" in visitor.open(path).problem(), path
    visitor.open(f"/buckets/{bucket}/access")
    assert not visitor.all("main button[value=public]"), "a form without the permission"


def test_a_bucket_is_forked_and_the_fork_deleted_with_its_content(console, control, bucket):
    control.put_object(Bucket=bucket, Key="dir/a", Body=b"forked")
    target = fresh_bucket_name()
    console.open(f"/buckets/{bucket}/settings")
    console.fill("#target", target)
    console.press("fork")
    assert console.path.startswith("/jobs/")
    console.wait_for_text("#state", "done")
    assert target in console.find(".done").text
    assert control.get_object(Bucket=target, Key="dir/a")["Body"].read() == b"forked"
    console.open(f"/buckets/{target}/settings")
    console.fill("#confirm", target)
    console.find("input[name=content]").click()
    console.press("delete")
    console.wait_for_text("#state", "done")
    names = [item["Name"] for item in control.list_buckets()["Buckets"]]
    assert bucket in names and target not in names
    console.press("remove")
    assert console.path == "/jobs"


def test_a_check_of_the_volume_shows_its_result(console):
    console.open("/jobs")
    console.press("fsck")
    console.wait_for_text("#state", "done")
    assert "findings in" in console.find(".done").text
    console.open("/jobs")
    assert "fsck" in console.texts("tbody th")


def test_live_requests_are_shown(console, control, bucket):
    console.open("/trace")
    console.wait_for_text("#trace-state", "Connected.")
    key = fresh("traced")
    control.put_object(Bucket=bucket, Key=key, Body=b"x")
    console.wait_for(lambda: any(key in text for text in console.texts("tbody td")))


def test_the_overview_shows_the_requests_of_the_last_hour(console, control, bucket):
    control.put_object(Bucket=bucket, Key="a", Body=b"x")
    console.open("/")
    console.wait_for(lambda: console.open("/") and "PutObject" in console.texts("#activity th"))
    assert console.find("#activity svg").get_attribute("aria-label").startswith("Requests over")


def test_a_folder_is_downloaded_as_a_zip_file(console, control, bucket):
    control.put_object(Bucket=bucket, Key="dir/a", Body=b"zipped")
    console.open(f"/buckets/{bucket}/objects")
    path = console.find("a[href*='/zip?prefix=dir']").get_attribute("href")
    found = console.fetch(path)
    assert found["status"] == 200 and found["headers"]["content-type"] == "application/zip"
    assert "dir.zip" in found["headers"]["content-disposition"]
    # The content is not compressed.
    assert "zipped" in found["body"]
