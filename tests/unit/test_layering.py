"""Imports go one way, heavy libraries stay out of the pages, and nothing unpickles. Held by the syntax trees."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "headviz").rglob("*.py")])

# Who may import a library at all.
ONLY_IN = {
    "streamlit": ("app.py", "pages/", "headviz/ui/"),
    "plotly": ("headviz/charts/",),
    "matplotlib": ("headviz/charts/",),
    "diskcache": ("headviz/store.py",),
    "torch": (
        "headviz/models/",
        "headviz/analysis/",
        "headviz/surgery/",
        "headviz/jobs/worker.py",
        "headviz/api.py",
    ),
    "transformers": ("headviz/models/", "headviz/analysis/", "headviz/surgery/", "headviz/api.py"),
    "datasets": ("headviz/data/",),
}

# A package (or module) may import only what stands to its right.
MAY_IMPORT = {
    "pages": {
        "ui",
        "charts",
        "jobs",
        "store",
        "types",
        "errors",
        "settings",
        "analysis",
        "surgery",
        "data",
        "models",
        "machine",
        "readers",
        "view",
        "reopen",
    },
    "headviz/charts": {"charts", "types", "errors", "analysis", "surgery"},
    "headviz/data": {"data", "types", "errors", "settings"},
    "headviz/models": {"models", "types", "errors", "settings", "machine"},
    "headviz/analysis": {"analysis", "models", "data", "types", "errors", "settings", "machine"},
    # what lies beside an exported repair: the one place of surgery that draws, with charts that know its tables
    "headviz/surgery/enclosures.py": {"surgery", "charts", "data", "types"},
    "headviz/surgery": {
        "surgery",
        "analysis",
        "models",
        "data",
        "types",
        "errors",
        "settings",
        "machine",
        "locks",
    },
    "headviz/store.py": {"codec", "types", "errors", "settings"},
    "headviz/codec.py": {"types", "errors"},
    "headviz/types": {"types", "errors"},
    "headviz/errors.py": set(),
    "headviz/locks.py": set(),
    "headviz/settings.py": {"errors"},
    "headviz/machine.py": {"errors", "settings"},
}

# What a page may take from the packages that also hold torch code: the tables.
TABLES = {
    "headviz.analysis.ablation",
    "headviz.analysis.agreement",
    "headviz.analysis.bands",
    "headviz.analysis.changes",
    "headviz.analysis.choose",
    "headviz.analysis.distance",
    "headviz.analysis.groupcosts",
    "headviz.analysis.headfile",
    "headviz.analysis.metrics",
    "headviz.analysis.nulls",
    "headviz.analysis.order",
    "headviz.analysis.paired",
    "headviz.analysis.points",
    "headviz.analysis.published",
    "headviz.analysis.published_bands",
    "headviz.analysis.sinkplace",
    "headviz.analysis.stability",
    "headviz.analysis.thresholdfile",
    "headviz.analysis.side_by_side",
    "headviz.analysis.sweeps",
    "headviz.analysis.tolerance",
    "headviz.analysis.yardsticks",
    "headviz.data.corpora",
    "headviz.data.own_text",
    "headviz.data.questions",
    "headviz.models.architectures",
    "headviz.models.catalog",
    "headviz.models.smaller",
    "headviz.surgery.about",
    "headviz.surgery.arms",
    "headviz.surgery.checks",
    "headviz.surgery.costs",
    "headviz.surgery.enclosures",
    "headviz.surgery.head_changes",
    "headviz.surgery.healthy",
    "headviz.surgery.kept",
    "headviz.surgery.layouts",
    "headviz.surgery.outcomes",
    "headviz.surgery.paper",
    "headviz.surgery.plan",
    "headviz.surgery.planfile",
    "headviz.surgery.preview",
    "headviz.surgery.progress",
    "headviz.surgery.report_tree",
    "headviz.surgery.rules",
    "headviz.surgery.said",
    "headviz.surgery.verdict",
    "headviz.surgery.windows",
}

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    """Modules imported anywhere in a file (`import a.b` and `from a.b import c` both give a.b, and a.b.c)."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_heavy_libraries_only_where_they_belong(path):
    for module in imports(path):
        library = module.split(".")[0]
        if library in ONLY_IN:
            assert name(path).startswith(ONLY_IN[library]), f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_go_one_way(path):
    allowed = next((MAY_IMPORT[part] for part in MAY_IMPORT if name(path).startswith(part)), None)
    if allowed is None:
        return
    for module in imports(path):
        if module.startswith("headviz.") and module != "headviz":
            assert module.split(".")[1] in allowed, f"{name(path)} imports {module}"


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if name(p).startswith(("app", "pages", "headviz/ui", "headviz/charts"))],
    ids=name,
)
def test_pages_take_only_tables_from_the_packages_that_compute(path):
    for module in imports(path):
        if module.startswith(("headviz.analysis.", "headviz.data.", "headviz.models.", "headviz.surgery.")):
            assert any(module == table or module.startswith(table + ".") for table in TABLES), (
                f"{name(path)} imports {module}"
            )


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_nothing_unpickles(path):
    assert not {m.split(".")[0] for m in imports(path)} & PICKLES
    text = path.read_text()
    assert "allow_pickle=True" not in text
    assert "trust_remote_code=True" not in text
    assert "torch.load(" not in text


def test_pages_start_without_torch():
    """A fresh interpreter that imports all that the pages import holds no torch, transformers or datasets."""
    wanted = set()
    for path in SOURCES:
        if name(path).startswith(("app", "pages/")):
            wanted |= {m for m in imports(path) if m.startswith("headviz")}
    code = f"""
import importlib, sys
for module in {sorted(wanted)!r}:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:      # a name inside a module, not a module
        if not module.startswith(error.name.rpartition('.')[0]):
            raise
print(sorted(set(sys.modules) & {{'torch', 'transformers', 'datasets', 'matplotlib', 'accelerate'}}))
"""
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert wanted, "the pages import nothing of headviz?"
    assert out.stdout.strip() == "[]"


def test_import_headviz_is_lazy():
    code = "import headviz, sys; print(sorted(set(sys.modules) & {'torch', 'numpy', 'transformers', 'streamlit'}))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
