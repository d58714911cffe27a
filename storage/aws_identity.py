"""The server's own AWS identity, and roles that it assumes. It needs botocore, a part of boto3 (the extra `aws`)."""

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import botocore.config
import botocore.exceptions
import botocore.loaders
import botocore.session

from .cloud_profiles import S3Profile
from .renewed_credentials import NoCredentials, RenewedCredentials, TemporaryCredentials, renewal_time

CLOUD = "AWS"
CONNECT_SECONDS_MAX = 2
READ_SECONDS_MAX = 3
ATTEMPTS_MAX = 2
OWN_SECONDS = 60.0
"""How often the server's own credentials are read again. botocore keeps them, and renews them 10 to 15 minutes before they expire."""
OWN_SECONDS_VALID = 240.0
"""AWS provides new credentials of an instance at least 5 minutes before the old ones expire."""
SESSION_NAME = "icecore"
"""Named in the events of AWS CloudTrail."""

_ERROR_CODE = re.compile(r"[A-Za-z][A-Za-z0-9._]{0,63}")


class AwsIdentity:
    """The identity of this process, where botocore finds it: environment, web identity (IRSA), shared files, container or instance."""

    def __init__(self) -> None:
        self._loader = botocore.loaders.create_loader()
        self._unused: list[botocore.session.Session] = []
        self._own = RenewedCredentials(CLOUD, self._fetch_own)

    def credentials(self, profile: S3Profile, external_id: str | None) -> RenewedCredentials[TemporaryCredentials]:
        """Those of the profile's `assume-role-arn`, or of the identity itself if there is none. Nothing is requested yet."""
        if profile.assume_role_arn is None:
            return self._own
        # As in Lakekeeper: a store other than AWS has its own STS, usually at its own address.
        endpoint = profile.sts_endpoint or (profile.endpoint if profile.flavor == "s3-compat" else None)
        return RenewedCredentials(CLOUD, partial(self._assume, profile.assume_role_arn, external_id, profile.region, endpoint))

    def _fetch_own(self) -> TemporaryCredentials:
        try:
            with self._session() as session:
                found = session.get_credentials()
                if found is None:
                    raise NoCredentials("the server has no AWS identity")
                keys, now = found.get_frozen_credentials(), time.time()
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise NoCredentials(_failure_reason(error)) from None
        return TemporaryCredentials(keys.access_key, keys.secret_key, keys.token, now + OWN_SECONDS, now + OWN_SECONDS_VALID)

    def _assume(self, role: str, external_id: str | None, region: str, endpoint: str | None) -> TemporaryCredentials:
        request = {"RoleArn": role, "RoleSessionName": SESSION_NAME} | ({} if external_id is None else {"ExternalId": external_id})
        try:
            with self._session() as session, closing(session.create_client("sts", region_name=region, endpoint_url=endpoint)) as client:
                response: dict[str, Any] = client.assume_role(**request)["Credentials"]
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise NoCredentials(_failure_reason(error)) from None
        expires_at = response["Expiration"].timestamp()
        return TemporaryCredentials(
            response["AccessKeyId"], response["SecretAccessKey"], response["SessionToken"], renewal_time(expires_at), expires_at
        )

    @contextmanager
    def _session(self) -> Iterator[botocore.session.Session]:
        """A session that no other fetch uses: sessions are not thread-safe, and a fetch that hangs may hold a lock of its session.

        One is kept for the next fetch, because it keeps the server's own credentials.
        """
        try:
            session = self._unused.pop()
        except IndexError:
            session = botocore.session.Session()
            # The files of botocore are read once for all sessions: 80 ms and 7 MB each.
            session.register_component("data_loader", self._loader)
            session.set_default_client_config(
                botocore.config.Config(
                    connect_timeout=CONNECT_SECONDS_MAX,
                    read_timeout=READ_SECONDS_MAX,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
                )
            )
        try:
            yield session
        finally:
            if not self._unused:
                self._unused.append(session)


def _failure_reason(error: Exception) -> str:
    """In our own words: the client's text may contain what a server sent."""
    match error:
        case botocore.exceptions.ClientError():
            code = str(error.response.get("Error", {}).get("Code", ""))
            return f"AWS STS refuses the server's AWS identity: {code if _ERROR_CODE.fullmatch(code) else 'unknown error'}"
        case botocore.exceptions.NoCredentialsError():
            return "the server has no AWS identity"
        case botocore.exceptions.ParamValidationError():
            return "assume-role-arn or external-id is not valid"
        case botocore.exceptions.InvalidRegionError():
            return "the region is not valid"
        case botocore.exceptions.CredentialRetrievalError() | botocore.exceptions.MetadataRetrievalError():
            return "the server's AWS identity could not be read from its metadata service"
        case botocore.exceptions.ConnectTimeoutError() | botocore.exceptions.ReadTimeoutError():
            return "AWS STS did not respond in time"
        case botocore.exceptions.HTTPClientError():
            return "AWS STS could not be reached"
    return f"the server's AWS identity was not found: {type(error).__name__}"
