"""Upload of a model folder or an exported model to the hub of Hugging Face, by the package huggingface_hub."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from mtkit import __version__
from mtkit.display import printable
from mtkit.errors import BusyError, DamagedError, MtkitError, ReadWriteError, UsageError, require_extra
from mtkit.importers.foreign_folder import HUB_NAME
from mtkit.io.files import changed_files, read_file
from mtkit.model_folder.config_file import CONFIG, EXPORTED, MODEL_CARD, listed_files

_LICENCE = re.compile(r"\A---\n(?:(?!---).*\n)*?license:", re.MULTILINE)
_BY_STATUS: dict[int, tuple[type[MtkitError], str]] = {
    401: (UsageError, "the hub knows no valid token; log in with hf auth login, or set HF_TOKEN"),
    403: (UsageError, "the token may not write there; take one with the right to write, and a name of your own"),
    404: (UsageError, "the hub has no such organisation, or the token may not see it"),
    409: (BusyError, "something else is writing there, or has written since; run the command again"),
}


@dataclass(frozen=True)
class Upload:
    """The files of a model, and the name that they get on the hub.

    Attributes:
        folder: of the model.
        name: ORGANISATION/NAME.
        files: names of all files, none in a folder below.
    """

    folder: Path
    name: str
    files: list[str]

    @classmethod
    def plan(cls, folder: Path, name: str) -> Upload:
        """Choose the files that mtkit wrote; no others are uploaded.

        Raises:
            UsageError: the name has another form, or the folder is neither a model nor an export.
            DamagedError: a file is missing or changed, except the card, which is for people to edit.
        """
        if not HUB_NAME.fullmatch(name):
            raise UsageError(
                f"{name}: a name on the hub is ORGANISATION/NAME, of letters from A to Z, digits, single dots, hyphens "
                "and underscores, no dot or hyphen first or last"
            )
        for root in (EXPORTED, CONFIG):
            if (listed := listed_files(folder, root)) is None:
                continue
            if damaged := [each for each in changed_files(folder, listed) if each != MODEL_CARD]:
                raise DamagedError(f"{folder}: missing or changed: {', '.join(damaged)}", "export it again")
            return cls(folder, name, sorted({*listed, root}))
        raise UsageError(f"{folder}: neither a model folder nor an export of mtkit; export the model of a run first")

    def describe(self) -> list[str]:
        """One line for each file, with its size, and one about a card without a licence."""
        lines = [f"{(self.folder / each).stat().st_size:>14,}  {each}" for each in self.files]
        card = read_file(self.folder / MODEL_CARD).decode(errors="replace")
        if not _LICENCE.match(card):
            lines.append(f"{MODEL_CARD} states no licence; add a line such as license: cc-by-4.0 to its head")
        return lines

    def send(self, *, private: bool) -> str:
        """Make the repository unless it is there, upload all files as one commit, and return its address.

        Raises:
            MissingExtraError: huggingface_hub is not installed.
            UsageError, BusyError: the hub refuses, see `_BY_STATUS`.
            ReadWriteError: the hub cannot be reached, or fails.
        """
        with require_extra("hub", "huggingface_hub"):
            import huggingface_hub
            from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
            from huggingface_hub.utils.tqdm import disable_progress_bars
        network: tuple[type[Exception], ...] = (OfflineModeIsEnabled, OSError, ValueError)
        for client in ("httpx", "httpx2"):  # versions before 1.0 use requests, whose errors are OSError
            with suppress(ImportError):
                network = (*network, import_module(client).HTTPError)
        disable_progress_bars()
        api = huggingface_hub.HfApi(library_name="mtkit", library_version=__version__)
        operations = [
            huggingface_hub.CommitOperationAdd(path_in_repo=each, path_or_fileobj=self.folder / each)
            for each in self.files
        ]
        try:
            api.create_repo(self.name, private=private or None, exist_ok=True)
            commit = api.create_commit(self.name, operations, commit_message=f"Upload by mtkit {__version__}")
        except HfHubHTTPError as error:
            status = error.response.status_code
            kind, reason = _BY_STATUS.get(status, (ReadWriteError, _told(error.server_message or "no reason is given")))
            raise kind(f"{self.name}: not uploaded (status {status}): {reason}") from None
        except network as error:
            raise ReadWriteError(
                f"{self.name}: not uploaded, since the hub cannot be reached ({type(error).__name__}: "
                f"{_told(str(error))})"
            ) from None
        return printable(commit.commit_url, 300)


def _told(text: str) -> str:
    """The first line of another program's text, without the token."""
    import huggingface_hub

    token = huggingface_hub.get_token()
    return printable(text.strip().partition("\n")[0].replace(token or "\0", "***"), 200)
