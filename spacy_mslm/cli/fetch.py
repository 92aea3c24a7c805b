"""`python -m spacy mslm fetch`: download public corpora and verify them."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import EXPECTED_ERRORS, command, mslm_cli


@command(mslm_cli, "fetch", failure="The corpora were not downloaded")
def fetch_cli(
    name: str = Arg(
        ...,
        metavar="NAME",
        help="ncbi_disease, bc5cdr, bc5cdr_chem, bc5cdr_disease, bc2gm, jnlpba, ebm_nlp or all",
    ),
    output_path: Path = Arg(..., metavar="OUTPUT", help="Output folder; files go to OUTPUT/NAME"),
    assets: str | None = Opt(None, metavar="DIR_OR_URL", help="Folder or mirror with NAME/FILE"),
) -> None:
    """Download public corpora, or copy them from a local folder, and verify their checksums.

    Files that are up to date are skipped. With 'all', a corpus that fails does not stop the others;
    the exit code is 1 if any failed.
    """
    from ..corpus.download import read_table
    from ..tasks import fetch_set

    table = read_table()
    failed = False
    for set_name in table if name == "all" else [name]:
        try:
            fetched_files = fetch_set(set_name, output_path, assets=assets)
        except EXPECTED_ERRORS as err:
            msg.fail(f"{set_name} was not fetched", str(err))
            failed = True
            continue
        for fetched in fetched_files:
            msg.good(f"{'Up to date' if fetched.was_there else 'Fetched'}: {fetched.path}")
            if not fetched.verified:
                msg.warn(
                    f"{fetched.path} was not verified, because its checksum is not known. Its "
                    f"SHA-256 is {fetched.sha256}: compare it with a source you trust."
                )
        msg.text(f"{set_name}, licence: {table[set_name]['licence']}")
    if failed:
        raise typer.Exit(1)
