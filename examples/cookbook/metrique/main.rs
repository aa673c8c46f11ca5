//! Measures the parcels of each order with metrique, beside the metrics of `sqs-once`.

use metrique::ServiceMetrics;
use metrique::emf::Emf;
use metrique::timers::{Timer, Timestamp};
use metrique::unit::{Count, Millisecond};
use metrique::unit_of_work::metrics;
use metrique::writer::{AttachGlobalEntrySinkExt, FormatExt, GlobalEntrySink};
use serde::Deserialize;
use sqs_once::{Error, HandlerError, ResultExt};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    parcels: u32,
}

/// The work of one handler. A duplicate runs no handler, so it counts nothing here.
#[metrics(rename_all = "PascalCase")]
struct Packing {
    #[metrics(timestamp)]
    timestamp: Timestamp,
    #[metrics(unit = Millisecond)]
    time: Timer,
    #[metrics(unit = Count)]
    parcels: u32,
}

#[sqs_once::handler(key = order.order_id, namespace = "packing")]
async fn pack(order: OrderPlaced) -> Result<(), HandlerError> {
    let (timestamp, time, parcels) = (Timestamp::now(), Timer::start_now(), order.parcels);
    let packing = Packing {
        timestamp,
        time,
        parcels,
    };
    let _written_at_the_end = packing.append_on_drop(ServiceMetrics::sink());
    if parcels == 0 {
        return Err("the order has no parcels").terminal();
    }
    Ok(()) // your effect
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Writes each entry at once, because Lambda freezes the process after the answer. The namespace is another one than
    // that of `sqs-once`, so that both kinds of metrics keep their own dimensions.
    let format = Emf::builder("Shop".to_owned(), vec![vec![]]).build();
    let _attached = ServiceMetrics::write_directly_to(format.output_to(std::io::stdout()));
    sqs_once::run(pack::consumer()).await
}

#[cfg(test)]
mod tests;
