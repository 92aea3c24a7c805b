"""`python -m spacy mslm card`: write the model card of a pipeline."""

from pathlib import Path

from spacy.cli._util import Opt
from wasabi import msg

from .common import Model, command, mslm_cli


@command(mslm_cli, "card", failure="The model card was not written")
def card_cli(
    model: Model,
    metrics: Path | None = Opt(
        None, help="Scores, as evaluate writes them [default: those of the dev set in training]"
    ),
    data_card: Path | None = Opt(None, help="Markdown file about the data, to be included"),
    license: str | None = Opt(None, help="Licence of the weights, such as cc-by-4.0"),
    description: str | None = Opt(None, help="One sentence on the pipeline"),
) -> None:
    """Write the model card of a pipeline into its folder, with metadata of Hugging Face.

    It is made from scores, config and labels. `spacy package` takes it into the package, and `spacy
    info` shows it.
    """
    from ..tasks import write_model_card

    path = write_model_card(
        model, metrics=metrics, data_card=data_card, license=license, description=description
    )
    msg.good(f"Wrote {path}")
