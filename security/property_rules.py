"""Properties that would carry a credential into the log, or turn a client's requests elsewhere, are refused."""

import re
from collections.abc import Iterable

from domain.errors import BadRequest

_EXACT = frozenset(
    {
        # Client credentials and where they are sent (OAuth2Properties, AuthProperties, RESTSigV4).
        "uri",
        "token",
        "credential",
        "credentials",
        "password",
        "secret",
        "client-secret",
        "client_secret",
        "oauth2-server-uri",
        "rest.access-key-id",
        "rest.secret-access-key",
        "rest.session-token",
        "jdbc.password",
        # Stores' keys under names that no pattern below covers.
        "s3.access-key-id",
        "s3.access-key",
        "client.access-key-id",
        "glue.access-key-id",
        "dynamodb.access-key-id",
        "adls.account-key",
        "adls.connection-string",
        "adls.auth.shared-key.account.key",
        "gcs.credentials-json",
        "gcs.service-account-key",
        "gcs.user-project-key",
        "gcs.encryption-key",
        "gcs.decryption-key",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
        # Classes that a client would load by name.
        "io-impl",
        "catalog-impl",
    }
)
_PATTERNS = re.compile(
    "|".join(
        (
            # Sent as headers with every request of a client.
            r"header\..+",
            # Any word that is a secret by itself, as a whole word of the key.
            r"(.*[._-])?(secret|password|passwd|passphrase|private[._-]key|secret[._-]key|secret[._-]access[._-]key)",
            r"(.*[._-])?(access[._-]token|session[._-]token|security[._-]token|oauth2?[._-]token|bearer[._-]token|refresh[._-]token)",
            r"(.*[._-])?(client[._-]secret|connection[._-]string|account[._-]key|shared[._-]key|api[._-]key)([._-].*)?",
            r".+\.(token|credential|credentials)",
            r"(.*\.)?sas[._-]token([._-].*)?",
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


def refuse_credential_properties(properties: Iterable[str], field: str) -> None:
    """Refuse (BadRequest naming `field` and the key, never the value) a key of `properties` that carries a credential.

    Names are matched without case. Also refused: keys that would send a client's requests or tokens to an address of
    someone else's choosing, or make it load a class, should any client merge table properties into its configuration.
    """
    for name in properties:
        if carries_credential(name):
            raise BadRequest(f"Invalid {field}: the property {name[:200]!r} may carry a credential or redirect a client, and is not stored")


def carries_credential(name: str) -> bool:
    """Whether the property `name` is refused."""
    folded = name.casefold()
    return folded in _EXACT or _PATTERNS.fullmatch(folded) is not None
