"""`python -m spacy mslm paper`: the tables and figures of the paper, with ours beside them."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table


@command(mslm_cli, "paper", failure="The tables were not written")
def paper_cli(
    names: list[str] = Arg(
        None, metavar="[TABLE]...", help="Names such as table8 or figure4 [default: all]"
    ),
    results: Path = Opt(
        Path("training/paper"), help="Folder with the results of 'spacy mslm sweep'"
    ),
    output: Path = Opt(Path("report/paper"), "--output", "-o", help="Output folder"),
    corpora: Path | None = Opt(None, help="Folder of converted corpora, for Tables 9 and 11"),
    list_names: bool = Opt(False, "--list", help="List the tables and figures"),
) -> None:
    """Write the tables and figures of the paper with your figures beside them.

    OUTPUT gets paper.html, a CSV file per table, a PNG per figure, and the specs of the trials. A
    cell that was not measured shows the command that fills it.
    """
    from ..tasks import list_tables, write_paper

    if list_names:
        show_table(list(list_tables().items()), ("name", "content"), left=2)
        return
    paper = write_paper(names or [], results, output, corpora=corpora)
    for missing in paper.missing:
        msg.info(f"Missing cells: {missing}")
    msg.good(f"Saved {paper.files[0]}")
