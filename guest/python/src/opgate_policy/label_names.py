"""Keys and values of labels as Kubernetes checks them. The texts are those of apimachinery v0.36; the Rust SDK does the same in
common/compat/src/names.rs."""

from __future__ import annotations

import re

_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RULE = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_NAMES = (
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUES = (
    "(e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def encoded(text: str) -> bytes:
    """A text in UTF-8; halves of surrogate pairs as they are."""
    return text.encode(errors="surrogatepass")


def label_key_error(key: str) -> str | None:
    """The error for the key of a label, None if it is valid."""
    parts = key.split("/")
    if len(parts) > 2:
        return f"a valid label key {_RULE} {_NAMES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    errors = []
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            if len(encoded(prefix)) > 253:
                errors.append("prefix part must be no more than 253 bytes")
            if not all(map(_LABEL.fullmatch, prefix.split("."))):
                errors.append(f"prefix part {_SUBDOMAIN}")
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif len(encoded(name)) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        errors.append(f"name part {_RULE} {_NAMES}")
    return "; ".join(errors) or None


def label_value_error(value: str) -> str | None:
    """The error for the value of a label, None if it is valid."""
    errors = []
    if len(encoded(value)) > 63:
        errors.append("must be no more than 63 bytes")
    if value and not _QUALIFIED.fullmatch(value):
        errors.append(f"a valid label must be an empty string or consist of {_RULE[len('must consist of ') :]} {_VALUES}")
    return "; ".join(errors) or None
