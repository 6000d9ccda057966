"""Rules of the trace commands: what they take, print and return."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from trace_samples import NOW, ROOT, make_call, make_line, receiver, write_lines

from docs_rag.errors import ConfigError
from docs_rag.tracecheck import Limits
from docs_rag.tracecli import main
from docs_rag.traceoptions import parse
from docs_rag.tracesettings import days, load_trace_settings, number, share, whole, zone
from docs_rag.tracing import TraceWriter
from docs_rag.variables import VARIABLES

DOOR = ROOT / "tracing.py"


def run(
    *argv: object, environ: dict[str, str] | None = None, home: Path = Path("/nowhere")
) -> tuple[int, str, str]:
    """Run a command at NOW; return exit code, output and errors."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(
        [str(word) for word in argv],
        {"HOME": str(home)} | (environ or {}),
        stdout,
        stderr,
        clock=lambda: NOW,
    )
    return code, stdout.getvalue(), stderr.getvalue()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A trace file of a hundred calls, five of them failed and ten unanswered."""
    logs = tmp_path / "logs"
    logs.mkdir()
    return write_lines(
        logs / "traces-a.jsonl",
        [
            *(
                make_line(match="strong", duration_ms=n, caller="mcp")
                for n in range(85)
            ),
            *(
                make_line(match="none", corpus="a", **{"query.sha256": "d" * 64})
                for _ in range(10)
            ),
            *(make_line(**{"error.type": "QueryError"}) for _ in range(5)),
        ],
    )


def test_report_says_what_matters(traces: Path) -> None:
    """Calls, errors, verdicts, percentiles with their method, days, files."""
    code, out, err = run("--report", traces)

    assert (code, err) == (0, "")
    for words in (
        "calls     100",
        "5 (5.0%): QueryError 5",
        "none 10 (10.5%)",
        "retrieve",
        "p50   p95   p99",
        "2031-05-20",
        "percentiles: nearest rank, exact",
        str(traces),
    ):
        assert words in out, words
    assert "RAG_PRICE_INPUT_PER_MTOK" in out


def test_report_is_json_where_asked(traces: Path) -> None:
    """The JSON carries the same figures under stable names."""
    code, out, _ = run(
        "--report", "--json", traces, environ={"RAG_PRICE_INPUT_PER_MTOK": "3"}
    )
    report = json.loads(out)

    assert code == 0
    assert report["total"]["calls"] == 100
    assert report["error_rate"] == 0.05
    assert report["no_match_rate"] == 10 / 95
    assert report["cost_usd"] == 0
    assert report["tools"][0]["p95_ms"] == 79
    assert report["days"][0]["name"] == "2031-05-20"
    assert report["files"][0]["records"] == 100
    assert report["percentiles"] == "nearest rank, exact"


def test_report_writes_a_page_beside_the_text(traces: Path, tmp_path: Path) -> None:
    """--html adds a page for its owner only, and says where."""
    page = tmp_path / "report.html"
    code, out, err = run("--report", traces, "--html", page)

    assert code == 0 and "calls     100" in out
    assert str(page) in err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert page.stat().st_mode & 0o777 == 0o600
    code, _, err = run("--report", traces, "--html", tmp_path / "none" / "x.html")
    assert code == 1 and err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "environ", "violations"),
    [
        ([], {}, 0),
        (["--max-error-rate", "0.05"], {}, 0),
        (["--max-error-rate", "0.04"], {}, 1),
        (["--max-p95-ms", "10", "--max-no-match-rate", "0.1"], {}, 2),
        (["--max-total-tokens", "0"], {}, 0),
        ([], {"RAG_COST_ALERT_USD": "1"}, 1),
        ([], {"RAG_COST_ALERT_USD": "1", "RAG_PRICE_INPUT_PER_MTOK": "1"}, 0),
        (["--cost-alert-usd", "1", "--price-input-per-mtok", "1"], {}, 0),
        (["--window-days", "1"], {}, 0),
    ],
    ids=str,
)
def test_check_lists_violations(
    flags: list[str], environ: dict[str, str], violations: int, traces: Path
) -> None:
    """Each violation is a line, the exit code is 1 with any and 0 with none."""
    code, out, err = run("--check", traces, *flags, environ=environ)

    assert out.count("VIOLATION: ") == violations
    assert code == bool(violations) and err == ""
    assert "in 100 calls" in out and "limit" in out


def test_a_quiet_check_speaks_only_of_violations(traces: Path) -> None:
    """For cron: no output while all is well, the usual one where it is not."""
    assert run("--check", "--quiet", traces) == (0, "", "")
    code, out, _ = run("--check", "-q", traces, "--max-error-rate", "0")

    assert code == 1 and "VIOLATION" in out
    assert run("--prune-days", "1", "-q", traces) == (0, "", "")
    assert "left as it was" in run("--prune-days", "1", "-q", "/dev/null")[1]


def test_check_is_json_where_asked(traces: Path) -> None:
    """A program finds the violations and every figure with its limit."""
    code, out, _ = run("--check", traces, "--json", "--max-error-rate", "0.01")
    result = json.loads(out)

    assert code == 1
    assert len(result["violations"]) == 1
    rates = {f["subject"]: (f["measured"], f["limit"]) for f in result["findings"]}
    assert rates["error rate"] == (0.05, 0.01)


@pytest.mark.parametrize("action", ["--report", "--check", "--misses"])
def test_what_cannot_be_read_is_named(action: str, traces: Path) -> None:
    """A missing file among good ones is said and makes the exit code 1."""
    missing = traces.parent / "traces-*.jsonl.9"
    code, out, err = run(action, traces, missing)

    assert code == 1
    assert f"{missing}: there is no such file" in out + err
    assert run(action, traces, missing, "--allow-empty")[0] == 0


def test_files_make_one_window_in_any_packing(traces: Path) -> None:
    """Rotated and packed files add up, and the report says what it read."""
    rotated = traces.with_name("traces-a.jsonl.1")
    packed = traces.with_name("traces-a.jsonl.2.gz")
    rotated.write_bytes(traces.read_bytes())
    packed.write_bytes(gzip.compress(traces.read_bytes()))

    for files in ([packed, rotated, traces], [traces.parent]):
        code, out, _ = run("--report", *files)
        assert code == 0 and "calls     300" in out
        assert "gzip" in out and str(rotated) in out


def test_without_files_the_trace_folder_is_read(traces: Path, tmp_path: Path) -> None:
    """RAG_TRACE_DIR, or logs in RAG_DIR, is where files are looked for."""
    for environ in (
        {"RAG_DIR": str(tmp_path)},
        {"RAG_TRACE_DIR": str(traces.parent)},
        {"RAG_DIR": str(tmp_path), "RAG_TRACE_DIR": "logs"},
    ):
        code, out, _ = run("--report", environ=environ)
        assert code == 0 and "calls     100" in out
    code, out, _ = run("--check", environ={"RAG_DIR": str(tmp_path / "none")})
    assert code == 1 and "no such file" in out


def test_misses_are_listed(traces: Path) -> None:
    """The most frequent misses come with their digest, as text and as JSON."""
    code, out, _ = run("--misses", traces)
    as_json = json.loads(run("--misses", traces, "--json", "--top", "5")[1])

    assert code == 0
    assert "sha256:dddd" in out and "10 misses, 1 distinct" in out
    assert as_json["misses"][0]["count"] == 10


def test_otel_export_says_how_many(traces: Path, tmp_path: Path) -> None:
    """The two files are IN and OUT, and the number of spans is printed."""
    target = tmp_path / "spans.jsonl"
    code, out, err = run("--export-otel", traces, target)

    assert (code, err) == (0, "")
    assert out == f"100 spans to {target}\n"
    assert target.read_bytes().count(b"\n") == 100


def test_otlp_export_posts_and_says_what_was_refused(traces: Path) -> None:
    """Spans go to the collector with the headers of the environment."""
    refused = b'{"partialSuccess":{"rejectedSpans":2,"errorMessage":"too old\\n"}}'
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20k1"}
    with receiver((200, {}, b"{}"), (200, {}, refused)) as server:
        good = run("--export-otlp", server.url, traces, environ=environ)
        bad = run("--export-otlp", server.url, traces)

    assert good == (0, "100 spans to the collector\n", "")
    assert server.requests[0][1]["authorization"] == "Bearer k1"
    assert bad[0] == 1 and bad[2] == "2 spans were rejected: too old\\n\n"


@pytest.mark.parametrize(
    ("argv", "environ", "kept"),
    [
        (["--prune-days", "14"], {}, 2),
        (["--prune-days", "2"], {}, 1),
        (["--prune-days"], {}, 2),
        (["--prune-days"], {"RAG_TRACE_KEEP_DAYS": "40"}, 3),
        (["--prune-days", "0.5"], {"RAG_TRACE_KEEP_DAYS": "40"}, 1),
    ],
    ids=str,
)
def test_prune_keeps_the_days_asked_for(
    argv: list[str], environ: dict[str, str], kept: int, tmp_path: Path
) -> None:
    """A number wins over RAG_TRACE_KEEP_DAYS, which wins over fourteen days."""
    logs = tmp_path / "logs"
    logs.mkdir()
    ages = [timedelta(days=n) for n in (30, 7, 0)]
    path = write_lines(logs / "traces-a.jsonl", [make_line(ago=age) for age in ages])

    code, out, err = run(*argv, environ=environ | {"RAG_DIR": str(tmp_path)})

    assert (code, err) == (0, "")
    assert len(path.read_text(encoding="utf-8").splitlines()) == kept
    assert str(path) in out and f"{kept} kept" in out


def test_prune_takes_files_and_folders(traces: Path) -> None:
    """Named files and folders are pruned; what is not there is a mistake."""
    empty = traces.parent / "empty"
    empty.mkdir()

    assert run("--prune-days", "14", traces)[0] == 0
    assert run("--prune-days", "14", empty) == (0, "no trace files to prune\n", "")
    nowhere = {"RAG_TRACE_DIR": str(empty / "none")}
    for argv, environ in (([empty / "none.jsonl"], {}), ([], nowhere)):
        code, out, _ = run("--prune-days", "14", *argv, environ=environ)
        assert code == 1 and "none" in out and "no such file" in out
        flags = ("--prune-days", "14", "--allow-empty")
        assert run(*flags, *argv, environ=environ)[0] == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "choose one action"),
        (["--report", "--check", "x"], "choose one action"),
        (["x.jsonl"], "choose one action"),
        (
            ["--report", "x", "--max-p95-ms", "3"],
            "--report has no use for --max-p95-ms",
        ),
        (["--check", "x", "--html", "y"], "--check has no use for --html"),
        (["--check", "x", "--tz", "UTC"], "--check has no use for --tz"),
        (["--check", "x", "--max-error-rate", "20"], "share from 0 to 1"),
        (["--check", "x", "--max-error-rate", "nan"], "not a number"),
        (["--check", "x", "--max-p95-ms", "-1"], "not a number from 0 upwards"),
        (["--check", "x", "--max-p95-ms", "fast"], "'fast'"),
        (["--check", "x", "--max-total-tokens", "1.5"], "not a whole number"),
        (["--check", "x", "--window-days", "1e9"], "more than"),
        (["--check", "x", "--max-latency", "1"], "--max-latency"),
        (["--report", "x", "--tz", "Mars/Olympus"], "no time zone"),
        (["--report", "x", "--tz", "../../etc/passwd"], "no time zone"),
        (["--export-otel", "one"], "two files"),
        (["--export-otel", "1", "2", "3"], "two files"),
        (["--export-otlp"], "expected one argument"),
        (["--export-otlp", "ftp://x", "y"], "URL"),
        (["--prune-days", "logs"], "'logs'"),
        (["--prune-days", "-1"], "'-1'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_is_two(argv: list[str], words: str) -> None:
    """What cannot be meant is refused with the reason, before any file is read."""
    code, out, err = run(*argv)

    assert (code, out) == (2, "")
    assert words in err and err.startswith("tracing.py: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RAG_PRICE_INPUT_PER_MTOK", "cheap"),
        ("RAG_PRICE_OUTPUT_PER_MTOK", "-1"),
        ("RAG_COST_ALERT_USD", "inf"),
        ("RAG_TRACE_KEEP_DAYS", "two weeks"),
    ],
)
def test_a_bad_variable_is_named(name: str, text: str, traces: Path) -> None:
    """A number that is none is an error, not a missing limit."""
    code, out, err = run("--check", traces, environ={name: text})

    assert (code, out) == (2, "")
    assert name in err and repr(text) in err


def test_variables_come_from_dotenv_too(traces: Path, tmp_path: Path) -> None:
    """A cron job with an empty environment still knows what .env in RAG_DIR says."""
    dotenv = tmp_path / ".env"
    dotenv.write_text(
        "RAG_PRICE_INPUT_PER_MTOK=2.5\nRAG_COST_ALERT_USD=7\nRAG_TRACE_KEEP_DAYS=3\n",
        encoding="utf-8",
    )
    environ = {"RAG_DIR": str(tmp_path), "RAG_COST_ALERT_USD": "9"}

    found = load_trace_settings(environ)

    assert found.directory == tmp_path / "logs"
    assert found.prices.input_per_mtok == 2.5
    assert (found.cost_alert_usd, found.keep_days) == (9.0, 3.0)
    dotenv.write_text("not an assignment\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        load_trace_settings(environ)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (number, "0.5", 0.5),
        (share, "1", 1.0),
        (whole, "500000", 500_000),
        (days, "14", 14.0),
    ],
)
def test_numbers_are_read(read: Any, text: str, value: float) -> None:
    """Plain numbers are taken, and odd spellings of digits are not."""
    assert read(text) == value
    for bad in ("", "-1", "nan", "x", "1,5"):
        with pytest.raises(ValueError, match="not"):
            read(bad)


needs_zones = pytest.mark.skipif(
    "Asia/Taipei" not in zoneinfo.available_timezones(),
    reason="no time zone database here",
)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("+08:00", 8),
        ("-0530", -5.5),
        pytest.param("Asia/Taipei", 8, marks=needs_zones),
    ],
)
def test_zones_are_read(text: str, hours: float) -> None:
    """Names and offsets are zones."""
    offset = zone(text).utcoffset(datetime(2031, 5, 20))

    assert offset == timedelta(hours=hours)


def test_days_follow_the_zone(tmp_path: Path) -> None:
    """--tz groups by the days of that zone."""
    line = make_line(ago=timedelta(hours=-5))
    path = write_lines(tmp_path / "traces-a.jsonl", [line])

    assert "2031-05-20 " in run("--report", path)[1]
    assert "2031-05-21 " in run("--report", path, "--tz=+08:00")[1]


def test_a_hostile_record_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    """Control characters of a record are shown escaped, in every command."""
    writer = TraceWriter(tmp_path, "a", content=True, clock=lambda: NOW)
    writer.record(make_call(query="\x1b[2J\x07boo\nVIOLATION: x", match="none"))
    tool = make_line(tool="\x1b]0;owned\x07", caller="\x9b1m", **{"error.type": "\x1b"})
    with writer.traces_path.open("a", encoding="utf-8") as stream:
        stream.write(tool)
    odd = tmp_path / "odd\x1bname"

    for action in ("--report", "--check", "--misses"):
        _, out, err = run(action, writer.traces_path, odd)
        lines = (out + err).splitlines()
        assert all(line.isprintable() for line in lines), action
        assert not any(line == "VIOLATION: x" for line in lines)


def test_output_survives_a_narrow_encoding(traces: Path) -> None:
    """A terminal that cannot show a character gets it escaped, not a traceback."""
    traces.write_text(make_line(tool="検索"), encoding="utf-8")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    code = main(["--report", str(traces)], {"HOME": "/"}, stream, io.StringIO())
    stream.flush()

    assert code == 0 and b"\\u691c\\u7d22" in raw.getvalue()


def test_help_has_every_option_and_examples() -> None:
    """--help goes to standard output with the examples and the exit codes."""
    code, out, err = run("--help")

    assert (code, err) == (0, "")
    actions = ["--report", "--check", "--misses", "--export-otel", "--export-otlp"]
    for words in [*actions, "--prune-days", "examples:", "exit codes:", "0.2", "5000"]:
        assert words in out


def test_every_example_of_the_help_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the help shows can be typed: no example is wrong usage."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^  tracing\.py (.+)$", run("--help")[1], re.MULTILINE)

    for example in examples:
        argv = example.replace("http://127.0.0.1:4318", "http://127.0.0.1:9").split()
        if "--export-otlp" not in argv:
            code, _, err = run(*argv, environ={"RAG_DIR": str(tmp_path)})
            assert code != 2, err
    assert len(examples) == 8


def test_the_documentation_fits_the_commands() -> None:
    """Every documented command parses, every flag and variable of it exists."""
    text = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python tracing\.py ([^#\n]+)", text, re.MULTILINE)
    shown_help = run("--help")[1]

    for command in commands:
        assert parse(command.split(), "tracing.py").action in command
    assert len(commands) >= 9
    for flag in re.findall(r"`(--[a-z0-9-]+)", text):
        assert flag in shown_help, flag
    for limit in ("max_error_rate", "max_p95_ms"):
        flag = f"--{limit.replace('_', '-')}"
        assert f"| `{flag}` | {getattr(Limits(), limit):g} |" in text
    documented = set(re.findall(r"^\| `(RAG_[A-Z_]+)` \|", text, re.MULTILINE))
    known = {variable.name for variable in VARIABLES}
    assert documented == {
        name for name in known if re.match("RAG_(TRACE|PRICE|COST)_", name)
    }


def cron(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as cron does: a bare shell with next to no environment."""
    return subprocess.run(
        ["env", "-i", "SHELL=/bin/sh", "PATH=/usr/bin:/bin", "/bin/sh", "-c", command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def documented_cron_commands() -> list[str]:
    """Return the commands of the crontab lines in the documentation."""
    text = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(?:[\d*/,-]+ ){5}(.+)$", text, flags=re.MULTILINE)
    return [entry for entry in entries if "tracing.py" in entry]


def test_the_documented_cron_lines_work_as_documented(traces: Path) -> None:
    """The crontab's check and prune run from an empty environment, anywhere."""
    commands = documented_cron_commands()
    service = str(traces.parent.parent)
    assert any("--check" in c for c in commands)
    assert any("--prune-days" in c for c in commands)
    now = datetime.now(UTC).isoformat()

    def done(command: str) -> subprocess.CompletedProcess[str]:
        for placeholder, path in (
            ("/srv/docs-rag/.venv/bin/python", sys.executable),
            ("/srv/docs-rag/tracing.py", str(DOOR)),
            ("/srv/rag-service", service),
        ):
            command = command.replace(placeholder, path)
        assert "/srv/" not in command
        return cron(command, Path("/"))

    fresh = re.sub(r'"timestamp": "[^"]+"', f'"timestamp": "{now}"', make_line())
    traces.write_text(fresh, encoding="utf-8")
    for command in commands:
        result = done(command)
        assert result.returncode == 0, result.stdout + result.stderr
    traces.write_text(fresh.replace('"ok"', '"error"'), encoding="utf-8")
    (check,) = [done(command) for command in commands if "--check" in command]
    assert check.returncode == 1 and "VIOLATION: error rate" in check.stdout
    traces.unlink()
    (check,) = [done(command) for command in commands if "--check" in command]
    assert check.returncode == 1 and "VIOLATION" in check.stdout


def test_the_door_needs_the_standard_library_only(traces: Path) -> None:
    """Without site-packages the door reports, checks and makes a page."""
    page = traces.with_name("page.html")
    for argv in (["--help"], ["--report", traces, "--html", page], ["--check", traces]):
        done = subprocess.run(
            [sys.executable, "-S", "-E", str(DOOR), *map(str, argv)],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert page.exists()


def test_a_reader_that_leaves_is_no_error(traces: Path) -> None:
    """Piped into head, a long report ends quietly."""
    write_lines(traces, (make_line(tool=f"tool{n}" * 500) for n in range(200)))
    pipe = subprocess.Popen(
        [sys.executable, str(DOOR), "--report", "--json", str(traces)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    assert pipe.stdout is not None
    pipe.stdout.read(10)
    pipe.stdout.close()
    errors = pipe.communicate()[1]

    assert (pipe.returncode, errors) == (0, b"")
