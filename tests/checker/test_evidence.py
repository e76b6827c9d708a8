"""The evidence is read back as it was written, also after a writer was killed."""

from pathlib import Path

from tests.checker.evidence import CallbackSent, Exchange, Folder, Frame, Log, StreamEnd, ToolHit


def test_lines_are_read_back_as_written(tmp_path: Path) -> None:
    exchange = Exchange(1.0, 2.0, "client-1", "GET", "/v1/runs", None, error="reset")
    frame = Frame(1.0, "stream-1", "run_1", 0, "run.created", "{}", id="1")
    hit = ToolHit(1, 1.0, "/pay", {"webhook-id": "w"}, {"call_id": "c"}, 1)
    sent = CallbackSent(1.0, "once", "c", None)
    for name, lines in {
        "http.jsonl": [exchange],
        "streams.jsonl": [frame, StreamEnd(2.0, "stream-1", "server")],
        "tools.jsonl": [hit, sent],
    }.items():
        with Log(tmp_path, name) as log:
            for line in lines:
                log.write(line)
    folder = Folder(tmp_path)
    assert list(folder.exchanges()) == [exchange]
    assert list(folder.frames()) == [frame, StreamEnd(2.0, "stream-1", "server")]
    assert list(folder.tools()) == [hit, sent]
    assert list(folder.faults()) == []


def test_a_line_that_was_cut_off_is_skipped(tmp_path: Path) -> None:
    with Log(tmp_path, "streams.jsonl") as log:
        log.write(StreamEnd(2.0, "stream-1", "server"))
    with (tmp_path / "streams.jsonl").open("a") as file:
        file.write('{"at": 3.0, "stre')
    assert list(Folder(tmp_path).frames()) == [StreamEnd(2.0, "stream-1", "server")]
