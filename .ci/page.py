"""Tests the web page of a run, and its report, in headless Chromium."""

import contextlib
import json
import subprocess
import tempfile
from pathlib import Path

from browser import browser
from local import OUT, built

# Two messages of one event, as in the folder `events` of a project.
SAMPLES = {
    "Records": [
        {"messageId": "s-1", "body": '{"order_id": "o-7"}'},
        {
            "messageId": "s-2",
            "body": '{"order_id": "o-8"}',
            "attributes": {"MessageGroupId": "customers"},
            "messageAttributes": {"tenant": {"dataType": "String", "stringValue": "acme"}},
        },
    ]
}
HACK = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


class Run:
    """The example program, which reads one command per line."""

    def __init__(self, child):
        self._child = child
        self.url = child.stdout.readline().strip()

    def do(self, *commands):
        """Sends these commands, one after the other."""
        for command in commands:
            self._child.stdin.write(command + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline().strip()
            assert answer == "ok", f"{command}: {answer}"

    def end(self):
        """Kills the program, which is also the page's server."""
        self._child.kill()
        self._child.wait()


@contextlib.contextmanager
def run():
    """Starts the example."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory(prefix="sqs-once-samples-") as samples:
        (Path(samples) / "orders.json").write_text(json.dumps(SAMPLES))
        with subprocess.Popen([built("examples/page"), samples], **pipes) as child:
            try:
                yield Run(child)
            finally:
                child.kill()


COLUMNS = ("queue", "flight", "done", "dead")


def chips(column):
    """JavaScript for the texts of a column's chips."""
    return f"[...document.querySelectorAll('#list-{column} .chip')].map((c) => c.innerText.replaceAll('\\n', ' '))"


def has(column, words):
    """JavaScript for whether a chip of a column contains this text."""
    return f"{chips(column)}.some((words) => words.includes({json.dumps(words)}))"


def open_chip(page, title, index=0):
    """Clicks a message's chip, and waits until its timeline is open."""
    selector = f'.chip[title="{title}"]'
    page.wait(f"document.querySelectorAll({json.dumps(selector)}).length > {index}")
    page.value(
        "document.querySelectorAll('[data-it]').forEach((e) => delete e.dataset.it);"
        f"document.querySelectorAll({json.dumps(selector)})[{index}].dataset.it = 1"
    )
    page.click("[data-it]")
    page.wait(f"document.querySelector('[data-it]').ariaPressed === 'true' && {title_is(title)}")


def open_form(page):
    """Opens the form that sends a message."""
    page.click("#open-send")
    page.wait("document.querySelector('#send').open")


def title_is(title):
    return f"!document.querySelector('#panel').hidden && document.querySelector('#panel-title').textContent === {json.dumps(title)}"


def choose(page, field, value):
    """Sets the value of a field."""
    field = f"document.querySelector('#{field}')"
    page.value(
        f"{field}.value = {json.dumps(value)};"
        f"['input', 'change'].forEach((kind) => {field}.dispatchEvent(new Event(kind)))"
    )


def field(page, field):
    """The value of a field."""
    return page.value(f"document.querySelector('#{field}').value")


def focused(page):
    """The title or id of the focused element."""
    return page.value("document.activeElement.title || document.activeElement.id")


def moves_live(page, run):
    """A message moves through the columns live."""
    page.wait("document.querySelector('#connection').textContent === 'live'")
    run.do("send m-1 {\"order_id\": \"o-1\"}")
    page.wait(has("queue", "m-1"))
    run.do("take")
    page.wait(has("flight", "m-1"))
    run.do("answer")
    page.wait(has("done", "o-1 processed orders#o-1 · m-1"))
    assert page.text("#count-queue") + page.text("#count-flight") + page.text("#count-done") == "001"


def timeline_opens(page, run):
    """A click opens the timeline: receives, log lines, outcome."""
    open_chip(page, "m-1")
    timeline = page.text("#timeline")
    in_order = [
        "sent to orders",
        "receive 1 by environment 1 · request request-1",
        "a batch has come",
        "INFO  charging the card  cents=1250",
        "processed in 13 ms",
        "claimed",
        "effect happened",
        "on record",
        "key orders#o-1",
        "deleted from orders",
        "acknowledged",
    ]
    at = [timeline.find(words) for words in in_order]
    assert -1 not in at and at == sorted(at), f"{in_order} are at {at} of\n{timeline}"
    assert page.text("#body") == '{"order_id": "o-1"}'
    page.click("#other")
    page.wait("!document.querySelector('#timeline').innerText.includes('a batch has come')")
    page.click("#other")
    page.click("#close")
    page.wait("document.querySelector('#panel').hidden")


def failing_ends_in_the_dead_letter_queue(page, run):
    """A failing message is redelivered, its open timeline is updated, and it is redriven with a new id."""
    run.do("send m-2 {}", "take", "answer m-2=failed")
    page.wait(has("queue", "failed: back in 60 min m-2"), "m-2 waits")
    open_chip(page, "m-2")
    page.wait("document.querySelector('#timeline').innerText.includes('the card was <b>declined</b>')")
    run.do("back")
    page.wait(has("queue", "failed: visible again m-2"))
    run.do("take")
    page.wait("document.querySelector('#timeline').innerText.includes('receive 2 by environment 1')")
    page.wait(has("flight", "receive 2 m-2"))
    run.do("log a line that names nobody")
    page.wait("document.querySelector('#timeline').innerText.includes('a line that names nobody')")
    run.do("crash")
    page.wait("document.querySelector('#timeline').innerText.includes('environment 1 ended: killed by signal 9')")
    run.do("back", "take")
    page.wait(has("dead", "m-2"))
    page.wait("document.querySelector('#facts').innerText.includes('a dead letter')")
    page.wait("!document.querySelector('#redrive').disabled")
    page.click("#redrive")
    page.wait("document.querySelector('#said').textContent === '1 message was redriven'")
    page.wait("document.querySelector('#count-queue').textContent === '1'")
    page.wait("document.querySelector('#count-dead').textContent === '0'")
    page.wait("document.querySelector('#facts').innerText.includes('Goes on as')")
    page.click("#facts button.link:not(.key)")
    page.wait("document.querySelector('#timeline').innerText.includes('redriven from orders-dlq')")
    page.click("#facts button.link:not(.key)")
    page.wait(title_is("m-2"))
    page.click("#close")
    run.do("take", "answer")


def buttons_send(page, run):
    """The page sends a message, and sends it again with the same id."""
    open_form(page)
    page.click("#send-go")
    page.wait("document.querySelector('#send-refused').textContent.includes('the parameter MessageBody')")
    expected = ["Failed to load resource: the server responded with a status of 409 (Conflict)"]
    page.click("#send-body")
    page.type('{"order_id": "by hand"}')
    page.click("#send-go")
    page.wait("!document.querySelector('#send').open")
    page.wait(has("queue", "by hand"))
    sent = page.value("document.querySelector('#list-queue .chip').title")
    open_chip(page, sent)
    page.click("#duplicate")
    copies = f"document.querySelectorAll('.chip[title=\"{sent}\"]').length === 2"
    page.wait(copies)
    page.wait("document.querySelector('#facts').innerText.includes('Same id')")
    run.do("take", f"answer {sent}=duplicate")
    page.wait(has("done", "duplicate"))
    page.click("#close")
    return expected


def samples_fill_the_form(page, run):
    """The form offers the messages of the sample events, and the user can edit all of it."""
    open_form(page)
    offered = page.value("[...document.querySelectorAll('#send-sample option')].map((o) => o.text)")
    assert offered == ["choose one", "orders.json 1: o-7", "orders.json 2: o-8"], offered
    choose(page, "send-sample", "1")
    assert field(page, "send-body") == '{"order_id": "o-8"}'
    tenant = {"tenant": {"DataType": "String", "StringValue": "acme"}}
    assert json.loads(field(page, "send-attributes")) == tenant
    assert field(page, "send-group") == "customers"
    assert not page.value("document.querySelector('#send-deduplication').checkVisibility()"), "the queue is no FIFO queue"
    choose(page, "send-attributes", "{")
    page.click("#send-go")
    page.wait("document.querySelector('#send-refused').textContent.includes('are not JSON')")
    choose(page, "send-attributes", json.dumps(tenant).replace("acme", "edited"))
    choose(page, "send-body", '{"order_id": "o-9"}')
    page.click("#send-go")
    page.wait("!document.querySelector('#send').open")
    page.wait(has("queue", "o-9"))
    sent = page.value("document.querySelector('#list-queue .chip').title")
    open_chip(page, sent)
    facts = page.text("#facts")
    assert "edited" in facts and "customers" in facts, facts
    page.click("#close")
    run.do("take", "answer")
    page.wait(has("done", "o-9"))


def faults_are_switched(page, run):
    """Faults are switched on and off. The page shows which are on, also when the list is closed or the page reloaded."""
    now = "document.querySelector('#faults-now').textContent"
    page.wait(f"{now} === 'none'")
    page.value("document.querySelector('#faults summary').focus()")
    page.press("Enter")
    page.press("Tab")
    assert focused(page) == "fault-duplicate"
    page.press(" ")
    page.wait(f"{now} === 'duplicate 20%'")
    page.click("#fault-kill")
    page.wait(f"{now} === 'duplicate 20%, kill 5%'")
    page.value(
        "(() => { const share = document.querySelector('[aria-label^=kill]'); share.value = 0.5;"
        " share.dispatchEvent(new Event('change')); })()"
    )
    page.wait(f"{now} === 'duplicate 20%, kill 0.5%'")
    # The second of two quick changes waits for the first one's answer, which does not undo it.
    page.value(
        "window.held = []; window.fetch = ((fetch) => (...request) => request[0] !== 'faults' ? fetch(...request)"
        " : new Promise((done) => held.push(() => done(fetch(...request)))))(fetch); 0"
    )
    page.click("#fault-drop-response")
    page.click("#fault-duplicate")
    assert page.value("held.length") == 1, "both changes were sent at once"
    page.value("held[0]()")
    page.wait("held.length === 2")
    assert not page.value("document.querySelector('#fault-duplicate').checked"), "the first answer undid the second change"
    page.value("held[1]()")
    page.wait(f"{now} === 'kill 0.5%, drop-response 1%'")
    page.page.reload()
    # The list moves down when the page draws its numbers and its messages.
    page.wait(f"document.querySelector('.chip') && {now} === 'kill 0.5%, drop-response 1%'")
    page.click("#faults summary")
    page.click("#fault-drop-response")
    page.click("#fault-kill")
    page.wait(f"{now} === 'none'")
    page.click("#faults summary")


def nothing_written_is_run(page, run):
    """Markup in an id, a body or a log line appears as text."""
    run.do(f"send <b>bold</b> {HACK}", "take", "answer <b>bold</b>=terminal")
    page.wait(has("queue", "terminal: back in 60 min <b>bold</b>"))
    open_chip(page, "<b>bold</b>")
    page.wait(f"document.querySelector('#body').textContent === {json.dumps(HACK)}")
    assert page.value("document.querySelectorAll('img, main b, main script').length") == 0
    assert page.value("window.hacked") is None
    # Even if markup were inserted, the content security policy would not run it.
    page.value("document.querySelector('#said').innerHTML = '<img src=data:, onerror=\"window.hacked=1\">'")
    page.wait("document.querySelector('#said img').complete")
    assert page.value("window.hacked") is None
    page.click("#close")
    refused = [words for words in page.complaints() if "Content Security Policy" in words]
    assert refused, page.complaints()
    return refused


def numbers(page):
    """The numbers of the headline by their names."""
    numbers = page.value(
        "Object.fromEntries([...document.querySelectorAll('#story button')]"
        ".map((b) => [b.dataset.number, Number(b.firstChild.textContent.replace(',', ''))]))"
    )
    assert numbers["sent"] == sum(numbers[column] for column in COLUMNS) > 0, numbers
    return numbers


def more_than(page, before, **more):
    """Waits until the numbers of the headline are larger by these, and the others are as before."""
    expected = {name: before[name] + more.get(name, 0) for name in before}
    shown = ", ".join(f"{name}: {count}" for name, count in expected.items())
    now = "[...document.querySelectorAll('#story button')].map((b) => `${b.dataset.number}: ${b.firstChild.textContent}`).join(', ')"
    page.wait(f"{now} === '{shown}'", shown)
    numbers(page)


def shows(page, name, chips):
    """A click on a number of the headline shows these many messages."""
    page.click(f"[data-number={name}]")
    page.wait(f"document.querySelectorAll('.chip').length === {chips}", f"{chips} messages with {name}")
    page.click(f"[data-number={name}]")
    page.wait("document.querySelector('[data-number=sent]').ariaPressed === 'true'")


def the_headline_is_true(page, run):
    """The headline counts effects and stopped duplicates whatever comes later. Each number shows what it counts."""
    before = numbers(page)
    assert before["repeats"] == 0 and "repeated" not in page.text("#story"), page.text("#story")
    # The answer of the first delivery is lost, and the second one is stopped.
    run.do("send h-1 {}", "take", "lose h-1=processed")
    more_than(page, before, sent=1, queue=1, effects=1)
    run.do("back", "take", "answer h-1=duplicate")
    page.wait(has("done", "processed, duplicate stopped h-1"))
    more_than(page, before, sent=1, done=1, effects=1, duplicates=1)
    # One key has its effect twice, and the page does not hide that.
    run.do('send h-2 {"order_id": "twice"}', 'send h-3 {"order_id": "twice"}', "take", "answer")
    page.wait(has("done", "effect repeated orders#twice · h-3"))
    more_than(page, before, sent=3, done=3, effects=3, duplicates=1, repeats=1)
    assert "1 effect repeated" in page.text("#story").replace("\n", " ")
    for name, count in numbers(page).items():
        if name != "sent":
            shows(page, name, count)


def filters(page, run):
    """The filter matches ids and keys, and each number of the headline is a filter."""
    page.press("/")
    assert focused(page) == "filter"
    page.type("m-2")
    page.wait(f"{has('dead', 'm-2')} && document.querySelectorAll('.chip').length === 1")
    page.wait("document.querySelector('#count-done').textContent === '0 of 4'")
    choose(page, "filter", "")
    page.click("[data-number=duplicates]")
    page.wait(f"{chips('done')}.length === 2 && {chips('done')}.every((words) => words.includes('duplicate'))")
    page.click("[data-number=duplicates]")
    page.wait(f"{chips('done')}.length > 2")


def keyboard_is_enough(page, run):
    """The keyboard reaches every control, and the focus is never lost."""
    run.do("send k-1 {}", "send k-2 {}")
    page.wait(has("queue", "k-2"))
    page.value("document.querySelector('#filter').focus()")
    page.press("Tab")
    for _ in range(4):
        if page.value("document.activeElement.matches('.chip')"):
            break
        page.press("Tab")
    first = focused(page)
    chip = page.value("document.activeElement.matches('.chip')")
    assert chip, f"Tab led to {first}"
    page.press("ArrowDown")
    page.press("ArrowRight")
    assert page.value("document.activeElement.closest('ul').id") == "list-done"
    page.press("ArrowLeft")
    page.press("ArrowUp")
    chosen = focused(page)
    # A chip keeps the focus when it moves.
    run.do("take")
    page.wait(has("flight", "k-2"))
    assert focused(page) == chosen and page.value("document.activeElement.closest('ul').id") == "list-flight"
    page.press("Enter")
    page.wait(title_is(chosen))
    page.wait("document.activeElement.id === 'panel-title'")
    page.press("Tab")
    assert focused(page) == "duplicate"
    page.press("Escape")
    page.wait("document.querySelector('#panel').hidden")
    assert focused(page) == chosen
    run.do("answer")
    page.wait(has("done", "k-2"))


def a_key_has_one_timeline(page, run):
    """The key of a message leads to every message of that key, on one timeline."""
    open_chip(page, "m-1")
    # The open timeline learns of a second message of its key.
    run.do('send m-1-again {"order_id": "o-1"}', "take", "answer m-1-again=duplicate")
    page.wait("document.querySelector('#facts').innerText.includes('orders#o-1, of 2 messages')")
    page.click("#facts button.key")
    page.wait(title_is("orders#o-1"))
    facts, timeline = page.text("#facts"), page.text("#timeline")
    assert "Effect happened\n1 time\n" in facts and "o-1 · m-1" in facts, facts
    assert timeline.count("sent to orders") == 2 and "no effect again" in timeline, timeline
    run.do('send m-1-third {"order_id": "o-1"}', "take", "answer m-1-third=duplicate")
    page.wait("document.querySelector('#facts').innerText.includes('m-1-third')")
    page.click("#close")
    page.wait("document.querySelector('#panel').hidden")


def dead_letters_have_their_reason(page, run):
    """Dead letters are grouped by their reason. A waiting message is amber, whatever it waits for."""
    run.do("send w-1 {}", "take", "answer w-1=failed")
    page.wait(has("queue", "failed: back in 60 min w-1"))
    assert page.value("document.querySelector('.chip[title=w-1]').classList.contains('wait')")
    run.do("back", "take", "answer w-1=failed", "back", "take")
    page.wait(has("dead", "w-1"))
    heading = page.value("document.querySelector('#list-dead li').dataset.heading")
    assert heading == "1 × the card was <b>declined</b>", heading
    assert page.text("[data-number=dead]") == "1 dead letter", page.text("#story")
    # Without a reason: SQS moved one after its receives, and the function sent one that was never received.
    run.do("letter l-1 {}", "send w-2 {}", "take", "crash", "back", "take", "crash", "back", "take")
    headings = "[...document.querySelectorAll('#list-dead li')].map((item) => item.dataset.heading).filter(Boolean)"
    page.wait(f"{headings}.includes('1 × moved by SQS after 2 receives')")
    page.wait(f"{headings}.includes('1 × sent by the function')")
    page.wait("document.querySelector('[data-number=dead]').innerText === '3 dead letters'")


def chips_are_wide_enough(page, run):
    """Beside an open timeline, columns are narrow, and no word leaves its chip."""
    run.do("send n-1 {}", "take", "answer n-1=failed")
    page.wait(has("queue", "failed: back in 60 min n-1"))
    open_chip(page, "n-1")
    for width in (1200, 1000, 920):
        page.size(width, 800)
        wide = page.value(
            "[...document.querySelectorAll('.chip .tag')].filter((tag) => tag.scrollWidth > tag.clientWidth || "
            "tag.getBoundingClientRect().right > tag.parentElement.getBoundingClientRect().right).map((tag) => tag.innerText)"
        )
        assert wide == [], f"{width}: {wide}"
    page.size(1400, 900)
    page.click("#close")
    run.do("back", "take", "answer")
    page.wait(has("done", "n-1"))


def small_screens(page, run):
    """On a phone and on a tablet, one column is shown at a time. Nothing overlaps or is cut off."""
    boxes = "header, #story, search, #faults, #tabs, #board, #function"
    for width, height in ((390, 844), (820, 1180), (1400, 900)):
        page.size(width, height)
        page.value("document.querySelector('#faults details').open = true")
        shown = page.value("[...document.querySelectorAll('.column')].filter((c) => c.checkVisibility()).length")
        assert shown == (4 if width > 900 else 1), f"{width}: {shown} columns"
        wide, tall = page.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert wide <= width and tall <= height, f"{width} × {height}: the page has {wide} × {tall}"
        rects = page.value(
            f"[...document.querySelectorAll('{boxes}')].filter((e) => e.checkVisibility())"
            ".map((e) => [e.id || e.tagName, e.getBoundingClientRect().top, e.getBoundingClientRect().bottom])"
        )
        for (above, _, end), (below, start, _) in zip(rects, rects[1:]):
            assert end <= start + 1, f"{width}: {above} covers {below}"
        page.value("document.querySelector('#faults details').open = false")
        open_form(page)
        left, right = page.value("(() => { const r = document.querySelector('#send').getBoundingClientRect(); return [r.left, r.right]; })()")
        assert 0 <= left < right <= width, f"{width}: the form is from {left} to {right}"
        page.click("#send-cancel")
        if width < 900:
            page.click("#tabs button:nth-child(3)")
            page.wait("document.querySelector('#column-done').checkVisibility()")
            open_chip(page, "m-1")
            page.click("#close")
            page.click("#tabs button:nth-child(1)")


def without_barriers(page, run):
    """axe-core finds nothing to object to: faults, timeline, form, in light and dark mode."""
    for scheme in ("light", "dark"):
        # Without animated colours.
        page.media(color_scheme=scheme, reduced_motion="reduce")
        page.click("#faults summary")
        assert not (found := page.barriers()), found
        page.click("#faults summary")
        open_chip(page, "m-1")
        assert not (found := page.barriers()), found
        page.click("#close")
        open_form(page)
        assert not (found := page.barriers()), found
        page.click("#send-cancel")
    page.media(color_scheme="light", reduced_motion="no-preference")


def chips_rest(page, run):
    """With reduced motion, chips do not glide."""
    page.media(reduced_motion="reduce")
    run.do("send still {}")
    page.wait(has("queue", "still"))
    page.wait("document.getAnimations().length === 0")
    run.do("take")
    page.wait(has("flight", "still"))
    assert page.value("document.getAnimations().length") == 0
    run.do("answer")
    page.wait(has("done", "still"))
    page.media(reduced_motion="no-preference")


def thousands(page, run):
    """The page counts thousands of messages, but its document contains only a few of them."""
    before = int(page.text("#count-queue"))
    run.do("many 5000")
    page.wait(f"document.querySelector('#count-queue').textContent === '{5000 + before:,}'")
    page.wait(f"document.querySelector('#more-queue').textContent === '+ {5000 + before - 60:,} more'")
    page.click("#more-queue")
    page.wait("document.querySelectorAll('#list-queue .chip').length === 120")
    for _ in range(30):
        run.do("take", "answer")
    page.wait(f"document.querySelector('#count-queue').textContent === '{4700 + before:,}'")
    open_chip(page, "many-301")
    page.click("#close")
    elements = page.value("document.querySelectorAll('*').length")
    assert elements < 2500, f"{elements} elements"
    return elements


def report_is_the_same(browser, page, run):
    """The report, opened as a file, shows the same as the page and sends no requests."""
    file = OUT / "page" / "run.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    run.do(f"report {file}")
    report = browser.open(file.as_uri())
    report.wait("document.querySelector('#connection').textContent.startsWith('a report, as of')")
    for column in COLUMNS:
        assert report.text(f"#count-{column}") == page.text(f"#count-{column}"), column
        titles = f"[...document.querySelectorAll('#list-{column} .chip')].slice(0, 60).map((c) => c.title)"
        assert report.value(titles) == page.value(titles), column
    for one in (report, page):
        choose(one, "filter", "m-1")
        one.wait(has("done", "processed orders#o-1 · m-1"))
        open_chip(one, "m-1")
    assert report.text("#timeline") == page.text("#timeline")
    acting = "#open-send, #duplicate, #redrive, #send, #save, #faults"
    assert report.value(f"document.querySelectorAll('{acting}').length") == 0
    asked = [url for url in report.requests() if not url.startswith("data:")]
    assert asked == [file.as_uri()], asked
    assert report.complaints() == [], report.complaints()
    return file.stat().st_size


def says_when_the_run_is_over(page, run):
    """When the run has ended, the page shows that, and keeps its content."""
    run.end()
    page.wait("document.querySelector('#connection').textContent.startsWith('no connection')")
    assert page.value("document.querySelectorAll('.chip').length") > 0


CHECKS = [
    moves_live,
    timeline_opens,
    failing_ends_in_the_dead_letter_queue,
    buttons_send,
    filters,
    samples_fill_the_form,
    faults_are_switched,
    a_key_has_one_timeline,
    the_headline_is_true,
    dead_letters_have_their_reason,
    chips_are_wide_enough,
    small_screens,
    without_barriers,
    keyboard_is_enough,
    chips_rest,
    nothing_written_is_run,
]


def main():
    with run() as example, browser() as chromium:
        page = chromium.open(example.url)
        expected = []
        for check in CHECKS:
            expected += check(page, example) or []
            print("   ", check.__doc__)
            assert page.complaints() == expected, page.complaints()
        elements = thousands(page, example)
        print("   ", thousands.__doc__)
        size = report_is_the_same(chromium, page, example)
        print("   ", report_is_the_same.__doc__)
        assert page.complaints() == expected, page.complaints()
        own = [url for url in page.requests() if not url.startswith(("data:", example.url))]
        assert own == [], own
        says_when_the_run_is_over(page, example)
        print("   ", says_when_the_run_is_over.__doc__)
        print(f"the web page: 5,000 messages in {elements} elements, and a report of {size // 1024} KiB")


if __name__ == "__main__":
    main()
