"""The house rules that a machine can check."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "kvtool", ROOT / "kernels" / "kvtool_kernels")

# A module may import what stands at or below its own rank; the first prefix that fits counts.
RANKS = (
    ("kvtool.cli", 5),
    ("kvtool.__main__", 5),
    ("kvtool.runtime", 4),
    ("kvtool.gate", 3),
    ("kvtool.report", 4),
    ("kvtool.simulation", 4),
    ("kvtool.advice", 4),
    ("kvtool.replay", 3),
    ("kvtool.engine.model_executor", 3),
    ("kvtool.engine", 2),
    ("kvtool.models", 2),
    ("kvtool.sizing", 2),
    ("kvtool.cache", 1),
    ("kvtool.tiers", 1),
    ("kvtool.reuse", 1),
    ("kvtool.inspection", 2),
    ("kvtool.analysis", 2),
    ("kvtool.traces", 1),
    ("kvtool.config", 0),
    ("kvtool.names", 0),
    ("kvtool.errors", 0),
    ("kvtool.drawing", 0),
    ("kvtool", 0),
)
TORCH = {"torch", "transformers", "triton", "safetensors", "kvtool_kernels"}
DATA_PLANE = (
    "kvtool.models",
    "kvtool.engine.model_executor",
    "kvtool.engine.sampler",
    "kvtool_kernels",
)
CATCH_ALL = {"utils", "util", "helpers", "common", "misc", "tools", "core"}
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60


class Source(NamedTuple):
    """A module of the packages."""

    module: str
    text: str
    tree: ast.Module


def module_name(path: Path) -> str:
    base = ROOT / "kernels" if "kernels" in path.relative_to(ROOT).parts[:1] else ROOT
    parts = list(path.relative_to(base).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """Every module, parsed once."""
    paths = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
    texts = [(module_name(path), path.read_text()) for path in paths]
    return [Source(module, text, ast.parse(text)) for module, text in texts]


def imports(tree: ast.AST) -> set[str]:
    """Every module named in an import, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "relative import"
            found.add(node.module)
    return found


def top_level_imports(tree: ast.Module) -> set[str]:
    """Imports that run when the module is imported (TYPE_CHECKING blocks do not)."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= imports(node)
    return found


def rank(module: str) -> int | None:
    for prefix, value in RANKS:
        if module == prefix or module.startswith(prefix + "."):
            return value
    return None


def test_every_module_has_a_rank(sources: list[Source]) -> None:
    modules = {source.module for source in sources}
    assert {name for name in modules if rank(name) is None} == {
        name for name in modules if name.startswith("kvtool_kernels")
    }


def test_imports_point_down(sources: list[Source]) -> None:
    upward = []
    for module, _, tree in sources:
        own = rank(module)
        for name in imports(tree):
            target = rank(name)
            if target is not None and (own is None or target > own):  # kernels know no kvtool
                upward.append(f"{module} (rank {own}) imports {name} ({target})")
    assert upward == []


def test_control_plane_has_no_torch(sources: list[Source]) -> None:
    heavy = []
    for module, _, tree in sources:
        if module.startswith(DATA_PLANE):
            continue
        lazily = module.startswith(("kvtool.cli", "kvtool.runtime", "kvtool.sizing"))
        names = top_level_imports(tree) if lazily else imports(tree)
        heavy += [(module, name) for name in names if name.split(".")[0] in TORCH]
    assert heavy == []


def test_models_never_schedule(sources: list[Source]) -> None:
    models = [source for source in sources if source.module.startswith("kvtool.models")]
    assert models
    for module, _, tree in models:
        assert not {name for name in imports(tree) if name.startswith("kvtool.engine")}, module


def test_files_and_functions_are_short(sources: list[Source]) -> None:
    long = []
    for module, text, tree in sources:
        assert module.rsplit(".", 1)[-1] not in CATCH_ALL
        if len(text.splitlines()) > MAX_FILE_LINES:
            long.append(module)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{module}.{node.name} has {length} lines")
    assert long == []


def test_median_file_is_short(sources: list[Source]) -> None:
    lengths = sorted(len(source.text.splitlines()) for source in sources)
    assert lengths[len(lengths) // 2] < 100


def test_modules_are_documented(sources: list[Source]) -> None:
    assert [
        module
        for module, text, tree in sources
        if text.strip() and not module.endswith("__main__") and not ast.get_docstring(tree)
    ] == []


def test_kernels_is_a_source_root_not_a_package() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_control_plane_imports_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import kvtool.cache.manager, kvtool.engine.scheduler"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def table(node: ast.Dict) -> list[tuple[str, str]]:
    """The `name: "module:attribute"` lines of it."""
    return [
        (str(key.value), value.value)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and value.value.startswith("kvtool")
        and value.value.count(":") == 1
    ]


def test_table_names_resolve_and_are_documented(sources: list[Source]) -> None:
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    lines = [line for node in nodes if isinstance(node, ast.Dict) for line in table(node)]
    assert {"radix", "chain", "lru"} <= {name for name, _ in lines}
    docs = (ROOT / "docs" / "extending.md").read_text() + (ROOT / "docs" / "cli.md").read_text()
    for name, target in lines:
        where, attribute = target.split(":")
        assert getattr(import_module(where), attribute).__doc__, f"{target} has no docstring"
        assert f"`{name}`" in docs, f"docs do not mention {name!r} ({target})"
