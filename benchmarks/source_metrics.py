"""How easily a reader finds things in the source: `python benchmarks/source_metrics.py [SRC ...]`.

Prints one column per source tree (the folder that holds `sharpdp`), so that trees can be compared:
files and functions that run for one Poisson epsilon, the longest chain of imports,
lines, lines of registrations, constants at the top of modules and numbers inside functions, public
names, commands.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "src"

WALK = """
import json, sys
import sharpdp as dp

def ask():
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0)
    return dp.account(run).epsilon(delta=1e-5)

ask()  # imports are not part of the walk
for name, module in list(sys.modules.items()):  # nor are answers that were kept
    for value in list(vars(module).values()) if name.startswith("sharpdp") else ():
        if callable(getattr(value, "cache_clear", None)) and not isinstance(value, type):
            value.cache_clear()
seen = set()
def look(frame, event, _):
    if event == "call" and "/sharpdp/" in frame.f_code.co_filename:
        code = frame.f_code
        seen.add((code.co_filename, code.co_firstlineno, code.co_name))
sys.setprofile(look)
ask()
sys.setprofile(None)
from sharpdp.cli import commands
print(json.dumps([len({f for f, *_ in seen}), len(seen), len(dp.__all__), len(commands.COMMANDS)]))
"""


def modules(src: Path) -> dict[str, Path]:
    """Dotted names of all modules."""
    found = {}
    for path in sorted((src / "sharpdp").rglob("*.py")):
        parts = list(path.relative_to(src).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def longest_chain(files: dict[str, Path]) -> int:
    """The longest path in the graph of module-level imports, in files."""

    def targets(name: str) -> set[str]:
        tree = ast.parse(files[name].read_text("utf-8"))
        reached = set()
        for node in tree.body:
            if isinstance(node, ast.Import):
                reached |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                reached |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return {one for one in reached if one in files and one not in (name, "sharpdp")}

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in targets(name)), default=0)

    return max(depth(name) for name in files)


def registration_lines(trees: list[ast.Module]) -> int:
    """Lines of the decorators that register bounds and formulas."""
    total = 0
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    called = decorator.func if isinstance(decorator, ast.Call) else decorator
                    if ast.unparse(called).rpartition("_")[2] in ("bound", "formula"):
                        total += (decorator.end_lineno or 0) - decorator.lineno + 1
    return total


def constants(trees: list[ast.Module]) -> int:
    """Numbers and the like that are named at the top of a module."""
    total = 0
    for tree in trees:
        for node in tree.body:
            names: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                names = node.targets
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                names = [node.target]
            for target in names:
                each = target.elts if isinstance(target, ast.Tuple) else [target]
                total += sum(isinstance(one, ast.Name) and one.id.isupper() for one in each)
    return total


PLAIN = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 10.0, 100.0)
"""Numbers of formulas; every other float is a choice that somebody made."""


def inline_numbers(trees: list[ast.Module]) -> int:
    """Floats inside functions that are no plain numbers of formulas; defaults and classes are none."""
    inside: set[ast.Constant] = set()  # nodes, so that functions within functions count once
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for line in node.body:
                    inside |= {one for one in ast.walk(line) if isinstance(one, ast.Constant)}
    return sum(isinstance(one.value, float) and one.value not in PLAIN for one in inside)


def measured(src: Path) -> dict[str, str]:
    files = modules(src)
    texts = [path.read_text("utf-8") for path in files.values()]
    trees = [ast.parse(text) for text in texts]
    lines = sum(text.count("\n") for text in texts)
    done = subprocess.run(
        [sys.executable, "-c", WALK],
        env={**os.environ, "PYTHONPATH": str(src)},
        capture_output=True,
        text=True,
        check=True,
    )
    named_and_inline = constants(trees) + inline_numbers(trees)
    walked, functions, names, commands = json.loads(done.stdout)
    return {
        "files for one Poisson epsilon": f"{walked}",
        "functions for it": f"{functions}",
        "longest chain of imports": f"{longest_chain(files)}",
        "files": f"{len(files)}",
        "lines": f"{lines:,}",
        "lines of registrations": f"{registration_lines(trees):,}",
        "constants per 1,000 lines": f"{1000 * constants(trees) / lines:.1f}",
        "with numbers inside functions": f"{1000 * named_and_inline / lines:.1f}",
        "public names": f"{names}",
        "commands": f"{commands}",
    }


def main() -> None:
    trees = [Path(one).resolve() for one in sys.argv[1:]] or [HERE]
    columns = [measured(src) for src in trees]
    for key in columns[0]:
        sys.stdout.write(f"{key:32}" + "".join(f"{one[key]:>12}" for one in columns) + "\n")


if __name__ == "__main__":
    main()
