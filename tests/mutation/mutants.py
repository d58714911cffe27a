"""Lists cosmic-ray's mutants or prints one. It runs in cosmic-ray's environment and the folder of the checkout.

python mutants.py list MODULE ... python mutants.py mutate MODULE OPERATOR OCCURRENCE
"""

import json
import re
import sys
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.mutating import mutate_code

# Excluded operators: `|` is used between types, where a mutant fails at import or has no effect; `**` unpacks, where another operator does
# not compile; identity and equality are the same for None, enumerations and small numbers.
OPERATORS_LEFT_OUT = re.compile(r"core/Replace(BinaryOperator_(BitOr|Pow)_|ComparisonOperator_((?!Is)\w+_Is(Not)?$|Is(Not)?_(?!Is)))")
# Excluded lines: a test would have to repeat the value of a limit, or test that a dataclass is frozen.
LINES_LEFT_OUT = re.compile(r"_?[A-Z][A-Z0-9_]*(: \w+)? = [0-9_.* +()/-]+$|@dataclass\(")


def main() -> None:
    if sys.argv[1] == "list":
        # Imported here, because the database packages take a second to load.
        from cosmic_ray.commands.init import init
        from cosmic_ray.work_db import WorkDB, use_db

        modules = [Path(name) for name in sys.argv[2:]]
        with use_db(":memory:", WorkDB.Mode.create) as work:
            init(modules, work, {})
            mutations = [mutation for item in work.work_items for mutation in item.mutations]
        lines = {module: module.read_text(encoding="utf-8").splitlines() for module in modules}
        found = [
            (str(one.module_path), one.operator_name, one.occurrence)
            for one in mutations
            if not OPERATORS_LEFT_OUT.match(one.operator_name) and not LINES_LEFT_OUT.match(lines[one.module_path][one.start_pos[0] - 1])
        ]
        print(json.dumps(sorted(found)))
        return
    module, operator, occurrence = sys.argv[2:]
    mutated = mutate_code(Path(module).read_text(encoding="utf-8"), cosmic_ray.plugins.get_operator(operator)(), int(occurrence))
    sys.stdout.write(mutated)


main()
