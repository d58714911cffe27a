"""A worker of `icecore serve` that breaks one promise on purpose: a negative control."""

from benchmarks.reliability.fault_injection import inject_fault
from icecore.serving_process import main

if __name__ == "__main__":
    inject_fault()
    main()
