"""What the commands of `python -m spacy mslm` do, as Python functions.

A function takes what its command takes, returns a typed result and prints nothing. Errors that a
user can correct are raised as ValueError, OSError or ImportError (a missing extra).

    fetch_set             download a public corpus                      fetch
    convert               convert annotated files to .spacy files       convert
    start_project         start a project for an annotated corpus       init
    build_pmi_vocabulary  find the collocations of PMI masking          pmi
    train                 train a pipeline, with checkpoints            train
    tune                  find masking rates for a corpus               tune
    sweep                 train several configs, sets and seeds         sweep
    pretrain              train an encoder on plain text                pretrain
    shrink                make an encoder smaller                       shrink
    find_entities         find the entities of one text                 try
    evaluate              score a pipeline on annotated text            evaluate
    annotate              annotate large numbers of documents           annotate
    calibrate             calibrate the confidences of a pipeline       calibrate
    optimize              make a pipeline faster on CPU                 optimize
    export                export a pipeline to Hugging Face or ONNX     export
    write_model_card      describe a pipeline in a model card           card
    verify                verify the files of a pipeline or encoder     verify
    compare               compare the scores of several models          report
    draw_training         draw the course of trainings                  curves
    write_paper           write the tables of the paper                 paper
    draw_heatmap          draw the confidence of models in each word    heatmap
    label                 label clinical notes automatically            weak label
    count_terms           count the names of a terminology in notes     weak terms
    score_labels          score automatic labels on annotated notes     weak score
    export_review         write a sample of labels to be reviewed       weak review
    read_review           read the reviewed sample                      weak review --reviewed

    from spacy_mslm.tasks import evaluate
    evaluation = evaluate("training/model-best", Path("corpus/test.spacy"))
    print(evaluation["scores"]["ents_f"])

Names are imported when they are first used, so that importing this package does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# ruff: noqa: F401
if TYPE_CHECKING:
    from ..corpus.download import Fetched, fetch_set
    from ..weak.review import export_review, read_review
    from .annotation.annotate import Annotated, annotate
    from .calibration import Calibrated, calibrate
    from .choices import Engine, Format, Mode, Protocol, Target
    from .comparison.report import compare
    from .conversion import Conversion, convert
    from .curves import Curve, draw_training
    from .evaluation import Evaluation, evaluate
    from .exporting.export import Agreement, Exported, export
    from .heatmap.draw import draw_heatmap
    from .model_card import write_model_card
    from .optimization import Measured, Optimized, optimize
    from .paper.paper import Paper, list_tables, write_paper
    from .pmi import PMIVocabulary, build_pmi_vocabulary
    from .pretraining import Pretrained, pretrain
    from .shrinking import Shrunk, shrink
    from .starting.start import Started, start_project
    from .sweeping.sweep import Swept, sweep
    from .training import Trained, train
    from .trying import Found, find_entities
    from .tuning import Tuned, tune
    from .verification import Verification, verify
    from .weak import LabelledCorpus, count_terms, label, score_labels

_MODULES = {
    "..corpus.download": ("Fetched", "fetch_set"),
    "..weak.review": ("export_review", "read_review"),
    ".annotation.annotate": ("Annotated", "annotate"),
    ".calibration": ("Calibrated", "calibrate"),
    ".choices": ("Engine", "Format", "Mode", "Protocol", "Target"),
    ".comparison.report": ("compare",),
    ".conversion": ("Conversion", "convert"),
    ".curves": ("Curve", "draw_training"),
    ".exporting.export": ("Agreement", "Exported", "export"),
    ".evaluation": ("Evaluation", "evaluate"),
    ".heatmap.draw": ("draw_heatmap",),
    ".model_card": ("write_model_card",),
    ".optimization": ("Measured", "Optimized", "optimize"),
    ".paper.paper": ("Paper", "list_tables", "write_paper"),
    ".pmi": ("PMIVocabulary", "build_pmi_vocabulary"),
    ".pretraining": ("Pretrained", "pretrain"),
    ".shrinking": ("Shrunk", "shrink"),
    ".sweeping.sweep": ("Swept", "sweep"),
    ".starting.start": ("Started", "start_project"),
    ".trying": ("Found", "find_entities"),
    ".training": ("Trained", "train"),
    ".tuning": ("Tuned", "tune"),
    ".verification": ("Verification", "verify"),
    ".weak": ("LabelledCorpus", "count_terms", "label", "score_labels"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name], __name__), name)
