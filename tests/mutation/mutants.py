"""Asks cosmic-ray, in its own environment and the folder of the checkout: which mutants there are, and what one looks like.

python mutants.py list MODULE ...
python mutants.py mutate MODULE OPERATOR OCCURRENCE
"""

import json
import sys
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.mutating import mutate_code

# `|` stands between types everywhere; the annotation would fail at import or be read by nobody. `**` unpacks: another operator there
# does not compile.
LEFT_OUT = ("core/ReplaceBinaryOperator_BitOr_", "core/ReplaceBinaryOperator_Pow_")


def main() -> None:
    if sys.argv[1] == "list":
        # Here, because the database's packages take a second to load.
        from cosmic_ray.commands.init import init
        from cosmic_ray.work_db import WorkDB, use_db

        modules = [Path(name) for name in sys.argv[2:]]
        with use_db(":memory:", WorkDB.Mode.create) as work:
            init(modules, work, {})
            mutations = [mutation for item in work.work_items for mutation in item.mutations]
        found = [(str(one.module_path), one.operator_name, one.occurrence) for one in mutations]
        print(json.dumps(sorted(one for one in found if not one[1].startswith(LEFT_OUT))))
        return
    module, operator, occurrence = sys.argv[2:]
    mutated = mutate_code(Path(module).read_text(encoding="utf-8"), cosmic_ray.plugins.get_operator(operator)(), int(occurrence))
    sys.stdout.write(mutated)


main()
