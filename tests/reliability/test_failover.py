"""The primary is killed under load and its standby promoted: with a synchronous standby, no acknowledged commit is lost."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.fixtures.readme import pieces, properties
from tests.reliability.test_fault_injection import SECONDS_MAX, outcomes
from tests.servers.paths import ROOT

pytestmark = pytest.mark.timeout(SECONDS_MAX + 60)


def test_a_synchronous_standby_has_every_acknowledged_commit(tmp_path: Path) -> None:
    proof = outcomes(tmp_path, "--failover", "synchronous")["failover to a synchronous standby"]
    assert {} == proof["red"]
    assert proof["acknowledged"] > 0


def test_an_asynchronous_standby_loses_commits_and_servers_notice(tmp_path: Path) -> None:
    """The negative control. Servers that saw the lost events discard what they cached, and say so."""
    lost = outcomes(tmp_path, "--failover", "asynchronous")["failover to an asynchronous standby"]
    assert "acknowledged" in lost["red"]
    assert "models" not in lost["red"]
    assert any("noticed" in note and not note.startswith("0 ") for note in lost["notes"])


def test_the_url_of_the_page_names_both_servers() -> None:
    """The workload's URL has the same parameters."""
    page = (ROOT / "docs" / "how-to" / "postgres-clusters.md").read_text()
    url = properties(pieces(page)["failover url"])["ICECORE_DATABASE_URL"]
    assert {"target_session_attrs": ["read-write"]} == parse_qs(urlsplit(url).query)
    assert "db1,db2" == conninfo_to_dict(url)["host"]
