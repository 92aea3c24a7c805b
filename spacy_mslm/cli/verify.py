"""`python -m spacy mslm verify`: verify the files of a pipeline or encoder."""

from spacy.cli._util import Opt
from wasabi import msg

from .common import Model, command, mslm_cli


@command(mslm_cli, "verify", failure="The files were not verified")
def verify_cli(
    model: Model,
    update: bool = Opt(False, "--update", help="Write a new manifest for the files as they are"),
) -> None:
    """Verify all files of a pipeline or encoder against the manifest that was saved with them.

    The exit code is 1 if a file is missing or was changed.
    """
    from ..tasks import verify

    found = verify(model, update=update)
    for name in found.unknown:
        msg.warn(f"{found.folder / name} is not in the manifest")
    if found.faults:
        names = f"{len(found.faults)} of {found.files} files are missing or were changed"
        msg.fail(names, "\n".join(fault.message for fault in found.faults), exits=1)
    msg.good(f"OK: {found.files} files of {found.folder} are as they were saved")
