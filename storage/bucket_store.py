"""S3, GCS and ADLS through obstore. All credentials, endpoints and timeouts are given explicitly."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import obstore
import orjson
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from ..domain.byte_pieces import Content, joined
from ..domain.errors import BadRequest, CatalogError, MissingCredential
from .client_failures import failure_reason, is_missing_bucket
from .cloud_profiles import AdlsProfile, GcsProfile, S3Profile
from .credentials import AWS_SYSTEM_IDENTITY, AZURE_SYSTEM_IDENTITY, CLOUDFLARE_R2, GCP_SYSTEM_IDENTITY, StorageCredential
from .locations import StorageLocation, invalid_location_error
from .renewed_credentials import AccessToken, NoCredentials, RenewedCredentials, TemporaryCredentials
from .storage_profile import StorageProfile
from .store_errors import METADATA_BYTES_MAX, StoreUnavailable, file_exists, file_not_found, file_too_large, store_unavailable
from .system_identities import SystemIdentities

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureCredential, ClientConfig, GCSConfig, GCSCredential, RetryConfig, S3Config, S3Credential

CONNECT_SECONDS_MAX = 3
REQUEST_SECONDS_MAX = 30
RETRIES_MAX = 3
RETRY_SECONDS_MAX = 10
DELETE_BATCH_OBJECTS = 1_000
LIST_PAGE_OBJECTS = 1_000
HASHED_ON_LOOP_BYTES_MAX = 256 * 1024
READ_PIECE_BYTES = 1024 * 1024
GCS_ENDPOINT = "https://storage.googleapis.com"
_REFUSED_PROXY = "http://127.0.0.1:0"
"""No socket can listen on port 0, so the kernel refuses every connection."""

_CREDENTIAL_TYPES = {"s3": "s3", "gcs": "gcs", "adls": "az"}
"""The type of credential for each type of profile."""

_BucketStore = S3Store | GCSStore | AzureStore
_RETRY: RetryConfig = {
    "max_retries": RETRIES_MAX,
    "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}


class BucketStore:
    """`ObjectStore` over the bucket of a profile, and the buckets of its allowed locations."""

    def __init__(
        self, profile: StorageProfile, open_bucket: Callable[[str], _BucketStore], renewed: RenewedCredentials[Any] | None = None
    ) -> None:
        """renewed -- the credentials that the buckets are opened with, if they expire."""
        self._profile = profile
        self._open_bucket = open_bucket
        self._renewed = renewed
        self._buckets: dict[str, _BucketStore] = {}

    async def get(self, location: StorageLocation, *, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
        async with self._request(location):
            response = await obstore.get_async(self._bucket(location), _path(location))
            if response.meta["size"] > bytes_max:
                raise file_too_large(location, bytes_max)
            pieces: list[bytes] = []
            left = bytes_max
            # The size comes from the response's headers; a chunked body may be longer.
            async for piece in response.stream(min_chunk_size=READ_PIECE_BYTES):
                left -= len(piece)
                if left < 0:
                    raise file_too_large(location, bytes_max)
                pieces.append(piece)
            return b"".join(pieces)

    async def put_new(self, location: StorageLocation, data: Content) -> None:
        data = joined(data)
        async with self._request(location):
            try:
                put = await obstore.put_async(self._bucket(location), _path(location), data, mode="create", use_multipart=False)
            except FileNotFoundError:
                raise self._unavailable(location, "there is no such bucket") from None
            if isinstance(self._profile, S3Profile):
                await self._check_kept(location, data, put["e_tag"])

    async def _check_kept(self, location: StorageLocation, data: bytes, etag: str | None) -> None:
        """Checks a PUT, because the client may have followed a redirect within the store's host with a GET, and used that response.

        The PUT is confirmed if the ETag is the MD5 of the data; otherwise (encryption with a key service), the size is compared.
        """
        md5 = await asyncio.to_thread(_md5, data) if len(data) > HASHED_ON_LOOP_BYTES_MAX else _md5(data)
        if etag is not None and etag.strip('"').lower() == md5:
            return
        try:
            kept = await obstore.head_async(self._bucket(location), _path(location))
        except FileNotFoundError:
            raise self._unavailable(location, "it does not have the object that was written") from None
        if kept["size"] != len(data):
            raise self._unavailable(location, "it does not have the object that was written")

    async def exists(self, location: StorageLocation, *, on_loop: bool = False) -> bool:
        async with self._request(location):
            try:
                await obstore.head_async(self._bucket(location), _path(location))
            except FileNotFoundError:
                return False
            return True

    async def check_readable(self) -> None:
        base = self._profile.base
        async with self._request(base):
            async for _ in obstore.list(self._bucket(base), prefix="/".join(base.segments) or None, chunk_size=1):
                break

    async def make_table_folders(self, location: StorageLocation) -> None:
        """Nothing: a bucket has no folders."""

    async def list_files(self, location: StorageLocation) -> AsyncGenerator[list[str], None]:
        path = _path(location)
        async with self._request(location):
            async for page in obstore.list(self._bucket(location), path, chunk_size=LIST_PAGE_OBJECTS):
                yield [entry["path"] for entry in page]

    async def is_listed(self, location: StorageLocation) -> bool:
        path = _path(location)
        async with self._request(location):
            async for page in obstore.list(self._bucket(location), path.rpartition("/")[0] or None, chunk_size=LIST_PAGE_OBJECTS):
                return any(entry["path"] == path for entry in page)
            return False

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        by_bucket: dict[str, list[StorageLocation]] = {}
        for location in locations:
            by_bucket.setdefault(location.authority, []).append(location)
        for group in by_bucket.values():
            for start in range(0, len(group), DELETE_BATCH_OBJECTS):
                await self._delete(group[start : start + DELETE_BATCH_OBJECTS])

    async def _delete(self, batch: list[StorageLocation]) -> None:
        async with self._request(batch[0]):
            bucket = self._bucket(batch[0])
            try:
                await obstore.delete_async(bucket, [_path(location) for location in batch])
            except FileNotFoundError:
                # Without bulk delete, deleting stops at the first missing file. The rest are deleted one by one.
                for location in batch:
                    await _delete_one(bucket, location)

    @asynccontextmanager
    async def _request(self, location: StorageLocation) -> AsyncIterator[None]:
        """A block of requests, with valid credentials. Raises the errors of the port for those of the client."""
        if self._renewed is not None:
            try:
                await self._renewed.ready()
            except NoCredentials as error:
                raise self._unavailable(location, str(error)) from None
        async with _errors(location, self._profile.endpoint_url):
            yield

    def _unavailable(self, location: StorageLocation, reason: str) -> StoreUnavailable:
        return store_unavailable(location, reason, self._profile.endpoint_url)

    def _bucket(self, location: StorageLocation) -> _BucketStore:
        """The bucket's client. Locations outside the warehouse are refused here again, even if they were checked before."""
        if location != self._profile.base and self._profile.root_of(location) is None:
            raise invalid_location_error("location", "is outside the warehouse", location.text)
        bucket = self._buckets.get(location.authority)
        if bucket is None:
            self._buckets[location.authority] = bucket = self._open_bucket(location.authority)
        return bucket


def open_bucket_store(profile: StorageProfile, credential: StorageCredential | None, identities: SystemIdentities) -> BucketStore:
    """The store of a cloud profile, opened with `credential` only. Only the system identities use those of the machine: `identities`.

    Without a credential, an S3 store is accessed anonymously; GCS and ADLS require one.
    """
    if credential is not None and credential.type != _CREDENTIAL_TYPES[profile.type]:
        raise BadRequest(f"Invalid storage-credential: type {credential.type} cannot be used with a {profile.type} profile")
    if isinstance(profile, S3Profile):
        if credential is not None and credential.credential_type == AWS_SYSTEM_IDENTITY:
            if identities.aws is None:
                raise _disabled(credential)
            keys = identities.aws.credentials(profile, credential.fields.get("external-id"))
            return BucketStore(profile, lambda bucket: _open_s3(profile, partial(_renewed_keys, keys), bucket), keys)
        if credential is not None and credential.credential_type == CLOUDFLARE_R2 and profile.endpoint is None:
            raise BadRequest(f"Invalid storage-profile: a credential of the type {CLOUDFLARE_R2} needs endpoint")
        # A provider, not two options: with options, a session token from the environment would be added.
        provide = None if credential is None else partial(_access_key, credential)
        return BucketStore(profile, lambda bucket: _open_s3(profile, provide, bucket))
    if credential is None:
        raise MissingCredential(
            f"A storage-credential is required for the storage-profile {profile.type}: one of the type {_CREDENTIAL_TYPES[profile.type]}"
        )
    if isinstance(profile, GcsProfile):
        if credential.credential_type == GCP_SYSTEM_IDENTITY:
            if identities.gcp is None:
                raise _disabled(credential)
            token = identities.gcp.token
            return BucketStore(profile, partial(_open_gcs_with_token, token), token)
        return BucketStore(profile, lambda bucket: _open_gcs(credential, bucket))
    assert isinstance(profile, AdlsProfile), "every cloud profile has its branch"
    if credential.credential_type == AZURE_SYSTEM_IDENTITY:
        if identities.azure is None:
            raise _disabled(credential)
        token = identities.azure.token
        return BucketStore(profile, lambda authority: _open_adls(profile, credential, authority, token), token)
    return BucketStore(profile, lambda authority: _open_adls(profile, credential, authority))


def _disabled(credential: StorageCredential) -> BadRequest:
    return BadRequest(f"Invalid storage-credential: {credential.credential_type} is disabled")


def _client(endpoint: str, *more_hosts: str) -> ClientConfig:
    """The client configuration for the store at `endpoint`; `more_hosts`: other hosts that the client uses, for tokens."""
    config: ClientConfig = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
        "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
        "allow_http": urlsplit(endpoint).scheme == "http",
    }
    host = urlsplit(endpoint).hostname or ""
    if not _goes_by_proxy(urlsplit(endpoint).scheme, host):
        # The client follows redirects, which no option disables. Requests to other hosts go to a proxy address that refuses connections.
        config["proxy_url"], config["proxy_excludes"] = _REFUSED_PROXY, ",".join((host, *more_hosts))
    return config


def _goes_by_proxy(scheme: str, host: str) -> bool:
    """Whether the environment sets a proxy for the host, as the client reads it; then the proxy decides which hosts are reachable."""
    proxies = getproxies()
    return ("all" in proxies or scheme in proxies) and not proxy_bypass(host)


def _open_s3(profile: S3Profile, provide: Callable[[], S3Credential] | None, bucket: str) -> S3Store:
    host = profile.endpoint or f"https://s3.{profile.region}.amazonaws.com"
    virtual_host = not profile.path_style_access
    if virtual_host:
        scheme, _, rest = host.partition("://")
        host = f"{scheme}://{bucket}.{rest}"
    # obstore reads missing options from AWS_ environment variables, so every option that changes a request is set here.
    config: S3Config = {
        "endpoint": host,
        "aws_endpoint_url_s3": host,
        "region": profile.region,
        "virtual_hosted_style_request": virtual_host,
        "conditional_put": "etag",
        "disable_bulk_delete": False,
        "request_payer": False,
        "s3_express": False,
        "skip_signature": provide is None,
        "unsigned_payload": False,
    }
    if profile.aws_kms_key_arn is not None:
        config["server_side_encryption"] = "aws:kms"
        config["sse_kms_key_id"] = profile.aws_kms_key_arn
    client = _client(host)
    if provide is None:
        return S3Store(bucket, config=config, client_options=client, retry_config=_RETRY)
    return S3Store(bucket, config=config, client_options=client, retry_config=_RETRY, credential_provider=provide)


def _access_key(credential: StorageCredential) -> S3Credential:
    fields = credential.fields
    return {
        "access_key_id": fields["aws-access-key-id"],
        "secret_access_key": fields["aws-secret-access-key"],
        "token": None,
        "expires_at": None,
    }


def _renewed_keys(renewed: RenewedCredentials[TemporaryCredentials]) -> S3Credential:
    """For a moment only, so that the client asks for every request: it does not know when they are renewed."""
    current = renewed.current()
    return {
        "access_key_id": current.access_key_id,
        "secret_access_key": current.secret_access_key,
        "token": current.session_token,
        "expires_at": datetime.now(UTC) + timedelta(seconds=1),
    }


def _renewed_token(renewed: RenewedCredentials[AccessToken]) -> GCSCredential:
    """For a moment only, as the keys above."""
    return {"token": renewed.current().token, "expires_at": datetime.now(UTC) + timedelta(seconds=1)}


def _open_gcs_with_token(renewed: RenewedCredentials[AccessToken], bucket: str) -> GCSStore:
    config: GCSConfig = {"base_url": GCS_ENDPOINT, "skip_signature": False}
    provide = partial(_renewed_token, renewed)
    return GCSStore(bucket, config=config, client_options=_client(GCS_ENDPOINT), retry_config=_RETRY, credential_provider=provide)


def _open_gcs(credential: StorageCredential, bucket: str) -> GCSStore:
    key = credential.fields["key"]
    config: GCSConfig = {"service_account_key": orjson.dumps(key).decode(), "skip_signature": False}
    # A key may contain the URL of another server than Google's (`gcs_base_url`, for emulators).
    client = _client(key.get("gcs_base_url") or GCS_ENDPOINT, "googleapis.com", "accounts.google.com")
    return GCSStore(bucket, config=config, client_options=client, retry_config=_RETRY)


def _open_adls(
    profile: AdlsProfile, credential: StorageCredential, authority: str, renewed: RenewedCredentials[AccessToken] | None = None
) -> AzureStore:
    """renewed -- the token of the server's own identity, if the credential uses it."""
    container, _, host = authority.partition("@")
    blob_host = host.replace(".dfs.", ".blob.", 1)
    config: AzureConfig = {
        "account_name": host.partition(".")[0],
        "endpoint": f"https://{blob_host}",
        "skip_signature": False,
        "use_azure_cli": False,
        "use_emulator": False,
        "use_fabric_endpoint": False,
    }
    fields, client = credential.fields, _client(f"https://{host}", blob_host, urlsplit(profile.authority_host).hostname or "")
    if renewed is not None or credential.credential_type == "shared-access-key":

        def provide() -> AzureCredential:
            return {"access_key": fields["key"], "expires_at": None} if renewed is None else {**_renewed_token(renewed)}

        return AzureStore(container, config=config, client_options=client, retry_config=_RETRY, credential_provider=provide)
    # Otherwise a workload identity in the environment could be used instead.
    config["credential_type"] = "client_secret"
    config["client_id"], config["client_secret"] = fields["client-id"], fields["client-secret"]
    config["tenant_id"], config["authority_host"] = fields["tenant-id"], profile.authority_host
    return AzureStore(container, config=config, client_options=client, retry_config=_RETRY)


def _path(location: StorageLocation) -> str:
    if not location.segments:
        raise invalid_location_error("location", "names a bucket, not an object", location.text)
    return "/".join(location.segments)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


async def _delete_one(bucket: _BucketStore, location: StorageLocation) -> None:
    try:
        await obstore.delete_async(bucket, _path(location))
    except FileNotFoundError:
        return


@asynccontextmanager
async def _errors(location: StorageLocation, endpoint_url: str | None) -> AsyncIterator[None]:
    # `from None`: obstore's error text may contain signed URLs.
    try:
        yield
    except CatalogError:
        raise
    except FileNotFoundError as error:
        if is_missing_bucket(error):
            raise store_unavailable(location, "there is no such bucket", endpoint_url) from None
        raise file_not_found(location) from None
    except (AlreadyExistsError, PreconditionError):
        raise file_exists(location) from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise store_unavailable(location, "it rejects the warehouse's credential", endpoint_url) from None
    except Exception as error:
        # Of any kind: what goes wrong inside the client comes as an exception that it does not document.
        raise store_unavailable(location, failure_reason(error), endpoint_url) from None
