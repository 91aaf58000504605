"""What the end-to-end tests share: a server of the demo model."""
import pytest

from program import Server


@pytest.fixture(scope="session")
def server():
    with Server("demo") as running:
        yield running
