"""What deploy/ has for operators is true of this program: the unit of systemd, its file of options, the container."""
import re
import shlex
import shutil
import subprocess

import pytest

from program import LIMIT, ROOT, STOKER, Server, run_well

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "stoker.service").read_text()
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def setting(name):
    """The value of the unit's only line of that name."""
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return value


def known_options():
    return set(re.findall(r"^ +(--[a-z-]+)", run_well("serve", "--help"), re.MULTILINE))


def stages():
    """The instructions of each stage of the container, one a line."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.MULTILINE))
    return [re.findall(r"^[A-Z].*$", stage, re.MULTILINE) for stage in re.split(r"^(?=FROM )", joined, flags=re.MULTILINE)[1:]]


def installed(stage):
    (command,) = [line for line in stage if "apt-get install" in line]
    words = re.search(r"--no-install-recommends (.*?)(?: &&|$)", command)[1].split()
    return set(words)


def shell_list(name):
    """A list of Debian packages of tools/shell.sh."""
    return set(subprocess.run(["bash", "-c", f'source tools/shell.sh; echo "${{{name}[@]}}"'], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.split())


def test_the_unit_runs_the_program_as_it_is():
    program, command, *arguments = shlex.split(setting("ExecStart"))
    assert (program, command) == ("/usr/local/bin/stoker", "serve")
    options = {word for word in arguments if word.startswith("--")}
    assert len(options) == 3 and options <= known_options()
    assert setting("RestartPreventExitStatus") == "2" and subprocess.run([STOKER, "serve", "--no-such"], capture_output=True,
                                                                         timeout=LIMIT, check=False).returncode == 2


def test_the_units_folders_are_those_of_its_options():
    words = shlex.split(setting("ExecStart"))
    store, batches = (words[words.index(option) + 1] for option in ("--store", "--batch-dir"))
    assert store == f"%C/{setting('CacheDirectory')}"
    assert batches.removeprefix("%S/") in setting("StateDirectory").split()


def test_the_unit_waits_longer_than_the_server():
    config = (DEPLOY / "serve.yaml").read_text()
    grace = int(re.search(r"^shutdown-timeout: (\d+)$", config, re.MULTILINE)[1])
    assert int(setting("TimeoutStopSec")) >= grace + 10
    assert setting("KillSignal") == "SIGTERM"


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("SKIP: the unit is not verified, there is no systemd-analyze here (apt-get install systemd)")
    unit = tmp_path / "stoker.service"
    unit.write_text(UNIT.replace("/usr/local/bin/stoker", STOKER))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_file_of_options_is_taken(tmp_path):
    # The model of the command line must stand in front.
    with Server("demo", "--config", DEPLOY / "serve.yaml", "--batch-dir", tmp_path / "batches", "--port", "0") as server:
        assert server.ask("/v1/models")[1]["data"][0]["id"] == "deepseek"
        assert server.stop() == 0


def test_the_container_is_built_with_the_packages_of_the_scripts():
    build, _ = stages()
    assert installed(build) == shell_list("packages_to_run")
    assert all(line.split()[1] == "debian:bookworm" for stage in stages() for line in stage if line.startswith("FROM "))


def test_the_container_has_the_libraries_that_the_program_needs():
    if shutil.which("dpkg-query") is None:
        pytest.skip("SKIP: the container's libraries are not checked, this is no Debian system")
    _, final = stages()
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", STOKER], capture_output=True, text=True, check=True).stdout)
    found = subprocess.run(["dpkg-query", "-S", *(f"*/{name}" for name in needed)], capture_output=True, text=True, check=False).stdout
    owners = {line.split(":")[0] for line in found.splitlines() if "/x86_64-linux-gnu/" in line}
    base = {"libc6", "libgcc-s1"}  # of debian:bookworm itself
    assert len(owners) >= 5 and installed(final) == owners - base | {"curl", "ca-certificates"}


def test_the_container_runs_what_it_has():
    build, final = stages()
    lines = "\n".join(final)
    assert "USER stoker" in final and final.index("USER stoker") < final.index('ENTRYPOINT ["stoker", "serve"]')
    assert '"http://127.0.0.1:8000/health"' in lines and "EXPOSE 8000" in final
    assert "--host" in known_options() and 'CMD ["demo", "--host", "0.0.0.0"]' in final
    assert re.search(r"cmake --install build/release --prefix /usr/local\b", "\n".join(build))
