"""Questions and answers line by line: a JSON problem in, a JSON decision out, for as long as lines come.

Every line gets exactly one, in order: a decision, or an error that names the line. Memory does not grow with
the number of lines, nor with their length beyond a limit.
"""

from collections.abc import Iterator
from typing import IO

from pmafl.scheduling import write
from pmafl.service.replies import Asked, Memory, reply

LONGEST_LINE = 2**28  # bytes; a million devices have about half of it


def serve_lines(asked: Asked, lines: IO[bytes], answers: IO[str], longest: int = LONGEST_LINE) -> int:
    """Answer all lines; gives how many there were. Each answer is flushed before the next line is read."""
    policy, memory, number = asked.find(), Memory(), 0
    for text in _read(lines, longest):
        number += 1
        if text is None:
            words = f"the line has more than {longest} bytes; send fewer devices at a time"
            answered = write({"error": words, "kind": "input", "line": number})
        else:
            answered, memory, _ = reply(asked, memory, text, number, policy)
        answers.write(answered + "\n")
        answers.flush()
    return number


def _read(lines: IO[bytes], longest: int) -> Iterator[bytes | None]:
    """Lines without their ends; None for one that is too long, which is read past but not kept."""
    while text := lines.readline(longest + 1):
        if len(text) <= longest or text.endswith(b"\n"):
            yield text.rstrip(b"\r\n")
            continue
        while text and not text.endswith(b"\n"):
            text = lines.readline(longest + 1)
        yield None
