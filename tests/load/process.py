"""What the system tells of a server's process."""
import re
from pathlib import Path

ENGINE_THREADS = ("engine", "pool")


class Process:
    def __init__(self, pid):
        self.folder = Path("/proc") / str(pid)

    def memory_kb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", (self.folder / "status").read_text())[1])

    def server_seconds(self):
        """Seconds of processor time that its threads took, but for the engine's."""
        nanoseconds = 0
        for task in (self.folder / "task").iterdir():
            try:
                if (task / "comm").read_text().strip() not in ENGINE_THREADS:
                    nanoseconds += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:
                pass  # a thread that has ended
        return nanoseconds / 1e9
