"""The file for `spark-submit`: `spark-submit … pipeline_submit.py ingest --uri …` runs `icecore pipeline ingest --uri …` in its session."""

import runpy
import sys

if __name__ == "__main__":
    # Python puts the folder of the file first, where our modules would hide others of the same name.
    sys.path.pop(0)
    sys.argv.insert(1, "pipeline")
    runpy.run_module("icecore", run_name="__main__", alter_sys=True)
