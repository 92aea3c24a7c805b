"""`python -m spacy mslm fetch`: public corpora, verified, from the network or a local folder."""

from pathlib import Path
from typing import Annotated

import typer


def fetch_cli(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="ncbi_disease, bc5cdr, bc5cdr_chem, bc5cdr_disease, bc2gm, jnlpba, ebm_nlp or all",
        ),
    ],
    output_path: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="Folder, for NAME/{train,devel,test}.tsv in it")
    ],
    assets: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_URL", help="Take the files from DIR/NAME/ or URL/NAME/ instead"
        ),
    ] = None,
) -> None:
    """Fetch corpora from their public homes, or from a local folder, and verify their checksums.

    Files that are there already and sound are not fetched again. With 'all', sets that cannot be
    had do not keep the others from being fetched; the exit code tells.
    """
    from wasabi import msg

    from ..corpus.download import fetch_set, read_table

    table = read_table()
    failed = False
    for set_name in table if name == "all" else [name]:
        try:
            for fetched in fetch_set(set_name, output_path, assets=assets, table=table):
                msg.good(f"{'There already' if fetched.was_there else 'Fetched'}: {fetched.path}")
                if not fetched.verified:
                    msg.warn(
                        f"{fetched.path} was not verified, as no checksum of it is known. Its "
                        f"SHA-256 is {fetched.sha256}: compare it with that of someone you "
                        "trust."
                    )
            msg.text(f"{set_name}, licence: {table[set_name]['licence']}")
        except (ValueError, OSError) as err:
            msg.fail(f"{set_name} was not fetched", str(err))
            failed = True
    if failed:
        raise typer.Exit(1)
