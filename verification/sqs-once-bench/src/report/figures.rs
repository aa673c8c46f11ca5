//! The figures of `docs/performance.md`, as Markdown.

use super::cost::{self, message_costs, record_costs};
use super::goals::goals;
use super::growth::{self, growth};
use super::{Results, short};
use crate::contender::{BY_HAND_10, Contender, LIMIT, OURS, OURS_SINGLE, PROTOTYPE};
use crate::measure::{Cell, Spread};
use crate::shape::{Part, SHARES, Shape, WITH_SHARES, WITH_STATEMENTS};

const NEW: [&str; 5] = ["1 new", "10 new", "100 new", "1000 new", "10000 new"];
const MEMORY: [&str; 3] = ["1 new", "1000 new", "10000 new"];
const REQUESTS: [&str; 4] = ["1 new", "10 new", "100, half duplicates", "100 duplicates"];
/// The contenders that the page shows. The JSON has all of them.
const SHOWN: [&str; 7] = [
    LIMIT,
    PROTOTYPE,
    OURS,
    BY_HAND_10,
    "typescript",
    "python-6",
    "python-1",
];
/// The contenders whose requests are shown. The others send as many as one of these.
const REQUESTING: [&str; 4] = [LIMIT, OURS, OURS_SINGLE, BY_HAND_10];
/// The other batches that the page shows.
const OTHERS: [&str; 5] = [
    "100, half duplicates",
    "1000, half duplicates",
    "100 duplicates",
    "100 duplicates, cached",
    "100 new, 20 ms each",
];
/// The cell of a figure that was not measured.
const NONE: &str = "–";

/// All that goes between the page's markers.
pub(super) fn figures(results: &Results) -> String {
    let parts = [
        origin(results),
        shares(results),
        aims(results),
        comparison(results),
        cold_starts(results),
        statements(results),
        fitted(results),
        costs(results),
    ];
    parts.concat()
}

fn origin(results: &Results) -> String {
    let load = results
        .load_before
        .map_or_else(|| "unknown".to_owned(), short);
    let origin = format!(
        "Measured on {} (UTC) on {} (load before: {load}), {} rounds; every request takes {} µs, every statement {} µs \
         more. [All of it as JSON].\n",
        results.day(),
        results.machine,
        results.rounds,
        results.request_latency_us,
        results.statement_latency_us
    );
    match results.is_busy() {
        true => {
            origin + "\n**Other work ran on the machine: times are too long, ratios are rough.**\n"
        }
        false => origin,
    }
}

fn aims(results: &Results) -> String {
    let rows = goals(results).into_iter().map(|goal| {
        let verdict = match goal.holds {
            Some(true) => "holds",
            Some(false) => "missed",
            None => "not measured",
        };
        let measured = goal.figure().unwrap_or_else(|| NONE.to_owned());
        [goal.text, measured, verdict.to_owned(), goal.note]
    });
    let table = table(&["aim", "measured", "verdict", "note"], rows);
    format!("\n### Aims\n\n{table}")
}

/// A row for each contender, and a column for each share.
fn shares(results: &Results) -> String {
    let part = |title: &str, latency: &dyn Fn(&str, &str) -> Option<Spread>| {
        let rows = Contender::named(&WITH_SHARES).map(|contender| {
            let cells = SHARES.map(|share| {
                let latency = latency(contender.name, share.name);
                latency.map_or_else(|| NONE.to_owned(), |latency| short(latency.median))
            });
            std::iter::once(contender.title.to_owned()).chain(cells)
        });
        let [few, more, most] = SHARES.map(|share| share.name);
        format!("\n{title}:\n\n{}", table(&["", few, more, most], rows))
    };
    let batch = |records: usize| {
        move |contender: &str, share: &str| {
            let cell = results.cell(contender, &format!("{share}, {records} new"))?;
            Some(cell.latency_ms)
        }
    };
    let cold = |contender: &str, share: &str| {
        let start = results.cold_start(contender, Some(share))?;
        Some(start.latency_ms)
    };
    [
        "\n### Functions with little memory\n\nLambda gives a function with 128, 256 or 512 MB about 0.07, 0.145 or \
         0.29 of a core. The kernel limits each process to that share, in periods of 20 ms. Latency in ms.\n"
            .to_owned(),
        part("A batch of 10 new keys", &batch(10)),
        part("A batch of 100 new keys", &batch(100)),
        part("A cold start with 10 new keys", &cold),
    ]
    .concat()
}

fn comparison(results: &Results) -> String {
    let latency = |cell: &Cell| short(cell.latency_ms.median);
    let cpu = |cell: &Cell| short(cell.cpu_us.median);
    let memory = |cell: &Cell| cell.memory_mb.map_or_else(String::new, short);
    let part = |title: &str, shapes: &[&str], contenders: &[&str], value: fn(&Cell) -> String| {
        let table = by_batch(results, contenders, shapes, shapes, value);
        format!("\n### {title}\n\n{table}")
    };
    [
        part("New keys: latency, ms", &NEW, &SHOWN, latency),
        "\n![Latency and CPU of a batch against its size, for all contenders][performance.svg]\n"
            .to_owned(),
        part("New keys: CPU a record, µs", &NEW, &SHOWN, cpu),
        part("Other batches: latency, ms", &OTHERS, &SHOWN, latency),
        part("Peak memory, MB", &MEMORY, &SHOWN, memory),
        part("Requests a record", &REQUESTS, &REQUESTING, |cell| {
            short(cell.requests)
        }),
    ]
    .concat()
}

fn cold_starts(results: &Results) -> String {
    let rows = Contender::named(&SHOWN).filter_map(|contender| {
        let start = results.cold_start(contender.name, None)?;
        let cpu = start
            .cpu_ms
            .map_or_else(String::new, |cpu| short(cpu.median));
        let latency = short(start.latency_ms.median);
        Some([contender.title.to_owned(), latency, cpu])
    });
    format!(
        "\n### Cold start\n\nFrom the start of the process to its first answer, for 10 new keys.\n\n{}",
        table(&["", "ms", "CPU, ms"], rows)
    )
}

/// A row for each contender; for each size, a column for each latency of statements.
fn statements(results: &Results) -> String {
    let shapes = Shape::all();
    let slow = shapes.iter().filter(|shape| shape.part == Part::Statements);
    let mut columns: Vec<_> = slow.filter(|shape| shape.records >= 100).collect();
    columns.sort_by_key(|shape| (shape.records, shape.statement));
    let title = |shape: &&Shape| {
        let millis = shape.statement.as_secs_f64() * 1000.0;
        format!("{} keys, {millis} ms", shape.records)
    };
    let titles: Vec<_> = columns.iter().map(title).collect();
    let shapes: Vec<_> = columns.iter().map(|shape| shape.name).collect();
    let latency = |cell: &Cell| short(cell.latency_ms.median);
    format!(
        "\n### When statements take time\n\nLatency of a batch of new keys, ms, when each statement of a request \
         takes 0.2 or 1 ms more.\n\n{}",
        by_batch(results, &WITH_STATEMENTS, &titles, &shapes, latency)
    )
}

fn fitted(results: &Results) -> String {
    let rows = growth(results).into_iter().map(|one| {
        let line = |line: growth::Line| {
            let (base, each) = (short(line.base), short(line.each * 1000.0));
            format!("{base} ms + {each} µs × records")
        };
        let off = |line: growth::Line| format!("{} %", short(line.off * 100.0));
        let (latency, cpu) = (one.latency_ms, one.cpu_ms);
        [
            one.title.to_owned(),
            line(latency),
            off(latency),
            line(cpu),
            off(cpu),
        ]
    });
    let head = ["", "latency", "off by at most", "CPU", "off by at most"];
    format!(
        "\n### Growth\n\nThe line that fits the batches of new keys best (least squares of the relative errors):\n\n\
         {}\n![Latency and CPU of a batch against its size][performance-growth.svg]\n",
        table(&head, rows)
    )
}

fn costs(results: &Results) -> String {
    let dash = |number: Option<f64>| number.map_or_else(|| NONE.to_owned(), short);
    let records = record_costs(results).into_iter().map(|cost| {
        [
            cost.record.to_owned(),
            short(cost.ours.write),
            short(cost.ours.read),
            short(cost.ours_dollars),
            dash(cost.powertools_writes),
            dash(cost.powertools_dollars),
        ]
    });
    let records = table(
        &[
            "a record",
            "write units",
            "read units",
            "dollars a million",
            "Powertools: write units",
            "dollars a million",
        ],
        records,
    );
    let lambda = cost::BATCHES.map(|shape| {
        let records = shape.trim_end_matches(" new");
        format!("Lambda, batches of {records}, $")
    });
    let costs = message_costs(results).into_iter();
    let messages = costs
        .filter(|cost| SHOWN.contains(&cost.contender))
        .map(|cost| {
            let mut row = vec![cost.title.to_owned(), short(cost.table)];
            row.extend(cost.lambda.map(|cost| cost.map_or_else(String::new, short)));
            row
        });
    let [few, many] = &lambda;
    let messages = table(&["", "DynamoDB, $", few, many], messages);
    format!(
        "\n### Cost\n\nDollars at the prices of us-east-1, {}: ${} for a million write request units, ${} for a million \
         read request units.\n\n{records}\nA million messages with new keys, with the measured Lambda time on arm64 with \
         {} MB (one virtual CPU): ${} a GB-second, ${} for a million invocations.\n\n{messages}",
        cost::PRICES_OF,
        cost::WRITES,
        cost::READS,
        cost::MEMORY_MB,
        cost::GB_SECOND,
        cost::INVOCATIONS
    )
}

/// A row for each of these contenders, and a column for each batch.
fn by_batch(
    results: &Results,
    contenders: &[&str],
    titles: &[impl AsRef<str>],
    shapes: &[&str],
    value: fn(&Cell) -> String,
) -> String {
    let titles = titles.iter().map(AsRef::as_ref);
    let head: Vec<_> = std::iter::once("").chain(titles).collect();
    let rows = Contender::named(contenders).map(|contender| {
        let cells = shapes.iter().map(|shape| {
            let cell = results.cell(contender.name, shape);
            cell.map_or_else(|| NONE.to_owned(), value)
        });
        let title = std::iter::once(contender.title.to_owned());
        title.chain(cells).collect::<Vec<_>>()
    });
    table(&head, rows)
}

fn table<R: IntoIterator<Item = String>>(head: &[&str], rows: impl Iterator<Item = R>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | ").trim_start());
    let marks = vec!["---"; head.len()].join("|");
    let head = line(head.iter().copied().map(str::to_owned).collect());
    let rows = rows.map(|row| line(row.into_iter().collect()));
    format!("{head}|{marks}|\n{}", rows.collect::<String>())
}
