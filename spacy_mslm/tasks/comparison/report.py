"""Compare the scores of several models in a Markdown file and an HTML page."""

from pathlib import Path

from ...util.files import replace_files
from .html import render_html
from .tables import by_heading, make_tables, read_results, render_markdown


def compare(
    metrics_path: Path,
    output_path: Path,
    *,
    title: str = "Comparison of models",
    baseline: str = "vanilla",
) -> list[Path]:
    """Write tables and plots that compare evaluations.

    Args:
        metrics_path: Folder with the evaluations as SET/MODEL.json, or as SET/MODEL/SEED.json for
            several seeds, written by `evaluate` or by `spacy evaluate --output`; or the folder or
            results file of `spacy mslm sweep`.
        output_path: Folder for report.md, report.html and the plots.
        title: Title of the report.
        baseline: Name of the model to compare F1 with.

    Returns:
        The files written.

    Raises:
        ValueError: If there are no evaluations, or a file is not one.
        ImportError: If the extra `plots` is not installed.
    """
    try:
        from .plot import draw_scores
    except ImportError as err:
        raise ImportError(
            f"The plots of a report require matplotlib ({err}). Install it with 'pip install "
            '"spacy-mslm[plots]"\'.'
        ) from None

    results = read_results(metrics_path, baseline)
    tables = make_tables(results, baseline)
    groups = by_heading(results)
    pictures = {heading: draw_scores(heading, own) for heading, own in groups.items()}
    names = {heading: f"{own[0].set}-{own[0].protocol}.png" for heading, own in groups.items()}
    files = {names[heading]: data for heading, data in pictures.items()}
    files["report.md"] = render_markdown(title, tables, names).encode("utf8")
    files["report.html"] = render_html(title, tables, pictures)
    targets = {output_path / name: data for name, data in files.items()}
    replace_files(targets)
    return list(targets)
