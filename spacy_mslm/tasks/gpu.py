"""The choice of a GPU."""

from spacy.cli._util import setup_gpu


def choose_gpu(number: int) -> None:
    """Compute on a GPU from here on, or on the CPU if the number is negative.

    Raises:
        ValueError: If the GPU cannot be used.
    """
    try:
        setup_gpu(number, silent=True)
    except Exception as err:  # also errors of CUDA
        reason = str(err).rstrip(".")
        raise ValueError(
            f"GPU {number} cannot be used: {reason}. Install CuPy for your version of CUDA "
            '(pip install "spacy-mslm[cuda12x]"), or leave out --gpu-id to compute on the CPU.'
        ) from None
