// Assembles the page.

const data = JSON.parse($("data").textContent);
const source = data.live ? liveSource(data.live) : reportSource(data.report);

/** The offset of the story's clock from this machine's. A report's clock stands still. */
let ahead = 0;
let stopped = null;
const now = () => stopped ?? Date.now() + ahead;

const board = new Board(open, now);
const timeline = new Timeline(open, now);
let drawing = false;
let refreshing = false;
let stale = false;
/** Milliseconds after which a finished message is no longer refreshed. */
const LATE = 5000;

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    board.draw();
    if (source.canAct) $("redrive").disabled = $("count-dead").value === "0";
  });
}

function take(overview) {
  if (source.live) ahead = overview.now - Date.now();
  else stopped = overview.now;
  board.update(overview);
  $("title").textContent = overview.queue;
  document.title = `${overview.queue} · sqs-once`;
  $("environments").textContent = `${plural(overview.environments, "environment runs", "environments run")}`;
  if (overview.function) entriesInto($("function-lines"), overview.function, open);
  const { done, redriven, purged, expired, unfinished } = overview.forgotten;
  const finished = done + redriven + purged + expired;
  const words = [];
  if (finished > 0) words.push(`The oldest ${plural(finished, "finished message is", "finished messages are")} not kept.`);
  if (unfinished > 0) words.push(`${plural(unfinished, "message of the queue is", "messages of the queue are")} not kept.`);
  $("forgotten").textContent = words.join(" ");
  if (!source.live) $("connection").textContent = `a report, as of ${new Date(overview.now).toLocaleString()}`;
  if (source.live && isNews(overview)) refresh();
  draw();
}

/** Whether the open timeline may have changed. */
function isNews(overview) {
  if (timeline.number === null) return false;
  const message = board.messages.get(timeline.number);
  // Its invocation may have logged lines that do not name it, and log lines can arrive late.
  if (message && (message.state === "in_flight" || now() - message.at < LATE)) return true;
  // Another message with the same id also changes it.
  return overview.messages.some((message) => message.id === timeline.id);
}

/** Refreshes the open message, one request at a time. Repeats the request if the message changed meanwhile. */
async function refresh() {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  while (stale && timeline.number !== null) {
    stale = false;
    const number = timeline.number;
    try {
      const detail = await source.detail(number);
      if (timeline.number === number) timeline.show(detail);
    } catch (error) {
      say(error.message);
    }
    await pause(80);
  }
  refreshing = false;
}

async function open(number) {
  try {
    const detail = await source.detail(number);
    if (!detail) return say("that message was forgotten");
    timeline.show(detail);
    board.chosen = number;
    draw();
    $("panel-title").focus({ preventScroll: true });
  } catch (error) {
    say(error.message);
  }
}

function close() {
  const number = timeline.number;
  if (number === null) return;
  timeline.close();
  board.chosen = null;
  board.draw();
  board.focus(number);
}

function connected(is, error) {
  $("connection").textContent = is ? "live" : `no connection: ${error.message}`;
  $("connection").classList.toggle("lost", !is);
}

function say(words) {
  $("said").textContent = words;
}

/** Performs a button's action and shows the result. Returns whether it succeeded. */
async function act(what, request, said) {
  try {
    say(said(await source.act(what, request)));
    return true;
  } catch (error) {
    say(`not done: ${error.message}`);
    return false;
  }
}

async function send() {
  const request = { body: $("send-body").value, group_id: $("send-group").value || null };
  const sent = await act("send", request, (done) => `sent ${done.message_id}`);
  $("send-refused").textContent = sent ? "" : $("said").textContent;
  if (sent) {
    $("send-body").value = "";
    $("send").close();
  }
}

if (source.canAct) {
  $("open-send").addEventListener("click", () => $("send").showModal());
  $("send-go").addEventListener("click", send);
  $("send-cancel").addEventListener("click", () => $("send").close());
  $("send").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  $("duplicate").addEventListener("click", () => {
    act("duplicate", { number: timeline.number }, (done) => `${done.message_id} was sent once more`);
  });
  $("redrive").addEventListener("click", () => {
    act("redrive", {}, (done) => `${plural(done.count, "message was", "messages were")} redriven`);
  });
} else {
  for (const button of document.querySelectorAll(".acts")) button.remove();
  $("send").remove();
}
if (!source.live) $("save").remove();

$("filter").addEventListener("input", () => {
  board.filter = $("filter").value.toLowerCase();
  draw();
});
$("outcome").addEventListener("input", () => {
  board.outcome = $("outcome").value;
  draw();
});
$("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if ($("send")?.open) return;
  if (event.key === "Escape") close();
  const writes = event.target.matches?.("input, textarea, select");
  if (event.key === "/" && !writes) {
    event.preventDefault();
    $("filter").focus();
  }
});

source.follow(take, connected);
// Update the countdowns of waiting messages.
if (source.live) setInterval(draw, 1000);
