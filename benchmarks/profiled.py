"""Runs `icecore` and writes a profile of its process: `python -m benchmarks.profiled FILE serve …`.

It samples the stack every millisecond of processor time, which, unlike a tracer, does not change the proportions. Each line of the file has
samples, share, function and file: once by the function that ran (self), once by everything on the stack (with callees).
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_PERIOD_SECONDS = 0.001
_LINES_MAX = 60
_ROOT = str(Path(__file__).resolve().parents[1]) + "/"

_own: Counter[str] = Counter()
_whole: Counter[str] = Counter()


def _note(_number: int, frame: FrameType | None) -> None:
    seen: set[str] = set()
    first = True
    while frame is not None:
        code = frame.f_code
        name = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        if first:
            _own[name] += 1
            first = False
        seen.add(name)
        frame = frame.f_back
    _whole.update(seen)


def _report() -> str:
    total = sum(_own.values()) or 1
    lines = [f"{total} samples"]
    for title, counts in (("self", _own), ("with callees", _whole)):
        lines.append(f"-- {title}")
        for name, samples in counts.most_common(_LINES_MAX):
            short = name.replace(_ROOT, "").replace(f"{sys.prefix}/lib/", "")
            lines.append(f"{samples:7d} {samples / total:6.1%} {short}")
    return "\n".join(lines) + "\n"


def main() -> None:
    # Imports before the first sample are not part of serving.
    import icecore.serve  # noqa: F401
    from icecore.cli import run

    file = Path(sys.argv[1])
    signal.signal(signal.SIGPROF, _note)
    signal.setitimer(signal.ITIMER_PROF, _PERIOD_SECONDS, _PERIOD_SECONDS)
    try:
        code = run(sys.argv[2:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        file.write_text(_report())
    sys.exit(code)


if __name__ == "__main__":
    main()
