"""Runs a command again with the oldest and the newest instructions of this processor.

    python -m tests.instruction_sets python -m pytest tests/learn

numpy, OpenBLAS, MKL, oneDNN and torch choose their code when they start, by the processor. Last bits
depend on that code, and on the shape of an array in another way for each. Environment variables take
the choice from them, so that one machine can stand for many. Some have no effect on some processors: MKL
looks at MKL_ENABLE_INSTRUCTIONS on those of Intel only, and at MKL_CBWR everywhere. Settings under which
a few products, sums and exponentials have the same last bits as without them are left out.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

OLDEST = {
    "x86_64": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Prescott",
    },
    "aarch64": {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "ARMV8"},
}
"""By architecture. numpy's names differ from release to release: its own are added in `settings`."""

AVX512 = {
    "ATEN_CPU_CAPABILITY": "avx512",
    "MKL_CBWR": "AVX512",
    "MKL_ENABLE_INSTRUCTIONS": "AVX512",
    "ONEDNN_MAX_CPU_ISA": "DEFAULT",
    "OPENBLAS_CORETYPE": "SkylakeX",
}
"""OpenBLAS and MKL do not choose AVX-512 by themselves on processors of AMD."""

NUMPY = "NPY_DISABLE_CPU_FEATURES"
SWITCHES = {NUMPY, *AVX512}

PROBE = """
import hashlib, json
import numpy as np

rng, parts = np.random.default_rng(0), []
for kind in ("float32", "float64"):
    rows, columns = rng.normal(size=(77, 133)).astype(kind), rng.normal(size=(133, 55)).astype(kind)
    parts += [rows @ columns, np.exp(rows), np.tanh(rows), rows.sum(axis=1)]
    try:
        import torch
    except ImportError:
        continue
    torch.set_num_threads(1)
    left, right = torch.from_numpy(rows), torch.from_numpy(columns)
    kernel = right[:5, :5].contiguous()[None, None]
    parts += [(left @ right).numpy(), left.log_softmax(1).numpy(), left.sum(0).numpy()]
    parts += [torch.nn.functional.conv2d(left[None, None], kernel).numpy()]
found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
print(json.dumps({"digest": digest, "found": found}))
"""


def chosen_by_libraries() -> dict[str, str]:
    """The environment without any of the switches."""
    return {name: value for name, value in os.environ.items() if name not in SWITCHES}


def probe(environment: dict[str, str]) -> dict[str, object]:
    """Last bits of some results (`digest`), and what numpy would use beyond its baseline (`found`)."""
    run = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, check=True, stdout=subprocess.PIPE
    )
    known: dict[str, object] = json.loads(run.stdout)
    return known


def settings(machine: str, found: list[str]) -> dict[str, dict[str, str]]:
    """The switches for the oldest and the newest instructions of a processor."""
    oldest = OLDEST.get("x86_64" if machine == "AMD64" else machine, {})
    has_avx512 = {"X86_V4", "AVX512_SKX"} & set(found)
    return {
        "oldest": oldest | ({NUMPY: " ".join(found)} if found else {}),
        "newest": AVX512 if has_avx512 else {},
    }


def say(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def main(command: list[str]) -> int:
    """The exit code of the first run that fails, or 0."""
    own = chosen_by_libraries()
    seen = {probe(dict(os.environ))["digest"]: "the environment as it is"}
    for name, switches in settings(platform.machine(), probe(own)["found"]).items():
        shown = " ".join(f"{key}='{value}'" for key, value in switches.items()) or "no switch set"
        digest = probe(own | switches)["digest"]
        if digest in seen:
            say(f"{name} instructions ({shown}): the same last bits as {seen[digest]}")
            continue
        seen[digest] = f"the {name} instructions"
        say(f"{name} instructions: {shown}")
        if code := subprocess.run(command, env=own | switches).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
