"""The page at "/", in a headless Chromium: a chat by keyboard, what it shows, and that it asks nobody else."""
import re
import shutil

import pytest

from program import Server

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="SKIP: there is no chromium here (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="SKIP: there is no playwright here (pip install playwright)")
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def open_page(browser, url, **options):
    page = browser.new_page(**options)
    page.set_default_timeout(60_000)
    page.faults, page.asked = [], []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(url)
    return page


def test_a_chat_by_keyboard(browser, server):
    page = open_page(browser, server.url)
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.type("What is the capital of France?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts:text('tokens')")
    (question, answer) = page.locator(".message").all_inner_texts()
    assert question == "What is the capital of France?" and "Paris" in answer
    fold = page.locator("details")
    assert fold.count() == 1 and fold.get_attribute("open") is None
    fold.locator("summary").click()
    assert fold.locator("p").inner_text()
    assert "cached 0" in page.locator(".facts").inner_text()
    assert page.locator("#model").inner_text() == "demo"
    page.keyboard.press("Tab")
    assert page.faults == [] and all(url.startswith(server.url) for url in page.asked)
    page.close()


def test_what_is_said_is_text(browser, server):
    page = open_page(browser, server.url)
    page.locator("#thinking").uncheck()
    page.keyboard.press("Shift+Tab")
    page.locator("#question").fill("<img src=x onerror=alert(1)>")
    page.keyboard.press("Control+End")
    page.locator("#question").press("Enter")
    page.wait_for_selector(".facts:text('tokens')")
    assert page.locator(".user").inner_text() == "<img src=x onerror=alert(1)>" and page.locator("img").count() == 0
    page.locator("#clear").click()
    assert page.locator(".message").count() == 0
    page.close()


def test_numbers_move(browser, server):
    page = open_page(browser, server.url)
    for name, shown in (("running", r"^0$"), ("cache", r"^[0-9.]+ %$"), ("speed", r"^[0-9]+$")):
        page.locator(f"#{name}", has_text=re.compile(shown)).wait_for()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, server, scheme):
    page = open_page(browser, server.url, color_scheme=scheme)
    back, text = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    brightness = [sum(map(int, color[4:-1].split(","))) for color in (back, text)]
    assert (brightness[0] > brightness[1]) == (scheme == "light")
    page.close()


def test_a_key_is_asked_for(browser):
    with Server("demo", "--api-key", "sk-first") as guarded:
        page = open_page(browser, guarded.url)
        page.locator("#question").fill("Hi")
        page.locator("#question").press("Enter")
        page.wait_for_selector(".failed:text('a key')")
        page.locator("#key").fill("sk-first")
        page.locator("#question").fill("What is the capital of Italy?")
        page.locator("#question").press("Enter")
        page.wait_for_selector(".facts:text('tokens')")
        assert "Rome" in page.locator(".message").last.inner_text()
        page.close()
