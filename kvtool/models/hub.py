"""Hub ids: a snapshot from the local hub cache, or downloaded into it (no torch)."""

from __future__ import annotations

from pathlib import Path

from kvtool.errors import ModelError

_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
_NOT = ["*/*", "consolidated*"]  # other formats' copies of the same weights


def snapshot(repo: str, revision: str | None) -> Path:
    """The folder of one revision; HF_HUB_OFFLINE=1 and an unreachable hub mean: cache only."""
    from huggingface_hub import errors as hub
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(repo, revision=revision, allow_patterns=_FILES, ignore_patterns=_NOT)
        )
    except hub.RevisionNotFoundError:
        raise ModelError(f"Model {repo!r} has no revision {revision!r} on the hub.") from None
    except hub.GatedRepoError:
        raise ModelError(
            f"Model {repo!r} is gated: its owner has to grant access.",
            hint="Accept its terms on the hub, then: hf auth login",
        ) from None
    except (hub.RepositoryNotFoundError, hub.HFValidationError):
        raise _unknown(repo, "the hub has no such model, or it is private") from None
    except hub.LocalEntryNotFoundError:
        raise _unknown(
            repo, "it is not in the local hub cache and the hub cannot be reached"
        ) from None
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"Model {repo!r} cannot be downloaded: {reason}") from error


def _unknown(repo: str, why: str) -> ModelError:
    return ModelError(
        f"Unknown model {repo!r}: there is no such folder, and {why}.",
        hint="Give a model folder, a .gguf file or a hub id such as org/model.",
    )
