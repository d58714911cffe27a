"""Refuses properties that would put a credential into the log or redirect clients."""

import re
from collections.abc import Iterable, Mapping

from ..domain.errors import BadRequest

REGISTERED_PROPERTIES_MAX = 10_000
"""Properties of a metadata file that is registered: as many as a request may set (ICECORE_PROPERTIES_MAX as shipped)."""

_NAMES = frozenset(
    {
        # Where client credentials are sent (OAuth2Properties, AuthProperties), and classes that a client would load by name.
        "uri",
        "oauth2serveruri",
        "ioimpl",
        "catalogimpl",
        # Stores' keys under names that no ending below covers.
        "adlsauthsharedkeyaccountkey",
        "gcscredentialsjson",
        "gcsserviceaccountkey",
        "gcsuserprojectkey",
        "gcsencryptionkey",
        "gcsdecryptionkey",
    }
)
"""Compared without separators and case."""
_ENDINGS = (
    "token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "authorization", "bearer", "jwt",
    "privatekey", "secretkey", "secretaccesskey", "accesskey", "accesskeyid", "apikey", "apikeyid",
)  # fmt: skip
"""A name that ends in one of these, without separators and case, is refused."""
_WORDS = ("apikey", "accountkey", "privatekey", "sharedkey", "clientsecret", "connectionstring", "sastoken", "secretaccesskey")
"""Refused wherever they stand, if a word ends where they do: an account's name or an expiry may follow."""
_NO_CREDENTIALS = ("maxtoken", "mintoken")
# Their last part is a column's name, which may be any.
_OF_COLUMNS = re.compile(r"(write|read)\..*\.column\..+")
# As clients read them, so that other separators make other names.
_PATTERNS = re.compile(
    "|".join(
        (
            # Sent as headers with every request of a client.
            r"header\..+",
            r"fs\.azure\.(account\.key|sas)([.].*)?",
            r"s3\.sse\.(key|md5|customer.*)",
            # Where requests, and with them tokens, would be sent.
            r"(.*\.)?signer(\.(uri|endpoint))?",
            r"(.*\.)?(refresh-)?credentials?[.-](refresh-)?endpoint",
            r"(s3|client|rest|adls|gcs|glue|dynamodb|sts|kms|signer|oss)(\..*)?\.(endpoint|uri|service\.host)",
            r"(client|s3|rest|adls|gcs|http-client|auth|catalog)(\..*)?[.-](impl|factory|credentials-provider)",
        )
    )
)
_PIECES = re.compile(r"[^\W_]+")
"""What stands between separators."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD_AT_AN_END = re.compile("|".join(r"\.?".join(word) + r"(?![^.])" for word in _WORDS))
"""In words that are separated by dots."""


def refuse_credential_properties(properties: Iterable[str], field: str) -> None:
    """Refuse (BadRequest naming `field` and the key, never the value) a key of `properties` that carries a credential.

    Words of credentials are matched without separators (`.`, `_`, `-`) and case. Also refused: keys that would send a client's requests or
    tokens to an address of someone else's choosing, or make it load a class, should any client merge them into its configuration.
    """
    for name in properties:
        if carries_credential(name):
            raise BadRequest(f"Invalid {field}: the property {name[:200]!r} may contain a credential or redirect clients, and is refused")


def check_registered_properties(properties: Mapping[str, str]) -> None:
    """The same for the properties of a file that is registered; also refused (BadRequest) are more than REGISTERED_PROPERTIES_MAX."""
    if len(properties) > REGISTERED_PROPERTIES_MAX:
        raise BadRequest(f"Invalid properties: the metadata file has more than {REGISTERED_PROPERTIES_MAX} properties")
    refuse_credential_properties(properties, "properties")


def carries_credential(name: str) -> bool:
    """Whether the property `name` is refused."""
    if _OF_COLUMNS.fullmatch(name):
        return False
    return _PATTERNS.fullmatch(name.casefold()) is not None or _says_credential(name)


def _says_credential(name: str) -> bool:
    joined = "".join(_PIECES.findall(name)).casefold()
    if joined in _NAMES or (joined.endswith(_ENDINGS) and not joined.endswith(_NO_CREDENTIALS)):
        return True
    # Where words end costs more to find, and most names hold none of these.
    if not any(word in joined for word in _WORDS):
        return False
    return _WORD_AT_AN_END.search(".".join(_PIECES.findall(_WORD_ENDS.sub(".", name))).casefold()) is not None
