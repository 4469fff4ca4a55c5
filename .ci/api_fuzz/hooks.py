"""Signs most of what is sent to the providers' routes, so that it gets past the signature."""

import hashlib
import hmac
import time

import schemathesis

SECRET = b"api-fuzz"


def digest(message: bytes) -> str:
    return hmac.new(SECRET, message, hashlib.sha256).hexdigest()


def sign(headers, path: str, body: bytes) -> None:
    """Puts the provider's signature into the headers of a request."""
    if path == "/gh-webhook":
        headers["X-Hub-Signature-256"] = "sha256=" + digest(body)
    elif path == "/jira-webhook":
        headers["X-Hub-Signature"] = "sha256=" + digest(body)
    elif path.startswith("/slack/"):
        now = str(int(time.time()))
        headers["X-Slack-Request-Timestamp"] = now
        headers["X-Slack-Signature"] = "v0=" + digest(b"v0:" + now.encode() + b":" + body)


class Signer:
    """A requests-compatible auth object, which sees the prepared request."""

    def __call__(self, request):
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        path = request.path_url.split("?")[0]
        # One in eight stays as it was made, so that refusals are seen, too.
        if hashlib.sha256(body).digest()[0] % 8:
            sign(request.headers, path, body)
        return request


@schemathesis.hook
def before_call(context, case, kwargs):
    kwargs["auth"] = Signer()


# Slack shows to a user what it is answered, so most answers are empty; OpenAPI has no word for a
# body that may be absent.
MAY_BE_EMPTY = {
    "/slack/events": b'{"challenge":""}',
    "/slack/interactions": b'{"options":[]}',
}


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code == 200 and not response.content and case.path in MAY_BE_EMPTY:
        response.content = MAY_BE_EMPTY[case.path]
        response.headers["content-type"] = ["application/json"]
