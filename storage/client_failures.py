"""Explains why a request to a bucket failed, from the error of the store's client (obstore)."""

import re

_STATUS = re.compile(r" non-2xx status code: (\d{3})\b")
_KIND = re.compile(r"\s+HttpError \{\s+kind: (\w+),")

_REASONS = (
    ("kind: ConnectionRefused", "the connection was refused"),
    ('"dns error"', "its host name could not be resolved"),
    ("InvalidCertificate", "its TLS certificate is not trusted"),
    ("InvalidContentType", "it does not speak TLS: is its endpoint http?"),
    ("source: BareRedirect", "it redirects elsewhere: is the region correct?"),
    ("<Code>NoSuchBucket</Code>", "there is no such bucket"),
)
_KINDS = {
    "Connect": "no connection could be opened",
    "Timeout": "it did not respond in time",
    "Request": "the connection was closed before a response",
    "Interrupted": "the connection broke",
}


def failure_reason(error: Exception) -> str:
    """One of the sentences here, or a status; never the client's own text, which has URLs, headers and the store's response."""
    if type(error).__name__ == "RustPanic":
        return "its client cannot use the storage profile or credential: check the endpoint, the region and the key"
    if isinstance(error, TimeoutError):
        return _KINDS["Timeout"]
    text = str(error)
    # The text before it contains the file's path, which may contain any word.
    cause = text.partition("inner: ")[2]
    for mark, reason in _REASONS:
        if mark in cause:
            return reason
    if (status := _STATUS.search(text)) is not None:
        return f"it responded with status {status[1]}"
    kind = _KIND.search(cause)
    return _KINDS.get(kind[1] if kind else "", "its response was unexpected")


def is_missing_bucket(error: FileNotFoundError) -> bool:
    """Whether the bucket itself does not exist. This is unknown after a HEAD, whose response has no body."""
    return "<Code>NoSuchBucket</Code>" in str(error)
