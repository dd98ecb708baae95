"""The built site on a phone. `make docs` builds it, before `make test` where continuous integration runs both."""

import asyncio
from pathlib import Path

import pytest
from helpers.browser import browse, needs_browser

SITE = Path(__file__).parents[1] / "build" / "site"
WIDTH = 390  # pixels of a phone

pytestmark = [needs_browser, pytest.mark.skipif(not SITE.is_dir(), reason="no site here: make docs")]
BROKEN = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"


def test_no_page_is_wider_than_a_phone_or_lacks_a_picture() -> None:
    """Tables, formulas, code and figures scroll in their places."""

    async def visit() -> list[tuple[str, int, list[str]]]:
        seen = []
        async with browse((SITE / "index.html").as_uri()) as tab:
            metrics = {"width": WIDTH, "height": 844, "deviceScaleFactor": 1, "mobile": True}
            await tab.ask("Emulation.setDeviceMetricsOverride", **metrics)
            for page in pages:
                await tab.ask("Page.navigate", url=page.as_uri())
                await tab.until(f"location.pathname === '{page.as_posix()}' && document.readyState === 'complete'")
                wide = await tab.run("document.documentElement.scrollWidth")
                seen.append((page.relative_to(SITE).as_posix(), wide, await tab.run(BROKEN)))
        return seen

    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 40
    assert [page for page in asyncio.run(visit()) if page[1:] != (WIDTH, [])] == []
