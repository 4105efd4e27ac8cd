"""The numeric tests again with fewer instructions than this processor has: `python -m tests.portable`.

NumPy, OpenBLAS, torch, oneDNN and MKL choose their code by the processor, each with a switch of its own to
choose less. A level is a setting of all of them. Before its tests run, a process looks whether each switch
took effect, and computes a few numbers whose bits show it. With ``--others`` first, the highest level, with
which all tests run anyway, is left out. More arguments, if any, go to pytest instead.
"""

import json
import os
import platform
import re
import subprocess
import sys
import zlib
from typing import Any

TESTS = [
    *(f"tests/{room}" for room in ("wireless", "allocation", "scheduling", "learning", "theory")),
    "tests/data/test_partition.py",
    "tests/commands/test_efficiency.py",
    "tests/test_world.py",
    "tests/test_rounds.py",
    "tests/test_streams.py",
]
# Of these, files about names, counts and messages, in which no two computed numbers are compared.
LEFT_OUT = [
    *(f"tests/learning/test_{name}.py" for name in ("architecture", "networks", "operations", "process")),
    "tests/learning/test_workload.py",
    *(f"tests/scheduling/test_{name}.py" for name in ("checking", "exchange", "given", "policy")),
    *(f"tests/scheduling/test_{name}.py" for name in ("reasons", "registry", "schema")),
]
LEVELS = ["SSE", "AVX", "AVX2", "AVX-512"]
SWITCHES = {
    "SSE": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",  # of MKL's two switches, the one that it heeds on every maker's processors
    },
    "AVX": {  # without fused multiplication and addition
        "OPENBLAS_CORETYPE": "Sandybridge",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "AVX",
        "MKL_ENABLE_INSTRUCTIONS": "AVX",
    },
    "AVX2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


def numpy_level(feature: str) -> int:
    """The level that a feature belongs to, by NumPy's names of it, old (AVX2) or new (X86_V3)."""
    if feature.startswith(("AVX512", "X86_V4")):
        return 3
    if feature in ("AVX2", "FMA3", "X86_V3"):
        return 2
    return 1 if feature in ("AVX", "F16C", "FMA4", "XOP") else 0


def numpy_features() -> list[str]:
    """What NumPy chooses by the processor and would use here; its baseline cannot be switched off."""
    from numpy._core import _multiarray_umath as core

    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]


def environment(level: str) -> dict[str, str]:
    """The switches that keep all libraries at a level; none for the highest there is."""
    if level == highest_level():
        return {}
    switches = dict(SWITCHES[level])
    excess = [name for name in numpy_features() if numpy_level(name) > LEVELS.index(level)]
    return switches | {"NPY_DISABLE_CPU_FEATURES": " ".join(excess)}


def highest_level() -> str:
    return LEVELS[max((numpy_level(name) for name in numpy_features()), default=0)]


def look() -> dict[str, Any]:
    """What the libraries of this process use, and sums over the bits of what they compute."""
    import numpy as np
    import scipy.linalg
    import torch
    from threadpoolctl import threadpool_info

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 60))
    solved = scipy.linalg.solve(x, np.exp(x)) @ x
    image = torch.from_numpy(rng.normal(size=(8, 3, 16, 16)).astype(np.float32))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(1568, 60))
    learned = network(image).softmax(dim=1) @ torch.from_numpy(x).float()
    blas = {lib["architecture"] for lib in threadpool_info() if lib["internal_api"] == "openblas"}
    return {
        "NumPy": numpy_features(),
        "OpenBLAS": sorted(blas),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "bits": f"{zlib.crc32(solved.tobytes()):08x} {zlib.crc32(learned.detach().numpy().tobytes()):08x}",
    }


def looked(switches: dict[str, str]) -> dict[str, Any]:
    """`look` in a process with these switches, and what oneDNN and MKL say there about themselves."""
    verbose = {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::ImportWarning", "-m", "tests.portable", "--look"]
    done = subprocess.run(command, env=os.environ | verbose | switches, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"error: nothing computes with {switches}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    said = {"oneDNN": r"cpu,isa:(?:Intel )?(.*)", "MKL": r"MKL_VERBOSE .* (CNR:\S+)"}
    for name, pattern in said.items():
        match = re.search(pattern, done.stdout)
        found[name] = match[1] if match else "not there"
    return found


def check(level: str, switches: dict[str, str], found: dict[str, Any]) -> None:
    """Ends the program if a switch was given in vain. MKL heeds only one of its own on some processors."""
    if not switches:
        return
    kept = [name for name in found["NumPy"] if name in switches["NPY_DISABLE_CPU_FEATURES"].split()]
    wrong = {
        "NumPy": bool(kept),
        "OpenBLAS": any(core != switches["OPENBLAS_CORETYPE"] for core in found["OpenBLAS"]),
        "torch": found["torch"].lower() != switches["ATEN_CPU_CAPABILITY"],
        "oneDNN": found["oneDNN"] not in (switches["ONEDNN_MAX_CPU_ISA"], "SSE4.1", "not there"),
    }
    if vain := [name for name, is_wrong in wrong.items() if is_wrong]:
        sys.exit(f"error: {level} had no effect on {', '.join(vain)}: {found}")


def main(arguments: list[str]) -> int:
    if arguments == ["--look"]:
        print(json.dumps(look()))
        return 0
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"{platform.machine()} has no levels that could be switched; the tests run once")
        levels = [highest_level()]
    else:
        levels = LEVELS[: LEVELS.index(highest_level()) + 1]
    if arguments[:1] == ["--others"]:
        arguments, levels = arguments[1:], levels[:-1]
    chosen = arguments or [*TESTS, *(f"--ignore={file}" for file in LEFT_OUT)]
    failed = []
    for level in levels:
        switches = environment(level)
        found = looked(switches)
        check(level, switches, found)
        print(f"== {level}:", ", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *chosen]
        if subprocess.run(command, env=os.environ | switches).returncode:
            failed.append(level)
    print(f"failed with {', '.join(failed)}" if failed else f"passed with {', '.join(levels)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
