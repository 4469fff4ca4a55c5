"""Waits for the gateway, and brings events into every state that the views show."""

import json
import os
import time
import urllib.error
import urllib.request

from hooks import sign

URL = os.environ["GATEWAY_URL"]
API = URL + "/api/v1/gateway"


def call(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    if data is not None and url.startswith(URL) and not url.startswith(API):
        sign(headers, url[len(URL):], data)
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def wait_until_ready():
    deadline = time.monotonic() + 60
    while True:
        try:
            return call("GET", API + "/ready")
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def comment(number, mark):
    user = {"login": "octocat"}
    body = {
        "action": "created",
        "issue": {"number": number, "title": "t"},
        "comment": {"id": mark, "body": "go on", "user": user},
        "repository": {"id": 7, "name": "repo", "full_name": "octo/repo"},
        "sender": user,
    }
    headers = {"X-GitHub-Event": "issue_comment", "X-GitHub-Delivery": f"prepared-{mark}"}
    call("POST", URL + "/gh-webhook", body, headers)


def main():
    wait_until_ready()
    me = {"instance": "laptop", "peer": "p", "run": "r"}
    for number in (1, 2):
        claim = {"subject": f"loop-github-octo-repo-{number}", "role": "driver"}
        call("PUT", API + "/claims", {**me, **claim})
    call("PUT", API + "/actors", {**me, "actors": {"github": ["octocat"], "slack": ["U1"]}})
    room = {"channel": "C1", "ref": "github:octo/repo#1"}
    call("PUT", API + "/rooms", {**me, "rooms": [room]})
    binding = {"ref": "github:octo/repo#2", "provider": "jira", "key": "PROJ-2"}
    call("POST", API + "/bindings", {**me, **binding})
    for mark in range(1, 13):
        comment(mark % 4 + 1, mark)
    # One that fails until it is dead, some that are settled, the rest waits.
    cursor, commit, deadline = 0, [], time.monotonic() + 60
    while not call("GET", API + "/dead")["dead"]:
        assert time.monotonic() < deadline, "nothing dies"
        answer = call("POST", API + "/fetch", {**me, "cursor": cursor, "max": 2, "commit": commit})
        cursor = answer["cursor"]
        commit = [
            {"seq": d["seq"], "outcome": "failed" if d["event"]["id"] == 1 else "delivered"}
            for d in answer["deliveries"]
        ]
        time.sleep(0.2)


main()
