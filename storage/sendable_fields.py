"""Fields that the client of the stores (obstore) can send. With others it panics, and writes its trace to standard error."""

import re
from typing import Annotated

from ..domain.errors import BadRequest
from .cloud_profiles import AdlsProfile, S3Profile
from .json_fields import Text, matching
from .storage_profile import StorageProfile

_PRINTABLE = (r"[ -~]+", "must be printable ASCII")
_URL = (
    r"(?i:https?)://([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[a-zA-Z0-9._~!$&'()*+,;=:@%/-]*)?",
    "must be an http or https URL without user, query and fragment, and without characters that must be escaped",
)

Printable = Annotated[Text, matching(*_PRINTABLE)]
"""A text that becomes part of a header or an address."""
SendableUrl = Annotated[Text, matching(*_URL)]


def refuse_unsendable(profile: StorageProfile) -> None:
    """Raises BadRequest. For a profile that is created or changed: a stored one is read even if its store cannot be used."""
    fields: dict[str, tuple[str | None, tuple[str, str]]] = {}
    if isinstance(profile, S3Profile):
        fields = {"region": (profile.region, _PRINTABLE), "aws-kms-key-arn": (profile.aws_kms_key_arn, _PRINTABLE)}
        fields |= {"endpoint": (profile.endpoint, _URL), "sts-endpoint": (profile.sts_endpoint, _URL)}
    elif isinstance(profile, AdlsProfile):
        fields = {"authority-host": (profile.authority_host, _URL)}
    for field, (text, (pattern, rule)) in fields.items():
        if text is not None and not re.fullmatch(pattern, text):
            raise BadRequest(f"Invalid storage-profile: {field!r}: {rule}")
