"""`python -m spacy mslm export`: a pipeline for Hugging Face transformers and ONNX Runtime."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Target
from .common import Model, command, mslm_cli


@command(mslm_cli, "export", failure="The pipeline was not exported")
def export_cli(
    model: Model,
    output: Path = Arg(..., metavar="OUTPUT", help="Output folder"),
    to: Target = Opt(Target.hf_mlm, help="What to export to"),
    train: Path | None = Opt(None, help="Text to fit to [default: train set of MODEL]"),
    dev: Path | None = Opt(None, help="Text to measure agreement on [default: dev set of MODEL]"),
    force: bool = Opt(False, "--force", help="Replace OUTPUT if it exists"),
) -> None:
    """Export a pipeline to a folder that needs neither spaCy nor this package.

    The target `hf-mlm` is the encoder with its masked-LM head. `hf-token-classification` is a
    classifier for the pipeline("token-classification") of transformers: one linear layer that is
    fitted to what MODEL predicts. `onnx` is a graph for ONNX Runtime with the entity heads of
    MODEL. Agreement with MODEL is measured and stored in agreement.json.
    """
    from ..tasks import export

    path, agreement = export(model, output, to, train, dev, force)
    if agreement is not None:
        msg.info(
            f"Same type as {model} on {agreement.token_share:.2%} of {agreement.tokens:,} tokens, "
            f"same boundaries and type for {agreement.entity_share:.2%} of "
            f"{agreement.entities:,} entities"
        )
    msg.good(f"Exported to {path}")
