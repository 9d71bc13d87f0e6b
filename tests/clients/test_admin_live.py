"""Rates of the administration API, and its stream of live events."""

import json
import time
from urllib.parse import quote

from api import add_user
from server import fresh_bucket_name

# The time in seconds in which an event must arrive.
EVENT_SECONDS = 20


def events(answer):
    """Yields the events of a stream: their names and their data."""
    name = None
    for line in answer:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


def opened(api, topics):
    """Opens a stream, and returns the response without its body."""
    request = api.signed("GET", f"/api/v1/stream?topics={quote(topics)}", b"", {})
    answer = api.http.request(
        "GET",
        request.url,
        headers=dict(request.headers),
        preload_content=False,
        retries=False,
        timeout=EVENT_SECONDS,
    )
    assert answer.status == 200, answer.data
    assert answer.headers["content-type"] == "text/event-stream"
    return answer


def test_requests_are_counted(api, control, bucket):
    before = api("GET", "/activity", expect=200).json
    for number in range(5):
        control.put_object(Bucket=bucket, Key=str(number), Body=b"x" * 100)
    limit = time.monotonic() + EVENT_SECONDS
    while True:
        found = api("GET", "/activity?seconds=60", expect=200).json
        puts = [one for one in found["operations"] if one["operation"] == "PutObject"]
        known = [one for one in before["operations"] if one["operation"] == "PutObject"]
        if puts and puts[0]["requests"] >= 5 and 0 < puts[0]["p50_us"] <= puts[0]["p99_us"]:
            break
        assert time.monotonic() < limit, (known, puts)
        time.sleep(0.2)
    assert found["total"]["requests"] >= 5 and found["total"]["bytes_in"] >= 500
    assert api("GET", "/activity?seconds=0").code == "BadRequest"
    assert api("GET", "/activity?seconds=86401").code == "BadRequest"


def test_a_stream_has_statistics_and_each_request(api, control, bucket):
    answer = opened(api, "stats,trace")
    found = events(answer)
    # The first event says that the stream is open.
    name, data = next(found)
    assert name == "stats" and data["seconds"] > 0
    control.put_object(Bucket=bucket, Key="traced key", Body=b"x")
    limit = time.monotonic() + EVENT_SECONDS
    for name, data in found:
        assert time.monotonic() < limit
        if name == "trace" and data.get("key") == "traced key":
            break
    assert (data["operation"], data["bucket"], data["status"]) == ("PutObject", bucket, 200)
    assert data["requester"]
    answer.close()


def test_a_stream_needs_the_permission_of_each_topic(api):
    for action, topic, other in (
        ("admin:ServerInfo", "stats", "trace"),
        ("admin:ServerTrace", "trace", "stats"),
    ):
        user = add_user(api, action)
        opened(user, topic).close()
        for topics in (other, f"{topic},{other}"):
            assert user("GET", f"/stream?topics={quote(topics)}").code == "AccessDenied"
    assert api("GET", "/stream?topics=stats%2Cnone").code == "BadRequest"
    assert add_user(api)("GET", "/activity").code == "AccessDenied"
