"""The properties that an operator may set for clients."""

import pytest

from icecore.domain.errors import BadRequest
from icecore.security.client_properties import PERMITTED, check_client_properties

REFUSED = """
uri URI prefix Prefix warehouse Warehouse namespace-separator baseUrl proxyHost restEndpoint hive.metastore.uris
s3.region s3.endpoint s3.path-style-access s3.force-virtual-addressing s3.access-points.lake s3.acl s3.staging-dir s3.sse.type s3.sse.key
s3.signer s3.signers s3.remote-signing-enabled s3.access-key-id s3.secret-access-key s3.role-arn s3.profile-name s3.proxy-uri
s3.use-arn-region-enabled s3.cross-region-access-enabled s3.write.tags.a s3.anonymous
client.region client.assume-role.arn client.factory client.credentials-provider client.profile-name
gcs.session-kwargs gcs.impersonate.service-account gcs.service.host gcs.no-auth gcs.project-id
adls.account-name adls.account-host adls.dfs-storage-scheme adls.blob-storage-scheme adls.blob-storage-authority adls.connection-string.a
auth auth.manager rest.auth.type token credential oauth2-server-uri scope token-refresh-enabled ssl
rest.tls.skip-verify rest.client.tls.configurer-impl rest.sigv4-enabled rest.signing-name rest.signing-region rest.client.proxy.hostname
rest.client.user-agent http-client.proxy-endpoint http-client.type header.X-Test headers.X-Test
io-impl py-io-impl py-catalog-impl metrics-reporter-impl encryption.kms-impl scan-planning-mode
REST-PAGE-SIZE rest_page_size rest-page-size. rest.client. table-default table-default. table-default.write table-default.write.
table-default.a table-default.location table-default.io-impl table-override.s3.role-arn table-override.client.assume-role.arn
table-default.write.data.path table-override.write.metadata.path table-default.write.object-storage.path view-default.write.metadata.path
table-default.write.location-provider.impl table-override.write.py-location-provider.impl table-default.write.s3.secret-access-key
TABLE-DEFAULT.write.format.default table-defaults.write.format.default view-default.format-version
""".split()  # noqa: SIM905 -- a list of names is read easier as text
OF_NEW_TABLES = """
table-default.write.format.default table-override.commit.retry.num-retries table-default.history.expire.max-snapshot-age-ms
table-default.read.split.target-size table-default.write.metadata.metrics.column.token view-default.version.history.num-entries
view-override.replace.drop-dialect.allowed table-default.write.metadata.delete-after-commit.enabled
""".split()  # noqa: SIM905 -- a list of names is read easier as text


@pytest.mark.parametrize(
    "name", [*REFUSED, "", " rest-page-size", "rest-page-size\n", "table-default.write.a\nb", "table-default.write.\n"]
)
def test_a_property_that_is_not_permitted_is_refused(name: str) -> None:
    """Whatever redirects clients, weakens or breaks their connections, makes them load a class, or is unknown; in exactly its case."""
    with pytest.raises(BadRequest) as refusal:
        check_client_properties({"rest-page-size": "10", name: "77"}, "overrides")
    reason = "is not permitted: see 'Warehouses' in the documentation"
    assert refusal.value.message.startswith(f"Invalid overrides: the property {name!r} {reason}")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rest-page-sise", "rest-page-size"),
        ("REST_PAGE_SIZE", "rest-page-size"),
        ("snapshot-loading-modes", "snapshot-loading-mode"),
        ("s3.endpoint", None),
        ("s3.secret-access-key", None),
        ("token", None),
    ],
)
def test_a_slip_names_the_property_that_is_meant(name: str, meant: str | None) -> None:
    """And what is refused on purpose names none."""
    with pytest.raises(BadRequest) as refusal:
        check_client_properties({name: "1"}, "overrides")
    hint = "" if meant is None else f"; did you mean {meant!r}?"
    assert (
        f"Invalid overrides: the property {name!r} is not permitted: see 'Warehouses' in the documentation{hint}" == refusal.value.message
    )


@pytest.mark.parametrize("name", OF_NEW_TABLES)
def test_a_property_of_new_tables_that_tunes_them_has_any_value(name: str) -> None:
    """Those of Iceberg's readers and writers. The last part may be the name of a column."""
    check_client_properties({name: "any"}, "defaults")


@pytest.mark.parametrize("name", PERMITTED)
def test_a_permitted_property_has_a_value_that_clients_can_read(name: str) -> None:
    """Both ends of its range or each of its words, and no other: clients that cannot read a value do not start."""
    permitted = PERMITTED[name]
    ends = permitted if isinstance(permitted, tuple) else (str(permitted[0]), str(permitted[-1]))
    beyond = ("TRUE", "") if isinstance(permitted, tuple) else (str(permitted[0] - 1), str(permitted[-1] + 1), "1.5", "²", "9" * 5000)
    for value in ends:
        check_client_properties({name: value}, "defaults")
    for value in (*beyond, "canary-77"):
        with pytest.raises(BadRequest) as refusal:
            check_client_properties({name: value}, "defaults")
        assert refusal.value.message.startswith(f"Invalid defaults: the value of {name!r} must be ")
        assert "canary-77" not in refusal.value.message


@pytest.mark.parametrize("name", [name for name in PERMITTED if name.endswith("timeout-ms")])
def test_a_timeout_is_at_least_a_second(name: str) -> None:
    """With less, clients give up before a response."""
    with pytest.raises(BadRequest, match="must be a whole number from 1000 to"):
        check_client_properties({name: "999"}, "overrides")


def test_a_refused_value_names_those_that_are_permitted() -> None:
    """A number by its range, a word by its alternatives. A long name is cut."""
    expected = {
        "rest-page-size": "the value of 'rest-page-size' must be a whole number from 1 to 2147483647",
        "snapshot-loading-mode": "the value of 'snapshot-loading-mode' must be all or refs",
        "x" * 10_000: f"the property {'x' * 200!r} is not permitted: see 'Warehouses' in the documentation",
    }
    for name, message in expected.items():
        with pytest.raises(BadRequest) as refusal:
            check_client_properties({name: "x"}, "overrides")
        assert f"Invalid overrides: {message}" == refusal.value.message
