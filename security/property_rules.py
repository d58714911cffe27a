"""Refuses properties that may contain a credential or redirect clients."""

import re
from collections.abc import Iterable, Mapping

from ..domain.errors import BadRequest

REGISTERED_PROPERTIES_MAX = 10_000
"""Limit on the properties of a registered metadata file: the default of ICECORE_HTTP__PROPERTIES_MAX, which limits requests."""

_NAMES = frozenset(
    {
        # Addresses to which clients send credentials (OAuth2Properties, AuthProperties), and classes that a client would load.
        "uri",
        "oauth2serveruri",
        "ioimpl",
        "catalogimpl",
        # Keys of stores whose names do not end as listed below.
        "adlsauthsharedkeyaccountkey",
        "gcscredentialsjson",
        "gcsserviceaccountkey",
        "gcsuserprojectkey",
        "gcsencryptionkey",
        "gcsdecryptionkey",
    }
)
"""Compared without separators and case-insensitively."""
_ENDINGS = (
    "token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "authorization", "bearer", "jwt",
    "privatekey", "secretkey", "secretaccesskey", "accesskey", "accesskeyid", "apikey", "apikeyid",
)  # fmt: skip
"""A name that ends in one of these is refused, compared without separators and case-insensitively."""
_WORDS = ("apikey", "accountkey", "privatekey", "sharedkey", "clientsecret", "connectionstring", "sastoken", "secretaccesskey")
"""Refused anywhere in a name if they end at the end of a word: an account's name or an expiry may follow."""
_NO_CREDENTIALS = ("maxtoken", "mintoken")
# Their last part is the name of a column, which may be any text.
_OF_COLUMNS = re.compile(r"(write|read)\..*\.column\..+")
# Matched with the separators as written, because clients read these exact names.
_PATTERNS = re.compile(
    "|".join(
        (
            # Clients send these as headers with every request.
            r"header\..+",
            r"fs\.azure\.(account\.key|sas)([.].*)?",
            r"s3\.sse\.(key|md5|customer.*)",
            # Addresses to which clients would send requests, with their tokens.
            r"(.*\.)?signer(\.(uri|endpoint))?",
            r"(.*\.)?(refresh-)?credentials?[.-](refresh-)?endpoint",
            r"(s3|client|rest|adls|gcs|glue|dynamodb|sts|kms|signer|oss)(\..*)?\.(endpoint|uri|service\.host)",
            r"(client|s3|rest|adls|gcs|http-client|auth|catalog)(\..*)?[.-](impl|factory|credentials-provider)",
        )
    )
)
_PIECES = re.compile(r"[^\W_]+")
"""The parts of a name between separators."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD_AT_AN_END = re.compile("|".join(r"\.?".join(word) + r"(?![^.])" for word in _WORDS))
"""Applied to a name whose words are separated by dots."""


def refuse_credential_properties(properties: Iterable[str], field: str) -> None:
    """Raises BadRequest, naming `field` and the key but never the value, if a key of `properties` may contain a credential.

    Words for credentials are matched without separators (`.`, `_`, `-`) and case-insensitively. Also refused are keys that, merged into
    a client's configuration, would send its requests or tokens to another address or make it load a class.
    """
    for name in properties:
        if is_credential_property(name):
            raise BadRequest(f"Invalid {field}: the property {name[:200]!r} may contain a credential or redirect clients, and is refused")


def check_registered_properties(properties: Mapping[str, str]) -> None:
    """As refuse_credential_properties for a registered metadata file. Also raises BadRequest for too many properties."""
    if len(properties) > REGISTERED_PROPERTIES_MAX:
        raise BadRequest(f"Invalid properties: the metadata file has more than {REGISTERED_PROPERTIES_MAX} properties")
    refuse_credential_properties(properties, "properties")


def is_credential_property(name: str) -> bool:
    """Whether the property `name` is refused."""
    if _OF_COLUMNS.fullmatch(name):
        return False
    return _PATTERNS.fullmatch(name.casefold()) is not None or _contains_credential_word(name)


def _contains_credential_word(name: str) -> bool:
    joined = "".join(_PIECES.findall(name)).casefold()
    if joined in _NAMES or (joined.endswith(_ENDINGS) and not joined.endswith(_NO_CREDENTIALS)):
        return True
    # Most names contain none of these, and finding the ends of words takes longer.
    if not any(word in joined for word in _WORDS):
        return False
    return _WORD_AT_AN_END.search(".".join(_PIECES.findall(_WORD_ENDS.sub(".", name))).casefold()) is not None
