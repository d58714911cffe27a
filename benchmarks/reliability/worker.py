"""A worker of `icecore serve` that breaks one promise on purpose: a negative control."""

from benchmarks.reliability.sabotage import sabotage
from icecore.serving_process import main

if __name__ == "__main__":
    sabotage()
    main()
