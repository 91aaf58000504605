"""The committed Unicode table is what tools/make_unicode_table.py makes of Unicode 16.0.0."""
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("make_unicode_table", ROOT / "tools/make_unicode_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_the_generated_one():
    maker = generator()
    package = pytest.importorskip("unicodedata2", reason="SKIP: the Unicode table is not checked, unicodedata2 is missing")
    if package.unidata_version != maker.VERSION:
        pytest.skip(f"SKIP: the Unicode table is not checked, unicodedata2 has Unicode {package.unidata_version}")
    assert (ROOT / "src/tokenizer/unicode_table.cc").read_text() == maker.generate()
