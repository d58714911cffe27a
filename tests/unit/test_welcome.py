"""The welcome message of `icecore serve`, and where it is printed."""

import pytest

from icecore.settings import Settings
from icecore.welcome import print_welcome


@pytest.mark.parametrize(("sinks", "events_on_standard_output"), [({}, False), ({"out": {"type": "stdout"}}, True)])
def test_the_welcome_leaves_standard_output_to_a_sink(
    capsys: pytest.CaptureFixture[str], sinks: dict[str, dict[str, str]], events_on_standard_output: bool
) -> None:
    """A reader of events on standard output must get nothing else."""
    print_welcome(Settings(sinks=sinks), "http://127.0.0.1:1", embedded=True)  # type: ignore[arg-type]
    said = capsys.readouterr()
    welcome, other = (said.err, said.out) if events_on_standard_output else (said.out, said.err)
    assert "Icecore serves at http://127.0.0.1:1/catalog" in welcome
    assert "" == other
