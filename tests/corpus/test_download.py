"""`spacy mslm fetch`: from a real server and from folders; damaged files are never put in place."""

import hashlib
import io
import os
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import pytest

from spacy_mslm.corpus.download import fetch_set, read_table
from spacy_mslm.tasks import convert

from ..commands import run_spacy

BLURB = Path(__file__).parents[3] / "shared" / "blurb"
NAMES = ["train.tsv", "devel.tsv", "test.tsv"]


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder; those whose name says so are cut off after half their bytes."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        path = Path(self.translate_path(self.path))
        if path.name.startswith("cut"):
            data = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
        else:
            super().do_GET()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def home(tmp_path):
    """A folder with a set, as on its public home: the development set is called valid there."""
    folder = tmp_path / "home" / "small"
    folder.mkdir(parents=True)
    for name in ("train.tsv", "valid.tsv", "test.tsv"):
        (folder / name).write_text(f"{name}\tB-D\n" * 30_000, encoding="utf8")
    return folder.parent


@pytest.fixture
def server(home):
    class Bound(Handler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(home))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def address(server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def table(home, server):
    sources = dict(zip(NAMES, ["train.tsv", "valid.tsv", "test.tsv"], strict=True))
    files = {
        name: {
            "url": f"{address(server)}/small/{source}",
            "sha256": hashlib.sha256((home / "small" / source).read_bytes()).hexdigest(),
        }
        for name, source in sources.items()
    }
    return {"small": {"licence": "none", "files": files}}


def test_download_then_nothing_more_then_what_was_damaged(home, server, table, tmp_path):
    out = tmp_path / "out"
    fetched = list(fetch_set("small", out, assets="", table=table))
    assert [(f.path, f.was_there, f.verified) for f in fetched] == [
        (out / "small" / name, False, True) for name in NAMES
    ]
    assert sorted(os.listdir(out / "small")) == sorted(NAMES)
    valid = home / "small" / "valid.tsv"
    assert (out / "small" / "devel.tsv").read_bytes() == valid.read_bytes()
    assert len(server.asked) == 3
    assert all(f.was_there for f in fetch_set("small", out, table=table))
    assert len(server.asked) == 3
    (out / "small" / "devel.tsv").write_bytes(b"damaged")
    states = [f.was_there for f in fetch_set("small", out, table=table)]
    assert states == [True, False, True] and len(server.asked) == 4
    assert (out / "small" / "devel.tsv").read_bytes() == valid.read_bytes()


def test_a_file_that_does_not_match_is_not_put_in_place(server, table, tmp_path):
    known = table["small"]["files"]["train.tsv"]["sha256"]
    table["small"]["files"]["train.tsv"]["sha256"] = "0" * 64
    for assets in (None, address(server), str(tmp_path / "home")):
        out = tmp_path / "out"
        (out / "small").mkdir(parents=True, exist_ok=True)
        (out / "small" / "train.tsv").write_bytes(b"old")
        with pytest.raises(ValueError, match=rf"train\.tsv is damaged.*{known}.*{'0' * 64}"):
            list(fetch_set("small", out, assets=assets, table=table))
        assert (out / "small" / "train.tsv").read_bytes() == b"old"
        assert os.listdir(out / "small") == ["train.tsv"]


def test_what_cannot_be_had_says_both_ways_out(home, server, table, tmp_path):
    asset = table["small"]["files"]["train.tsv"]
    (home / "small" / "cut.tsv").write_bytes(b"x" * 400_000)
    port = urlparse(asset["url"]).port
    for url, reason in [
        (f"{address(server)}/none.tsv", "404"),
        (f"{address(server)}/small/cut.tsv", "are missing|IncompleteRead"),
        ("http://127.0.0.1:9/x.tsv", "refused"),
        (f"https://127.0.0.1:{port}/small/train.tsv", "SSL"),
    ]:
        asset["url"] = url
        with pytest.raises(ValueError, match=reason) as err:
            list(fetch_set("small", tmp_path / "out", table=table))
        assert url in str(err.value) and "--assets URL" in str(err.value)
        assert "small/train.tsv and give that folder (--assets DIR)" in str(err.value)
        assert os.listdir(tmp_path / "out" / "small") == []
    with pytest.raises(ValueError, match=r"No such file.*--assets DIR"):
        list(fetch_set("small", tmp_path / "out", assets=str(tmp_path / "none"), table=table))
    with pytest.raises(ValueError, match=r"Unknown set 'big'.*small, all"):
        list(fetch_set("big", tmp_path / "out", table=table))


def test_a_local_folder_may_call_the_development_set_valid(home, table, tmp_path):
    fetched = list(fetch_set("small", tmp_path / "out", assets=str(home), table=table))
    assert [f.path.name for f in fetched] == NAMES


# ---- the package's table ----


def test_the_table_pins_commits_and_checksums():
    table = read_table()
    assert set(table) == {
        *("ncbi_disease", "bc5cdr", "bc5cdr_chem", "bc5cdr_disease", "bc2gm", "jnlpba", "ebm_nlp")
    }
    for name, entry in table.items():
        assert entry["licence"]
        if name != "ebm_nlp":
            assert list(entry["files"]) == NAMES
        for asset in entry["files"].values():
            url = urlparse(asset["url"])
            assert (url.scheme, url.netloc) == ("https", "raw.githubusercontent.com")
            commit = url.path.split("/")[3]
            assert len(commit) == 40 and int(commit, 16)
            assert (asset["sha256"] is None) == (name == "ebm_nlp")
            assert asset["sha256"] is None or len(bytes.fromhex(asset["sha256"])) == 32


@pytest.mark.shared
@pytest.mark.skipif(not BLURB.is_dir(), reason="needs ../shared/blurb")
def test_command_takes_all_sets_from_a_local_folder_and_says_which_is_missing(tmp_path):
    result = run_spacy("mslm", "fetch", "all", tmp_path, "--assets", BLURB)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1 and "Traceback" not in told
    assert told.count("Fetched:") == 18
    assert "ebm_nlp was not fetched" in told and "(--assets DIR)" in told
    for name in set(read_table()) - {"ebm_nlp"}:
        assert sorted(os.listdir(tmp_path / name)) == sorted(NAMES)
    assert all(f.was_there for f in fetch_set("bc2gm", tmp_path, assets="none"))


def test_command_exits_with_an_error_on_a_mismatch(home, server, tmp_path):
    (home / "bc2gm").mkdir()
    (home / "bc2gm" / "train.tsv").write_text("a\tO\n", encoding="utf8")
    arguments = ("bc2gm", tmp_path / "out", "--assets", f"{address(server)}/")
    result = run_spacy("mslm", "fetch", *arguments, fresh=True)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1 and "Traceback" not in told
    assert "bc2gm was not fetched" in told and "is damaged, or another version" in told
    assert server.asked == ["/bc2gm/train.tsv"]
    assert os.listdir(tmp_path / "out" / "bc2gm") == []


# ---- EBM-NLP ----


def pack(folder: Path, target: Path, root: str = "ebm_nlp_2_00") -> Path:
    target.parent.mkdir(parents=True)
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, root)
        for name in ("../../evil.tokens", "x/documents/../../evil.ann", "/documents/evil.ann"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
        link = tarfile.TarInfo(f"{root}/documents/999.tokens")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return target


def test_the_archive_of_ebm_nlp_is_unpacked_and_converted(ebm_nlp, tmp_path):
    archive = pack(ebm_nlp, tmp_path / "assets" / "ebm_nlp" / "ebm_nlp_2_00.tar.gz")
    out = tmp_path / "out"
    for was_there in (False, True):
        (fetched,) = fetch_set("ebm_nlp", out, assets=str(tmp_path / "assets"))
        assert (fetched.was_there, fetched.verified) == (was_there, False)
    assert fetched.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    unpacked = sorted(p.name for p in (out / "ebm_nlp").iterdir())
    assert unpacked == ["annotations", "documents", "ebm_nlp_2_00.tar.gz"]
    names = {p.name for p in out.rglob("*") if p.is_file()}
    assert not {name for name in names if "evil" in name or name == "999.tokens"}
    assert not list(tmp_path.glob("evil*")) and "100.text" not in names
    conversion = convert(out / "ebm_nlp", tmp_path / "corpus")
    assert conversion.statistics["documents"] == {"train": 10, "dev": 2, "test": 2}


def test_an_archive_that_is_cut_off_does_not_count_as_fetched(ebm_nlp, tmp_path):
    archive = pack(ebm_nlp, tmp_path / "assets" / "ebm_nlp" / "ebm_nlp_2_00.tar.gz")
    whole = archive.read_bytes()
    flipped = whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:]  # in gzip's own checksum
    for data in (whole[: len(whole) // 2], flipped, b"no archive", b""):
        archive.write_bytes(data)
        with pytest.raises(ValueError, match="not the whole archive of EBM-NLP"):
            list(fetch_set("ebm_nlp", tmp_path / "out", assets=str(tmp_path / "assets")))
        assert os.listdir(tmp_path / "out" / "ebm_nlp") == []
