"""The deployment files: well-formed, complete, and of commands that exist."""

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tools

from docs_rag.arguments import build_parser
from docs_rag.config import load_settings
from docs_rag.dotenv import parse_dotenv
from docs_rag.settings import describe
from docs_rag.variables import VARIABLES

DEPLOY = tools.ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
PLISTS = sorted((DEPLOY / "launchd").iterdir())
EXAMPLE = (DEPLOY / "env.example").read_text()


def commands_in(text: str) -> list[list[str]]:
    """Return the docs-rag commands in a file, as words."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = re.findall(r"bin/docs-rag\"? ([a-z][^\n&>|]*)", "\n".join(lines))
    return [shlex.split(re.sub(r"#.*|\$\(.*?\)", "", words)) for words in found]


def check_command(words: list[str]) -> None:
    """Fail where docs-rag would not take these words."""
    if words[0] == "trace":
        known = subprocess.run(
            [sys.executable, "-m", "docs_rag", "trace", "--help"],
            env={"PYTHONPATH": str(tools.ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert all(word in known for word in words if word.startswith("--")), words
    else:
        build_parser().parse_args(words)


# -- settings ---------------------------------------------------------------------


def test_every_setting_is_shown_at_its_default_with_a_reason():
    """One commented line for each variable, with a comment above it."""
    lines = EXAMPLE.splitlines()
    for variable in VARIABLES:
        assignment = f"#{variable.name}={variable.default}"
        assert lines.count(assignment) == 1, variable.name
        above = lines[lines.index(assignment) - 1]
        assert above.startswith("# ") or above.startswith("#RAG_PRICE"), variable.name
    shown = set(re.findall(r"^#([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    assert shown == {variable.name for variable in VARIABLES}


def test_the_example_changes_nothing_until_it_is_edited(tmp_path):
    """As it is, it sets nothing; with the # taken off, every value is the default."""
    assert parse_dotenv(EXAMPLE, Path(".env")) == {}
    bare = {"RAG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    before = describe(load_settings(bare))
    named = re.sub(r"^#(?=[A-Z_]+=)", "", EXAMPLE, flags=re.MULTILINE)
    (tmp_path / ".env").write_text(re.sub(r"(?m)^.*(RAG_DIR=|<).*$", "", named))
    after = describe(load_settings(bare))

    assert [row[:2] for row in after] == [row[:2] for row in before]


@pytest.mark.parametrize(
    "path",
    [
        *(path for path in [*UNITS, *PLISTS] if path.suffix != ".timer"),
        DEPLOY / "Containerfile",
        DEPLOY / "crontab.example",
        DEPLOY / "README.md",
    ],
    ids=lambda path: path.name,
)
def test_every_way_to_run_it_leads_to_the_settings(path):
    """Each file says where all settings are explained, and sets where they lie."""
    text = path.read_text()

    assert "env.example" in text
    assert "RAG_DIR" in text


# -- systemd ----------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="not here: systemd-analyze"
)
def test_units_are_accepted_by_systemd(tmp_path):
    """systemd-analyze verify has nothing to say, for an instance of each."""
    for path in UNITS:
        text = re.sub(r"/opt/docs-rag/\S+", "/bin/true", path.read_text())
        (tmp_path / path.name.replace("@.", "@demo.")).write_text(text)
        (tmp_path / path.name).write_text(text)
    units = [str(path) for path in tmp_path.glob("*@demo.*")]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_server_is_confined():
    """A named account, a read-only system, loopback alone, nothing to gain."""
    text = (DEPLOY / "systemd" / "docs-rag@.service").read_text()
    for line in (
        "User=docs-rag",
        "ProtectSystem=strict",
        "ReadWritePaths=-/srv/docs-rag/data-%i -/srv/docs-rag/logs",
        "IPAddressDeny=any",
        "IPAddressAllow=localhost",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
    ):
        assert f"\n{line}\n" in text


def test_a_refresh_that_finds_the_lock_held_is_no_failure():
    """Exit 75 is a success for the timer, and every other failure is one."""
    text = (DEPLOY / "systemd" / "docs-rag-refresh@.service").read_text()

    assert "\nSuccessExitStatus=75\n" in text
    assert "ExecStart=-" not in text


# -- launchd ----------------------------------------------------------------------


@pytest.mark.parametrize("path", PLISTS, ids=lambda path: path.name)
def test_plists_are_property_lists(path):
    """They parse, before and after the names are filled in, and miss no key."""
    data = path.read_bytes().replace(b"__HOME__", b"/Users/me")
    job = plistlib.loads(data.replace(b"__CORPUS__", b"my-project"))

    assert job["Label"].endswith("my-project")
    assert job["EnvironmentVariables"]["RAG_CORPUS"] == "my-project"
    assert job["ProgramArguments"][0].startswith("/")
    assert job["StandardErrorPath"].startswith("/Users/me")
    assert b"__" not in data.replace(b"__CORPUS__", b"")
    assert job["Umask"] == 0o077


# -- cron -------------------------------------------------------------------------

FIELD = r"(?:\*|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)(?:/\d+)?"
ENTRY = re.compile(rf"(?:{FIELD} +){{5}}(?P<command>\S.*)")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def crontab() -> list[str]:
    text = (DEPLOY / "crontab.example").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line for line in lines if not ASSIGNMENT.fullmatch(line)]


def test_the_crontab_is_one():
    """Five fields in their limits and a command, with every % escaped."""
    assert len(crontab()) == 5
    for line in crontab():
        match = ENTRY.fullmatch(line)
        assert match, line
        assert not re.search(r"(?<!\\)%", match["command"]), line
        for text, (least, most) in zip(line.split(), LIMITS, strict=False):
            for number in re.findall(r"(?<!/)\b\d+", text):
                assert least <= int(number) <= most, line


@tools.needs("crontab")
@pytest.mark.skipif(
    "-n"
    not in subprocess.run(
        ["crontab", "-h"], capture_output=True, text=True, check=False
    ).stderr
    if shutil.which("crontab")
    else True,
    reason="this crontab cannot check a file",
)
def test_cron_itself_accepts_the_crontab():
    """Asked to check it, and to install nothing."""
    command = ["crontab", "-n", str(DEPLOY / "crontab.example")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_documented_entries_refresh_check_prune_and_probe():
    """Everything that has to happen now and then has an entry."""
    text = "\n".join(crontab())

    for part in (
        "refresh.sh",
        "trace --check",
        "trace --prune-days",
        "snapshot",
        "probe",
    ):
        assert part in text


@tools.needs("git")
def test_the_entries_run_in_the_environment_of_cron(tmp_path):
    """refresh, check, prune and snapshot: done, and nothing for cron to mail."""
    command = tools.launcher(tmp_path / ".venv" / "bin" / "docs-rag")
    shutil.copy(tools.ROOT / "refresh.sh", tmp_path)
    service = tmp_path / "service"
    (service / "corpus" / "my-project" / "docs").mkdir(parents=True)
    (service / "corpus" / "my-project" / "docs" / "a.md").write_text("# A\n")
    (service / "corpora.json").write_text('{"my-project": {"roots": ["docs"]}}')
    (service / ".env").write_text("RAG_EMBED_BACKEND=stub\n")
    for name in ("logs", "backup"):
        (service / name).mkdir()
    for line in crontab():
        match = ENTRY.fullmatch(line)
        assert match
        if "probe" in line:
            continue
        text = (
            match["command"].replace("\\%", "%").replace("/opt/docs-rag", str(tmp_path))
        )
        done = subprocess.run(
            ["/bin/sh", "-c", text.replace("/srv/docs-rag", str(service))],
            env={
                "HOME": str(tmp_path),
                "RAG_DIR": str(service),
                "PATH": "/usr/bin:/bin",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), line
    assert command.exists()
    assert "1 files" in (service / "logs" / "refresh-my-project.log").read_text()
    assert len(list((service / "backup").iterdir())) == 1


# -- container and proxies --------------------------------------------------------


def test_the_containerfile_is_complete():
    """Every instruction is one, nothing runs as root, and its health is looked at."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {
        *("FROM", "RUN", "COPY", "ENV", "VOLUME", "WORKDIR", "USER", "EXPOSE"),
        *("HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"),
    }
    words = [line.split()[0] for line in lines]

    assert set(words) == known
    assert words[0] == "FROM"
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "USER 10001" in lines
    code = re.search(r'CMD \["python", "-c", (".*")\]', text)
    assert code
    source = subprocess.run(
        ["python3", "-c", "import json, sys; print(json.loads(sys.argv[1]))", code[1]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    compile(source, "HEALTHCHECK", "exec")
    assert "/readyz" in source


def test_an_image_holds_no_secret():
    """What is ignored: the repository, environments and local configuration."""
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()

    assert {".git", ".venv", "**/.env", "corpora.json"} <= set(lines)


@pytest.mark.parametrize("name", ["Caddyfile", "nginx.conf"])
def test_a_proxy_passes_the_host_on_and_only_the_protocol(name):
    """It leads to loopback, says which allow-list it needs, and opens no other path."""
    text = (DEPLOY / "proxy" / name).read_text()

    assert "127.0.0.1:8765" in text
    assert "RAG_ALLOWED_HOSTS=docs.example.com:443" in text
    assert "RAG_AUTH_TOKEN" in text
    assert "404" in text


@tools.needs("nginx", "openssl")
def test_nginx_accepts_its_file(tmp_path):
    """nginx -t, with a certificate of the moment."""
    for name in ("privkey", "fullchain"):
        (tmp_path / f"{name}.pem").touch()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=docs.example.com", "-keyout", f"{tmp_path}/privkey.pem"),
            *("-out", f"{tmp_path}/fullchain.pem"),
        ],
        capture_output=True,
        check=True,
    )
    site = (DEPLOY / "proxy" / "nginx.conf").read_text()
    site = site.replace("/etc/letsencrypt/live/docs.example.com", str(tmp_path))
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off;\n{site}\n}}\n"
    )
    command = ["nginx", "-t", "-q", "-p", str(tmp_path), "-c", f"{tmp_path}/nginx.conf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@tools.needs("caddy")
def test_caddy_accepts_its_file(tmp_path):
    """caddy validate, in a home of its own."""
    done = subprocess.run(
        [
            *("caddy", "validate", "--adapter", "caddyfile"),
            *("--config", str(DEPLOY / "proxy" / "Caddyfile")),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


# -- commands and links -----------------------------------------------------------

FILES_WITH_COMMANDS = ["README.md", "crontab.example", "systemd/docs-rag@.service"]
FILES_WITH_COMMANDS += ["systemd/docs-rag-refresh@.service"]


@pytest.mark.parametrize("name", FILES_WITH_COMMANDS)
def test_commands_are_ones_that_exist(name):
    """Every docs-rag command in the file is taken by the parser."""
    found = commands_in((DEPLOY / name).read_text())

    assert found
    for words in found:
        check_command(words)


def test_the_readme_names_every_file_and_no_other():
    """Each link leads somewhere, and each file is linked, by itself or its folder."""
    text = (DEPLOY / "README.md").read_text()
    links = set(re.findall(r"\]\(([^)#:]+)\)", text))

    assert all((DEPLOY / link).exists() for link in links)
    for path in DEPLOY.rglob("*"):
        name = str(path.relative_to(DEPLOY))
        if path.is_file() and path.name != "README.md":
            linked = any(name == link or name.startswith(f"{link}/") for link in links)
            assert linked or name == "Containerfile.dockerignore" or "proxy" in name
