// Formats the story as text. Content of messages and log lines becomes text, never markup.

const $ = (id) => document.getElementById(id);

/** Creates an element with a class and children, which are elements or texts. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const number = (count) => count.toLocaleString("en-US");
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;

/** A time of day on this machine, to the millisecond. */
function clock(at) {
  const time = new Date(at);
  const two = (part) => String(part).padStart(2, "0");
  const millis = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${millis}`;
}

/** Formats a duration. */
function span(millis) {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1000).toFixed(millis < 10_000 ? 1 : 0)} s`;
  if (millis < 3_600_000) return `${Math.round(millis / 60_000)} min`;
  return `${(millis / 3_600_000).toFixed(1)} h`;
}

const shortId = (id) => (id.length <= 16 ? id : `${id.slice(0, 8)}…`);

const OUTCOMES = {
  processed: ["processed", "good"],
  duplicate: ["duplicate", "calm"],
  ignored: ["ignored", "calm"],
  acknowledged: ["acknowledged", "calm"],
  in_progress: ["in progress", "wait"],
  failed: ["failed", "bad"],
  terminal: ["terminal", "bad"],
};
const outcomeOf = (outcome) => OUTCOMES[outcome] ?? [String(outcome), "calm"];

/** The column of a message at a given time. */
function columnOf(message, now) {
  if (["done", "purged", "expired"].includes(message.state)) return "done";
  if (message.dead) return "dead";
  if (message.state === "redriven") return "done";
  return message.state === "in_flight" && message.visible_at > now ? "flight" : "queue";
}

/** The numbers of the headline: one, many, and the messages that each counts. The last four are the columns. */
const NUMBERS = {
  sent: ["sent", "sent", "messages that a producer sent"],
  effects: ["effect", "effects", "messages whose effect happened"],
  duplicates: ["duplicate stopped", "duplicates stopped", "messages that came again after the effect, without another effect"],
  repeats: ["effect repeated", "effects repeated", "messages whose effect happened again, or had happened for their key"],
  queue: ["waiting", "waiting", "messages in the queue that can be received now or later"],
  flight: ["in flight", "in flight", "messages that were received and are invisible"],
  done: ["done", "done", "messages that have left the queue"],
  dead: ["dead letter", "dead letters", "messages in the dead-letter queue"],
};

/** Whether another message counts instead: what it was redriven or moved as. */
const goesOn = (message) => message.state === "redriven" || (message.moved && message.state === "done");

/** The numbers in which a message counts. */
function numbersOf(message, column) {
  const numbers = goesOn(message) ? [] : [column];
  if (!message.goes_on) numbers.push("sent");
  if (message.effects > 0) numbers.push("effects");
  if (message.duplicates > 0) numbers.push("duplicates");
  if (message.repeats) numbers.push("repeats");
  return numbers;
}

/** What a message's card leads with: the id in its body, its key, or its own id. */
const titleOf = (message) => message.title ?? message.key ?? shortId(message.id);

/** The reason of a message whose group is blocked, as `batch/order.rs` of `sqs-once` writes it. */
const BEHIND = "behind a dead letter of its message group";

/** Why a message is a dead letter. */
const deathOf = ({ reason, receives }) =>
  reason ?? (receives ? `moved by SQS after ${plural(receives, "receive", "receives")}` : "sent by the function");

const QUOTED = /(?<![A-Za-z0-9])(["'`])[^]*?\1(?![A-Za-z0-9])/g;
const UUID = /(?<![A-Za-z0-9])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![A-Za-z0-9])/gi;
/** Hexadecimal digits, or an id of letters and digits. */
const CODE = /^(?=.*\d|.{8})[0-9a-f]+$|^(?=.{8}).*\d[a-z]/i;

/** A reason without its details, as `Group::shape` of `sqs-once-operate` makes it. A test compares the two. */
const shapeOf = (reason) =>
  reason
    .replace(QUOTED, "$1…$1")
    .replace(UUID, "#")
    .replace(/[A-Za-z0-9]+/g, (word) => (CODE.test(word) ? "#" : word.replace(/\d/g, "#")))
    .replace(/#([.,:]?#)+/g, "#");

/** The word on a message's chip, and its colour class. */
function tagOf(message, column, now) {
  const waits = message.visible_at > now;
  if (message.state === "redriven") return ["redriven", "calm"];
  if (message.state === "purged") return ["purged", "calm"];
  if (message.state === "expired") return ["expired", "bad"];
  if (message.state === "done") {
    if (message.dead) return ["dropped", "calm"];
    if (message.effects > 0) {
      const stopped = message.duplicates > 0 ? ", duplicate stopped" : "";
      return message.repeats ? [`effect repeated${stopped}`, "bad"] : [`processed${stopped}`, "good"];
    }
    return message.outcome ? outcomeOf(message.outcome) : ["deleted", "calm"];
  }
  if (message.moved) return ["dead-lettered", "bad"];
  if (column === "dead") return message.outcome ? outcomeOf(message.outcome) : ["dead letter", "bad"];
  if (column === "flight") return [message.receives > 1 ? `receive ${message.receives}` : "", "wait"];
  if (message.state === "queued") return waits ? [`in ${span(message.visible_at - now)}`, "calm"] : ["", ""];
  const cause = message.outcome ? `${outcomeOf(message.outcome)[0]}: ` : "";
  return [cause + (waits ? `back in ${span(message.visible_at - now)}` : "visible again"), "wait"];
}

/** Describes where a message is. */
function stateOf(message, now) {
  const waits = message.visible_at > now;
  switch (message.state) {
    case "queued":
      return waits ? `delayed: can be received in ${span(message.visible_at - now)}` : "can be received";
    case "in_flight":
      return waits ? "in flight" : "its visibility timeout has ended: can be received again";
    case "returned":
      return waits ? `returned: can be received again in ${span(message.visible_at - now)}` : "can be received again";
    case "done":
      return message.dead ? "deleted from the dead-letter queue" : "deleted";
    case "dead_lettered":
      return "a dead letter";
    case "redriven":
      return "redriven, under a new id";
    case "expired":
      return "lost: it was there for longer than the queue keeps a message";
    default:
      return message.state;
  }
}

/** The three steps of a record, as far as its outcome shows them: claim, effect and result. */
function stepsOf(record) {
  const asked = record.key ? "claim asked for" : "nothing claimed";
  return {
    processed: [record.key ? "claimed" : "no key: not claimed", "effect happened", "completed"],
    duplicate: ["claim refused: handled before", "no effect again", "acknowledged"],
    ignored: ["nothing to claim", "no event in it", "acknowledged"],
    in_progress: ["claim refused: another worker has it", "no effect here", "comes back"],
    failed: [asked, record.key ? "effect failed or is not known" : "no effect", "comes back"],
    terminal: [asked, "can't succeed", "given up"],
  }[record.outcome];
}

/** Parses a log line into its level, its message, and the fields that are not shown elsewhere. */
function logLine(line) {
  const elsewhere = ["level", "message", "timestamp", "message_id", "requestId", "request_id"];
  let fields = null;
  // JavaScript would round a number this long. A raw line is better than a wrong digit.
  if (line.startsWith("{") && !/\d{16}/.test(line)) {
    try {
      fields = JSON.parse(line);
    } catch {
      // The line is not JSON.
    }
  }
  if (fields === null || typeof fields.message !== "string") return line;
  const rest = Object.entries(fields).filter(([name]) => !elsewhere.includes(name));
  const words = rest.map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [fields.level, fields.message, ...words].filter(Boolean).join("  ");
}
