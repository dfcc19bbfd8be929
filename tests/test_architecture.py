"""The house rules that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "kvtool", ROOT / "kernels" / "kvtool_kernels")
SOURCES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))

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


def module_name(path: Path) -> str:
    base = ROOT / "kernels" if "kernels" in path.relative_to(ROOT).parts[:1] else ROOT
    parts = list(path.relative_to(base).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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


@pytest.fixture(params=SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def source(request: pytest.FixtureRequest) -> tuple[str, ast.Module, str]:
    text = request.param.read_text()
    return module_name(request.param), ast.parse(text), text


def test_imports_point_down(source: tuple[str, ast.Module, str]) -> None:
    module, tree, _ = source
    if module.startswith("kvtool_kernels"):
        assert not {name for name in imports(tree) if name.split(".")[0] == "kvtool"}
        return
    own = rank(module)
    assert own is not None, f"{module} has no rank: add it to RANKS"
    for name in imports(tree):
        target = rank(name)
        assert target is None or target <= own, f"{module} (rank {own}) imports {name} ({target})"


def test_control_plane_has_no_torch(source: tuple[str, ast.Module, str]) -> None:
    module, tree, _ = source
    if module.startswith(DATA_PLANE):
        return
    lazily = module.startswith(("kvtool.cli", "kvtool.runtime", "kvtool.sizing"))
    names = top_level_imports(tree) if lazily else imports(tree)
    heavy = {name for name in names if name.split(".")[0] in TORCH}
    assert not heavy, f"{module} imports {heavy}"


def test_models_never_schedule(source: tuple[str, ast.Module, str]) -> None:
    module, tree, _ = source
    if module.startswith("kvtool.models"):
        assert not {name for name in imports(tree) if name.startswith("kvtool.engine")}


def test_files_and_functions_are_short(source: tuple[str, ast.Module, str]) -> None:
    module, tree, text = source
    assert module.rsplit(".", 1)[-1] not in CATCH_ALL
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{module}.{node.name} has {length} lines"


def test_median_file_is_short() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in SOURCES)
    assert lengths[len(lengths) // 2] < 100


def test_modules_and_classes_are_documented(source: tuple[str, ast.Module, str]) -> None:
    module, tree, text = source
    assert not text.strip() or module.endswith("__main__") or ast.get_docstring(tree), module


def test_kernels_is_a_source_root_not_a_package() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_control_plane_imports_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import kvtool.cache.manager, kvtool.engine.scheduler"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def tables() -> list[tuple[str, str, str]]:
    """Every `name: "module:attribute"` line of every table in the sources."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                        text = value.value
                        if (
                            isinstance(text, str)
                            and text.startswith("kvtool")
                            and text.count(":") == 1
                        ):
                            found.append((module_name(path), str(key.value), text))
    return found


def test_tables_exist() -> None:
    assert {"radix", "chain", "lru"} <= {name for _, name, _ in tables()}


@pytest.mark.parametrize(("module", "name", "target"), tables())
def test_table_names_resolve_and_are_documented(module: str, name: str, target: str) -> None:
    from importlib import import_module

    where, attribute = target.split(":")
    chosen = getattr(import_module(where), attribute)
    assert chosen.__doc__, f"{target} has no docstring"
    docs = (ROOT / "docs" / "extending.md").read_text() + (ROOT / "docs" / "cli.md").read_text()
    assert f"`{name}`" in docs, f"{module} offers {name!r}; docs do not mention it"
