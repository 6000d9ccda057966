"""
What traces cost: seconds and memory to read a large file, microseconds to write a line.

Run: python -m eval.bench.bench_tracing [--size-mb 1024] [--json OUT] [--markdown OUT]

Every figure stands beside a baseline timed in the same run: reading beside ``wc -l``
and a bare ``json.loads`` of every line, writing beside a bare append of the same bytes.
Ratios are of processor time, which other work on the machine disturbs least. The file
is generated, bounded in size, and removed afterwards.
"""

import argparse
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from docs_rag.tracing import Caller, CallRecord, Tool, TraceWriter, trace_record

ROOT = Path(__file__).resolve().parents[2]
DOOR = ROOT / "tracing.py"
DAYS = 28
MEBIBYTE = 1024 * 1024
BASELINE = "wc -l"
PRUNE = "--prune-days, half of it old"
PARSE = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"


class Run(NamedTuple):
    """What one process took."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One command over the generated file; medians of its runs, the highest peak."""

    command: str
    seconds: float
    cpu_seconds: float
    times_wc: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Writing:
    """One way to append a call's lines; percentiles over the calls."""

    way: str
    calls: int
    p50_us: float
    p95_us: float
    p99_cpu_us: float


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the report."""
    arguments = parse_arguments(argv)
    directory = Path(tempfile.mkdtemp(prefix="bench-tracing-", dir=arguments.directory))
    try:
        result = measure(directory, arguments.size_mb, arguments.repeats)
    finally:
        shutil.rmtree(directory)
    text = markdown(result)
    print(text)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    if arguments.markdown:
        arguments.markdown.write_text(text, "utf-8")
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[1])
    parser.add_argument("--size-mb", type=int, default=1024, help="of the trace file")
    parser.add_argument("--repeats", type=int, default=3, help="runs per command")
    parser.add_argument("--directory", type=Path, help="where to put the file")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--markdown", type=Path, metavar="OUT")
    return parser.parse_args(argv)


def measure(directory: Path, size_mb: int, repeats: int) -> dict[str, Any]:
    """Return all figures."""
    needed = size_mb * MEBIBYTE * 5 // 2
    if shutil.disk_usage(directory).free < needed:
        raise SystemExit(f"{needed // MEBIBYTE} MiB of disk are needed in {directory}")
    small, large = directory / "traces-small.jsonl", directory / "traces-large.jsonl"
    generate(small, max(size_mb // 16, 1))
    records = generate(large, size_mb)
    rounds = [
        {name: run_once(command) for name, command in commands(large).items()}
        for _ in range(repeats)
    ]
    rounds[0] |= {PRUNE: run_once(door("--prune-days", large, str(DAYS / 2)))}
    readings = summarise(rounds)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "records": records,
        "size_mib": size_mb,
        "load": round(os.getloadavg()[2], 1),
        "own_peak_mib": own_peak_mib(),
        "small_report_peak_mib": run_once(door("--report", small)).peak_mib,
        "readings": [asdict(one) for one in readings],
        "writings": [asdict(one) for one in writings(directory)],
    }


def commands(path: Path) -> dict[str, list[str]]:
    """Return what is timed on the file, the baseline first."""
    return {
        BASELINE: ["wc", "-l", str(path)],
        "json.loads of every line": [sys.executable, "-c", PARSE, str(path)],
        "--report": door("--report", path),
        "--check": door("--check", path),
        "--misses": door("--misses", path),
    }


def door(action: str, path: Path, *values: str) -> list[str]:
    """Return the command line of a trace command."""
    return [sys.executable, str(DOOR), action, *values, str(path)]


def summarise(rounds: Sequence[dict[str, Run]]) -> list[Reading]:
    """Return medians over the rounds; a prune changes the file and has one run."""
    medians = {}
    for name in rounds[0]:
        runs = [one[name] for one in rounds if name in one]
        medians[name] = Run(
            statistics.median(run.seconds for run in runs),
            statistics.median(run.cpu_seconds for run in runs),
            max(run.peak_mib for run in runs),
        )
    baseline = medians[BASELINE].cpu_seconds
    return [
        Reading(
            name, run.seconds, run.cpu_seconds, run.cpu_seconds / baseline, run.peak_mib
        )
        for name, run in medians.items()
    ]


def run_once(command: list[str]) -> Run:
    """Run a command to its end."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    peak_mib = usage.ru_maxrss * unit / MEBIBYTE
    return Run(elapsed, usage.ru_utime + usage.ru_stime, peak_mib)


def own_peak_mib() -> float:
    """Return what every child is charged with at least: it starts as our copy."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEBIBYTE


def generate(path: Path, size_mb: int) -> int:
    """Write records of several weeks up to now; return how many."""
    source = random.Random(1)
    templates = [template(source) for _ in range(500)]
    mean_size = statistics.mean(map(len, templates)) + 50
    count = int(size_mb * MEBIBYTE / mean_size)
    step = timedelta(days=DAYS) / count
    moment = datetime.now(UTC) - timedelta(days=DAYS) + step
    with path.open("w", encoding="utf-8", buffering=MEBIBYTE) as stream:
        for _ in range(count):
            stamp = moment.isoformat(timespec="microseconds")
            duration = round(source.lognormvariate(3, 0.8), 3)
            rest = source.choice(templates)
            stream.write(f'{{"timestamp":"{stamp}","duration_ms":{duration},{rest}')
            moment += step
    return count


def template(source: random.Random) -> str:
    """Return a record as the writer makes it, without time and duration."""
    record = trace_record(make_call(source), "book", datetime.now(UTC), content=False)
    del record["timestamp"], record["duration_ms"]
    return json.dumps(record, separators=(",", ":"))[1:] + "\n"


def make_call(source: random.Random) -> CallRecord:
    """Return one of the calls a busy server sees."""
    failed = source.random() < 0.01
    verdict = source.choices(("strong", "weak", "none"), (8, 1, 1))[0]
    names = ("embed", "vector", "words", "trigrams", "fuse", "total")
    return CallRecord(
        Tool.RETRIEVE,
        source.choices((Caller.MCP, Caller.CLI), (9, 1))[0],
        12.0,
        transport="streamable-http",
        query=f"how do I borrow {source.randrange(10_000)} values at once",
        k=5,
        hits=None if failed else 5,
        match=None if failed else verdict,
        generation=7,
        model="universal-sentence-encoder-multilingual-3",
        input_tokens=12,
        error_type="EmbeddingError" if failed else None,
        paths=tuple(f"src/ch{source.randrange(21):02}-01-title.md" for _ in range(4)),
        answer_text="text",
        facts={f"{name}_ms": round(source.random() * 9, 3) for name in names},
    )


def writings(directory: Path) -> list[Writing]:
    """Time appends: a bare one of the same bytes, and the writer's."""
    call = make_call(random.Random(2))
    writer = TraceWriter(directory / "logs", "book")
    writer.record(call)
    lines = writer.traces_path.read_bytes(), writer.metering_path.read_bytes()
    paths = directory / "bare-1", directory / "bare-2"

    def bare() -> None:
        for path, line in zip(paths, lines, strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, line)
            os.close(descriptor)

    return [
        time_calls("open, append the same two lines, close", bare),
        time_calls("TraceWriter.record", lambda: writer.record(call)),
    ]


def time_calls(way: str, call: Callable[[], None], calls: int = 5_000) -> Writing:
    """Time one call after the other, by the clock and by the processor's."""
    wall, processor = [], []
    for _ in range(calls):
        started, worked = time.perf_counter_ns(), time.thread_time_ns()
        call()
        processor.append(time.thread_time_ns() - worked)
        wall.append(time.perf_counter_ns() - started)

    def microseconds(values: list[int], share: float) -> float:
        return sorted(values)[int(len(values) * share) - 1] / 1000

    return Writing(
        way,
        calls,
        microseconds(wall, 0.5),
        microseconds(wall, 0.95),
        microseconds(processor, 0.99),
    )


def markdown(result: dict[str, Any]) -> str:
    """Return the figures as a page."""
    readings = [Reading(**one) for one in result["readings"]]
    writes = [Writing(**one) for one in result["writings"]]
    lines = [
        "# Traces: what reading and writing cost",
        "",
        f"{result['date']}, {result['machine']}, Python {result['python']}. "
        f"{result['records']:,} records in {result['size_mib']:,} MiB. Medians; the "
        f"machine had a load of {result['load']}, and ratios are of processor time.",
        "",
        "| over the file | seconds | CPU seconds | × `wc -l` | peak MiB |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {one.command} | {one.seconds:.2f} | {one.cpu_seconds:.2f} "
            f"| {one.times_wc:.0f} | {one.peak_mib:.0f} |"
            for one in readings
        ),
        "",
        f"A report over a sixteenth of the file peaks at "
        f"{result['small_report_peak_mib']:.0f} MiB. A peak of "
        f"{result['own_peak_mib']:.0f} MiB or less is the benchmark's own, which its "
        "children start with.",
        "",
        "| per call | p50 µs | p95 µs | p99 CPU µs |",
        "|---|---:|---:|---:|",
        *(
            f"| {one.way} | {one.p50_us:.0f} | {one.p95_us:.0f} "
            f"| {one.p99_cpu_us:.0f} |"
            for one in writes
        ),
        "",
        "Run again: `python -m eval.bench.bench_tracing "
        f"--size-mb {result['size_mib']}`.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
